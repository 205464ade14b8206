"""All that happens to an object between the wire and the store, on random objects of every kind: nothing breaks, and
doing it again changes nothing."""

from __future__ import annotations

import copy

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.objects.samples import Object, sample

from dashpot.model.objects import defaults, prepare
from dashpot.model.objects.metadata import validate_metadata, validate_metadata_update
from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.schema import decode_json, shape
from dashpot.model.objects.status import StatusError

RESOURCES = [resource for resource in builtin().resources if "create" in resource.verbs]


def received(resource: Resource, data: st.DataObject) -> Object | None:
    """An object as it is after decoding and defaults; None if it was refused."""
    kind = (resource.group, resource.version, resource.kind)
    body = msgspec.json.encode(sample(builtin().type_name(*kind), data.draw, wild=0))
    obj: Object = decode_json(body, [])
    try:
        shape(*kind, builtin()).decode(obj)
    except StatusError as error:
        assert error.code == 400
        return None
    obj.setdefault("metadata", {})
    defaults.fill(resource, obj, None)
    return obj


def settled(resource: Resource, obj: Object) -> None:
    """Neither defaults nor decoding find anything more to do."""
    again = copy.deepcopy(obj)
    defaults.fill(resource, again, None)
    assert again == obj
    assert shape(resource.group, resource.version, resource.kind, builtin()).decode(again) == []
    assert again == obj


@given(st.data(), st.sampled_from(RESOURCES))
def test_creates(data: st.DataObject, resource: Resource) -> None:
    obj = received(resource, data)
    if obj is None:
        return
    settled(resource, obj)
    prepare.on_create(resource, obj)
    defaults.fill(resource, obj, None)
    settled(resource, obj)
    shape(resource.group, resource.version, resource.kind, builtin()).validate(obj)
    validate_metadata(resource, obj)
    again = copy.deepcopy(obj)
    prepare.on_create(resource, again)
    assert again == obj


@given(st.data(), st.sampled_from(RESOURCES))
def test_updates(data: st.DataObject, resource: Resource) -> None:
    old, new = received(resource, data), received(resource, data)
    if old is None or new is None:
        return
    before = copy.deepcopy(old)
    subresource = data.draw(st.sampled_from(["", *(sub.name for sub in resource.subresources)]))
    prepare.on_update(resource, new, old, subresource)
    prepare.generation(resource, new, old, subresource)
    assert old == before
    again = copy.deepcopy(new)
    prepare.on_update(resource, again, old, subresource)
    prepare.generation(resource, again, old, subresource)
    assert again == new
    validate_metadata_update(resource, new, old)


@given(st.data(), st.sampled_from(RESOURCES))
def test_an_update_that_changes_nothing_changes_nothing(data: st.DataObject, resource: Resource) -> None:
    old = received(resource, data)
    if old is None:
        return
    prepare.on_create(resource, old)
    defaults.fill(resource, old, None)
    for subresource in ("", "status"):
        new = copy.deepcopy(old)
        defaults.fill(resource, new, old)
        prepare.on_update(resource, new, old, subresource)
        prepare.generation(resource, new, old, subresource)
        assert new == old
