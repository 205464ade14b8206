"""The DaemonSet controller, run from its spec. A process of the test stands for the scheduler."""

from __future__ import annotations

from typing import Any

from dashpot.model.extern.daemonset import target
from tests.library.workload_kit import APP, Live, Object, live, template, thing

ACTORS = ["DaemonSetController", "DaemonStarter"]
IMAGE_B = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "b"}]}}}}


class _Pod:
    """A pod as an object of a spec."""

    def __init__(self, json: Object) -> None:
        self.json = json


def daemon(**spec: Any) -> Object:
    """A DaemonSet that selects APP."""
    return thing("apps/v1", "DaemonSet", {"selector": {"matchLabels": APP}, "template": template("a"), **spec})


async def nodes(at: Live, *names: str, **spec: Any) -> None:
    """Nodes, labelled with their names, without the taint that new ones have until they are ready."""
    for name in names:
        meta = {"name": name, "labels": {"name": name}}
        await at.client.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        await at.client.patch("nodes", name, {"spec": {"taints": None, **spec}})


async def on(at: Live) -> list[tuple[str, str]]:
    """(node, image) of each pod that stays."""
    rows = [p for p in await at.all("pods") if not p["metadata"].get("deletionTimestamp")]
    return sorted((target(_Pod(p)), p["spec"]["containers"][0]["image"]) for p in rows)


def test_each_node_that_will_have_it_gets_a_pod() -> None:
    async def test(at: Live) -> None:
        await nodes(at, "a", "b")
        await nodes(at, "cordoned", unschedulable=True)
        await nodes(at, "tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
        await at.client.create("daemonsets", daemon())

        async def ready() -> bool:
            status = await at.status("daemonsets")
            return status.get("numberReady") == status.get("desiredNumberScheduled") == 3

        await at.settles(ready)
        assert [n for n, _ in await on(at)] == ["a", "b", "cordoned"]
        status = await at.status("daemonsets")
        assert status["currentNumberScheduled"] == status["updatedNumberScheduled"] == status["numberAvailable"] == 3
        assert status["numberMisscheduled"] == 0
        pod = (await at.all("pods"))[0]
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (field,) = required["nodeSelectorTerms"][0]["matchFields"]
        assert field["key"] == "metadata.name" and not pod["spec"].get("nodeName")
        keys = {t["key"] for t in pod["spec"]["tolerations"]}
        assert {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"} <= keys
        assert pod["metadata"]["labels"]["controller-revision-hash"]
        await nodes(at, "late")

        async def more() -> bool:
            return [n for n, _ in await on(at)] == ["a", "b", "cordoned", "late"]

        await at.settles(more)
        taint = {"key": "broken", "effect": "NoExecute"}
        await at.client.patch("nodes", "b", {"spec": {"taints": [taint]}})

        async def fewer() -> bool:
            return [n for n, _ in await on(at)] == ["a", "cordoned", "late"]

        await at.settles(fewer)

    live("daemonset", ACTORS, test)


def test_an_update_goes_node_by_node() -> None:
    async def test(at: Live) -> None:
        await nodes(at, "a", "b", "c")
        await at.client.create("daemonsets", daemon())

        async def ready() -> bool:
            return (await at.status("daemonsets")).get("numberReady") == 3

        await at.settles(ready)
        await at.patch("daemonsets", IMAGE_B)

        async def over() -> bool:
            there = await on(at)
            assert len({n for n, _ in there}) >= 2
            status = await at.status("daemonsets")
            updated = status.get("updatedNumberScheduled") == status.get("numberAvailable") == 3
            return updated and there == [("a", "b"), ("b", "b"), ("c", "b")]

        await at.settles(over)
        assert [r["revision"] for r in await at.all("controllerrevisions")] in ([1, 2], [2, 1])

    live("daemonset", ACTORS, test)


def test_a_surge_puts_the_new_pod_beside_the_old_one() -> None:
    async def test(at: Live) -> None:
        await nodes(at, "a", "b")
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await at.client.create("daemonsets", daemon(updateStrategy=rolling))

        async def ready() -> bool:
            return (await at.status("daemonsets")).get("numberReady") == 2

        await at.settles(ready)
        await at.patch("daemonsets", IMAGE_B)

        async def over() -> bool:
            there = await on(at)
            assert len(there) <= 3 and {n for n, _ in there} == {"a", "b"}
            return there == [("a", "b"), ("b", "b")]

        await at.settles(over)

    live("daemonset", ACTORS, test)


def test_failed_pods_are_replaced_and_on_delete_waits() -> None:
    async def test(at: Live) -> None:
        await nodes(at, "a")
        await at.client.create("daemonsets", daemon(updateStrategy={"type": "OnDelete"}))

        async def ready() -> bool:
            return (await at.status("daemonsets")).get("numberReady") == 1

        await at.settles(ready)
        await at.patch("daemonsets", IMAGE_B)

        async def seen() -> bool:
            d = await at.one("daemonsets")
            return bool(d["status"]["observedGeneration"] == d["metadata"]["generation"])

        await at.settles(seen)
        assert await on(at) == [("a", "a")]
        conditions = [{"type": "Ready", "status": "False"}]
        await at.put_status((await at.all("pods"))[0], phase="Failed", conditions=conditions)

        async def replaced() -> bool:
            return await on(at) == [("a", "b")]

        await at.settles(replaced)

    live("daemonset", ACTORS, test)
