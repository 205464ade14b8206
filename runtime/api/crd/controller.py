"""What a definition becomes: its status, and the resources that it adds to the API. Pure functions.

Sources: k8s.io/apiextensions-apiserver pkg/controller/status/naming_controller.go, pkg/controller/establish,
pkg/apiserver/customresource_discovery_controller.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashpot.model.objects.resource import Resource, Subresource
from dashpot.runtime.api.crd.default import copied

Object = dict[str, Any]


def conditions(definition: Object, others: Iterable[Object], now: str) -> Object:
    """The status that a definition should have.

    `others` are all definitions (of any group; the same one is passed over); `now` is an RFC 3339 time for conditions
    that change. Names already accepted for another definition of the group are refused; a definition whose names are
    accepted once is established.
    """
    old: Object = definition.get("status") or {}
    accepted, problem = _names(definition, others, old)
    rows = {row["type"]: row for row in old.get("conditions") or ()}
    if problem is None:
        _set(rows, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        _set(rows, "NamesAccepted", "False", problem[0], problem[1], now)
    if problem is None:
        if rows.get("Established", {}).get("status") != "True":
            _set(rows, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted", now)
    elif "Established" not in rows:
        _set(rows, "Established", "False", "NotAccepted", "not all names are accepted", now)
    stored = list(old.get("storedVersions") or ())
    storage = next((v["name"] for v in definition["spec"]["versions"] if v.get("storage")), None)
    if storage is not None and storage not in stored:
        stored.append(storage)
    return {**old, "conditions": list(rows.values()), "acceptedNames": accepted, "storedVersions": stored}


def _set(rows: dict[str, Object], kind: str, status: str, reason: str, message: str, now: str) -> None:
    old = rows.get(kind) or {}
    if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
        return
    since = old["lastTransitionTime"] if old.get("status") == status else now
    rows[kind] = {
        "type": kind,
        "status": status,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def _names(definition: Object, others: Iterable[Object], old: Object) -> tuple[Object, tuple[str, str] | None]:
    """The accepted names, and the last conflict (upstream's choice): reason and message."""
    spec, name = definition["spec"], definition["metadata"]["name"]
    taken: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["metadata"]["name"] == name or other["spec"]["group"] != spec["group"]:
            continue
        names: Object = (other.get("status") or {}).get("acceptedNames") or {}
        taken.update(n for n in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if n)
        kinds.update(n for n in (names.get("kind"), names.get("listKind")) if n)
    wanted: Object = spec["names"]
    accepted: Object = copied(old.get("acceptedNames") or {"plural": "", "kind": ""})
    problem: tuple[str, str] | None = None

    def take(field: str, reason: str, values: list[str], used: set[str]) -> None:
        nonlocal problem
        clash = next((value for value in values if value in used), None)
        if clash is None:
            if field in wanted:
                accepted[field] = copied(wanted[field])
            else:
                accepted.pop(field, None)
        else:
            problem = (reason, f'"{clash}" is already in use')

    take("plural", "PluralConflict", [wanted["plural"]], taken)
    take("singular", "SingularConflict", [n for n in [wanted.get("singular")] if n], taken)
    take("shortNames", "ShortNamesConflict", list(wanted.get("shortNames") or ()), taken)
    take("kind", "KindConflict", [wanted["kind"]], kinds)
    take("listKind", "ListKindConflict", [n for n in [wanted.get("listKind")] if n], kinds)
    accepted.pop("categories", None)
    if "categories" in wanted:
        accepted["categories"] = list(wanted["categories"])
    return accepted, problem


def _deprecation(spec: Object, version: Object) -> str:
    if not version.get("deprecated"):
        return ""
    told = version.get("deprecationWarning")
    return told or f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"


def established(definition: Object) -> bool:
    """Whether its resources are served."""
    rows = (definition.get("status") or {}).get("conditions") or ()
    return any(row["type"] == "Established" and row["status"] == "True" for row in rows)


def resources(definition: Object) -> tuple[Resource, ...]:
    """What a definition adds to the catalog: one resource for each served version; none before it is established."""
    if not established(definition):
        return ()
    spec = definition["spec"]
    names: Object = definition["status"].get("acceptedNames") or spec["names"]
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    made: list[Resource] = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        made.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=_subresources(spec["group"], version, names["kind"]),
                storage_group=spec["group"],
                storage_version=storage,
                custom=True,
                list_kind=names.get("listKind") or "",
                printer_columns=tuple(version.get("additionalPrinterColumns") or ()),
                deprecation=_deprecation(spec, version),
                selectable_fields=selectable_fields(version),
            )
        )
    return tuple(made)


def _subresources(group: str, version: Object, kind: str) -> tuple[Subresource, ...]:
    found = version.get("subresources") or {}
    verbs = ("get", "patch", "update")
    made: list[Subresource] = []
    if "status" in found:
        made.append(Subresource("status", group, version["name"], kind, verbs))
    if found.get("scale"):
        made.append(Subresource("scale", "autoscaling", "v1", "Scale", verbs))
    return tuple(made)


def schemas(definition: Object) -> dict[str, Object]:
    """The openAPIV3Schema of each served version by its name."""
    versions = definition["spec"]["versions"]
    return {v["name"]: (v.get("schema") or {}).get("openAPIV3Schema") or {} for v in versions if v.get("served")}


def selectable_fields(version: Object) -> tuple[str, ...]:
    """The field paths that selectors may use, `spec.color`, besides name and namespace."""
    return tuple(row["jsonPath"].removeprefix(".") for row in version.get("selectableFields") or ())
