"""Names of stored resources as people write them in options and files: `pods`, `deployments.apps`.

A name without a group is one that Kubernetes has; `PLURAL.GROUP` of another group may be a custom resource that is
defined later.
"""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase

from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.keys import Keys


class UnknownName(ValueError):
    """No resource that is stored has that name, nor can one have it later; the text says what to write instead."""


def stored_prefix(catalog: Catalog, name: str) -> str:
    """The prefix of the keys of a resource: `leases`, `leases.coordination.k8s.io`, `coordination.k8s.io/leases`, and
    the same of a custom resource, defined or not. UnknownName."""
    plain = name.strip("/")
    group, slash, plural = plain.partition("/")
    if not slash:
        plural, _, group = plain.partition(".")
    full = f"{plural}.{group}" if group else plural
    known = _prefixes(catalog)
    if full in known:
        return known[full]
    short = {qualified.partition(".")[0]: prefix for qualified, prefix in reversed(known.items())}
    if not group and plural in short:
        return short[plural]
    _possible(catalog, full, name)
    return f"/registry/{group}/{plural}/"


def check_pattern(catalog: Catalog, pattern: str) -> None:
    """UnknownName where a pattern (`*`, `?`) of `PLURAL` or `PLURAL.GROUP` fits no resource that is stored and none
    that may be defined later."""
    if any(fnmatchcase(name, pattern) for name in _prefixes(catalog)):
        return
    if "*" not in pattern:
        _possible(catalog, pattern, pattern)


def _prefixes(catalog: Catalog) -> dict[str, str]:
    """The resources that are stored by their qualified names, with the prefixes of their keys."""
    return {
        one.qualified: Keys(one).prefix
        for one in catalog.resources()
        if "list" in one.verbs and (one.storage_group, one.storage_version) == (one.group, one.version)
    }


def _possible(catalog: Catalog, full: str, told: str) -> None:
    """A name that is not stored: one that a custom resource can have later, or UnknownName."""
    plural, _, group = full.partition(".")
    known = [*_prefixes(catalog)]
    served = {resource.group for resource in catalog.resources() if not resource.custom}
    if plural and "." in group and "/" not in full and group not in served:
        return
    same = [name for name in known if name.partition(".")[0] in (plural, f"{plural}s", f"{plural}es")]
    near = same or get_close_matches(full, known, 1)
    cure = f"write {near[0]}" if near else "write PLURAL or PLURAL.GROUP, such as pods or deployments.apps"
    raise UnknownName(f"'{told}' is no resource that is stored: {cure}")
