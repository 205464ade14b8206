"""Kinds that stand for many, run: every object as its metadata, and a part of whatever a reference names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.grammar.load import load_text
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.metadata import metadata_client
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.body import Body
from dashpot.runtime.controller.caches import KindCache
from dashpot.runtime.controller.calls import Answer, ApiError, ClientCaller
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.everything import AGAIN_S, PAUSE_S, Part
from dashpot.runtime.controller.externs import Externs
from dashpot.runtime.controller.frame import Empty, Frame
from dashpot.runtime.controller.manifold import Manifold
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.views import Views
from tests.client.serving import on_server
from tests.controller.running import managed, until

Object = dict[str, Any]

SIZES = """
struct Target { apiVersion: Name, kind: Name, name: Name }
resource Scale "*/scale" {
  spec   { replicas: 0..9 = 0 }
  status { replicas: 0..9 = 0, selector: Name? }
}
resource ConfigMap "v1" {
  spec { target: Target at "data", size: Name? at "metadata.labels.size", seen: Name? at "metadata.annotations.seen" }
}
controller Sizes for ConfigMap as c when c.spec.size != old.spec.size {
  reconcile c {
    if c.spec.size == null { return }
    let s = get live Scale c.spec.target
    if s == null { patch c.spec { seen: "none" } return_ } else {
      patch c.spec { seen: s.status.selector }
      update s.spec { replicas: c.spec.size == "two" ? 2 : 0 } if changed on Conflict { requeue }
    }
  }
}
""".replace(" return_ }", " }")

MARKS = """
resource Object "*" { }
resource Namespace "v1" { spec { objects: Name? at "metadata.annotations.objects" } }
controller Marks for Object as o when o.labels != old.labels || o.owners != old.owners {
  memory passes: int = 0
  reconcile o {
    passes = passes + 1
    if "mark" in o.labels && !("example.com/held" in o.finalizers) {
      update o { finalizers: o.finalizers + ["example.com/held"] } on Conflict { requeue } on NotFound { }
    }
    for r in o.owners {
      let owner = get cached Object r
      if owner != null { patch owner { annotations: { owned: "yes" } } on NotFound { } }
    }
  }
}
controller Counts for Namespace as n when n.labels != old.labels {
  reconcile n {
    if !("count" in n.labels) { return }
    let inside = list live Object where o -> o.namespace == n.name
    patch n.spec { objects: string(inside.count(o, "mark" in o.labels)) }
  }
}
"""

CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def config_map(name: str = "a", **meta: Any) -> Object:
    return {"metadata": {"name": name, **meta}}


def reference(kind: str, obj: Object, version: str = "v1") -> Object:
    meta = obj["metadata"]
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}


def run(text: str, test: Any, *names: str) -> list[str]:
    """Runs a test beside the actors of a text; what they complained of."""
    complaints: list[str] = []

    async def main(server: ApiServer, client: Client) -> None:
        async with managed(load_text(text), client, *names, complaints=complaints) as manager:
            await test(client, manager)

    on_server(main)
    return complaints


def deployment(name: str) -> Object:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}}


@pytest.mark.parametrize(("kind", "plural", "version"), [
    ("Deployment", "deployments", "apps/v1"),
    ("StatefulSet", "statefulsets", "apps/v1"),
    ("ReplicaSet", "replicasets", "apps/v1"),
    ("Deployment", "deployments", "apps/v9"),
])  # fmt: skip
def test_the_scale_of_what_a_reference_names(kind: str, plural: str, version: str) -> None:
    async def test(client: Client, manager: Any) -> None:
        extra = {"serviceName": "web"} if kind == "StatefulSet" else {}
        made = deployment("web")
        made["spec"] |= extra
        await client.create(plural, made)
        target = {"apiVersion": version, "kind": kind, "name": "web"}
        await client.create("configmaps", {**config_map(labels={"size": "two"}), "data": target})

        async def scaled() -> bool:
            return bool((await client.get(plural, "web"))["spec"]["replicas"] == 2)

        await until(scaled)
        assert (await client.get("configmaps", "a"))["metadata"]["annotations"]["seen"] == "app=web"

    assert run(SIZES, test) == []


@pytest.mark.parametrize("target", [
    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
    {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"},
    {"apiVersion": "example.com/v1", "kind": "Nothing", "name": "a"},
])  # fmt: skip
def test_what_has_no_scale_is_null(target: Object) -> None:
    async def test(client: Client, manager: Any) -> None:
        await client.create("configmaps", {**config_map(labels={"size": "two"}), "data": target})

        async def seen() -> bool:
            found = (await client.get("configmaps", "a"))["metadata"].get("annotations") or {}
            return found.get("seen") == "none"

        await until(seen)

    assert run(SIZES, test) == []


def test_objects_of_every_kind_are_followed_and_written_where_they_are() -> None:
    async def test(client: Client, manager: Any) -> None:
        a = await client.create("configmaps", config_map(labels={"mark": "x"}))
        await client.create("namespaces", {"metadata": {"name": "far", "labels": {"mark": "x"}}})
        await client.create("secrets", config_map("a", ownerReferences=[reference("ConfigMap", a)]), "default")

        async def marked() -> bool:
            held = [(await client.get(r, n))["metadata"] for r, n in (("configmaps", "a"), ("namespaces", "far"))]
            return all("example.com/held" in (meta.get("finalizers") or ()) for meta in held) and bool(
                held[0].get("annotations")
            )

        await until(marked)
        assert (await client.get("configmaps", "a"))["metadata"]["annotations"] == {"owned": "yes"}

    assert run(MARKS, test, "Marks") == []


def test_a_definition_comes_and_goes() -> None:
    async def test(client: Client, manager: Any) -> None:
        await client.create("customresourcedefinitions", CRD)
        await asyncio.sleep(PAUSE_S + AGAIN_S + 1)
        box = await client.resource("boxes")
        await client.create(box, {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b"}})
        await client.patch(box, "b", {"metadata": {"labels": {"mark": "x"}}})

        async def held() -> bool:
            return "example.com/held" in ((await client.get(box, "b"))["metadata"].get("finalizers") or ())

        await until(held)
        cache = manager.instances["Marks"].caches["Object"]
        assert cache.get("", "boxes.example.com/b") is not None
        await client.patch(box, "b", {"metadata": {"finalizers": None, "labels": None}})
        await client.delete("customresourcedefinitions", "boxes.example.com")
        await asyncio.sleep(PAUSE_S + AGAIN_S + 1)
        assert cache.get("", "boxes.example.com/b") is None
        tasks = {task.get_name() for task in asyncio.all_tasks()}
        assert "feed boxes" not in tasks and "feed configmaps" in tasks

    assert run(MARKS, test, "Marks") == []


def test_renewals_and_events_wake_nobody_but_the_version_is_known() -> None:
    async def test(client: Client, manager: Any) -> None:
        marks = manager.instances["Marks"]
        assert isinstance(marks, Running)
        lease = {"metadata": {"name": "n", "namespace": "default"}, "spec": {"holderIdentity": "n"}}
        await client.create("leases.coordination.k8s.io", lease)
        await asyncio.sleep(1)
        before = marks.passes
        for second in range(20):
            await client.patch(
                "leases.coordination.k8s.io", "n", {"spec": {"renewTime": f"2030-01-01T00:00:{second:02}.000000Z"}}
            )
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Some"}
        await client.create("events", event, "default")
        await asyncio.sleep(1)
        assert marks.passes == before
        newest = (await client.get("leases.coordination.k8s.io", "n"))["metadata"]["resourceVersion"]
        known = marks.caches["Object"].get("default", "leases.coordination.k8s.io/n")
        assert known is not None and known.version == newest
        assert not [o for o in marks.caches["Object"].all() if o.view.resource.plural == "events"]

    assert run(MARKS, test, "Marks") == []


def test_a_live_list_of_one_namespace() -> None:
    async def test(client: Client, manager: Any) -> None:
        await client.create("namespaces", {"metadata": {"name": "far"}})
        for space in ("far", "default"):
            await client.create("configmaps", config_map(labels={"mark": "x"}), space)
            await client.create("secrets", config_map(labels={"mark": "x"}), space)
        await client.create("configmaps", config_map("b", labels={"mark": "x"}), "default")
        await client.patch("namespaces", "far", {"metadata": {"labels": {"count": "x"}}})

        async def counted() -> bool:
            return bool((await client.get("namespaces", "far"))["metadata"].get("annotations") == {"objects": "2"})

        await until(counted)

    assert run(MARKS, test, "Counts") == []


OWNERS = """
resource Object "*" { }
controller Looks for Object as o when o.owners != old.owners {
  reconcile o {
    for r in o.owners {
      let owner = get live Object r on Invalid { patch o { annotations: { found: "invalid" } } return }
      patch o { annotations: { found: owner == null ? "none" : "some" } } on NotFound { }
    }
  }
}
""".replace("} } return }", "} }\n return }")


@pytest.mark.parametrize(("ref", "found"), [
    ({"apiVersion": "v1", "kind": "ConfigMap", "name": "there"}, "some"),
    ({"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}, "none"),
    ({"apiVersion": "v1", "kind": "ConfigMap", "name": "elsewhere"}, "none"),
    ({"apiVersion": "v1", "kind": "Namespace", "name": "far"}, "some"),
])  # fmt: skip
def test_an_owner_is_looked_for_in_the_namespace_of_its_dependent(ref: Object, found: str) -> None:
    async def test(client: Client, manager: Any) -> None:
        await client.create("namespaces", {"metadata": {"name": "far"}})
        await client.create("configmaps", config_map("there"))
        await client.create("configmaps", config_map("elsewhere"), "far")
        await client.create("secrets", config_map("s", ownerReferences=[{**ref, "uid": "u"}]))

        async def told() -> bool:
            return bool(((await client.get("secrets", "s"))["metadata"].get("annotations") or {}).get("found") == found)

        await until(told)

    assert run(OWNERS, test) == []


def test_a_cluster_wide_object_cannot_refer_to_a_namespaced_kind() -> None:
    async def test(client: Client, manager: Any) -> None:
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
        await client.create("namespaces", {"metadata": {"name": "far", "ownerReferences": [ref]}})

        async def told() -> bool:
            found = (await client.get("namespaces", "far"))["metadata"].get("annotations") or {}
            return found.get("found") == "invalid"

        await until(told)

    assert run(OWNERS, test) == []


def test_a_kind_that_is_not_served_fails_the_pass() -> None:
    async def test(client: Client, manager: Any) -> None:
        ref = {"apiVersion": "example.com/v1", "kind": "Box", "name": "b", "uid": "u"}
        await client.create("secrets", config_map("s", ownerReferences=[ref]))
        await asyncio.sleep(1)
        assert not (await client.get("secrets", "s"))["metadata"].get("annotations")
        await client.create("customresourcedefinitions", CRD)

        async def told() -> bool:
            return bool((await client.get("secrets", "s"))["metadata"].get("annotations") == {"found": "none"})

        await until(told)

    complaints = run(OWNERS, test)
    assert complaints and all('no matches for kind "Box" in version "example.com/v1"' in text for text in complaints)


def test_a_metadata_client_reads_metadata() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        await client.create("configmaps", {**config_map(), "data": {"x": "y"}})
        metadata = metadata_client(client)
        one = await metadata.get("configmaps", "a")
        assert one["kind"] == "PartialObjectMetadata" and set(one) == {"kind", "apiVersion", "metadata"}
        assert all("data" not in item for item in (await metadata.list("configmaps")).items)
        assert (await metadata.list("namespaces")).items[0]["metadata"]["name"]
        assert (await metadata.get("namespaces", "default"))["kind"] == "PartialObjectMetadata"
        with pytest.raises(StatusError, match="not found"):
            await metadata.get("configmaps", "none")

    on_server(main)


def test_rights_on_everything_and_on_a_part() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        async with managed(load_text(MARKS), client, "Marks") as manager:
            rights = {str(right) for right in manager.rights(["Marks"])}
            assert rights == {f"{verb} *.*" for verb in ("get", "list", "watch", "update", "patch")}
        sizes = load_text(SIZES)
        assert Views(sizes)["Scale"].part == "scale"
        async with managed(sizes, client) as manager:
            rights = {str(right) for right in manager.rights()}
            assert {"get */scale.*", "update */scale.*"} <= rights

    on_server(main)


@pytest.mark.parametrize(("where", "index"), [
    ("o.owners.exists(r, r.uid == c.uid)", "owners"),
    ("o.owners.exists(r, c.uid == r.uid) && o.name != c.name", "owners"),
    ("o.uid in c.owners.map(r, r.uid)", "uid"),
    ("o.namespace == c.namespace", "namespace"),
    ("o.owners.exists(r, r.uid == o.uid)", None),
    ("o.owners.exists(r, r.name == c.name)", None),
    ("o.owners.all(r, r.uid == c.uid)", None),
    ("o.uid in o.owners.map(r, r.uid)", None),
])  # fmt: skip
def test_reads_that_an_index_answers(where: str, index: str | None) -> None:
    program = load_text(f"""
