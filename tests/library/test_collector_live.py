"""The garbage collector, run from its spec on objects of every kind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client, Delete
from dashpot.runtime.controller.controller import Running
from tests.client.serving import on_server
from tests.controller.running import library, managed
from tests.library.workload_kit import Live, live, workload

Object = dict[str, Any]
COLLECTOR = ["GarbageCollector"]
NAMESPACED, CLUSTER = ("configmaps", "secrets"), "priorityclasses"
KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
}


def reference(plural: str, obj: Object, **more: Any) -> Object:
    """A reference to an object."""
    version, kind = KINDS[plural]
    return {"apiVersion": version, "kind": kind, "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], **more}


async def make(client: Client, plural: str, name: str, *refs: Object, space: str = "default", **meta: Any) -> Object:
    """An object with owners."""
    body: Object = {"metadata": {"name": name, "ownerReferences": list(refs), **meta}}
    if plural == CLUSTER:
        body["value"] = 1
    return await client.create(plural, body, space)


async def names(client: Client) -> set[str]:
    """The names of all objects that tests make."""
    found = set()
    for plural in KINDS:
        rows = (await client.list(plural)).items
        found |= {o["metadata"]["name"] for o in rows if not o["metadata"]["name"].startswith(("system-", "kube-"))}
    return found


async def meta(client: Client, plural: str, name: str) -> Object:
    """The metadata of an object; empty where it is gone."""
    try:
        found: Object = (await client.get(plural, name))["metadata"]
    except StatusError:
        return {}
    return found


def definition(plural: str, kind: str) -> Object:
    """The definition of a namespaced kind of example.com/v1."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


def test_deployments_go_with_all_that_they_own() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 3))

        async def running() -> bool:
            return len(await at.all("pods")) == 3

        await at.settles(running)
        await at.client.delete("deployments", "web")

        async def gone() -> bool:
            return not [*await at.all("replicasets"), *await at.all("pods")]

        await at.settles(gone, 10)

    run_with_deployments(test)


def test_dependents_that_are_orphaned_stay() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 2))

        async def running() -> bool:
            return len(await at.all("pods")) == 2

        await at.settles(running)
        await at.client.delete("deployments", "web", how=Delete(propagation="Orphan"))
        await asyncio.sleep(5)
        (rs,) = await at.all("replicasets")
        assert "ownerReferences" not in rs["metadata"] and len(await at.all("pods")) == 2
        assert not await at.all("deployments")

    run_with_deployments(test)


def test_in_the_foreground_the_owner_goes_last() -> None:
    async def test(at: Live) -> None:
        await at.client.create("deployments", workload("Deployment", 2))

        async def running() -> bool:
            return len(await at.all("pods")) == 2

        await at.settles(running)
        pods = await at.all("pods")
        for pod in pods:  # what holds a pod holds its owners
            await at.client.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": ["example.com/held"]}})
        await at.client.delete("deployments", "web", how=Delete(propagation="Foreground"))
        await asyncio.sleep(5)
        (deployment,), (rs,) = await at.all("deployments"), await at.all("replicasets")
        assert deployment["metadata"]["finalizers"] == rs["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert all(pod["metadata"]["deletionTimestamp"] for pod in await at.all("pods"))
        for pod in pods:
            await at.client.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})

        async def gone() -> bool:
            return not [*await at.all("deployments"), *await at.all("replicasets"), *await at.all("pods")]

        await at.settles(gone, 10)

    run_with_deployments(test)


def run_with_deployments(test: Any) -> None:
    """Runs a test on a server with the collector and the controllers of Deployments."""

    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        await client.create("serviceaccounts", {"metadata": {"name": "default"}}, "default")
        actors = ["DeploymentController", "ReplicaSetController", "Starter"]
        async with (
            managed(library("deployment"), client, *actors, complaints=complaints) as manager,
            managed(library("collector"), client, *COLLECTOR, complaints=complaints),
        ):
            await test(Live(client, manager))
        assert complaints == []

    on_server(main)


def test_of_several_owners_one_is_enough() -> None:
    async def test(at: Live) -> None:
        client = at.client
        a = await make(client, "configmaps", "a")
        b = await make(client, "secrets", "b")
        c = await make(client, CLUSTER, "c")
        refs = [reference("configmaps", a), reference("secrets", b), reference(CLUSTER, c)]
        await make(client, "configmaps", "d", *refs)
        await client.delete("configmaps", "a")
        await asyncio.sleep(2)
        assert [r["name"] for r in (await meta(client, "configmaps", "d"))["ownerReferences"]] == ["b", "c"]
        await client.delete("secrets", "b", how=Delete(propagation="Foreground"))
        await asyncio.sleep(2)
        assert [r["name"] for r in (await meta(client, "configmaps", "d"))["ownerReferences"]] == ["c"]
        await client.delete(CLUSTER, "c")
        await asyncio.sleep(2)
        assert await names(client) == set()

    live("collector", COLLECTOR, test)


