"""What the API promises, request by request: codes, reasons and the texts that clients match."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest
from tests.api.serving import DEPLOYMENT, POD, Object, Serving, run

CM = "/api/v1/namespaces/n/configmaps"
PODS = "/api/v1/namespaces/n/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/n/deployments"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def named(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name}, **more}


REFUSALS: list[tuple[str, str, Any, dict[str, Any], int, str, str]] = [
    ("GET", f"{CM}/x", None, {}, 404, "NotFound", r'^configmaps "x" not found$'),
    ("GET", f"{DEPLOYMENTS}/x", None, {}, 404, "NotFound", r'^deployments\.apps "x" not found$'),
    ("PUT", f"{CM}/x", named("x"), {}, 404, "NotFound", r'configmaps "x" not found'),
    ("POST", CM, named("there"), {}, 409, "AlreadyExists", r'^configmaps "there" already exists$'),
    (
        "POST",
        CM,
        {"metadata": {}},
        {},
        422,
        "Invalid",
        r"metadata.name: Required value: name or generateName is required",
    ),
    (
        "POST",
        CM,
        named("Bad_Name"),
        {},
        422,
        "Invalid",
        r'^ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value',
    ),
    (
        "PUT",
        f"{CM}/there",
        named("b"),
        {},
        400,
        "BadRequest",
        r"the name of the object \(b\) does not match the name on the URL",
    ),
    (
        "POST",
        CM,
        {"metadata": {"name": "x", "namespace": "m"}},
        {},
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    ("POST", CM, {"kind": "Pod", "apiVersion": "v1"}, {}, 400, "BadRequest", r"cannot be handled as a ConfigMap"),
    ("POST", CM, {"apiVersion": "v2"}, {}, 400, "BadRequest", r"does not match the expected API version"),
    ("POST", CM, b"{", {}, 400, "BadRequest", ""),
    ("POST", CM, b"[]", {}, 400, "BadRequest", ""),
    ("POST", CM, b"", {}, 400, "BadRequest", ""),
    ("POST", CM, b"a,b", {"media": "text/csv"}, 415, "UnsupportedMediaType", ""),
    ("GET", CM, None, {"accept": "text/csv"}, 406, "NotAcceptable", ""),
    ("PATCH", CM, b"{}", {"media": MERGE}, 405, "MethodNotAllowed", ""),
    ("POST", f"{CM}/there", named("there"), {}, 405, "MethodNotAllowed", ""),
    ("GET", f"{CM}?fieldSelector=spec.zzz=1", None, {}, 400, "BadRequest", "spec.zzz"),
    ("GET", f"{CM}?labelSelector=a b", None, {}, 400, "BadRequest", ""),
    ("GET", f"{CM}?continue=nonsense&limit=1", None, {}, 400, "BadRequest", "continue key is not valid"),
    ("GET", f"{CM}?resourceVersion=nonsense", None, {}, 400, "BadRequest", "nvalid"),
    ("GET", f"{CM}?resourceVersionMatch=Exact", None, {}, 422, "Invalid", "resourceVersionMatch is forbidden unless"),
    ("GET", f"{CM}?resourceVersionMatch=Exact&resourceVersion=0", None, {}, 422, "Invalid", "resourceVersionMatch"),
    ("GET", f"{CM}?watch=1&sendInitialEvents=true", None, {}, 422, "Invalid", "resourceVersionMatch"),
    ("POST", f"{CM}?dryRun=Some", named("x"), {}, 422, "Invalid", "dryRun"),
    ("POST", f"{CM}?fieldValidation=Some", named("x"), {}, 422, "Invalid", "fieldValidation"),
    (
        "POST",
        "/api/v1/namespaces/nowhere/configmaps",
        named("x"),
        {},
        404,
        "NotFound",
        r'^namespaces "nowhere" not found$',
    ),
    ("GET", "/api/v1/nosuchthings", None, {}, 404, "NotFound", "the server could not find the requested resource"),
    (
        "GET",
        "/apis/nosuch.example/v1/things",
        None,
        {},
        404,
        "NotFound",
        "the server could not find the requested resource",
    ),
    ("GET", "/nosuchpath", None, {}, 404, "NotFound", "the server could not find the requested resource"),
    ("GET", f"{DEPLOYMENTS}/d/nosuchside", None, {}, 404, "NotFound", ""),
    (
        "PATCH",
        f"{CM}/there",
        [{"op": "test", "path": "/data/a", "value": "z"}],
        {"media": JSON_PATCH},
        422,
        "Invalid",
        "",
    ),
    (
        "PATCH",
        f"{CM}/there",
        {"metadata": {"resourceVersion": "1"}},
        {"media": MERGE},
        409,
        "Conflict",
        "has been modified",
    ),
    ("PATCH", f"{CM}/there", {"metadata": {"uid": "u"}}, {"media": MERGE}, 409, "Conflict", "Precondition failed: UID"),
    ("PATCH", f"{CM}/there", named("there"), {"media": APPLY}, 422, "Invalid", "fieldManager: Required value"),
    ("PATCH", f"{CM}/there?force=true", {"data": {}}, {"media": MERGE}, 422, "Invalid", "force: Forbidden"),
    (
        "DELETE",
        f"{CM}/there",
        {"preconditions": {"uid": "u"}},
        {},
        409,
        "Conflict",
        "Precondition failed: UID in precondition: u, UID in object meta: ",
    ),
    ("DELETE", f"{CM}/there", {"propagationPolicy": "Sideways"}, {}, 422, "Invalid", "propagationPolicy"),
    (
        "POST",
        f"{CM}",
        {"metadata": {"name": "x", "resourceVersion": "5"}},
        {},
        400,
        "BadRequest",
        "resourceVersion should not",
    ),
    (
        "PUT",
        f"{DEPLOYMENTS}/d/scale",
        {"spec": {"replicas": -1}},
        {},
        422,
        "Invalid",
        "must be greater than or equal to 0",
    ),
    (
        "POST",
        f"{PODS}",
        {"metadata": {"name": "x"}, "spec": {**POD, "serviceAccountName": "nobody"}},
        {},
        403,
        "Forbidden",
        r'error looking up service account n/nobody: serviceaccount "nobody" not found',
    ),
]


@pytest.fixture(scope="module")
def refusals() -> list[tuple[int, Object]]:
    """The answers to all requests that are refused, from one server."""
    found: list[tuple[int, Object]] = []

    async def test(at: Serving) -> None:
        await at.done("POST", CM, named("there", data={"a": "1"}))
        await at.done("POST", DEPLOYMENTS, named("d", spec=DEPLOYMENT))
        for method, path, body, options, *_ in REFUSALS:
            found.append(await at.told(method, path.replace(" ", "%20"), body, **options))

    run(test)
    return found


@pytest.mark.parametrize("index", range(len(REFUSALS)), ids=[f"{row[0]} {row[1]} {row[5]}" for row in REFUSALS])
def test_refusals_are_told_in_kubernetes_words(refusals: list[tuple[int, Object]], index: int) -> None:
    code, status = refusals[index]
    *_, wanted, reason, message = REFUSALS[index]
    assert (code, status["code"], status["reason"]) == (wanted, wanted, reason), status
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert re.search(message, status["message"]), status["message"]


def test_what_changes_nothing_keeps_its_version() -> None:
    async def test(at: Serving) -> None:
        made = await at.done("POST", CM, named("a", data={"x": "1"}))
        version = made["metadata"]["resourceVersion"]
        same = [
            ("PUT", made, {}),
            ("PUT", named("a", data={"x": "1"}), {}),
            ("PATCH", {"data": {"x": "1"}}, {"media": MERGE}),
            ("PATCH", {"data": {"x": "1"}}, {"media": STRATEGIC}),
            ("PATCH", [{"op": "replace", "path": "/data/x", "value": "1"}], {"media": JSON_PATCH}),
        ]
        for method, body, options in same:
            after = await at.done(method, f"{CM}/a", body, **options)
            assert after["metadata"]["resourceVersion"] == version, (method, options)

    run(test)


def test_status_and_spec_have_each_their_endpoint() -> None:
    async def test(at: Serving) -> None:
        made = await at.done("POST", DEPLOYMENTS, named("d", spec=DEPLOYMENT, status={"replicas": 9}))
        assert "replicas" not in made["status"] and made["metadata"]["generation"] == 1
        through = {"spec": {"replicas": 7}, "status": {"replicas": 3}}
        status = await at.done("PATCH", f"{DEPLOYMENTS}/d/status", through, media=MERGE)
        assert (status["spec"]["replicas"], status["status"]["replicas"]) == (2, 3)
        assert status["metadata"]["generation"] == 1
        main = await at.done("PATCH", f"{DEPLOYMENTS}/d", through | {"status": {"replicas": 8}}, media=MERGE)
        assert (main["spec"]["replicas"], main["status"]["replicas"]) == (7, 3)
        assert main["metadata"]["generation"] == 2
        labelled = await at.done("PATCH", f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"a": "b"}}}, media=MERGE)
        assert labelled["metadata"]["generation"] == 2
        owners = {(row["manager"], row.get("subresource", "")) for row in labelled["metadata"]["managedFields"]}
        assert owners == {("tester", ""), ("tester", "status")}

    run(test)


def test_finalizers_hold_an_object_and_the_last_one_ends_it() -> None:
    async def test(at: Serving) -> None:
        await at.done("POST", CM, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
        going = await at.done("DELETE", f"{CM}/a")
        assert going["kind"] == "ConfigMap" and going["metadata"]["deletionTimestamp"]
        again = await at.done("DELETE", f"{CM}/a")
        assert again["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
        add = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/g"}]
        code, status = await at.told("PATCH", f"{CM}/a", add, media=JSON_PATCH)
        assert code == 422 and "no new finalizers can be added if the object is being deleted" in status["message"]
        gone = await at.done("PATCH", f"{CM}/a", {"metadata": {"finalizers": None}}, media=MERGE)
        assert gone["metadata"]["name"] == "a"
        assert (await at.told("GET", f"{CM}/a"))[0] == 404

    run(test)


def test_delete_tells_what_is_gone() -> None:
    async def test(at: Serving) -> None:
        made = await at.done("POST", CM, named("a"))
        status = await at.done("DELETE", f"{CM}/a")
        details = {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
        assert (status["status"], status["details"]) == ("Success", details)
        for policy, finalizer in (("Orphan", "orphan"), ("Foreground", "foregroundDeletion")):
            await at.done("POST", CM, named("b"))
            held = await at.done("DELETE", f"{CM}/b?propagationPolicy={policy}")
            assert held["metadata"]["finalizers"] == [finalizer]
            await at.done("PATCH", f"{CM}/b", {"metadata": {"finalizers": None}}, media=MERGE)

    run(test)


def test_a_pod_gets_its_grace_where_a_kubelet_runs_it() -> None:
    async def test(at: Serving) -> None:
        await at.done("POST", PODS, named("free", spec=POD))
        assert (await at.done("DELETE", f"{PODS}/free"))["status"] == "Success"
        await at.done("POST", PODS, named("bound", spec=POD))
        await at.done("POST", f"{PODS}/bound/binding", {"target": {"kind": "Node", "name": "node-a"}})
        code, status = await at.told("POST", f"{PODS}/bound/binding", {"target": {"name": "node-b"}})
        assert (code, status["reason"]) == (409, "Conflict")
        assert 'pod bound is already assigned to node "node-a"' in status["message"]
        going = await at.done("DELETE", f"{PODS}/bound")
        assert going["metadata"]["deletionGracePeriodSeconds"] == 30
        sooner = await at.done("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 5})
        assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
        later = await at.done("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 60})
        assert later["metadata"]["deletionGracePeriodSeconds"] == 5
        assert (await at.done("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 0}))["status"] == "Success"

    run(test)


def test_dry_run_leaves_no_trace() -> None:
    async def test(at: Serving) -> None:
        before = (await at.done("GET", CM))["metadata"]["resourceVersion"]
        made = await at.done("POST", f"{CM}?dryRun=All", named("a", data={"x": "1"}))
        assert made["metadata"]["uid"] and "resourceVersion" not in made["metadata"]
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
        await at.done("POST", "/api/v1/namespaces/n/services?dryRun=All", service)
        assert (await at.told("GET", f"{CM}/a"))[0] == 404
        await at.done("POST", CM, named("b"))
        changed = await at.done("PATCH", f"{CM}/b?dryRun=All", {"data": {"y": "2"}}, media=MERGE)
        assert changed["data"] == {"y": "2"}
        await at.done("DELETE", f"{CM}/b?dryRun=All")
        found = await at.done("GET", f"{CM}/b")
        assert "data" not in found
        assert int(found["metadata"]["resourceVersion"]) == int(before) + 1

    run(test)


def test_a_patch_without_a_version_is_repeated_on_a_lost_race() -> None:
    """One with a version is refused; the server does not decide for a client that said what it had seen."""

    async def test(at: Serving) -> None:
        made = await at.done("POST", CM, named("a", data={}))
        storage = at.server.storages("", "configmaps")
        lost = 0
        update = storage.update

        async def raced(*args: Any, **options: Any) -> Any:
            nonlocal lost
            if lost < 3:
                lost += 1
                other = msgspec.json.decode((await storage.get("n", "a")).raw)
                other["data"] = {**other.get("data", {}), f"other{lost}": "1"}
                await update("n", "a", other, expect=int(other["metadata"]["resourceVersion"]))
            return await update(*args, **options)

        storage.update = raced  # type: ignore[method-assign]
        merged = await at.done("PATCH", f"{CM}/a", {"data": {"mine": "1"}}, media=MERGE)
        assert set(merged["data"]) == {"other1", "other2", "other3", "mine"}
        lost = 2
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"ssa": "1"}}
        assert "ssa" in (await at.done("PATCH", f"{CM}/a?fieldManager=m", applied, media=APPLY))["data"]
        versioned = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"late": "1"}}
        assert (await at.told("PATCH", f"{CM}/a", versioned, media=MERGE))[0] == 409

    run(test)


def test_generated_names_are_tried_again() -> None:
    async def test(at: Serving) -> None:
        body = {"metadata": {"generateName": "gen-"}}
        names = {(await at.done("POST", CM, body))["metadata"]["name"] for _ in range(50)}
        assert len(names) == 50
        assert all(re.fullmatch(r"gen-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)

    run(test)


def test_an_eviction_asks_the_budget() -> None:
    async def test(at: Serving) -> None:
        await at.done("POST", PODS, {"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": POD})
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await at.done("PATCH", f"{PODS}/p/status", {"status": ready}, media=MERGE)
        budgets = "/apis/policy/v1/namespaces/n/poddisruptionbudgets"
        spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
        await at.done("POST", budgets, named("b", spec=spec))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "n"}}
        code, status = await at.told("POST", f"{PODS}/p/eviction", eviction)
        assert (code, status["reason"]) == (429, "TooManyRequests")
        state = {"observedGeneration": 1, "desiredHealthy": 1, "currentHealthy": 1, "expectedPods": 1}
        blocked = {"status": {**state, "disruptionsAllowed": 0}}
        await at.done("PATCH", f"{budgets}/b/status", blocked, media=MERGE)
        code, status = await at.told("POST", f"{PODS}/p/eviction", eviction)
        assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
        assert status["details"]["causes"][0]["message"] == (
            "The disruption budget b needs 1 healthy pods and has 1 currently"
        )
        await at.done("PATCH", f"{budgets}/b/status", {"status": {**state, "disruptionsAllowed": 1}}, media=MERGE)
        assert (await at.told("POST", f"{PODS}/p/eviction", eviction))[0] == 201
        after = await at.done("GET", f"{budgets}/b")
        assert after["status"]["disruptionsAllowed"] == 0 and list(after["status"]["disruptedPods"]) == ["p"]
        assert (await at.told("GET", f"{PODS}/p"))[0] == 404

    run(test)


def test_everybody_who_names_no_version_gets_through() -> None:
    """Sixteen writers of one object: nobody is refused, nothing is lost (upstream repeats without bound)."""

    async def test(at: Serving) -> None:
        await at.done("POST", CM, named("a"))

        async def write(index: int) -> None:
            for turn in range(4):
                await at.done("PATCH", f"{CM}/a", {"data": {f"k{index}-{turn}": "1"}}, media=MERGE)

        await asyncio.gather(*map(write, range(16)))
        assert len((await at.done("GET", f"{CM}/a"))["data"]) == 64

        async def apply(index: int) -> None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {f"k{index}": "1"}}
            await at.done("PATCH", f"{CM}/new?fieldManager=m{index}", body, media=APPLY)

        await asyncio.gather(*map(apply, range(16)))
        assert len((await at.done("GET", f"{CM}/new"))["data"]) == 16

    run(test)


def test_a_definition_may_move_its_storage_version() -> None:
    async def test(at: Serving) -> None:
        schema = {"openAPIV3Schema": {"type": "object"}}

        def versions(stored: str) -> list[Object]:
            return [{"name": v, "served": True, "storage": v == stored, "schema": schema} for v in ("v1", "v2")]

        names = {"plural": "gauges", "singular": "gauge", "kind": "Gauge"}
        spec = {"group": "x.example", "scope": "Namespaced", "names": names, "versions": versions("v1")}
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await at.done("POST", crds, named("gauges.x.example", spec=spec))
        await at.done("POST", "/apis/x.example/v1/namespaces/n/gauges", named("g"))
        await at.done("PATCH", f"{crds}/gauges.x.example", {"spec": {"versions": versions("v2")}}, media=MERGE)
        moved = await at.done("GET", f"{crds}/gauges.x.example")
        assert moved["status"]["storedVersions"] == ["v1", "v2"]
        for version in ("v1", "v2"):
            found = await at.done("GET", f"/apis/x.example/{version}/namespaces/n/gauges/g")
            assert found["apiVersion"] == f"x.example/{version}"

    run(test)


def test_a_watch_has_no_head() -> None:
    async def test(at: Serving) -> None:
        assert (await at.ask("HEAD", f"{CM}?watch=1")).code == 405

    run(test)


@pytest.mark.parametrize("mode", ["", "&fieldValidation=Strict", "&fieldValidation=Ignore"])
def test_nobody_can_apply_a_field_that_is_not_declared(mode: str) -> None:
    async def test(at: Serving) -> None:
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {**DEPLOYMENT, "x": 1},
        }
        code, status = await at.told("PATCH", f"{DEPLOYMENTS}/d?fieldManager=m{mode}", body, media=APPLY)
        assert code == 400
        assert status["message"] == (
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.x: field not declared in schema"
        )
        assert (await at.told("GET", f"{DEPLOYMENTS}/d"))[0] == 404

    run(test)
