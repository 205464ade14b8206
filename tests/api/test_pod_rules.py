"""Validation of pods and pod templates: what is refused, in Kubernetes' words, beside what is not.

pod_rule_cases.json holds changes to the valid pod of rule_cases.json. `refused` and `accepted` hold for pods and, below
`spec.template.spec`, for templates alike; a refused row has all that is told. Source of the texts:
pkg/apis/core/validation/validation.go, release 1.34.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.rule_kit import amended, causes, changed
from tests.api.serving import Serving, run

Object = dict[str, Any]
TABLE = msgspec.json.decode(Path(__file__).with_name("pod_rule_cases.json").read_bytes())
C = "spec.containers[0]"
TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def told(kind: str, changes: Object, old: Object | None = None, subresource: str = "") -> list[str]:
    """All that is told of a valid object with some changes; with `old`, of the update of another."""
    before = None if old is None else changed(kind, old)
    return [str(cause) for cause in causes(kind, changed(kind, changes), before, subresource)]


def in_template(changes: Object) -> Object:
    return {f"spec.template.{path}": value for path, value in changes.items()}


def name(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:120]


@pytest.mark.parametrize(("changes", "texts"), TABLE["refused"], ids=name)
def test_what_is_refused_of_pods_and_templates(changes: Object, texts: list[str]) -> None:
    assert texts
    assert told("pods", changes) == texts
    below = [text.replace("spec.template.spec", "spec", 1) for text in told("apps/deployments", in_template(changes))]
    assert below == texts


@pytest.mark.parametrize(("changes", "texts"), TABLE["refused of pods"], ids=name)
def test_what_is_refused_of_pods(changes: Object, texts: list[str]) -> None:
    assert texts
    assert told("pods", changes) == texts


@pytest.mark.parametrize("changes", TABLE["accepted"], ids=name)
def test_what_stands_beside_a_rule_is_accepted(changes: Object) -> None:
    assert told("pods", changes) == []
    assert told("apps/deployments", in_template(changes)) == []


@pytest.mark.parametrize("changes", TABLE["accepted of templates"], ids=name)
def test_what_only_templates_may_say(changes: Object) -> None:
    assert told("apps/deployments", in_template(changes)) == []


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"spec.template.metadata.labels": {"a": "b", "x": "c d"}}, ["spec.template.labels: Invalid value: "]),
        ({"spec.template.metadata.annotations": {"a b": ""}}, ["spec.template.annotations: Invalid value: "]),
        ({"spec.template.metadata.annotations": {"a": "b c"}}, []),
        (
            {"spec.template.spec.ephemeralContainers": [{"name": "e", "image": "x"}]},
            ["spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
        ),
    ],
    ids=name,
)
def test_templates_are_told_without_their_metadata(changes: Object, texts: list[str]) -> None:
    found = told("apps/deployments", changes)
    assert len(found) == len(texts)
    assert all(text.startswith(start) for text, start in zip(found, texts, strict=True)), found


def test_search_lists_have_their_limits() -> None:
    many = {"spec.dnsConfig": {"searches": ["a"] * 33}}
    assert "must not have more than 32 search paths" in told("pods", many)[0]
    assert told("pods", {"spec.dnsConfig": {"searches": ["a"] * 32}}) == []
    long = {"spec.dnsConfig": {"searches": ["a" * 63 + "." + "b" * 63 + "." + "c" * 63] * 11}}
    assert "must not have more than 2048 characters (including spaces)" in told("pods", long)[0]


def test_a_claim_of_a_volume_has_a_name_that_fits() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
    changes = {
        "metadata.name": "x" * 250,
        "spec.volumes[0]": {"name": "volume", "ephemeral": {"volumeClaimTemplate": template}},
        f"{C}.volumeMounts[0].name": "volume",
    }
    assert "spec.volumes[0].name: Invalid value" in told("pods", changes)[0]
    assert told("pods", {**changes, "metadata.name": "short"}) == []


GATED = {"spec.schedulingGates": [{"name": "a"}, {"name": "b"}], "spec.nodeSelector": {"disk": "ssd"}}
TWO = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
MORE = [{"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}]
FEWER = "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        (GATED, {**GATED, "spec.schedulingGates": [{"name": "b"}]}, ""),
        (GATED, {**GATED, "spec.schedulingGates": []}, ""),
        (GATED, {**GATED, "spec.schedulingGates": [{"name": "a"}, {"name": "c"}]}, FEWER),
        ({}, {"spec.schedulingGates": [{"name": "a"}]}, "spec.schedulingGates[0].name: Forbidden: only deletion"),
        (GATED, {**GATED, "spec.nodeSelector": {"disk": "ssd", "a": "b"}}, ""),
        (
            GATED,
            {**GATED, "spec.nodeSelector": {"a": "b"}},
            'spec.nodeSelector: Invalid value: {"a":"b"}: only additions',
        ),
        ({**GATED, TERMS: TWO}, {**GATED, TERMS: MORE}, ""),
        ({**GATED, TERMS: MORE}, {**GATED, TERMS: TWO}, f"{TERMS}[0]: Invalid value: "),
        ({**GATED, TERMS: TWO}, {**GATED, TERMS: [*TWO, *TWO]}, f"{TERMS}: Invalid value: "),
        (GATED, {**GATED, "spec.affinity.podAffinity": None}, "spec: Forbidden: pod updates may not change fields"),
        ({}, {"spec.nodeSelector": {"disk": "ssd", "a": "b"}}, "spec: Forbidden: pod updates may not change fields"),
        ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": 4}, ""),
        (
            {"spec.activeDeadlineSeconds": 5},
            {"spec.activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds: Invalid value: 6",
        ),
        ({"spec.activeDeadlineSeconds": 5}, {}, "spec.activeDeadlineSeconds: Invalid value: null: must not update"),
        ({"spec.terminationGracePeriodSeconds": -1}, {"spec.terminationGracePeriodSeconds": 1}, ""),
        ({"spec.terminationGracePeriodSeconds": 30}, {"spec.terminationGracePeriodSeconds": 1}, "spec: Forbidden"),
        ({}, {f"{C}.resources.requests.cpu": "200m"}, "spec: Forbidden: pod updates may not change fields"),
        ({}, {f"{C}.image": ""}, f"{C}.image: Required value"),
        ({}, {f"{C}.image": " y"}, f'{C}.image: Invalid value: " y": must not have leading or trailing whitespace'),
        (
            {},
            {"spec.initContainers": []},
            "spec.initContainers: Forbidden: pod updates may not add or remove containers",
        ),
        (
            {},
            {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}},
            "metadata.annotations[kubernetes.io/config",
        ),
    ],
    ids=name,
)
def test_what_an_update_may_change(old: Object, new: Object, start: str) -> None:
    found = told("pods", new, old)
    assert found == [] if not start else found and found[0].startswith(start), found


SIDE = {"spec.initContainers[0].restartPolicy": "Always"}
R = f"{C}.resources"
I_CPU = "spec.initContainers[0].resources"


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        ({}, {f"{R}.requests.cpu": "200m", f"{R}.limits.memory": "512Mi"}, ""),
        ({}, {f"{R}.limits": {"cpu": "1"}}, f"{R}.limits: Forbidden: resource limits cannot be removed"),
        (
            {},
            {f"{R}.limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}},
            "spec: Forbidden: only cpu and memory",
        ),
        ({}, {f"{C}.image": "y"}, "spec: Forbidden: only cpu and memory resources are mutable"),
        ({}, {"spec.nodeSelector": {}}, "spec: Forbidden: only cpu and memory resources are mutable"),
        (
            {},
            {I_CPU: {"requests": {"cpu": "1"}}},
            "spec: Forbidden: resources for non-sidecar init containers are immutable",
        ),
        ({**SIDE, f"{I_CPU}.requests": {"cpu": "1"}}, {**SIDE, f"{I_CPU}.requests": {"cpu": "2"}}, ""),
        (
            SIDE,
            {**SIDE, "spec.initContainers[0].image": "z"},
            "spec: Forbidden: only cpu and memory resources for sidecar",
        ),
        ({}, {f"{R}.requests.cpu": "-1"}, f'{R}.requests[cpu]: Invalid value: "-1"'),
        (
            {"spec.os": {"name": "windows"}},
            {"spec.os": {"name": "windows"}},
            ": Forbidden: windows pods cannot be resized",
        ),
        (
            {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}},
            {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}},
            ": Forbidden: static pods cannot be resized",
        ),
        (
            {"spec.resources": {"requests": {"cpu": "1"}}},
            {"spec.resources": {"requests": {"cpu": "1"}}, f"{R}.requests.cpu": "200m"},
            ": Forbidden: pods with pod-level resources cannot be resized",
        ),
    ],
    ids=name,
)
def test_what_a_resize_may_change(old: Object, new: Object, start: str) -> None:
    found = told("pods", new, old, "resize")
    assert found == [] if not start else any(text.startswith(start) for text in found), found


E = "spec.ephemeralContainers"
DEBUG = {"name": "e", "image": "x"}


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        ({}, {E: [DEBUG]}, ""),
        ({E: [DEBUG]}, {E: [{"name": "f", "image": "x", "targetContainerName": "c"}, DEBUG]}, ""),
        ({}, {E: [{**DEBUG, "targetContainerName": "z"}]}, f'{E}[0].targetContainerName: Not found: "z"'),
        ({E: [DEBUG]}, {}, f'{E}: Forbidden: existing ephemeral containers "e" may not be removed'),
        (
            {E: [DEBUG]},
            {E: [{**DEBUG, "image": "y"}]},
            f'{E}: Forbidden: existing ephemeral containers "e" may not be changed',
        ),
        ({}, {E: [{**DEBUG, "name": "c"}]}, f'{E}[0].name: Duplicate value: "c"'),
        ({}, {E: [DEBUG, DEBUG]}, f'{E}[1].name: Duplicate value: "e"'),
        ({}, {E: [{"name": "e"}]}, f"{E}[0].image: Required value"),
        ({}, {E: [{**DEBUG, "image": " x"}]}, f'{E}[0].image: Invalid value: " x"'),
        (
            {},
            {E: [{**DEBUG, "restartPolicy": "Always"}]},
            f"{E}[0].restartPolicy: Forbidden: cannot be set for an Ephemeral",
        ),
        ({}, {E: [{**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}, ""),
        (
            {},
            {E: [{**DEBUG, "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]}]},
            f"{E}[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container",
        ),
        (
            {},
            {E: [{**DEBUG, "volumeMounts": [{"name": "z", "mountPath": "/v"}]}]},
            f'{E}[0].volumeMounts[0].name: Not found: "z"',
        ),
        (
            {},
            {E: [{**DEBUG, "securityContext": {"procMount": "x"}}]},
            f"{E}[0].securityContext.procMount: Unsupported value",
        ),
        (
            {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}},
            {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}, E: [DEBUG]},
            ": Forbidden: static pods do not support ephemeral containers",
        ),
    ],
    ids=name,
)
def test_ephemeral_containers_are_only_added(old: Object, new: Object, start: str) -> None:
    found = told("pods", new, old, "ephemeralcontainers")
    assert found == [] if not start else any(text.startswith(start) for text in found), found


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({f"{C}.ports[0].containerPort": 0}, [f"{C}.ports[0].containerPort: Required value"]),
        (
            {f"{C}.securityContext.seccompProfile": {}},
            [f"{C}.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set"],
        ),
        (
            {"spec.volumes[5].projected.sources[0].serviceAccountToken.path": ""},
            ["spec.volumes[5].projected.path: Required value"],
        ),
        ({f"{C}.resizePolicy": [{"resourceName": "cpu"}]}, [f"{C}.resizePolicy: Required value"]),
        ({f"{C}.volumeMounts[0].mountPropagation": "x"}, [f"{C}.volumeMounts.mountPropagation: Unsupported value"]),
        ({f"{C}.terminationMessagePolicy": "x"}, ['supported values: "File", "FallbackToLogsOnError"']),
        ({"spec.os": {"name": ""}}, ["spec.os.name: Required value: cannot be empty"]),
    ],
    ids=name,
)
def test_a_server_tells_each_fault_once(changes: Object, texts: list[str]) -> None:
    """What the schema asks for too is told where and as the rule tells it."""

    async def test(serving: Serving) -> None:
        code, answer = await serving.told("POST", "/api/v1/namespaces/n/pods", changed("pods", changes))
        assert code == 422
        found = [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]
        assert len(found) == len(texts), found
        assert all(text in told for text, told in zip(texts, found, strict=True)), found

    run(test)


def test_subresources_of_a_pod_are_checked_as_the_pod_is() -> None:
    async def test(serving: Serving) -> None:
        path = "/api/v1/namespaces/n/pods"
        await serving.done("POST", path, changed("pods", {}))
        for side, body, text in (
            ("ephemeralcontainers", {E: [{**DEBUG, "name": "A"}]}, f'{E}[0].name: Invalid value: "A"'),
            (
                "resize",
                {f"{R}.requests.cpu": "2"},
                f'{R}.requests: Invalid value: "2": must be less than or equal to cpu',
            ),
        ):
            pod = await serving.done("GET", f"{path}/x")
            for at, value in body.items():
                pod = amended(pod, at, value)
            code, answer = await serving.told("PUT", f"{path}/x/{side}", pod)
            assert code == 422
            assert text in answer["message"]

    run(test)
