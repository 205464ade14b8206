"""Whatever JSON comes in a patch, a configuration or a managedFields list: an object comes out, or a StatusError."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects import strategic
from dashpot.model.objects.apply import apply
from dashpot.model.objects.fieldset import valid
from dashpot.model.objects.ownership import decode, track
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.status import StatusError
from dashpot.model.objects.structure import Structure, custom, structure

STRUCTURES = [structure("", "v1", "Pod", builtin()), structure("apps", "v1", "Deployment", builtin()), custom(None)]
KEYS = [
    "spec", "template", "metadata", "containers", "name", "ports", "containerPort", "finalizers", "labels", "volumes",
    "strategy", "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/finalizers", "nodeSelector", "managedFields", "annotations", "status", "conditions", "type",
]  # fmt: skip
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "c", "delete", "replace", "", 1.5])
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
pods = st.fixed_dictionaries({}, optional={"containers": st.lists(anything, max_size=2), "volumes": anything})
bodies = st.fixed_dictionaries(
    {}, optional={"spec": pods | st.fixed_dictionaries({"template": anything}) | anything, "status": anything}
)
structures = st.sampled_from(STRUCTURES)


def body(parts: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "uid": "u"}} | deepcopy(parts)


@given(bodies, bodies, structures)
def test_strategic_merge(obj: Any, patch: Any, at: Structure) -> None:
    try:
        found = strategic.merge(body(obj), patch, at)
    except StatusError as error:
        assert error.code in (400, 422)
    else:
        msgspec.json.encode(found)


@given(bodies, bodies, structures, st.booleans())
def test_apply_and_track(live: Any, config: Any, at: Structure, force: bool) -> None:
    old = body(live)
    track(None, old, manager="m", api_version="v1", time="t", structure=at)
    try:
        found = apply(old, body(config), manager="n", force=force, api_version="v1", time="u", structure=at)
    except StatusError as error:
        assert error.code in (400, 409)
        found = body(config) | {"metadata": old["metadata"]}
    rows = found["metadata"].get("managedFields", [])
    assert decode(rows) is not None
    new = body(live)
    new["metadata"]["managedFields"] = rows
    track(found, new, manager="o", api_version="v1", time="v", structure=at)
    msgspec.json.encode(new)
    again = deepcopy(new)
    track(new, again, manager="p", api_version="v1", time="w", structure=at)
    assert again == new


@given(anything)
def test_managed_fields(rows: Any) -> None:
    old = body({"spec": {}})
    track(None, old, manager="m", api_version="v1", time="t", structure=STRUCTURES[0])
    new = body({"spec": {"nodeName": "n"}})
    new["metadata"]["managedFields"] = rows
    track(old, new, manager="n", api_version="v1", time="u", structure=STRUCTURES[0])
    for row in new["metadata"].get("managedFields", ()):
        assert valid(row["fieldsV1"])


@pytest.mark.parametrize("at", STRUCTURES, ids=["pod", "deployment", "custom"])
def test_an_apply_of_the_live_object_by_its_only_owner_is_none(at: Structure) -> None:
    config = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}}}
    live = apply(None, config, manager="m", api_version="v1", time="t", structure=at)
    assert apply(live, config, manager="m", api_version="v1", time="u", structure=at) is live
