"""Calls of a pass against a real API server in process: what is sent, what comes back, what stays untouched."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.body import Body, Outcome
from dashpot.runtime.controller.calls import ClientCaller
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.views import Views
from tests.api.serving import DEPLOYMENT, POD, Serving, run
from tests.controller.kit import NOW, World, reconcile, spec

Object = dict[str, Any]

HEAD = """
resource Node "v1" { }
resource Pod "v1" {
  spec { nodeName: ref Node?; containers: opaque?; app: Name? at "metadata.labels.app" }
  status {
    phase: Name; ready: bool at "status.conditions[type=Ready].status"
    since: Time? at "status.startTime"
  }
}
resource Deployment "apps/v1" {
  spec {
    replicas: 0..9 = 1; image: opaque at "spec.template.spec.containers[0].image"
    surge: int at "spec.strategy.rollingUpdate.maxSurge"; template: opaque; selector: opaque
  }
  status { readyReplicas: 0..9 }
}
resource ConfigMap "v1" { spec { data: map[Name]Name at "data" } }
resource Lease "coordination.k8s.io/v1" {
  spec { holder: Name? at "spec.holderIdentity"; renewed: Time? at "spec.renewTime" }
}
resource ResourceQuota "v1" { spec { hard: int at "spec.hard.pods" }; status { used: int at "status.used.pods" } }
"""
PODS = "/api/v1/namespaces/n/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/n/deployments"
MAPS = "/api/v1/namespaces/n/configmaps"


class Passing:
    """Bodies run as the controller C against a server."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.caller = ClientCaller(Client(InProcess(serving.server.local), namespace="n"), "C")

    async def run(self, kind: str, body: str, json: Object) -> tuple[Outcome, Frame]:
        program = spec(f"{HEAD}\ncontroller C for {kind} {{\n  reconcile x {{\n{body}\n  }}\n}}")
        views = Views(program)
        reader = World(views, json)
        frame = Frame(views.constants, reader, lambda: NOW, "n", locals={"x": Obj(views[kind], json)})
        return await Body(reconcile(program), views).run(frame, self.caller), frame

    async def pod(self, name: str = "a") -> Object:
        made = {"metadata": {"name": name, "labels": {"app": "web", "keep": "me"}}, "spec": POD}
        return typed(await self.serving.done("POST", PODS, made), "v1", "Pod")

    async def deployment(self) -> Object:
        made = {"metadata": {"name": "web"}, "spec": DEPLOYMENT}
        return typed(await self.serving.done("POST", DEPLOYMENTS, made), "apps/v1", "Deployment")

    async def map(self, **data: str) -> Object:
        made = {"metadata": {"name": "m", "finalizers": ["example.com/f"]}, "data": data}
        return typed(await self.serving.done("POST", MAPS, made), "v1", "ConfigMap")


def typed(json: Object, api: str, kind: str) -> Object:
    return {"apiVersion": api, "kind": kind, **json}


def test_create_names_owns_and_says_who_manages() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        owner = await passing.deployment()
        text = 'let made = create ConfigMap { generateName: x.name + "-", owner: x, spec.data: { "k": "v" } }'
        outcome, frame = await passing.run("Deployment", text, owner)
        made = frame.locals["made"].json
        assert outcome.how == "done" and made["metadata"]["name"].startswith("web-")
        assert made["data"] == {"k": "v"} and made["metadata"]["namespace"] == "n"
        assert made["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["metadata"]["uid"],
                "controller": True, "blockOwnerDeletion": True,
            }
        ]  # fmt: skip
        assert made["metadata"]["managedFields"][0]["manager"] == "C"

    run(test)


def test_update_leaves_alone_what_it_does_not_name_and_the_local_holds_the_answer() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        before = await passing.deployment()
        text = 'update x.spec { replicas: 5 }; update x.spec { image: "example.com/x:2" }'
        outcome, frame = await passing.run("Deployment", text, before)
        after = await serving.done("GET", f"{DEPLOYMENTS}/web")
        assert outcome.how == "done" and frame.locals["x"].version == after["metadata"]["resourceVersion"]
        container = {**before["spec"]["template"]["spec"]["containers"][0], "image": "example.com/x:2"}
        assert after["spec"]["replicas"] == 5 and after["spec"]["template"]["spec"]["containers"] == [container]
        assert after["spec"]["strategy"] == before["spec"]["strategy"]

    run(test)


