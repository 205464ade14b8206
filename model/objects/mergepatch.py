"""JSON merge patches, RFC 7396: maps are merged by key, null removes, everything else replaces."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import bad_request

Object = dict[str, Any]


def merge(obj: Object, patch: Any) -> Object:
    """The object with the patch applied. Neither is changed; the result shares what was not touched with the object,
    nothing with the patch.

    400 if the patch is no JSON object or nested too deeply.
    """
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch must be a JSON object")
    try:
        return _merge(obj, patch)
    except RecursionError:
        raise bad_request("error decoding patch: exceeded max depth") from None


def _merge(obj: Object, patch: Object) -> Object:
    out = dict(obj)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            before = out.get(key)
            out[key] = _merge(before if isinstance(before, dict) else {}, value)
        else:
            out[key] = copied(value)
    return out


def copied(value: Any) -> Any:
    """A JSON value of one's own."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
