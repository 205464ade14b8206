"""Claims, volumes, the scheduler and simulated nodes together."""

from __future__ import annotations

import asyncio
from typing import Any

from dashpot.runtime.client.rest import Delete
from tests.controller.running import until
from tests.library.volume_kit import claim, storage_class, volume
from tests.library.workload_kit import Object, template, workload
from tests.plane.kit import World, pod, run

LATE: Object = storage_class("late", volumeBindingMode="WaitForFirstConsumer")
CONTROLLERS = [
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
]


def mounting(name: str, *claims: str, **spec: Any) -> Object:
    """A pod that mounts claims."""
    mounts = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=mounts, **spec)


def local(name: str, node: str, size: str = "1Gi") -> Object:
    """A volume of one node, of the class `local`."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    affinity = {"required": {"nodeSelectorTerms": [here]}}
    return volume(name, size, storageClassName="local", nodeAffinity=affinity)


async def make(world: World, *objects: Object) -> None:
    of = {
        "PersistentVolume": "persistentvolumes",
        "PersistentVolumeClaim": "persistentvolumeclaims",
        "StorageClass": "storageclasses",
    }
    for one in objects:
        space = "default" if one["kind"] == "PersistentVolumeClaim" else ""
        await world.client.create(of[one["kind"]], one, space)


async def claimed(world: World, name: str) -> Object:
    """The volume of a claim."""
    found = await world.client.get("persistentvolumeclaims", name, "default")
    return await world.client.get("persistentvolumes", found["spec"]["volumeName"])


async def refused(world: World, name: str) -> str:
    """Why a pod waits."""

    async def told() -> bool:
        rows = (await world.pod(name))["status"].get("conditions") or ()
        return any(row["reason"] == "Unschedulable" for row in rows if row["type"] == "PodScheduled")

    await until(told, 60)
    rows = (await world.pod(name))["status"]["conditions"]
    return str(next(row["message"] for row in rows if row["type"] == "PodScheduled"))


def test_a_volume_is_made_where_the_pod_stands_and_keeps_the_next_one_there() -> None:
    async def test(world: World) -> None:
        await make(world, LATE, claim(storageClassName="late"))
        await world.make(mounting("first", "data"))
        first = await world.phase("first", "Running")
        node = first["spec"]["nodeName"]
        (term,) = (await claimed(world, "data"))["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [node]
        for number in range(4):
            await world.make(mounting(f"next-{number}", "data"))
            assert (await world.phase(f"next-{number}", "Running"))["spec"]["nodeName"] == node
        elsewhere = next(name for name in world.plane.fleet.nodes if name != node)
        await world.make(mounting("far", "data", nodeSelector={"kubernetes.io/hostname": elsewhere}))
        why = await refused(world, "far")
        assert "1 node(s) didn't match PersistentVolume's node affinity" in why, why

    run(test, nodes=3, controllers=CONTROLLERS)


def test_a_pod_takes_local_volumes_of_one_node() -> None:
    async def test(world: World) -> None:
        names = list(world.plane.fleet.nodes)
        kind = storage_class("local", "kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer")
        # one node has two volumes, the other ones have one: only there two claims find a place
        await make(world, kind, local("a", names[0]), local("b", names[1]), local("c", names[1], "2Gi"))
        await make(
            world, local("d", names[2]), claim("x", storageClassName="local"), claim("y", storageClassName="local")
        )
        await world.make(mounting("both", "x", "y"))
        assert (await world.phase("both", "Running"))["spec"]["nodeName"] == names[1]
        taken = {(await claimed(world, name))["metadata"]["name"] for name in ("x", "y")}
        assert taken == {"b", "c"}
        await make(world, claim("z", "2Gi", storageClassName="local"))
        await world.make(mounting("large", "z"))
        why = await refused(world, "large")
        assert "3 node(s) didn't find available persistent volumes to bind" in why, why
        await make(world, local("e", names[2], "3Gi"))
        assert (await world.phase("large", "Running"))["spec"]["nodeName"] == names[2]

    run(test, nodes=3, controllers=CONTROLLERS)


def test_why_a_pod_waits_for_its_claim() -> None:
    async def test(world: World) -> None:
        tail = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        await world.make(mounting("web", "data"))
        head = "0/2 nodes are available: "
        assert await refused(world, "web") == f'{head}persistentvolumeclaim "data" not found.{tail}'
        await make(world, claim())

        async def unbound() -> bool:
            wanted = f"{head}pod has unbound immediate PersistentVolumeClaims.{tail}"
            return await refused(world, "web") == wanted

        await until(unbound, 60)
        await make(world, volume("v1"))
        await world.phase("web", "Running")

    run(test, nodes=2, controllers=CONTROLLERS)


def test_a_stateful_set_has_a_volume_for_each_pod() -> None:
    async def test(world: World) -> None:
        await make(world, storage_class("late", volumeBindingMode="WaitForFirstConsumer", default=True))
        wanted = {
            "metadata": {"name": "www"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        mount = [{"name": "www", "mountPath": "/www"}]
        shape = template("example.com/x:1", containers=[{"name": "c", "image": "x", "volumeMounts": mount}])
        made = workload("StatefulSet", 3, serviceName="web", volumeClaimTemplates=[wanted])
        made["spec"]["template"] = shape
        await world.client.create("statefulsets", made, "default")

        async def up() -> bool:
            status = (await world.client.get("statefulsets", "web", "default")).get("status") or {}
            return status.get("readyReplicas") == 3

        await until(up, 120)
        found = [await claimed(world, f"www-web-{number}") for number in range(3)]
        assert len({one["metadata"]["uid"] for one in found}) == 3
        assert all(one["status"]["phase"] == "Bound" for one in found)

    run(test, nodes=2, controllers=[*CONTROLLERS, "statefulset-controller"])


def test_a_volume_of_a_driver_follows_its_pod_from_node_to_node() -> None:
    async def test(world: World) -> None:
        disk: Object = volume("v1", claimRef={"namespace": "default", "name": "data"})
        del disk["spec"]["hostPath"]
        disk["spec"]["csi"] = {"driver": "csi.example.com", "volumeHandle": "h1"}
        await make(world, disk, claim())
        used = "kubernetes.io/csi/csi.example.com^h1"
        names = list(world.plane.fleet.nodes)

        async def on(name: str) -> bool:
            found = (await world.client.list("volumeattachments.storage.k8s.io")).items
            status = (await world.client.get("nodes", name))["status"]
            return [a["spec"]["nodeName"] for a in found if a["status"]["attached"]] == [name] and (
                status.get("volumesInUse") == [used] == [v["name"] for v in status.get("volumesAttached") or ()]
            )

        for name in (names[0], names[1], names[0]):
            await world.make(mounting("web", "data", nodeSelector={"kubernetes.io/hostname": name}))
            await world.phase("web", "Running")
            await until(lambda name=name: on(name), 60)  # type: ignore[misc]
            await world.client.delete("pods", "web", "default", how=Delete(grace=0))

    run(test, nodes=2, controllers=[*CONTROLLERS, "persistentvolume-attach-detach-controller"])


def test_a_pod_whose_volumes_do_not_come_is_tried_again() -> None:
    async def test(world: World) -> None:
        slow = storage_class("slow", "csi.example.com", volumeBindingMode="WaitForFirstConsumer")
        await make(world, slow, claim(storageClassName="slow"))
        await world.make(mounting("web", "data"))

        async def chosen() -> bool:
            found = await world.client.get("persistentvolumeclaims", "data", "default")
            return "volume.kubernetes.io/selected-node" in found["metadata"].get("annotations", {})

        await until(chosen, 30)
        why = 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'

        async def told() -> bool:
            return why in await world.events("FailedScheduling")

        assert not await told()
        await until(told, 620)
        node = (await world.client.get("persistentvolumeclaims", "data", "default"))["metadata"]["annotations"]
        here = local("v1", node["volume.kubernetes.io/selected-node"])
        here["spec"]["storageClassName"] = "slow"
        await make(world, here)
        await world.phase("web", "Running", 30)
        # and one more that waits when all is stopped
        await make(world, claim("other", storageClassName="slow"))
        await world.make(mounting("late", "other"))
        await asyncio.sleep(5)

    run(test, nodes=2, controllers=CONTROLLERS)


def test_a_claim_that_goes_or_is_lost_refuses_its_pods() -> None:
    async def test(world: World) -> None:
        await make(world, volume("v1"), claim())
        await world.make(mounting("user", "data"))
        await world.phase("user", "Running")
        await world.client.delete("persistentvolumeclaims", "data", "default")
        await world.make(mounting("late", "data"))
        assert 'persistentvolumeclaim "data" is being deleted' in await refused(world, "late")
        await make(world, volume("v2"), claim("lost"))

        async def lost() -> bool:
            found = await world.client.get("persistentvolumeclaims", "lost", "default")
            return bool(found["status"]["phase"] == "Lost")

        async def bound() -> bool:
            found = await world.client.get("persistentvolumes", "v2")
            return bool(found["status"]["phase"] == "Bound")

        await until(bound, 30)
        await world.client.patch("persistentvolumes", "v2", {"metadata": {"finalizers": None}})
        await world.client.delete("persistentvolumes", "v2")
        await until(lost, 30)
        await world.make(mounting("never", "lost"))
        assert 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "v2"' in await refused(
            world, "never"
        )

    # without protection of volumes, whose finalizer would come back
    run(test, nodes=2, controllers=CONTROLLERS[:2])
