"""Answers that are failures, as StatusError; and what kind of failure one is.

Source: k8s.io/apimachinery pkg/api/errors (NewGenericServerResponse and the Is… functions), release 1.34.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.model.objects.status import StatusError

Object = dict[str, Any]

_GENERIC = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "the server does not allow this method on the requested resource"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    410: ("Gone", "the server does not have the resource any longer"),
    415: ("UnsupportedMediaType", "the server was unable to respond with a content type that the client supports"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server has prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted, but may still be processing"),
}
_TOLD = 200


def failure(code: int, body: bytes, retry_after: float = 0) -> StatusError:
    """The failure that an answer tells: its Status, or for any other body what its code means."""
    try:
        status = msgspec.json.decode(body, type=Object)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        status = {}
    if status.get("kind") == "Status":
        return from_status(status, code)
    reason, meaning = _GENERIC.get(code, ("Unknown", f"the server answered with status {code}"))
    text = " ".join(body[:_TOLD].decode("utf-8", "replace").split())
    return StatusError(reason, f"{meaning}: {text}" if text else meaning, code=code, retry_after=int(retry_after))


def from_status(status: Object, code: int = 0) -> StatusError:
    """The failure that a Status tells."""
    details = status.get("details") if isinstance(status.get("details"), dict) else {}
    told = status.get("code")
    found = code or (told if isinstance(told, int) else 0) or 500
    after = (details or {}).get("retryAfterSeconds")
    return StatusError(
        str(status.get("reason") or "Unknown"),
        str(status.get("message") or _GENERIC.get(found, ("", "unknown"))[1]),
        code=found,
        details=details,
        retry_after=after if isinstance(after, int) else 0,
    )


def expired(error: StatusError) -> bool:
    """The version asked for is forgotten: list again."""
    return error.reason in ("Expired", "Gone") or error.code == 410


def namespace_ends(error: StatusError) -> bool:
    """Whether a create was refused because its namespace is being deleted."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("reason") == "NamespaceTerminating" for cause in causes)


def too_large_version(error: StatusError) -> bool:
    """The server does not know the version yet: it is behind the one that told it."""
    causes = error.details.get("causes") or ()
    return error.code == 504 and (
        any(isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)
        or "Too large resource version" in error.message
    )
