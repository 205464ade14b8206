"""What may be written of an object: what a Secret holds and what a token is never reach the audit log."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

REDACTED = "REDACTED"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_TOKENS = frozenset({"TokenRequest", "TokenReview"})
_SECRET_FIELDS = ("data", "stringData")


def shown(value: Any, resource: str, managed_fields: bool) -> Any:
    """A body as it may be written: an object, a list, a Table or a patch, of requests on a resource (`secrets`,
    `serviceaccounts/token`). The resource counts beside the kind: a patch does not say what it patches."""
    secret = resource.partition("/")[0] == "secrets"
    if isinstance(value, list):  # a JSON patch
        return [_operation(step) for step in value] if secret else value
    if not isinstance(value, dict):
        return value
    return _object(value, secret, resource in ("serviceaccounts/token", "tokenreviews"), managed_fields)


def _object(obj: Object, secret: bool, token: bool, managed_fields: bool) -> Object:
    kind = obj.get("kind")
    if isinstance(obj.get("items"), list) and str(kind or "List").endswith("List"):
        items = [_object(one, secret, token, managed_fields) if isinstance(one, dict) else one for one in obj["items"]]
        return {**obj, "items": items}
    if kind == "Table" and isinstance(obj.get("rows"), list):
        return {**obj, "rows": [_row(row, secret, managed_fields) for row in obj["rows"]]}
    if secret or kind == "Secret":
        obj = {**obj, **{name: _blank(obj[name]) for name in _SECRET_FIELDS if obj.get(name)}}
        secret = True
    elif token or kind in _TOKENS:
        obj = {**obj}
        for side in ("spec", "status"):
            if isinstance(obj.get(side), dict) and "token" in obj[side]:
                obj[side] = {**obj[side], "token": REDACTED}
    meta = obj.get("metadata")
    return {**obj, "metadata": _metadata(meta, secret, managed_fields)} if isinstance(meta, dict) else obj


def _metadata(meta: Object, secret: bool, managed_fields: bool) -> Object:
    if not managed_fields and "managedFields" in meta:
        meta = {key: value for key, value in meta.items() if key != "managedFields"}
    annotations = meta.get("annotations")
    if secret and isinstance(annotations, dict) and APPLIED in annotations:
        meta = {**meta, "annotations": {**annotations, APPLIED: REDACTED}}
    return meta


def _row(row: Any, secret: bool, managed_fields: bool) -> Any:
    if isinstance(row, dict) and isinstance(row.get("object"), dict):
        return {**row, "object": _object(row["object"], secret, False, managed_fields)}
    return row


def _blank(value: Any) -> Any:
    return dict.fromkeys(value, REDACTED) if isinstance(value, dict) else REDACTED


def _operation(step: Any) -> Any:
    return {**step, "value": REDACTED} if isinstance(step, dict) and "value" in step else step
