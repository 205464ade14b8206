"""ServiceAccount: who a pod runs as, and where it finds its token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import (
    FakeClock,
    FakeView,
    Object,
    admit,
    named,
    of,
    pod,
    refusal,
    write,
)

from dashpot.runtime.api.admit.account import ServiceAccount
from dashpot.runtime.api.admit.base import UPDATE
from dashpot.runtime.api.admit.chain import Chain

# --- ServiceAccount


def account(name: str = "default", **rest: Any) -> Object:
    return of("v1", "ServiceAccount", name, "n", **rest)


def service_account(*accounts: Object) -> ServiceAccount:
    return ServiceAccount(FakeView(*accounts), FakeClock())


def test_token_is_mounted() -> None:
    made = admit(service_account(account()), write(pod(initContainers=[{"name": "i"}])))
    spec = made["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    (volume,) = spec["volumes"]
    prefix, _, end = volume["name"].rpartition("-")
    assert prefix == "kube-api-access" and len(end) == 5
    assert volume["projected"]["defaultMode"] == 420
    assert [next(iter(s)) for s in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    mount = {"name": volume["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    assert [c["volumeMounts"] for c in (*spec["containers"], *spec["initContainers"])] == [[mount], [mount]]


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [({}, {}, True), (False, {}, False), (True, False, False), (False, True, True)],
)
def test_automount(of_account: Any, of_pod: Any, mounted: bool) -> None:
    said = {} if of_account == {} else {"automountServiceAccountToken": of_account}
    spec = {} if of_pod == {} else {"automountServiceAccountToken": of_pod}
    made = admit(service_account(account(**said)), write(pod(**spec)))
    assert ("volumes" in made["spec"]) == mounted


def test_own_mount_at_the_place_of_the_token_wins() -> None:
    mounts = [{"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    made = admit(service_account(account()), write(pod({"name": "c", "volumeMounts": mounts})))
    assert made["spec"]["containers"][0]["volumeMounts"] == mounts and "volumes" not in made["spec"]


def test_pull_secrets_come_from_the_account() -> None:
    plugin = service_account(account(imagePullSecrets=[{"name": "reg"}]))
    assert admit(plugin, write(pod()))["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    own = pod(imagePullSecrets=[{"name": "own"}])
    assert admit(plugin, write(own))["spec"]["imagePullSecrets"] == [{"name": "own"}]


def test_absent_account() -> None:
    told = refusal(service_account(), write(pod(serviceAccountName="x")))
    assert told == (
        403,
        'pods "web" is forbidden: error looking up service account n/x: serviceaccount "x" not found',
    )


def test_default_account_is_waited_for_in_a_young_namespace() -> None:
    view = FakeView()
    view.put("", "namespaces", named("n", creationTimestamp="2027-01-15T08:00:00Z"))

    async def main() -> Object:
        attributes = write(pod())
        waiting = asyncio.create_task(Chain([ServiceAccount(view, FakeClock())]).mutate(attributes))
        await asyncio.sleep(0)
        view.put("", "serviceaccounts", account())
        await waiting
        assert attributes.object is not None
        return attributes.object

    assert asyncio.run(main())["spec"]["serviceAccountName"] == "default"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "x"}, "a mirror pod may not reference service accounts"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_mirror_pods(spec: Object, why: str) -> None:
    mirror = pod(**spec)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h"}
    assert refusal(service_account(), write(mirror)) == (403, f'pods "web" is forbidden: {why}')


def test_mirror_pod_is_left_alone() -> None:
    mirror = pod()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "h"}
    assert "serviceAccountName" not in admit(service_account(), write(mirror))["spec"]


def test_debug_containers_are_held_to_the_accounts_secrets() -> None:
    fenced = account(secrets=[{"name": "mine"}])
    fenced["metadata"]["annotations"] = {"kubernetes.io/enforce-mountable-secrets": "true"}
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]
    one = pod(serviceAccountName="default", ephemeralContainers=[{"name": "e", "env": env}])
    attributes = write(one, operation=UPDATE, old=pod(), subresource="ephemeralcontainers")
    assert refusal(service_account(fenced), attributes) == (
        403,
        'pods "web" is forbidden: ephemeral container e with envVar A referencing secret.secretName="other" is not '
        "allowed because service account default does not reference that secret",
    )
