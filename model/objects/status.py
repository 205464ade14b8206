"""Failures as Kubernetes tells them: v1.Status with its reason, code and details, raised as one exception.

The texts are an interface: kubectl and tests of operators match them. Source: k8s.io/apimachinery pkg/api/errors
and pkg/util/validation/field, release 1.34.
"""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

Object = dict[str, Any]

CAUSES = 100
"""Reasons that are told of one refusal; upstream tells all, however long that gets."""

REASON_CODES = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Gone": 410,
    "Expired": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "ServerTimeout": 504,
    "Timeout": 504,
}


@frozen
class Cause:
    """One reason why an object is refused: `metadata.name: Invalid value: "A": must be lower case`.

    `reason` is FieldValueInvalid, FieldValueRequired, FieldValueForbidden, FieldValueNotSupported, FieldValueDuplicate,
    FieldValueTooLong, FieldValueTooMany, FieldValueTypeInvalid, FieldValueNotFound or FieldManagerConflict; `message`
    is what follows the path.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shown(value: Any) -> str:
    """A value as Go's field errors print it: strings quoted, objects as JSON."""
    import msgspec

    return msgspec.json.encode(value).decode()


def invalid_value(path: str, value: Any, detail: str) -> Cause:
    """`PATH: Invalid value: VALUE: DETAIL`."""
    return Cause(path, f"Invalid value: {shown(value)}: {detail}")


def required(path: str, detail: str = "") -> Cause:
    """`PATH: Required value: DETAIL`."""
    return Cause(path, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def forbidden_field(path: str, detail: str) -> Cause:
    """`PATH: Forbidden: DETAIL`."""
    return Cause(path, f"Forbidden: {detail}", "FieldValueForbidden")


def not_supported(path: str, value: Any, values: list[str]) -> Cause:
    """`PATH: Unsupported value: VALUE: supported values: "a", "b"`."""
    known = ", ".join(shown(v) for v in values)
    return Cause(path, f"Unsupported value: {shown(value)}: supported values: {known}", "FieldValueNotSupported")


def duplicate(path: str, value: Any) -> Cause:
    """`PATH: Duplicate value: VALUE`."""
    return Cause(path, f"Duplicate value: {shown(value)}", "FieldValueDuplicate")


class StatusError(Exception):
    """A request that fails, as its v1.Status."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        code: int = 0,
        details: Object | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.code = code or REASON_CODES[reason]
        self.details = details or {}
        self.retry_after = retry_after

    def status(self) -> Object:
        """The body of the answer."""
        details = dict(self.details)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        body: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if details:
            body["details"] = details
        body["code"] = self.code
        return body


@frozen
class Subject:
    """What a failure is about: `deployments.apps "web"`."""

    group: str
    resource: str
    kind: str = field(default="", kw_only=True)

    @property
    def qualified(self) -> str:
        """`deployments.apps`, `configmaps`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def details(self, name: str) -> Object:
        """Status.details: upstream puts the resource where it says kind."""
        found = {"name": name, "group": self.group, "kind": self.kind or self.resource}
        return {key: value for key, value in found.items() if value}


def not_found(subject: Subject, name: str) -> StatusError:
    """404."""
    return StatusError("NotFound", f'{subject.qualified} "{name}" not found', details=subject.details(name))


def already_exists(subject: Subject, name: str) -> StatusError:
    """409 for a create."""
    return StatusError("AlreadyExists", f'{subject.qualified} "{name}" already exists', details=subject.details(name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(subject: Subject, name: str, why: str = MODIFIED) -> StatusError:
    """409 for a write against a version that is no more."""
    message = f'Operation cannot be fulfilled on {subject.qualified} "{name}": {why}'
    return StatusError("Conflict", message, details=subject.details(name))


def invalid(group: str, kind: str, name: str, causes: list[Cause]) -> StatusError:
    """422 with one cause a field; several are told in brackets, as upstream does. Of more than `CAUSES` the first."""
    causes = causes[:CAUSES]
    told = str(causes[0]) if len(causes) == 1 else f"[{', '.join(map(str, causes))}]"
    qualified = f"{kind}.{group}" if group else kind
    rows = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    found = {"name": name, "group": group, "kind": kind, "causes": rows}
    details = {key: value for key, value in found.items() if value}
    return StatusError("Invalid", f'{qualified} "{name}" is invalid: {told}', details=details)


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError("BadRequest", message)


def forbidden(subject: Subject, name: str, why: str) -> StatusError:
    """403 for one object (admission): `pods "x" is forbidden: WHY`."""
    named = f'{subject.qualified} "{name}"' if name else subject.qualified
    return StatusError("Forbidden", f"{named} is forbidden: {why}", details=subject.details(name))


def internal(message: str) -> StatusError:
    """500, in Kubernetes' words."""
    return StatusError("InternalError", f"Internal error occurred: {message}")
