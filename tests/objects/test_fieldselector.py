"""Field selectors: syntax, what each kind lets one ask for, and upstream's refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import fieldselector
from dashpot.model.objects.fieldselector import custom_fields, parse
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError

Object = dict[str, Any]


def resource(plural: str, group: str = "") -> Resource:
    found = builtin().find(group, "v1", plural)
    assert found is not None
    return found


PODS = resource("pods")
CRONTABS = Resource(
    "x.io", "v1", "CronTab", "crontabs", "crontab", True, storage_group="", storage_version="", custom=True
)
POD: Object = {
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"nodeName": "n1", "restartPolicy": "Always", "schedulerName": "s", "serviceAccountName": "sa"},
    "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]},
}


@pytest.mark.parametrize(
    ("kind", "query", "obj", "wanted"),
    [
        (PODS, "", POD, True),
        (PODS, "metadata.name=a", POD, True),
        (PODS, "metadata.name=a,metadata.namespace=m", POD, False),
        (PODS, "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed", POD, True),
        (PODS, "spec.nodeName==n1", POD, True),
        (PODS, "spec.host=n1", POD, True),
        (PODS, "spec.nodeName=", {}, True),
        (PODS, "spec.nodeName!=", {}, False),
        (PODS, "spec.hostNetwork=false", POD, True),
        (PODS, "status.podIP=10.0.0.1,status.podIPs=10.0.0.1\\,::1", POD, True),
        (PODS, "status.nominatedNodeName=", POD, True),
        (resource("nodes"), "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
        (resource("nodes"), "spec.unschedulable=false", {}, True),
        (resource("namespaces"), "status.phase=Active", {"status": {"phase": "Active"}}, True),
        (resource("secrets"), "type=Opaque", {"type": "Opaque"}, True),
        (resource("services"), "spec.clusterIP=None", {"spec": {"clusterIP": "None"}}, True),
        (resource("events"), "involvedObject.name=a,type!=Normal", {"involvedObject": {"name": "a"}}, True),
        (resource("events"), "source=kubelet", {"source": {"component": "kubelet"}}, True),
        (resource("events"), "source=k", {"reportingComponent": "k"}, True),
        (resource("events", "events.k8s.io"), "regarding.kind=Pod", {"regarding": {"kind": "Pod"}}, True),
        (resource("jobs", "batch"), "status.successful=1", {"status": {"succeeded": 1}}, True),
        (resource("jobs", "batch"), "status.successful=0", {}, True),
        (resource("replicasets", "apps"), "status.replicas=3", {"status": {"replicas": 3}}, True),
        (
            resource("certificatesigningrequests", "certificates.k8s.io"),
            "spec.signerName=x.io/y",
            {"spec": {"signerName": "x.io/y"}},
            True,
        ),
    ],
)
def test_matching(kind: Resource, query: str, obj: Object, wanted: bool) -> None:
    assert parse(kind, query).matches(obj) is wanted


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        (PODS, "spec.zzz=1", "field label not supported: spec.zzz"),
        (resource("nodes"), "metadata.namespace=x", "field label not supported: metadata.namespace"),
        (
            resource("configmaps"),
            "spec.zzz=1",
            '"spec.zzz" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (CRONTABS, "spec.color=x", "field label not supported: spec.color"),
        (PODS, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (PODS, "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        (PODS, "metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
        (PODS, "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
        (PODS, "a=" + "x" * 20_000, "the field selector is too long"),
    ],
)
def test_refusals(kind: Resource, query: str, message: str) -> None:
    with pytest.raises(StatusError) as error:
        parse(kind, query)
    assert error.value.code == 400 and error.value.message == message


def test_selectable_fields_of_custom_resources() -> None:
    custom = custom_fields([".spec.color", ".spec.on", ".spec.deep.size"])
    obj = {"spec": {"color": "blue", "on": True, "deep": {"size": 3}}}
    found = parse(CRONTABS, "spec.color=blue,spec.on=true,spec.deep.size=3", custom)
    assert found.matches(obj) and not found.matches({"spec": "odd"})


def test_exact_values_tell_which_object_is_asked_for() -> None:
    found = parse(PODS, "metadata.name=a,status.phase!=Failed")
    assert found.exact("metadata.name") == "a" and found.exact("status.phase") is None
    assert parse(PODS, "").empty and parse(PODS, ",").empty
    assert str(found) == "metadata.name=a,status.phase!=Failed"


@given(st.text(max_size=20), st.booleans())
def test_escaped_values_read_back(value: str, equal: bool) -> None:
    query = f"metadata.name{'=' if equal else '!='}{fieldselector.escape(value)}"
    found = parse(PODS, query)
    assert [(term.value, term.equal) for term in found.terms] == [(value, equal)]
    assert found.matches({"metadata": {"name": value}}) is equal
    assert str(found) == query


@given(st.text("ab.=!,\\ ", max_size=20))
def test_no_text_breaks_the_parser(query: str) -> None:
    try:
        parse(PODS, query)
    except StatusError as error:
        assert error.code == 400
