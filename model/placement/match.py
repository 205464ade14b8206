"""Whether a node selector selects a node, and whether a toleration tolerates a taint (rules S9, S10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]


def node_selector(selector: Object, node: Object) -> bool:
    """Whether one of its terms holds of the node; none if there are no terms."""
    return any(node_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def node_term(term: Object, node: Object) -> bool:
    """Whether all its requirements hold. An empty term selects nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    names = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels) for one in expressions) and all(_field_holds(one, names) for one in fields)


def required_here(spec: Object, node: Object) -> bool:
    """Whether a pod's `nodeSelector` and required node affinity let it onto the node (S27, the pod's part)."""
    asked = spec.get("nodeSelector")
    if asked:
        labels = node["metadata"].get("labels") or {}
        if not all(labels.get(key) == value for key, value in asked.items()):
            return False
    wanted = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = wanted.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_selector(required, node)


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether it covers this taint; an absent key or effect stands for all."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(taints: Sequence[Object], tolerations: Sequence[Object], effects: tuple[str, ...]) -> Object | None:
    """The first taint of these effects that nothing tolerates."""
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def _holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    key, operator = requirement.get("key", ""), requirement.get("operator")
    values: Sequence[str] = requirement.get("values") or ()
    value = labels.get(key)
    if operator == "In":
        return bool(values) and value in values
    if operator == "NotIn":
        return bool(values) and value not in values
    if operator == "Exists":
        return not values and value is not None
    if operator == "DoesNotExist":
        return not values and value is None
    if operator in ("Gt", "Lt") and len(values) == 1 and value is not None:
        have, bound = _integer(value), _integer(values[0])
        return have is not None and bound is not None and (have > bound if operator == "Gt" else have < bound)
    return False


def _field_holds(requirement: Object, names: Mapping[str, str]) -> bool:
    values: Sequence[str] = requirement.get("values") or ()
    if requirement.get("key") not in names or len(values) != 1:
        return False
    same = names[requirement["key"]] == values[0]
    return same if requirement.get("operator") == "In" else not same and requirement.get("operator") == "NotIn"


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
