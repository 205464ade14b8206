"""Label selectors of the API (`matchLabels`, `matchExpressions`) over labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def matches(selector: Any, labels: Mapping[str, str] | None, *, empty: bool = True) -> bool:
    """Whether a LabelSelector selects some labels. Null selects nothing, the empty one all (or nothing: `empty`).

    Source: metav1.LabelSelectorAsSelector; NotIn and DoesNotExist hold for absent keys.
    """
    if not isinstance(selector, Mapping):
        return False
    wanted, terms = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if not wanted and not terms:
        return empty
    have = labels or {}
    return all(have.get(k) == v for k, v in wanted.items()) and all(_holds(term, have) for term in terms)


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(term.get("key")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
