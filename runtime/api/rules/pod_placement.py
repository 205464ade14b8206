"""Rules of where a pod may run and how it finds others: affinity, spreading, tolerations, gates, DNS.

Source: pkg/apis/core/validation/validation.go (validateAffinity, validateTopologySpreadConstraints,
ValidateTolerations, validatePodDNSConfig, validateSchedulingGates), release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.status import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
EFFECTS: Final = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
OPERATOR_TEXT: Final = "not a valid selector operator"
BOTH_TEXT: Final = "exists in both matchLabelKeys and labelSelector"
MISSING_TEXT: Final = "must not be specified when labelSelector is not set"
POSITIVE_TEXT: Final = "must be greater than zero"


def _keys(selector: Any) -> set[str]:
    """The keys that a label selector speaks of."""
    found = set((selector or {}).get("matchLabels") or ())
    return found | {row.get("key") for row in (selector or {}).get("matchExpressions") or ()}


def _spread(entry: Object) -> Check:
    """How a pod's like are spread: one constraint for each key and action."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        rows, causes = value.get("topologySpreadConstraints") or (), scene.causes
        for at, row in enumerate(rows):
            place = ((trail, "topologySpreadConstraints"), at)
            action, key, domains = row.get("whenUnsatisfiable"), row.get("topologyKey"), row.get("minDomains")
            if row.get("maxSkew", 0) <= 0:
                causes.append(invalid_value(spelled(place, "maxSkew"), row.get("maxSkew", 0), POSITIVE_TEXT))
            if not key:
                causes.append(required(spelled(place, "topologyKey"), "can not be empty"))
            if action not in ("DoNotSchedule", "ScheduleAnyway"):
                known = ["DoNotSchedule", "ScheduleAnyway"]
                causes.append(not_supported(spelled(place, "whenUnsatisfiable"), action or "", known))
            if any(
                (each.get("topologyKey"), each.get("whenUnsatisfiable")) == (key, action) for each in rows[at + 1 :]
            ):
                path = spelled(place, "{topologyKey, whenUnsatisfiable}")
                causes.append(duplicate(path, f"{{{key or ''}, {action or ''}}}"))
            if domains is not None:
                _min_domains(domains, action or "", spelled(place, "minDomains"), causes)
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if row.get(policy) is not None and row[policy] not in ("Honor", "Ignore"):
                    causes.append(not_supported(spelled(place, policy), row[policy], ["Honor", "Ignore"]))
            if row.get("matchLabelKeys"):
                _spread_keys(row, spelled(place, "matchLabelKeys"), causes)

    return check


def _min_domains(domains: int, action: str, path: str, causes: list[Cause]) -> None:
    if domains <= 0:
        causes.append(invalid_value(path, domains, POSITIVE_TEXT))
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid_value(path, domains, text))


def _spread_keys(row: Object, path: str, causes: list[Cause]) -> None:
    selector = row.get("labelSelector")
    if selector is None:
        causes.append(forbidden_field(path, MISSING_TEXT))
    known = _keys(selector)
    for at, key in enumerate(row["matchLabelKeys"]):
        causes += [invalid_value(f"{path}[{at}]", key, text) for text in names.qualified(key)]
        if key in known:
            causes.append(invalid_value(f"{path}[{at}]", key, BOTH_TEXT))