resource Object "*" {{ }}
controller Reads for Object {{
  reconcile c {{
    let found = list cached Object where o -> {where}
    if !found.isEmpty() {{ patch c {{ annotations: {{ found: "yes" }} }} on NotFound {{ }} }}
  }}
}}
""")
    views = Views(program)
    Body(program.controllers[0].reconcile, views, Externs())
    assert views.indexes.get("Object") == (None if index is None else {index})


def test_what_the_indexes_of_owners_find() -> None:
    view = Views(load_text('resource Object "*" { }'))["Object"]
    assert isinstance(view, Manifold)
    secrets = next(r for r in builtin().resources if r.plural == "secrets")
    cache = KindCache(view)
    part = Part(cache, view.at(secrets))

    def secret(name: str, version: str, *owners: str) -> Object:
        refs = [{"uid": uid} for uid in owners]
        return {"metadata": {"name": name, "uid": name, "resourceVersion": version, "ownerReferences": refs}}

    part.listed({"d/a": secret("a", "1", "x", "y"), "d/b": secret("b", "2", "y"), "c": secret("c", "3")}, "3")
    cache.has_synced = True

    def owned(uid: str) -> list[str]:
        return sorted(obj.name for obj in cache.all("", "owners", uid))

    assert (owned("x"), owned("y"), owned("z")) == (["a"], ["a", "b"], [])
    part.changed("d/a", secret("a", "4", "z"), "4")
    assert (owned("x"), owned("y"), owned("z")) == ([], ["b"], ["a"])
    part.changed("d/b", None, "5")
    part.listed({"c": secret("c", "6", "x")}, "6")
    assert (owned("x"), owned("y"), owned("z"), len(cache)) == (["c"], [], [], 1)
    part.leave()
    assert (owned("x"), len(cache)) == ([], 0)


def test_writes_of_a_part_and_of_metadata_carry_the_version() -> None:
    """An update by what was read before another write is a Conflict; a patch is not."""

    async def main(server: ApiServer, client: Client) -> None:
        program = load_text("""