def test_dependents_come_after_their_owner_has_gone() -> None:
    async def test(at: Live) -> None:
        a = await make(at.client, "configmaps", "a")
        await at.client.delete("configmaps", "a")
        again = await make(at.client, "configmaps", "a")
        assert again["metadata"]["uid"] != a["metadata"]["uid"]
        await make(at.client, "secrets", "b", reference("configmaps", a))
        await asyncio.sleep(2)
        assert await names(at.client) == {"a"}

    live("collector", COLLECTOR, test)


def test_an_owner_in_another_namespace_is_none() -> None:
    async def test(at: Live) -> None:
        await at.client.create("namespaces", {"metadata": {"name": "far"}})
        a = await make(at.client, "configmaps", "a", space="far")
        await make(at.client, "secrets", "b", reference("configmaps", a))
        await asyncio.sleep(20)
        assert await names(at.client) == {"a"}
        uid = a["metadata"]["uid"]
        told = f'ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace "default"'
        assert await at.events("OwnerRefInvalidNamespace") == [told]

    live("collector", COLLECTOR, test)


def test_a_cluster_wide_object_with_a_namespaced_owner_is_left_alone() -> None:
    async def test(at: Live) -> None:
        a = await make(at.client, "configmaps", "a")
        await make(at.client, CLUSTER, "c", reference("configmaps", a))
        await asyncio.sleep(5)
        await at.client.delete("configmaps", "a")
        await asyncio.sleep(5)
        assert await names(at.client) == {"c"}
        uid = a["metadata"]["uid"]
        told = f'ownerRef [v1/ConfigMap, namespace: , name: a, uid: {uid}] does not exist in namespace ""'
        assert await at.events("OwnerRefInvalidNamespace") == [told]

    live("collector", COLLECTOR, test)


def test_an_owner_of_a_kind_that_is_not_served_is_no_answer() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        async with managed(library("collector"), client, *COLLECTOR, complaints=complaints):
            ref = {"apiVersion": "example.com/v1", "kind": "Box", "name": "b", "uid": "u"}
            await make(client, "secrets", "s", ref)
            await asyncio.sleep(30)
            assert await names(client) == {"s"}
            await client.create("customresourcedefinitions", definition("boxes", "Box"))
            await asyncio.sleep(120)
            assert await names(client) == set()
        assert {text.partition(": ")[2].partition(": ")[2] for text in complaints} == {
            'no matches for kind "Box" in version "example.com/v1"'
        }

    on_server(main)


