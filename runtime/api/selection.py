"""Which objects a list or watch is about: a namespace, labels, fields; compiled once for each text."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

from attrs import frozen

from dashpot.model.objects import fieldselector, selector
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import bad_request
from dashpot.runtime.api.conversion import Conversion
from dashpot.runtime.api.stored import Stored

Predicate = Callable[[Stored], bool]
Trigger = tuple[Callable[[Stored], str], Hashable, str]

TEXT_LIMIT = 64 * 1024


def _name(stored: Stored) -> str:
    return stored.name


@frozen(eq=False)
class Selection:
    """A compiled pair of selectors. `predicate` is None where every object is meant; `trigger` tells watches with one
    value of a field from all others, so that a change wakes only those it may concern."""

    labels: str
    fields: str
    predicate: Predicate | None
    trigger: Trigger | None = None
    name: str = ""
    """The one name that is meant, where nothing else is asked for."""


def _of_labels(text: str) -> Predicate:
    matches = selector.from_query(text).matches
    return lambda stored: matches(stored.labels)


def _of_fields(resource: Resource, text: str) -> tuple[Predicate, Trigger | None, str]:
    """The predicate, its trigger, and the name if that alone is asked for."""
    custom = fieldselector.custom_fields(resource.selectable_fields) if resource.selectable_fields else None
    found = fieldselector.parse(resource, text, custom)
    name = found.exact("metadata.name")
    if name is not None and len(found.terms) == 1:
        return (lambda stored: stored.name == name), (_name, "metadata.name", name), name
    node = found.exact("spec.nodeName")
    trigger: Trigger | None = None
    if name is not None:
        trigger = (_name, "metadata.name", name)
    elif node is not None and (resource.group, resource.plural) == ("", "pods"):
        extract = next(e for term, e in zip(found.terms, found.extracts, strict=True) if term.path == "spec.nodeName")
        trigger = ((lambda stored: stored.field("spec.nodeName", extract)), "spec.nodeName", node)
    return _by_terms(resource, found), trigger, ""


def _by_terms(resource: Resource, found: fieldselector.FieldSelector) -> Predicate:
    """All comparisons, of the object in the version that the request speaks of."""
    rows = [(t.path, e, t.value, t.equal) for t, e in zip(found.terms, found.extracts, strict=True)]

    def matches(stored: Stored) -> bool:
        return all((stored.field(path, extract) == value) is equal for path, extract, value, equal in rows)

    storage = (resource.storage_group, resource.storage_version)
    if resource.custom or storage == (resource.group, resource.version):
        return matches
    one = Conversion(resource).one
    return lambda stored: matches(one(stored))


@lru_cache(maxsize=4096)
def select(resource: Resource, labels: str, fields: str) -> Selection:
    """The selection of two selectors' texts; StatusError 400 where one cannot be read."""
    if len(labels) > TEXT_LIMIT or len(fields) > TEXT_LIMIT:
        raise bad_request("the selector is too long")
    by_label = _of_labels(labels) if labels.strip() else None
    by_field, trigger, name = _of_fields(resource, fields) if fields.strip() else (None, None, "")
    if by_label is None or by_field is None:
        return Selection(labels, fields, by_label or by_field, trigger, name)
    first, second = by_label, by_field
    return Selection(labels, fields, lambda stored: first(stored) and second(stored), trigger)