def test_an_update_of_an_old_version_conflicts_unless_forced() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        old = await passing.map(a="1")
        await serving.done("PATCH", f"{MAPS}/m", {"data": {"b": "2"}}, media="application/merge-patch+json")
        text = 'update x { labels: { "l": "1" } } on Conflict { requeue }'
        outcome, frame = await passing.run("ConfigMap", text, old)
        assert outcome.how == "requeue" and frame.locals["x"].json is old
        outcome, _ = await passing.run("ConfigMap", 'update x { labels: { "l": "1" } }', old)
        assert (outcome.how, outcome.error) == ("error", "Conflict") and "has been modified" in outcome.message
        outcome, _ = await passing.run("ConfigMap", 'update x { labels: { "l": "1" } } force', old)
        assert outcome.how == "done"

    run(test)


def test_the_status_goes_to_its_subresource_and_a_condition_keeps_what_else_it_says() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        pod = await passing.pod()
        condition = {"type": "Ready", "status": "False", "reason": "Kept", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        said = {**pod, "status": {**pod["status"], "conditions": [{"type": "Other", "status": "True"}, condition]}}
        pod = typed(await serving.done("PUT", f"{PODS}/a/status", said), "v1", "Pod")
        outcome, frame = await passing.run("Pod", 'update x.status { ready: true, phase: "Running" }', pod)
        after = frame.locals["x"].json["status"]
        assert outcome.how == "done" and after["phase"] == "Running"
        other, ready = after["conditions"]
        assert other == {
            "type": "Other",
            "status": "True",
            **{k: v for k, v in other.items() if k not in ("type", "status")},
        }
        assert ready["status"] == "True" and ready["reason"] == "Kept"
        assert ready["lastTransitionTime"] == "2027-01-15T08:00:00Z"
        outcome, frame = await passing.run("Pod", "update x.status { ready: true }", frame.locals["x"].json)
        assert frame.locals["x"].json["status"]["conditions"][1]["lastTransitionTime"] == "2027-01-15T08:00:00Z"

    run(test)


def test_a_kind_without_status_subresource_and_times_with_microseconds() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        path = "/apis/coordination.k8s.io/v1/namespaces/n/leases"
        lease = typed(await serving.done("POST", path, {"metadata": {"name": "l"}}), "coordination.k8s.io/v1", "Lease")
        outcome, _ = await passing.run("Lease", 'update x.spec { holder: "me", renewed: now() }', lease)
        assert outcome.how == "done"
        found = await serving.done("GET", f"{path}/l")
        assert found["spec"] == {"holderIdentity": "me", "renewTime": "2027-01-15T08:00:00.000000Z"}

    run(test)


def test_numbers_that_are_quantities_are_written_as_such() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        path = "/api/v1/namespaces/n/resourcequotas"
        quota = await serving.done(
            "POST", path, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "4", "cpu": "1"}}}
        )
        text = "update x.status { used: x.spec.hard - 1 }"
        outcome, frame = await passing.run("ResourceQuota", text, typed(quota, "v1", "ResourceQuota"))
        assert outcome.how == "done" and frame.locals["x"].json["status"]["used"]["pods"] == "3"

    run(test)


PATCHES = {
    'patch x.spec { data["b"]: "2" }': {"a": "1", "b": "2"},
    'patch x.spec { data["a"]: null }': {},
    'patch x.spec { data: { "c": "3" } }': {"a": "1", "c": "3"},
    'patch strategic x.spec { data["b"]: "2" }': {"a": "1", "b": "2"},
    'patch x.spec { data["b"]: "2" } if unchanged': {"a": "1", "b": "2"},
    'patch json x { test spec.data["a"]: "1", add spec.data["b"]: "2", remove spec.data["a"] }': {"b": "2"},
    'patch json x { replace spec.data["a"]: "9" }': {"a": "9"},
}


@pytest.mark.parametrize("text", PATCHES)
def test_patch(text: str) -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        old = await passing.map(a="1")
        outcome, _ = await passing.run("ConfigMap", text, old)
        assert outcome.how == "done", outcome
        found = await serving.done("GET", f"{MAPS}/m")
        assert found.get("data", {}) == PATCHES[text]
        assert found["metadata"]["finalizers"] == ["example.com/f"]

    run(test)


