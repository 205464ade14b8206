"""The controllers of attached volumes, run from their spec."""

from __future__ import annotations

import asyncio

import pytest
from attrs import frozen

from dashpot.model.extern import attachments as rules
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.rest import Delete
from tests.library.volume_kit import claim, pod, told
from tests.library.workload_kit import Live, Object, live

ACTORS = ["Attacher", "Detacher", "FakeAttacher", "FakeMounts"]
BARE = ["Attacher", "Detacher"]
VA = "volumeattachments.storage.k8s.io"
NAME = "kubernetes.io/csi/csi.example.com^h1"


def node(name: str, *, simulated: bool = True) -> Object:
    meta: Object = {"name": name, "annotations": {"fake.dashpot.dev/node": "true"} if simulated else {}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta}


def csi(name: str = "v1", modes: tuple[str, ...] = ("ReadWriteOnce",), handle: str = "h1") -> Object:
    """A volume of a driver, bound to the claim `data`."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": list(modes),
        "csi": {"driver": "csi.example.com", "volumeHandle": handle},
        "claimRef": {"namespace": "default", "name": "data"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


async def world(at: Live, *nodes: Object, volume: Object | None = None) -> None:
    """Nodes that are ready, a volume and its claim."""
    for one in nodes:
        await at.client.create("nodes", one)
        await ready(at, one["metadata"]["name"], True)
    await at.client.create("persistentvolumes", volume or csi())
    await at.client.create("persistentvolumeclaims", claim(volumeName="v1"))


async def ready(at: Live, name: str, yes: bool) -> None:
    condition = {"type": "Ready", "status": "True" if yes else "Unknown"}
    await at.client.patch(
        "nodes", name, {"status": {"conditions": [condition]}}, kind="strategic", subresource="status"
    )


async def listed(at: Live, name: str) -> tuple[list[str], list[str]]:
    """What is attached to a node, and what is in use there."""
    status = (await at.client.get("nodes", name)).get("status") or {}
    return [v["name"] for v in status.get("volumesAttached") or ()], list(status.get("volumesInUse") or ())


async def places(at: Live) -> list[str]:
    """The nodes to which something is, or is to be, attached."""
    return sorted(a["spec"]["nodeName"] for a in (await at.client.list(VA)).items)


async def used(at: Live, name: str, seconds: float = 60.0) -> None:
    """Waits until the volume is in use on a node."""

    async def there() -> bool:
        return await listed(at, name) == ([NAME], [NAME])

    await at.settles(there, seconds)


async def free(at: Live, name: str, seconds: float = 60.0) -> None:
    """Waits until nothing is attached to a node."""

    async def gone() -> bool:
        return name not in await places(at) and (await listed(at, name))[0] == []

    await at.settles(gone, seconds)


def test_a_volume_follows_its_pod() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east"), node("west"))
        await at.client.create("pods", pod("a", nodeName="east"))
        await used(at, "east")
        (made,) = (await at.client.list(VA)).items
        assert made["spec"] == {
            "attacher": "csi.example.com",
            "nodeName": "east",
            "source": {"persistentVolumeName": "v1"},
        }
        assert made["metadata"]["name"].startswith("csi-") and len(made["metadata"]["name"]) == 68
        await told(at, "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v1" ')
        await at.client.delete("pods", "a", how=Delete(grace=0))
        await free(at, "east")
        assert await listed(at, "east") == ([], [])
        await at.client.create("pods", pod("b", nodeName="west"))
        await used(at, "west")

    live("attachments", ACTORS, test)


def test_a_pod_that_ended_needs_no_volume() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east"))
        await at.client.create("pods", pod("a", nodeName="east"))
        await used(at, "east")
        await at.put_status(await at.one("pods", "a"), phase="Succeeded")
        await free(at, "east")

    live("attachments", ACTORS, test)


def test_a_second_node_waits() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east"), node("west"))
        await at.client.create("pods", pod("a", nodeName="east"))
        await used(at, "east")
        await at.client.create("pods", pod("b", nodeName="west"))
        why = 'Multi-Attach error for volume "v1" Volume is already used by pod(s) a'
        await told(at, "FailedAttachVolume", why)
        await asyncio.sleep(600)
        assert await places(at) == ["east"]
        await at.client.delete("pods", "a", how=Delete(grace=0))
        # not only when it looks again: the detachment wakes who waits
        await used(at, "west", 10)

    live("attachments", ACTORS, test)


def test_two_nodes_at_once_get_it_one_after_the_other() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east"), node("west"))
        await asyncio.gather(
            *(at.client.create("pods", pod(name, nodeName=where)) for name, where in (("a", "east"), ("b", "west")))
        )
        await told(at, "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v1" ')
        assert len(await places(at)) == 1

    live("attachments", ACTORS, test)


def test_a_shared_volume_is_attached_to_many() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east"), node("west"), volume=csi(modes=("ReadWriteMany",)))
        await at.client.create("pods", pod("a", nodeName="east"))
        await at.client.create("pods", pod("b", nodeName="west"))
        await used(at, "east")
        await used(at, "west")

    live("attachments", ACTORS, test)


def test_a_driver_may_need_no_attaching() -> None:
    async def test(at: Live) -> None:
        driver = {"metadata": {"name": "csi.example.com"}, "spec": {"attachRequired": False}}
        await at.client.create("csidrivers.storage.k8s.io", driver)
        await world(at, node("east"))
        await at.client.create("pods", pod("a", nodeName="east"))
        await asyncio.sleep(60)
        assert await places(at) == []

    live("attachments", ACTORS, test)


def test_a_claim_that_is_bound_late_is_attached_then() -> None:
    async def test(at: Live) -> None:
        await at.client.create("nodes", node("east"))
        await at.client.create("persistentvolumeclaims", claim())
        await at.client.create("pods", pod("a", nodeName="east"))
        await asyncio.sleep(60)
        await at.client.create("persistentvolumes", csi())
        await at.patch("persistentvolumeclaims", {"spec": {"volumeName": "v1"}}, "data")
        await used(at, "east")

    live("attachments", ACTORS, test)


def test_what_the_attacher_says_is_told() -> None:
    async def test(at: Live) -> None:
        await world(at, node("east", simulated=False))
        await at.client.create("pods", pod("a", nodeName="east"))

        async def asked() -> bool:
            return await places(at) == ["east"]

        await at.settles(asked)
        (made,) = (await at.client.list(VA)).items
        trouble = {"status": {"attached": False, "attachError": {"message": "no such disk"}}}
        await at.client.patch(VA, made["metadata"]["name"], trouble, subresource="status")
        await told(at, "FailedAttachVolume", 'AttachVolume.Attach failed for volume "v1" : no such disk')
        assert await listed(at, "east") == ([], [])

    live("attachments", ACTORS, test)


# ---------------------------------------------------------------- what is in use stays
async def in_use(at: Live, test_pod: str = "a") -> None:
    """A volume that the kubelet of `east` has in use, and whose pod is gone."""
    await world(at, node("east", simulated=False), node("west", simulated=False))
    await at.client.create("pods", pod(test_pod, nodeName="east"))

    async def asked() -> bool:
        return await places(at) == ["east"]

    await at.settles(asked)
    (made,) = (await at.client.list(VA)).items
    await at.client.patch(VA, made["metadata"]["name"], {"status": {"attached": True}}, subresource="status")

    async def attached() -> bool:
        return await listed(at, "east") == ([NAME], [])

    await at.settles(attached)
    await at.client.patch("nodes", "east", {"status": {"volumesInUse": [NAME]}}, subresource="status")
    await at.client.delete("pods", test_pod, how=Delete(grace=0))


def test_a_volume_in_use_is_not_detached() -> None:
    async def test(at: Live) -> None:
        await in_use(at)
        await asyncio.sleep(3600)
        assert await listed(at, "east") == ([NAME], [NAME]) and await places(at) == ["east"]
        await at.client.patch("nodes", "east", {"status": {"volumesInUse": None}}, subresource="status")
        await free(at, "east", 10)

    live("attachments", BARE, test)


def test_from_a_node_that_is_not_ready_it_is_taken_after_six_minutes() -> None:
    async def test(at: Live) -> None:
        await in_use(at)
        await ready(at, "east", False)
        await asyncio.sleep(355)
        assert await places(at) == ["east"]
        await free(at, "east", 15)

    live("attachments", BARE, test)


def test_a_node_that_comes_back_in_time_keeps_it() -> None:
    async def test(at: Live) -> None:
        await in_use(at)
        await ready(at, "east", False)
        await asyncio.sleep(300)
        await ready(at, "east", True)
        await asyncio.sleep(1200)
        assert await places(at) == ["east"]

    live("attachments", BARE, test)


def test_from_a_node_that_is_out_of_service_it_is_taken_at_once() -> None:
    async def test(at: Live) -> None:
        await in_use(at)
        await ready(at, "east", False)
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await at.client.patch("nodes", "east", {"spec": {"taints": [taint]}})
        await free(at, "east", 10)

    live("attachments", BARE, test)


def test_of_a_node_that_is_deleted_it_is_taken_after_six_minutes() -> None:
    async def test(at: Live) -> None:
        await in_use(at)
        await at.client.delete("nodes", "east")
        await asyncio.sleep(355)
        assert await places(at) == ["east"]

        async def gone() -> bool:
            return await places(at) == []

        await at.settles(gone, 15)
        with pytest.raises(StatusError):
            await at.client.get("nodes", "east")

    live("attachments", BARE, test)


# ---------------------------------------------------------------- what is only computed
@frozen
class Kept:
    json: Object


def test_names_and_modes() -> None:
    volume = Kept(csi())
    assert rules.unique(volume) == NAME
    # sha256 of handle, driver and node, as the CSI attacher names it
    hashed = "19f52ee2796785d337f3c79e00aaac3f5cd685b29fca590cdeaf5e2ab2caf0fc"
    assert rules.attachment_name(volume, "east") == f"csi-{hashed}"
    cases = {(): False, ("ReadWriteOnce",): True, ("ReadWriteOncePod",): True, ("ReadOnlyMany", "ReadWriteOnce"): False}
    for modes, wanted in cases.items():
        assert rules.exclusive(Kept(csi(modes=modes))) is wanted
    nobody = "Volume is already exclusively attached to one node and can't be attached to another"
    assert rules.told_users([]) == nobody
    assert rules.told_users([Kept({"metadata": {"name": n}}) for n in ("b", "a")]) == (
        "Volume is already used by pod(s) a, b"
    )
