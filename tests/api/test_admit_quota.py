"""ResourceQuota: what counts, what is refused, and that reservations are neither lost nor made twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import (
    CONFIGMAPS,
    PODS,
    FakeInternal,
    FakeView,
    Object,
    configmap,
    named,
    pod,
    resource,
    write,
)

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.model.quota.usage import evaluator
from dashpot.runtime.api.admit.base import UPDATE, Attributes
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.admit.quota import ResourceQuota

SERVICES, CLAIMS = resource("", "services"), resource("", "persistentvolumeclaims")


def quota(name: str, hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> Object:
    found = {"apiVersion": "v1", "kind": "ResourceQuota", **named(name, "n", uid=f"uid-{name}")}
    counted = dict.fromkeys(hard, "0") | (used or {})
    return found | {"spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": counted}}


def used(view: FakeView, name: str = "q") -> Object:
    found = view.get("", "resourcequotas", "n", name)
    assert found is not None
    counted: Object = found["status"]["used"]
    return counted


def run(view: FakeView, *writes: Attributes) -> FakeInternal:
    internal = FakeInternal(view)

    async def main() -> None:
        chain = Chain([ResourceQuota(view, internal)])
        for one in writes:
            await chain.validate(one)
        await chain.close()

    asyncio.run(main())
    return internal


def refusal(view: FakeView, attributes: Attributes) -> str:
    with pytest.raises(StatusError) as caught:
        run(view, attributes)
    assert caught.value.code == 403
    return caught.value.message


def asking(name: str = "c", **resources: Object) -> Object:
    return {"name": name, "resources": resources}


def show(of: Resource, one: Object) -> dict[str, str]:
    measure = evaluator(of)
    assert measure is not None
    return {name: str(amount) for name, amount in measure.usage(one).items() if amount}


@pytest.mark.parametrize(
    ("of", "one", "expected"),
    [
        (CONFIGMAPS, configmap(), {"count/configmaps": "1", "configmaps": "1"}),
        (resource("apps", "deployments"), {}, {"count/deployments.apps": "1"}),
        (PODS, pod(), {"count/pods": "1", "pods": "1"}),
        (PODS, {"status": {"phase": "Failed"}}, {"count/pods": "1"}),
        (
            PODS,
            pod(
                asking("a", requests={"cpu": "100m", "example.com/gpu": "1"}, limits={"cpu": "1", "memory": "1Gi"}),
                asking("b", requests={"cpu": "200m"}),
                initContainers=[asking("i", requests={"cpu": "2"})],
            ),
            {
                "count/pods": "1",
                "pods": "1",
                "cpu": "2",
                "requests.cpu": "2",
                "requests.example.com/gpu": "1",
                "limits.cpu": "1",
                "limits.memory": "1Gi",
            },
        ),
        (
            PODS,
            pod(
                asking("a", requests={"cpu": "1"}),
                initContainers=[
                    {**asking("s", requests={"cpu": "500m"}), "restartPolicy": "Always"},
                    asking("i", requests={"cpu": "900m"}),
                ],
                overhead={"cpu": "10m"},
            ),
            {"count/pods": "1", "pods": "1", "cpu": "1510m", "requests.cpu": "1510m"},
        ),
        (
            SERVICES,
            {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}},
            {"count/services": "1", "services": "1", "services.nodeports": "2", "services.loadbalancers": "1"},
        ),
        (
            CLAIMS,
            {"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}},
            {
                "count/persistentvolumeclaims": "1",
                "persistentvolumeclaims": "1",
                "requests.storage": "1Gi",
                "s.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "s.storageclass.storage.k8s.io/requests.storage": "1Gi",
            },
        ),
    ],
)
def test_usage(of: Resource, one: Object, expected: dict[str, str]) -> None:
    assert show(of, one) == expected


def test_events_are_not_counted() -> None:
    assert evaluator(resource("", "events")) is None


def test_exceeded() -> None:
    view = FakeView(quota("q", {"count/secrets": "0"}))
    told = refusal(view, write(named("s", "n"), resource("", "secrets")))
    assert told == (
        'secrets "s" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=0, limited: '
        "count/secrets=0"
    )


def test_several_names_are_told_in_order() -> None:
    view = FakeView(quota("q", {"pods": "0", "limits.cpu": "1", "requests.cpu": "5"}))
    told = refusal(view, write(pod(asking(requests={"cpu": "1"}, limits={"cpu": "1500m"}))))
    assert told.endswith(
        "exceeded quota: q, requested: limits.cpu=1500m,pods=1, used: limits.cpu=0,pods=0, limited: limits.cpu=1,pods=0"
    )


def test_demanded_requests() -> None:
    view = FakeView(quota("q", {"requests.cpu": "1", "limits.memory": "1Gi"}))
    told = refusal(view, write(pod(asking("b", limits={"memory": "1Mi"}), asking("a"))))
    assert told == (
        'pods "web" is forbidden: failed quota: q: must specify limits.memory for: a; requests.cpu for: a,b'
    )


def test_unknown_usage() -> None:
    one = quota("q", {"pods": "1"})
    one["status"]["used"] = {}
    assert refusal(FakeView(one), write(pod())).endswith("status unknown for quota: q, resources: pods")


def test_quota_without_status_limits_nothing_yet() -> None:
    one = quota("q", {"pods": "0"})
    del one["status"]
    run(FakeView(one), write(pod()))


def test_use_is_reserved_before_the_write() -> None:
    view = FakeView(quota("q", {"pods": "2", "requests.cpu": "1"}))
    run(view, write(pod(asking(requests={"cpu": "250m"}))), write(pod(asking(requests={"cpu": "250m"}))))
    assert used(view) == {"pods": "2", "requests.cpu": "500m"}
    assert "exceeded quota" in refusal(view, write(pod(asking(requests={"cpu": "1m"}))))


def test_dry_run_reserves_nothing() -> None:
    view = FakeView(quota("q", {"pods": "1"}))
    assert run(view, write(pod(), dry_run=True)).calls == []
    assert used(view) == {"pods": "0"}


def test_failed_write_gives_back() -> None:
    view = FakeView(quota("q", {"pods": "1"}))

    async def main() -> None:
        chain = Chain([ResourceQuota(view, FakeInternal(view))])
        for _ in range(3):
            attributes = write(pod())
            await chain.validate(attributes)
            assert used(view) == {"pods": "1"}
            await chain.undo(attributes)
            assert used(view) == {"pods": "0"}

    asyncio.run(main())


def test_second_quota_that_refuses_leaves_the_first_untouched() -> None:
    view = FakeView(quota("a", {"pods": "1"}), quota("b", {"pods": "0"}))
    assert "exceeded quota: b" in refusal(view, write(pod()))
    assert used(view, "a") == {"pods": "0"}


def test_updates_are_charged_the_difference() -> None:
    def claim(size: str) -> Object:
        return named("p", "n") | {"spec": {"resources": {"requests": {"storage": size}}}}

    hard = {"requests.storage": "10Gi", "persistentvolumeclaims": "1"}
    view = FakeView(quota("q", hard, {"requests.storage": "4Gi", "persistentvolumeclaims": "1"}))
    run(view, write(claim("6Gi"), CLAIMS, UPDATE, old=claim("4Gi")))
    assert used(view) == {"requests.storage": "6Gi", "persistentvolumeclaims": "1"}
    assert "requested: requests.storage=5Gi" in refusal(view, write(claim("9Gi"), CLAIMS, UPDATE, old=claim("4Gi")))


@pytest.mark.parametrize(
    ("spec", "one", "counted"),
    [
        ({"scopes": ["BestEffort"]}, pod(), True),
        ({"scopes": ["BestEffort"]}, pod(asking(requests={"cpu": "1"})), False),
        ({"scopes": ["NotBestEffort"]}, pod(), False),
        ({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=5), True),
        ({"scopes": ["NotTerminating"]}, pod(activeDeadlineSeconds=5), False),
        ({"scopes": ["PriorityClass"]}, pod(priorityClassName="a"), True),
        ({"scopes": ["PriorityClass"]}, pod(), False),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]
                }
            },
            pod(priorityClassName="a"),
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a"]}]
                }
            },
            pod(priorityClassName="a"),
            False,
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            pod(
                affinity={
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["other"]}]}
                }
            ),
            True,
        ),
    ],
)
def test_scopes(spec: Object, one: Object, counted: bool) -> None:
    view = FakeView(quota("q", {"pods": "5"}, **spec))
    run(view, write(one))
    assert used(view) == {"pods": "1" if counted else "0"}


def test_scoped_quota_counts_no_other_kinds() -> None:
    view = FakeView(quota("q", {"count/configmaps": "0"}, scopes=["BestEffort"]))
    run(view, write(configmap(), CONFIGMAPS))


def test_crowd_shares_writes_and_never_passes_the_limit() -> None:
    view = FakeView(quota("q", {"pods": "30"}))
    internal = FakeInternal(view)

    async def main() -> list[Any]:
        chain = Chain([ResourceQuota(view, internal)])
        found = await asyncio.gather(*(chain.validate(write(pod())) for _ in range(50)), return_exceptions=True)
        await chain.close()
        return found

    results = asyncio.run(main())
    assert sum(result is None for result in results) == 30
    assert used(view) == {"pods": "30"}
    assert len(internal.calls) <= 2


def test_lost_race_is_tried_again_on_what_is_there_now() -> None:
    view = FakeView(quota("q", {"pods": "3"}))
    internal = FakeInternal(view)

    def other() -> None:
        view.put("", "resourcequotas", quota("q", {"pods": "3"}, {"pods": "2"}))

    internal.before = other

    async def main() -> None:
        chain = Chain([ResourceQuota(view, internal)])
        await chain.validate(write(pod()))
        await chain.close()

    asyncio.run(main())
    assert used(view) == {"pods": "3"} and len(internal.calls) == 2


def test_stale_cache_does_not_hide_own_reservations() -> None:
    """The view lags behind: the second write must see what the first one reserved."""
    view = FakeView(quota("q", {"pods": "1"}))
    stale = FakeView(quota("q", {"pods": "1"}))

    async def main() -> None:
        chain = Chain([ResourceQuota(stale, FakeInternal(view))])
        await chain.validate(write(pod()))
        with pytest.raises(StatusError, match="exceeded quota: q, requested: pods=1, used: pods=1"):
            await chain.validate(write(pod()))

    asyncio.run(main())


def test_client_that_went_away_holds_nothing() -> None:
    view = FakeView(quota("q", {"pods": "1"}))

    async def main() -> None:
        chain = Chain([ResourceQuota(view, FakeInternal(view))])
        gone = asyncio.create_task(chain.validate(write(pod())))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await chain.close()

    asyncio.run(main())
    assert used(view) == {"pods": "0"}