def _pod_term(entry: Object) -> Check:
    """A term of pod affinity: a topology, namespaces, keys that the pod's own labels fill in (KEP-3633)."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes, key = scene.causes, value.get("topologyKey") or ""
        for name in value.get("namespaces") or ():
            causes += [invalid_value(spelled(trail, "namespace"), name, text) for text in names.dns_label(name)]
        match, mismatch = value.get("matchLabelKeys") or (), value.get("mismatchLabelKeys") or ()
        for field, rows in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
            if rows and value.get("labelSelector") is None:
                causes.append(forbidden_field(spelled(trail, field), MISSING_TEXT))
                continue
            for at, row in enumerate(rows):
                path = spelled(trail, f"{field}[{at}]")
                causes += [invalid_value(path, row, text) for text in names.qualified(row)]
        for at, row in enumerate(match):
            if row in mismatch:
                text = "exists in both matchLabelKeys and mismatchLabelKeys"
                causes.append(invalid_value(spelled(trail, f"matchLabelKeys[{at}]"), row, text))
        if not key:
            causes.append(required(spelled(trail, "topologyKey"), "can not be empty"))
        causes += [invalid_value(spelled(trail, "topologyKey"), key, text) for text in names.qualified(key)]

    return check


def _node_term(entry: Object) -> Check:
    """A term of a node selector; `values`: its values are those of labels too."""
    values_checked = entry.get("values", True)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for at, row in enumerate(value.get("matchExpressions") or ()):
            _expression(row, values_checked, ((trail, "matchExpressions"), at), scene.causes)
        for at, row in enumerate(value.get("matchFields") or ()):
            _field(row, ((trail, "matchFields"), at), scene.causes)

    return check


def _expression(row: Object, values_checked: bool, trail: Trail, causes: list[Cause]) -> None:
    operator, values, key = row.get("operator") or "", row.get("values") or (), row.get("key") or ""
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(required(spelled(trail, "values"), text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(spelled(trail, "values"), text))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(spelled(trail, "values"), text))
    else:
        causes.append(invalid_value(spelled(trail, "operator"), operator, OPERATOR_TEXT))
    if wrong := names.qualified(key):
        causes += [invalid_value(spelled(trail, "key"), key, text) for text in wrong]
    if values_checked:
        for at, item in enumerate(values):
            causes += [invalid_value(spelled(trail, f"values[{at}]"), item, text) for text in names.label_value(item)]


def _field(row: Object, trail: Trail, causes: list[Cause]) -> None:
    operator, values, key = row.get("operator") or "", row.get("values") or (), row.get("key") or ""
    if operator not in ("In", "NotIn"):
        causes.append(invalid_value(spelled(trail, "operator"), operator, OPERATOR_TEXT))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(spelled(trail, "values"), text))
    if key != "metadata.name":
        causes.append(invalid_value(spelled(trail, "key"), key, "not a valid field selector key"))
        return
    for at, item in enumerate(values):
        causes += [invalid_value(spelled(trail, f"values[{at}]"), item, text) for text in names.dns_subdomain(item)]


def _toleration(entry: Object) -> Check:
    """A toleration's operator, key, value and effect go together."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes = scene.causes
        key, operator, effect = value.get("key"), value.get("operator") or "", value.get("effect") or ""
        if key:
            if wrong := names.qualified(key):
                causes += [invalid_value(spelled(trail, "key"), key, text) for text in wrong]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid_value(spelled(trail, "operator"), operator, text))
        if value.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(spelled(trail, "effect"), effect, text))
        wanted = value.get("value") or ""
        if operator in ("", "Equal"):
            if wrong := names.label_value(wanted):
                causes.append(invalid_value(spelled(trail, "operator"), wanted, ";".join(wrong)))
        elif operator != "Exists":
            causes.append(not_supported(spelled(trail, "operator"), operator, ["Equal", "Exists"]))
        elif wanted:
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid_value(spelled(trail, "operator"), wanted, text))
        if effect and effect not in EFFECTS:
            causes.append(not_supported(spelled(trail, "effect"), effect, EFFECTS))

    return check


def _gates(entry: Object) -> Check:
    """Scheduling gates and readiness gates have qualified names; the former each its own."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes = scene.causes
        for at, gate in enumerate(value.get("readinessGates") or ()):
            name, path = gate.get("conditionType") or "", spelled(trail, f"readinessGates[{at}].conditionType")
            causes += [invalid_value(path, name, text) for text in names.qualified(name)]
        seen: set[str] = set()
        for at, gate in enumerate(value.get("schedulingGates") or ()):
            name, path = gate.get("name") or "", spelled(trail, f"schedulingGates[{at}]")
            causes += [invalid_value(path, name, text) for text in names.qualified(name)]
            if name in seen:
                causes.append(duplicate(path, name))
            seen.add(name)

    return check


def _dns(entry: Object) -> Check:
    """How a pod resolves names: within what libc takes; with policy None the pod says it all."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        config, causes = value.get("dnsConfig"), scene.causes
        path = (trail, "dnsConfig")
        if value.get("dnsPolicy") == "None":
            if config is None:
                causes.append(required(spelled(path), "must provide `dnsConfig` when `dnsPolicy` is None"))
            elif not config.get("nameservers"):
                text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
                causes.append(required(spelled(path, "nameservers"), text))
                return
        if not config:
            return
        servers, searches = config.get("nameservers") or [], config.get("searches") or []
        if len(servers) > 3:
            causes.append(invalid_value(spelled(path, "nameservers"), servers, "must not have more than 3 nameservers"))
        for at, server in enumerate(servers):
            where = spelled(path, f"nameservers[{at}]")
            causes += [invalid_value(where, server, text) for text in TEXTS["ip"](server)]
        where = spelled(path, "searches")
        if len(searches) > 32:
            causes.append(invalid_value(where, searches, "must not have more than 32 search paths"))
        if len(" ".join(searches)) > 2048:
            text = "must not have more than 2048 characters (including spaces) in the search list"
            causes.append(invalid_value(where, searches, text))
        for at, search in enumerate(searches):
            told = search.removesuffix(".")
            causes += [invalid_value(f"{where}[{at}]", told, text) for text in TEXTS["search-path"](search)]
        for at, option in enumerate(config.get("options") or ()):
            if not option.get("name"):
                causes.append(required(spelled(path, f"options[{at}]"), "must not be empty"))

    return check


PLACEMENT_CALLS: dict[str, Callable[[Object], Check]] = {
    "spread": _spread,
    "podAffinityTerm": _pod_term,
    "nodeTerm": _node_term,
    "toleration": _toleration,
    "gates": _gates,
    "dns": _dns,
}