def test_objects_of_a_definition_that_comes_later_own_and_are_owned() -> None:
    async def test(at: Live) -> None:
        client = at.client
        await client.create("customresourcedefinitions", definition("boxes", "Box"))
        await asyncio.sleep(10)
        boxes = await client.resource("boxes")
        box = await client.create(boxes, {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"}})
        ref = {"apiVersion": "example.com/v1", "kind": "Box", "name": "b", "uid": box["metadata"]["uid"]}
        a = await make(client, "configmaps", "a", ref)
        inner = {"name": "c", "ownerReferences": [reference("configmaps", a)]}
        await client.create(boxes, {"apiVersion": "example.com/v1", "kind": "Box", "metadata": inner})
        await asyncio.sleep(2)
        await client.delete(boxes, "b")
        await asyncio.sleep(10)
        assert await names(client) == set() and (await client.list(boxes)).items == []

    live("collector", COLLECTOR, test)


def test_a_circle_of_owners_ends() -> None:
    async def test(at: Live) -> None:
        client, blocks = at.client, {"blockOwnerDeletion": True}
        a = await make(client, "configmaps", "a")
        b = await make(client, "configmaps", "b", reference("configmaps", a, **blocks))
        c = await make(client, "configmaps", "c", reference("configmaps", b, **blocks))
        await client.patch("configmaps", "a", {"metadata": {"ownerReferences": [reference("configmaps", c, **blocks)]}})
        await client.delete("configmaps", "a", how=Delete(propagation="Foreground"))
        await asyncio.sleep(10)
        assert await names(client) == set()

    live("collector", COLLECTOR, test)


def test_a_block_that_is_lifted_frees_the_owner() -> None:
    async def test(at: Live) -> None:
        client = at.client
        a = await make(client, "configmaps", "a")
        ref = reference("configmaps", a, blockOwnerDeletion=True)
        await make(client, "secrets", "b", ref, finalizers=["example.com/held"])
        await client.delete("configmaps", "a", how=Delete(propagation="Foreground"))
        await asyncio.sleep(2)
        assert await names(client) == {"a", "b"}
        await client.patch("secrets", "b", {"metadata": {"ownerReferences": [{**ref, "blockOwnerDeletion": False}]}})
        await asyncio.sleep(2)
        assert await names(client) == {"b"}

    live("collector", COLLECTOR, test)


def test_one_delete_a_dependent_and_no_work_when_nothing_happens() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        calls: list[str] = []

        class Counting:
            def __init__(self, caller: Any) -> None:
                self.caller = caller

            async def perform(self, request: Any) -> Any:
                calls.append(request.verb)
                return await self.caller.perform(request)

            def note(self, *args: Any) -> None:
                self.caller.note(*args)

        owner = await make(client, "configmaps", "a")
        async with managed(
            library("collector"), client, *COLLECTOR, wrap=lambda actor, key, caller: Counting(caller)
        ) as manager:
            for number in range(20):
                await make(client, "secrets", f"s{number}", reference("configmaps", owner))
            await asyncio.sleep(5)
            assert calls == []
            collector = manager.instances["GarbageCollector"]
            assert isinstance(collector, Running)
            passes = collector.passes
            for number in range(50):
                await client.patch("secrets", "s0", {"stringData": {"x": str(number)}})
            await asyncio.sleep(3600)
            assert calls == [] and collector.passes == passes
            await client.delete("configmaps", "a")
            await asyncio.sleep(5)
            assert calls.count("delete") == 20 and set(calls) == {"get", "delete"} and len(calls) <= 40

    on_server(main)


# ---------------------------------------------------------------- random graphs
NODES = 7


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[tuple[int, str]]]:
    """Owners of each node (of those before it), and deletions one after another."""
    owners = [
        sorted(draw(st.sets(st.integers(0, max(node - 1, 0)), max_size=3))) if node else [] for node in range(NODES)
    ]
    ways = st.tuples(st.integers(0, NODES - 1), st.sampled_from(["Background", "Foreground", "Orphan"]))
    return owners, draw(st.lists(ways, min_size=1, max_size=4))


def left(owners: list[list[int]], deletions: list[tuple[int, str]]) -> dict[int, set[int]]:
    """What is left by the rules, with the owners that it still has: who loses the last owner goes; an orphan's owner is
    taken out of it first."""
    there: dict[int, set[int]] = {node: set(of) for node, of in enumerate(owners)}
    for node, way in deletions:
        gone = [node] if node in there else []
        if gone and way == "Orphan":
            for of in there.values():
                of.discard(node)
        while gone:
            lost = gone.pop()
            del there[lost]
            for other, of in there.items():
                if lost in of:
                    of.discard(lost)
                    if not of and other not in gone:
                        gone.append(other)
    return there


async def graph_of(client: Client, owners: list[list[int]]) -> None:
    """Makes the objects of a graph, of kinds and blocks of all sorts."""
    made: list[Object] = []
    for node, of in enumerate(owners):
        refs = [reference(NAMESPACED[o % 2], made[o], blockOwnerDeletion=o % 3 != 0) for o in of]
        made.append(await make(client, NAMESPACED[node % 2], f"n{node}", *refs))


async def delete(client: Client, node: int, way: str) -> None:
    """Deletes a node, if it is there."""
    if (await meta(client, NAMESPACED[node % 2], f"n{node}")).get("uid"):
        await client.delete(NAMESPACED[node % 2], f"n{node}", how=Delete(propagation=way))


@settings(max_examples=12, deadline=None)
@given(graphs())
def test_random_graphs_are_collected_by_the_rules(graph: tuple[list[list[int]], list[tuple[int, str]]]) -> None:
    owners, deletions = graph
    wanted = left(owners, deletions)

    async def test(at: Live) -> None:
        await graph_of(at.client, owners)
        for node, way in deletions:
            await delete(at.client, node, way)
            await asyncio.sleep(30)
        assert await names(at.client) == {f"n{node}" for node in wanted}
        for node, still in wanted.items():
            refs = (await meta(at.client, NAMESPACED[node % 2], f"n{node}")).get("ownerReferences") or []
            assert {r["name"] for r in refs} == {f"n{o}" for o in still}

    live("collector", COLLECTOR, test)


@settings(max_examples=12, deadline=None)
@given(graphs(), st.integers(0, 99))
def test_whatever_is_deleted_at_once_nothing_dangles(
    graph: tuple[list[list[int]], list[tuple[int, str]]], seed: int
) -> None:
    owners, deletions = graph
    least = set(range(NODES))  # what no deletion can reach stays
    for node, _ in deletions:
        least -= _below(owners, node)

    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        await graph_of(client, owners)
        chance = random.Random(seed)
        async with managed(library("collector"), client, *COLLECTOR, complaints=complaints, chance=chance) as manager:
            for node, way in deletions:
                await delete(client, node, way)
                if chance.random() < 0.5:
                    await asyncio.sleep(chance.random() / 100)
                if chance.random() < 0.2:
                    await manager.crash("GarbageCollector")
            await asyncio.sleep(60)
        there = await names(client)
        assert there >= {f"n{node}" for node in least}
        for node in range(NODES):
            found = await meta(client, NAMESPACED[node % 2], f"n{node}")
            assert "deletionTimestamp" not in found
            assert {r["name"] for r in found.get("ownerReferences") or ()} <= there
        assert complaints == []

    on_server(main, seed=seed)


def _below(owners: list[list[int]], node: int) -> set[int]:
    """A node and all that it owns, at whatever distance."""
    found = {node}
    for other, of in enumerate(owners):
        if found & set(of):
            found.add(other)
    return found
