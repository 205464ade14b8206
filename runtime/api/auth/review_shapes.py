"""What the specs of reviews look like, so that a number where a text belongs is told, and does no harm.

Source: k8s.io/api authentication/v1 and authorization/v1 types.go, release 1.34. As in Go, null means absent.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.model.objects.status import bad_request

Object = dict[str, Any]
Text = str | None
Texts = list[str] | None


class _Requirement(msgspec.Struct):
    key: Text = None
    operator: Text = None
    values: Texts = None


class _Selector(msgspec.Struct):
    rawSelector: Text = None
    requirements: list[_Requirement] | None = None


class _Resource(msgspec.Struct):
    namespace: Text = None
    verb: Text = None
    group: Text = None
    version: Text = None
    resource: Text = None
    subresource: Text = None
    name: Text = None
    fieldSelector: _Selector | None = None
    labelSelector: _Selector | None = None


class _Path(msgspec.Struct):
    path: Text = None
    verb: Text = None


class _Access(msgspec.Struct):
    resourceAttributes: _Resource | None = None
    nonResourceAttributes: _Path | None = None
    user: Text = None
    groups: Texts = None
    uid: Text = None
    extra: dict[str, Texts] | None = None


class _Rules(msgspec.Struct):
    namespace: Text = None


class _Token(msgspec.Struct):
    token: Text = None
    audiences: Texts = None


class _Ref(msgspec.Struct):
    kind: Text = None
    apiVersion: Text = None
    name: Text = None
    uid: Text = None


class _Request(msgspec.Struct):
    audiences: Texts = None
    expirationSeconds: int | None = None
    boundObjectRef: _Ref | None = None


class _Nothing(msgspec.Struct):
    pass


_SPECS: dict[str, Any] = {
    "SelfSubjectAccessReview": _Access,
    "SubjectAccessReview": _Access,
    "LocalSubjectAccessReview": _Access,
    "SelfSubjectRulesReview": _Rules,
    "SelfSubjectReview": _Nothing,
    "TokenReview": _Token,
    "TokenRequest": _Request,
}


def check_shape(kind: str, obj: Object) -> None:
    """400 where a field of a review's spec has the wrong JSON type."""
    try:
        for value, shape in ((obj.get("spec"), _SPECS[kind]), (obj.get("metadata"), dict[str, Any])):
            if value is not None:
                msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        why = str(error).replace("`$", "`spec") if "$" in str(error) else str(error)
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {why}') from None


def without_nulls(value: Any) -> Any:
    """A spec without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return value
