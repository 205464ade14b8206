"""The controllers of volumes and claims, run from their spec."""

from __future__ import annotations

import asyncio

import pytest

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client, Delete
from dashpot.runtime.controller.calls import Answer, Caller
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.controller.request import ApiRequest
from tests.client.serving import on_server
from tests.controller.running import library, managed
from tests.library.volume_kit import (
    ALL,
    BINDER,
    CLAIMS,
    VOLUMES,
    annotation,
    claim,
    claim_is,
    have,
    pod,
    told,
    volume,
    volume_is,
    volume_of,
    volumes,
)
from tests.library.workload_kit import Live, Object, live

GI = {"storage": "1Gi"}


# ---------------------------------------------------------------- matching
def test_both_sides_are_bound() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim())
        await claim_is(at, "Bound")
        found, holder = await at.one(CLAIMS, "data"), await at.one(VOLUMES, "v1")
        assert found["spec"]["volumeName"] == "v1"
        assert found["status"]["capacity"] == GI and found["status"]["accessModes"] == ["ReadWriteOnce"]
        for key in ("bind-completed", "bound-by-controller"):
            assert found["metadata"]["annotations"][f"pv.kubernetes.io/{key}"] == "yes"
        assert holder["status"]["phase"] == "Bound"
        ref = holder["spec"]["claimRef"]
        assert (ref["kind"], ref["namespace"], ref["name"]) == ("PersistentVolumeClaim", "default", "data")
        assert ref["uid"] == found["metadata"]["uid"]
        assert holder["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"

    live("volumes", BINDER, test)


@pytest.mark.parametrize(
    ("given", "asked", "wanted"),
    [
        ([volume("a-large", "5Gi"), volume("z-fits", "2Gi"), volume("small", "1Gi")], claim(size="2Gi"), "z-fits"),
        ([volume("v1", "500Mi")], claim(), ""),
        ([volume("v1", modes=("ReadOnlyMany",)), volume("v2", "9Gi")], claim(), "v2"),
        ([volume("v1", modes=("ReadWriteOnce", "ReadOnlyMany"))], claim(), "v1"),
        ([volume("v1", storageClassName="fast"), volume("v2", "9Gi")], claim(), "v2"),
        ([volume("v1"), volume("v2", "9Gi", storageClassName="fast")], claim(storageClassName="fast"), "v2"),
        (
            [volume("v1"), volume("v2", "9Gi", labels={"tier": "a"})],
            claim(selector={"matchLabels": {"tier": "a"}}),
            "v2",
        ),
        ([volume("v1"), volume("v2", "9Gi", volumeMode="Block")], claim(volumeMode="Block"), "v2"),
        ([volume("v1"), volume("v2", "9Gi", claimRef={"namespace": "default", "name": "data"})], claim(), "v2"),
        ([volume("v1", claimRef={"namespace": "other", "name": "data"}), volume("v2", "9Gi")], claim(), "v2"),
        ([volume("v1"), volume("v2", "9Gi")], claim(volumeName="v2"), "v2"),
    ],
    ids=[
        "smallest", "too-small", "modes", "more-modes", "no-class", "class", "selector", "mode", "meant-for-it",
        "meant-for-another", "named",
    ],
)  # fmt: skip
def test_a_claim_gets_the_volume_that_fits(given: list[Object], asked: Object, wanted: str) -> None:
    async def test(at: Live) -> None:
        await have(at, *given)
        for one in given:
            await volume_is(at, one["metadata"]["name"], "Available")
        await have(at, asked)
        if wanted:
            await claim_is(at, "Bound")
        else:
            await told(
                at, "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
            )
            await claim_is(at, "Pending")
        assert await volume_of(at) == wanted

    live("volumes", BINDER, test)


def test_what_was_meant_for_a_claim_keeps_no_mark_of_the_controller() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1", claimRef={"namespace": "default", "name": "data"}), claim())
        await claim_is(at, "Bound")
        assert await annotation(at, VOLUMES, "v1", "pv.kubernetes.io/bound-by-controller") is None
        assert await annotation(at, CLAIMS, "data", "pv.kubernetes.io/bound-by-controller") == "yes"

    live("volumes", BINDER, test)


def test_a_waiting_claim_is_bound_when_a_volume_comes() -> None:
    async def test(at: Live) -> None:
        await have(at, claim("a"), claim("b"))
        await told(at, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        await have(at, volume("v1"))
        await volume_is(at, "v1", "Bound")

        async def one_of_them() -> bool:
            found = [await volume_of(at, "a"), await volume_of(at, "b")]
            return sorted(found) == ["", "v1"]

        await at.settles(one_of_them)
        await have(at, volume("v2"))
        await claim_is(at, "Bound", "a")
        await claim_is(at, "Bound", "b")
        assert {await volume_of(at, "a"), await volume_of(at, "b")} == {"v1", "v2"}

    live("volumes", BINDER, test)


def test_many_claims_take_a_volume_each() -> None:
    async def test(at: Live) -> None:
        for number in range(12):
            await have(at, volume(f"v{number}"), claim(f"c{number}"))
        for number in range(12):
            await claim_is(at, "Bound", f"c{number}")
        assert len({await volume_of(at, f"c{number}") for number in range(12)}) == 12

    live("volumes", BINDER, test)


def test_a_volume_that_somebody_has_is_refused() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim("first"))
        await claim_is(at, "Bound", "first")
        await have(at, claim("second", volumeName="v1"))
        await told(at, "FailedBinding", 'volume "v1" already bound to a different claim.')
        await claim_is(at, "Pending", "second")

    live("volumes", BINDER, test)


def test_a_volume_that_does_not_fit_is_refused_though_it_is_named() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1", "500Mi"), claim(volumeName="v1"))
        await told(at, "VolumeMismatch", 'Cannot bind to requested volume "v1": requested PV is too small')
        await claim_is(at, "Pending")
        await volume_is(at, "v1", "Available")

    live("volumes", BINDER, test)


def test_a_claim_without_its_volume_is_lost() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim())
        await claim_is(at, "Bound")
        await at.patch(VOLUMES, {"metadata": {"finalizers": None}}, "v1")
        await at.client.delete(VOLUMES, "v1")
        await claim_is(at, "Lost")
        await told(at, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        assert "capacity" not in await at.status(CLAIMS, "data")

    live("volumes", BINDER, test)


def test_a_binding_that_was_cut_short_goes_on() -> None:
    async def test(at: Live) -> None:
        manager: Manager = at.manager
        await manager.crash("ClaimBinder", restart=False)
        await have(at, claim())
        uid = (await at.one(CLAIMS, "data"))["metadata"]["uid"]
        # what a pass has done that ended after its first write
        ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data", "uid": uid}
        half = volume("v1", "5Gi", claimRef=ref)
        half["metadata"]["annotations"] = {"pv.kubernetes.io/bound-by-controller": "yes"}
        await have(at, half, volume("v2"))
        await volume_is(at, "v2", "Available")
        await manager.start(["ClaimBinder"])
        await claim_is(at, "Bound")
        assert await volume_of(at) == "v1" and (await volumes(at))["v2"] == "Available"

    live("volumes", BINDER, test)


def test_a_volume_that_a_claim_did_not_take_is_free_again() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim())
        await claim_is(at, "Bound")
        found = await at.one(CLAIMS, "data")
        ref = {"namespace": "default", "name": "data", "uid": found["metadata"]["uid"]}
        stray = volume("v2", claimRef=ref)
        stray["metadata"]["annotations"] = {"pv.kubernetes.io/bound-by-controller": "yes"}
        meant = volume("v3", claimRef=ref)
        await have(at, stray, meant)
        await volume_is(at, "v2", "Available")
        await volume_is(at, "v3", "Available")
        freed, kept = await at.one(VOLUMES, "v2"), await at.one(VOLUMES, "v3")
        assert "claimRef" not in freed["spec"] and not freed["metadata"].get("annotations")
        assert kept["spec"]["claimRef"]["name"] == "data" and "uid" not in kept["spec"]["claimRef"]

    live("volumes", BINDER, test)


