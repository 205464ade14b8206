"""Objects against schemas: what is cleaned, what is refused in Go's words, what a strict decoder finds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.objects.samples import sample

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.schema import Shape, compiler, shape
from dashpot.model.objects.status import StatusError

Object = dict[str, Any]


def of(kind: str, group: str = "", version: str = "v1") -> Shape:
    return shape(group, version, kind, builtin())


def pod(**spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def decoded(kind: str, obj: Object, group: str = "", version: str = "v1") -> Object:
    assert of(kind, group, version).decode(obj) == []
    return obj


def refused(kind: str, obj: Object, group: str = "") -> str:
    with pytest.raises(StatusError) as error:
        of(kind, group).decode(obj)
    assert error.value.code == 400 and error.value.reason == "BadRequest"
    prefix = f'{kind} in version "v1" cannot be handled as a {kind}: '
    assert error.value.message.startswith(prefix)
    return error.value.message.removeprefix(prefix)


def go(word: str, at: str, want: str) -> str:
    return f"json: cannot unmarshal {word} into Go struct field {at} of type {want}"


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": [{"ports": [{"containerPort": "x"}]}]},
         go("string", "ContainerPort.spec.containers.ports.containerPort", "int32")),
        ({"containers": [{"ports": [{"containerPort": 2**31}]}]},
         go("number 2147483648", "ContainerPort.spec.containers.ports.containerPort", "int32")),
        ({"containers": [{"ports": [{"containerPort": 1.5}]}]},
         go("number 1.5", "ContainerPort.spec.containers.ports.containerPort", "int32")),
        ({"terminationGracePeriodSeconds": 2**63},
         go("number 9223372036854775808", "PodSpec.spec.terminationGracePeriodSeconds", "int64")),
        ({"hostNetwork": "yes"}, go("string", "PodSpec.spec.hostNetwork", "bool")),
        ({"hostNetwork": 1}, go("number", "PodSpec.spec.hostNetwork", "bool")),
        ({"priority": True}, go("bool", "PodSpec.spec.priority", "int32")),
        ({"nodeName": []}, go("array", "PodSpec.spec.nodeName", "string")),
        ({"containers": {}}, go("object", "PodSpec.spec.containers", "[]v1.Container")),
        ({"containers": ["x"]}, go("string", "PodSpec.spec.containers", "v1.Container")),
        ({"containers": [{"command": "x"}]}, go("string", "Container.spec.containers.command", "[]string")),
        ({"containers": [{"command": [1]}]}, go("number", "Container.spec.containers.command", "string")),
        ({"containers": [{"env": [{"value": 1}]}]}, go("number", "EnvVar.spec.containers.env.value", "string")),
        ({"nodeSelector": {"a": 1}}, go("number", "PodSpec.spec.nodeSelector", "string")),
        ({"nodeSelector": "x"}, go("string", "PodSpec.spec.nodeSelector", "map[string]string")),
        ({"securityContext": "x"}, go("string", "PodSpec.spec.securityContext", "v1.PodSecurityContext")),
        ({"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]},
         "json: cannot unmarshal number 1.5 into Go value of type int32"),
        ({"containers": [{"resources": {"limits": {"cpu": "x"}}}]},
         "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ({"containers": [{"resources": {"limits": {"cpu": "1ki"}}}]}, "unable to parse quantity's suffix"),
    ],
)  # fmt: skip
def test_wrong_types_are_told_as_go_tells_them(spec: Object, wanted: str) -> None:
    assert refused("Pod", {"spec": spec}) == wanted


def test_wrong_types_at_the_root_and_in_metadata() -> None:
    assert refused("Pod", {"spec": "x"}) == go("string", "Pod.spec", "v1.PodSpec")
    assert refused("ConfigMap", {"data": {"a": 1}}) == go("number", "ConfigMap.data", "string")
    assert refused("Pod", {"metadata": {"labels": {"a": {}}}}) == go("object", "ObjectMeta.metadata.labels", "string")


@pytest.mark.parametrize(
    ("time", "wanted"),
    [
        ("yesterday", 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'),
        ("2026-1-01", 'parsing time "2026-1-01" as "2006-01-02T15:04:05Z07:00": cannot parse "1-01" as "01"'),
        ("2026-01-01", 'parsing time "2026-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2026-01-01T00:00:00Zx", 'parsing time "2026-01-01T00:00:00Zx": extra text: "x"'),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("0001-01-01T00:00:00+14:00", 'parsing time "0001-01-01T00:00:00+14:00": day out of range'),
        (5, "json: cannot unmarshal number into Go value of type string"),
    ],
)
def test_bad_times(time: Any, wanted: str) -> None:
    assert refused("Pod", {"metadata": {"creationTimestamp": time}}) == wanted


@pytest.mark.parametrize(
    ("time", "wanted"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-02-28T23:59:59.999Z", "2026-02-28T23:59:59Z"),
        ("2024-02-29T00:30:00+01:00", "2024-02-28T23:30:00Z"),
        ("2026-12-31T23:00:00-02:00", "2027-01-01T01:00:00Z"),
    ],
)
def test_times_are_stored_in_utc_to_the_second(time: str, wanted: str) -> None:
    assert decoded("Pod", {"metadata": {"creationTimestamp": time}})["metadata"]["creationTimestamp"] == wanted


def test_micro_times_keep_six_digits() -> None:
    for given_time, wanted in (("2026-01-01T00:00:00.1Z", ".100000Z"), ("2026-01-01T00:00:00.123456Z", ".123456Z")):
        obj = decoded("Lease", {"spec": {"renewTime": given_time}}, "coordination.k8s.io")
        assert obj["spec"]["renewTime"] == f"2026-01-01T00:00:00{wanted}"
    obj = decoded("Lease", {"spec": {"renewTime": "2026-01-01T01:00:00+01:00"}}, "coordination.k8s.io")
    assert obj["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""), ("YQ==", "YQ=="), ("YWJj\n", "YWJj"), ("YWJjZA", 4), ("YQ=", 3), ("YQ=a", 2), ("YWJjZA=", 7),
        ("=", 0),
        ("Y\nQ=\n=", "YQ=="), ("!a", 0), ("YQ==x", 4), ("Y Q=", 1),
    ],
)  # fmt: skip
def test_bytes_are_base64(text: str, wanted: str | int) -> None:
    secret = {"data": {"a": text}}
    if isinstance(wanted, str):
        assert decoded("Secret", secret)["data"]["a"] == wanted
    else:
        assert refused("Secret", secret) == f"illegal base64 data at input byte {wanted}"


def test_unknown_fields_are_told_with_their_paths_and_dropped() -> None:
    obj = pod(y=1, volumes=[{"name": "v", "emptyDir": {"z": {"deep": 1}}}])
    obj["spec"]["containers"][0]["image "] = "x"
    obj["metadata"]["lables"] = {}
    obj["extra"] = [1]
    problems = of("Pod").decode(obj)
    assert problems == [
        'unknown field "metadata.lables"',
        'unknown field "spec.containers[0].image "',
        'unknown field "spec.y"',
        'unknown field "spec.volumes[0].emptyDir.z"',
        'unknown field "extra"',
    ]
    assert obj == pod(volumes=[{"name": "v", "emptyDir": {}}])
    assert of("Pod").strict(problems[:2]).message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "metadata.lables", '
        'unknown field "spec.containers[0].image "'
    )


def test_what_go_leaves_out_is_dropped() -> None:
    obj = pod(
        hostNetwork=False, nodeName="", nodeSelector={}, tolerations=[], volumes=None,
        automountServiceAccountToken=False,
        securityContext={}, terminationGracePeriodSeconds=0,
    )  # fmt: skip
    obj["metadata"] |= {"creationTimestamp": None, "labels": {}, "generateName": ""}
    wanted = pod(automountServiceAccountToken=False, securityContext={}, terminationGracePeriodSeconds=0)
    assert decoded("Pod", obj) == wanted


@pytest.mark.parametrize(
    ("group", "kind", "obj"),
    [
        ("apps", "Deployment", {"spec": {"replicas": 0}}),
        ("", "PersistentVolumeClaim", {"spec": {"storageClassName": ""}}),
        ("", "Pod", {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/", "type": ""}}]}}),
        ("", "Pod", {"spec": {"containers": [{"name": "", "image": "x"}]}}),
        ("", "ConfigMap", {"data": {"empty": ""}}),
        ("rbac.authorization.k8s.io", "ClusterRole", {"rules": [{"apiGroups": [""], "verbs": []}]}),
        ("apps", "StatefulSet", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
        ("discovery.k8s.io", "EndpointSlice", {"endpoints": [], "ports": [{"name": ""}]}),
        ("networking.k8s.io", "NetworkPolicy", {"spec": {"podSelector": {}, "ingress": [{}]}}),
        ("coordination.k8s.io", "Lease", {"spec": {"holderIdentity": ""}}),
    ],
)
def test_what_is_meant_when_empty_is_kept(group: str, kind: str, obj: Object) -> None:
    before = msgspec.json.encode(obj)
    assert msgspec.json.encode(decoded(kind, obj, group)) == before


def test_quantities_become_canonical() -> None:
    resources = {"limits": {"cpu": 0.5, "memory": "1024Mi", "example.com/x": 1000}, "requests": {"cpu": "100u"}}
    obj = decoded("Pod", pod(containers=[{"name": "c", "resources": resources}]))
    assert obj["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi", "example.com/x": "1k"},
        "requests": {"cpu": "1m"},
    }
    obj = decoded("Pod", pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1024Ki"}}]))
    assert obj["spec"]["volumes"][0]["emptyDir"] == {"sizeLimit": "1Mi"}


def test_any_json_stays_as_it_is() -> None:
    wild: Object = {"a": [None, {"b": None}], "c": ""}
    obj = {"data": wild, "revision": 1}
    assert decoded("ControllerRevision", obj, "apps")["data"] == {"a": [None, {"b": None}], "c": ""}
    fields: Object = {"f:spec": {"f:x": {}}}
    obj = {"metadata": {"managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": fields}]}}
    assert decoded("Pod", obj)["metadata"]["managedFields"][0]["fieldsV1"] == fields


def test_recursive_schemas_end_with_a_message() -> None:
    deep: Object = {}
    for _ in range(2000):
        deep = {"properties": {"a": deep}}
    obj = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": deep}}]}}
    assert refused("CustomResourceDefinition", obj, "apiextensions.k8s.io") == "exceeded max depth"


def test_types_without_a_kind_have_shapes_too() -> None:
    meta: Object = {"name": "a", "labels": {}, "x": 1, "deletionGracePeriodSeconds": 0}
    found = compiler(builtin()).named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    assert found.decode(meta) == ['unknown field "x"']
    assert meta == {"name": "a", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("group", "kind", "obj", "wanted"),
    [
        ("", "Pod", pod(), []),
        ("", "Pod", pod(restartPolicy="Sometimes"), [
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'
        ]),
        ("", "Pod", pod(containers=[{"env": [{}], "ports": [{"protocol": "tcp"}]}]), [
            "spec.containers[0].name: Required value",
            "spec.containers[0].env[0].name: Required value",
            'spec.containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"',
        ]),
        ("apps", "Deployment", {"spec": {"template": {"spec": {"dnsPolicy": "x"}}}}, [
            "spec.selector: Required value",
            'spec.template.spec.dnsPolicy: Unsupported value: "x": supported values: "ClusterFirstWithHostNet", '
            '"ClusterFirst", "Default", "None"',
        ]),
        ("storage.k8s.io", "StorageClass", {}, ["provisioner: Required value"]),
        ("", "ConfigMap", {}, []),
    ],
)  # fmt: skip
def test_required_fields_and_closed_lists(group: str, kind: str, obj: Object, wanted: list[str]) -> None:
    assert [str(cause) for cause in of(kind, group).validate(obj)] == wanted


KINDS = sorted({(r.group, r.version, r.kind) for r in builtin().resources})


@given(st.data(), st.sampled_from(KINDS))
def test_no_object_breaks_the_walk_and_a_second_walk_changes_nothing(
    data: st.DataObject, kind: tuple[str, str, str]
) -> None:
    walker = shape(*kind, builtin())
    obj = sample(builtin().type_name(*kind), data.draw)
    try:
        walker.decode(obj)
    except StatusError as error:
        assert error.code == 400
        return
    before = msgspec.json.encode(obj)
    assert walker.decode(obj) == []
    assert msgspec.json.encode(obj) == before
    walker.validate(obj)


def test_every_kind_compiles() -> None:
    for group, version, kind in builtin().kinds():
        assert shape(group, version, kind, builtin()).decode({}) == []
