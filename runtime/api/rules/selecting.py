"""What a LabelSelector selects."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def selects(selector: Object, labels: Object) -> bool:
    """Whether a LabelSelector selects labels."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or ():
        key, operator, values = term.get("key"), term.get("operator"), term.get("values") or ()
        present = key in labels
        fits = {
            "In": present and labels.get(key) in values,
            "NotIn": not present or labels.get(key) not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }.get(operator, False)
        if not fits:
            return False
    return True