# ---------------------------------------------------------------- reclaiming
@pytest.mark.parametrize(
    ("policy", "wanted", "reason", "message"),
    [
        ("Retain", "Released", "", ""),
        ("Recycle", "Failed", "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        (
            "Delete",
            "Failed",
            "VolumeFailedDelete",
            'error getting deleter volume plugin for volume "v1": no deletable volume plugin matched',
        ),
    ],
)
def test_a_released_volume_is_treated_by_its_policy(policy: str, wanted: str, reason: str, message: str) -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1", persistentVolumeReclaimPolicy=policy), claim())
        await claim_is(at, "Bound")
        await at.client.delete(CLAIMS, "data")
        await volume_is(at, "v1", wanted)
        if reason:
            await told(at, reason, message)
            assert (await at.status(VOLUMES, "v1"))["message"] == message
        # the next claim of that name is another claim: the volume is not for it
        await have(at, claim())
        await told(at, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        assert await volume_of(at) == ""

    live("volumes", ALL, test)


# ---------------------------------------------------------------- protection
@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_a_claim_stays_while_a_pod_uses_it(phase: str) -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim(), pod(nodeName="east"))
        await claim_is(at, "Bound")
        await at.put_status(await at.one("pods", "web-0"), phase=phase)
        await at.client.delete(CLAIMS, "data")
        await at.client.delete(VOLUMES, "v1")
        await asyncio.sleep(60)
        assert (await at.one(CLAIMS, "data"))["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        assert (await volumes(at)) == {"v1": "Bound"}
        await at.client.delete("pods", "web-0", how=Delete(grace=0))

        async def gone() -> bool:
            return not await at.all(CLAIMS) and await volumes(at) == {}

        await at.settles(gone)

    live("volumes", ALL, test)


def test_a_pod_without_a_node_does_not_use_its_claim() -> None:
    async def test(at: Live) -> None:
        await have(at, claim(), pod())
        await at.client.delete(CLAIMS, "data")

        async def gone() -> bool:
            return not await at.all(CLAIMS)

        await at.settles(gone)

    live("volumes", ALL, test)


def test_finalizers_that_are_missing_are_added() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), claim())
        await claim_is(at, "Bound")
        await at.patch(VOLUMES, {"metadata": {"finalizers": None}}, "v1")
        await at.patch(CLAIMS, {"metadata": {"finalizers": None}}, "data")

        async def back() -> bool:
            found = [(await at.one(CLAIMS, "data")), await at.one(VOLUMES, "v1")]
            return [o["metadata"].get("finalizers") for o in found] == [
                ["kubernetes.io/pvc-protection"],
                ["kubernetes.io/pv-protection"],
            ]

        await at.settles(back)

    live("volumes", ALL, test)


def test_the_live_look_asks_for_one_claim() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        asked: list[tuple[str, str]] = []

        class Noting:
            """A caller that notes what is listed."""

            def __init__(self, inner: Caller) -> None:
                self._inner = inner
                self.note = inner.note

            async def perform(self, request: ApiRequest) -> Answer:
                if request.verb == "list":
                    asked.append((request.kind, request.name))
                return await self._inner.perform(request)

        wrap = {"wrap": lambda actor, key, caller: Noting(caller)}
        async with managed(library("volumes"), client, *BINDER, **wrap) as manager:
            at = Live(client, manager)
            await have(at, volume("v1"), claim(), claim("other"))
            await claim_is(at, "Bound")
            await client.delete(CLAIMS, "data")
            await at.patch(CLAIMS, {"metadata": {"finalizers": None}}, "data")
            await volume_is(at, "v1", "Released")
        assert asked == [("PersistentVolumeClaim", "data")]

    on_server(main)