struct Target { apiVersion: Name, kind: Name, name: Name }
resource Object "*" { }
resource Scale "*/scale" { spec { replicas: 0..9 = 0 } }
resource Site "example.com/v1" { spec { target: Target } }
controller Writes for Site {
  reconcile z {
    let s = get live Scale z.spec.target
    let o = get live Object s
    if s != null && o != null {
      patch z.spec { target: z.spec.target }
      update o { labels: { a: "b" } } on Conflict { }
      update s.spec { replicas: 3 } on Conflict { }
      patch s.spec { replicas: 4 }
    }
  }
}
""")
        views = Views(program)
        await client.create("deployments", deployment("web"))
        caller = ClientCaller(client, "test")
        outcomes: list[str] = []

        class Between:
            async def perform(self, request: ApiRequest) -> Answer:
                if request.kind == "Site":
                    await client.patch("deployments", "web", {"metadata": {"annotations": {"x": "y"}}})
                    return request.target
                try:
                    answer = await caller.perform(request)
                except ApiError as problem:
                    outcomes.append(f"{request.verb} {request.kind} {request.subresource} {problem.name}")
                    raise
                outcomes.append(f"{request.verb} {request.kind} {request.subresource}")
                return answer

            def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
                raise AssertionError(message)

        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        site = Obj(views["Site"], {"metadata": {"name": "s", "namespace": "default"}, "spec": {"target": target}})
        frame = Frame(views.constants, Empty(), lambda: 0, "default", locals={"z": site})
        outcome = await Body(program.controllers[0].reconcile, views, Externs()).run(frame, Between())
        assert (outcome.how, outcome.message) == ("done", "")
        assert outcomes == [
            "get Scale scale",
            "get Object ",
            "patch Object  Conflict",
            "update Scale scale Conflict",
            "patch Scale scale",
        ]
        found = await client.get("deployments", "web")
        assert found["spec"]["replicas"] == 4 and "labels" not in found["metadata"]
        assert repr(frame.locals["o"]) == "Deployment default/web"

    on_server(main)


def test_the_finalizers_of_a_namespace_go_by_their_subresource() -> None:
    program = load_text("""
resource Namespace "v1" { spec { finalizers: set[Name] at "spec.finalizers", other: Name? at "spec.other" } }
controller Ends for Namespace {
  reconcile n {
    update n.spec { finalizers: [] }
    update n.spec { finalizers: [], other: "x" }
    update n { finalizers: [] }
  }
}
""")
    views = Views(program)
    seen: list[str] = []

    class Noting:
        async def perform(self, request: ApiRequest) -> Answer:
            seen.append(request.subresource)
            return request.target

        def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
            raise AssertionError(message)

    async def main() -> None:
        obj = Obj(views["Namespace"], {"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}})
        frame = Frame(views.constants, Empty(), lambda: 0, "", locals={"n": obj})
        await Body(program.controllers[0].reconcile, views, Externs()).run(frame, Noting())

    asyncio.run(main())
    assert seen == ["finalize", "", ""]