FAILURES = {
    'patch x.spec { data["b"]: "2" } if unchanged': "Conflict",
    'patch json x { test spec.data["a"]: "0" }': "Invalid",
    "delete x if unchanged": "Conflict",
    'create ConfigMap { name: "m" }': "AlreadyExists",
    'create ConfigMap { name: "No Name" }': "Invalid",
}


@pytest.mark.parametrize("text", FAILURES)
def test_failures_have_the_names_that_handlers_use(text: str) -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        old = await passing.map(a="1")
        await serving.done("PATCH", f"{MAPS}/m", {"data": {"z": "1"}}, media="application/merge-patch+json")
        outcome, _ = await passing.run("ConfigMap", text, old)
        assert (outcome.how, outcome.error) == ("error", FAILURES[text]), outcome
        handled, _ = await passing.run("ConfigMap", f"{text} on {FAILURES[text]} {{ requeue after 3s }}", old)
        assert (handled.how, handled.delay_ms) == ("after", 3000)

    run(test)


def test_what_is_gone_is_not_found_and_a_live_read_of_it_is_null() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        pod = await passing.pod()
        await serving.done("DELETE", f"{PODS}/a")
        for text in ("update x { finalizers: [] }", "patch x { finalizers: [] }", "delete x", "evict x"):
            outcome, _ = await passing.run("Pod", text, pod)
            assert (outcome.how, outcome.error) == ("error", "NotFound"), (text, outcome)
        outcome, _ = await passing.run("Pod", "let y = get live Pod x.name; if y == null { requeue }", pod)
        assert outcome.how == "requeue"

    run(test)


def test_apply_owns_fields_as_the_controller() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        old = await passing.map(a="1")
        text = 'apply x { spec.data["a"]: "2" }'
        outcome, _ = await passing.run("ConfigMap", text, old)
        assert (outcome.how, outcome.error) == ("error", "Conflict")
        outcome, frame = await passing.run("ConfigMap", text + " force", old)
        assert outcome.how == "done" and frame.locals["x"].json["data"] == {"a": "2"}
        managers = {(m["manager"], m["operation"]) for m in frame.locals["x"].json["metadata"]["managedFields"]}
        assert ("C", "Apply") in managers

    run(test)


def test_delete_says_what_it_means() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        held = await passing.map(a="1")
        outcome, frame = await passing.run("ConfigMap", "delete x if same foreground", held)
        assert outcome.how == "done"
        meta = frame.locals["x"].json["metadata"]
        assert meta["deletionTimestamp"] and "foregroundDeletion" in meta["finalizers"]
        pod = await passing.pod()
        again = {**pod, "metadata": {**pod["metadata"], "uid": "another"}}
        outcome, _ = await passing.run("Pod", "delete x if same", again)
        assert outcome.error == "Conflict"
        outcome, frame = await passing.run("Pod", "delete x now", pod)
        assert outcome.how == "done"
        assert (await serving.told("GET", f"{PODS}/a"))[0] == 404

    run(test)


def test_bind_and_evict() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        await serving.done("POST", "/api/v1/nodes", {"metadata": {"name": "east"}})
        pod = await passing.pod()
        outcome, frame = await passing.run("Pod", 'bind x to "east"', pod)
        assert outcome.how == "done" and frame.locals["x"].json["spec"]["nodeName"] == "east"
        assert (await serving.done("GET", f"{PODS}/a"))["spec"]["nodeName"] == "east"
        outcome, _ = await passing.run("Pod", 'bind x to "west"', pod)
        assert outcome.error == "Conflict"
        outcome, _ = await passing.run("Pod", "evict x", pod)
        assert outcome.how == "done"
        assert (await serving.done("GET", f"{PODS}/a"))["metadata"]["deletionTimestamp"]

    run(test)


def test_a_live_list_sees_the_namespace_of_its_pass_and_filters() -> None:
    async def test(serving: Serving) -> None:
        passing = Passing(serving)
        pod = await passing.pod("a")
        await passing.pod("b")
        text = (
            'let all = list live Pod where p -> p.spec.app == "web" && p.name != x.name; requeue after all.size() * 1s'
        )
        outcome, _ = await passing.run("Pod", text.replace("all.size() * 1s", "all.size() == 1 ? 1s : 9s"), pod)
        assert (outcome.how, outcome.delay_ms) == ("after", 1000), outcome

    run(test)
