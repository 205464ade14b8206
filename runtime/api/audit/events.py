"""One audit event as it is written (audit.k8s.io/v1 Event), made quickly: what repeats is encoded once."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import msgspec

from dashpot.runtime.api.exchange import Exchange, Request, Response, User

Object = dict[str, Any]

_AGENT_LIMIT = 1024
_QUERY_KEPT = 256
_USERS_KEPT = 1_000
_NAMES = {
    "api_version": "apiVersion",
    "audit_id": "auditID",
    "request_uri": "requestURI",
    "impersonated_user": "impersonatedUser",
    "source_ips": "sourceIPs",
    "user_agent": "userAgent",
    "object_ref": "objectRef",
    "response_status": "responseStatus",
    "request_object": "requestObject",
    "response_object": "responseObject",
    "received": "requestReceivedTimestamp",
    "at": "stageTimestamp",
}
encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Reference(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What the request is about."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""


class Event(msgspec.Struct, omit_defaults=True, rename=_NAMES):
    """The event, in upstream's order of fields."""

    kind: str
    api_version: str
    level: str
    audit_id: str
    stage: str
    request_uri: str
    verb: str
    user: msgspec.Raw
    impersonated_user: msgspec.Raw | None = None
    source_ips: list[str] | None = None
    user_agent: str = ""
    object_ref: Reference | None = None
    response_status: Any = None
    request_object: Any = None
    response_object: Any = None
    received: str = ""
    at: str = ""
    annotations: dict[str, str] | None = None


class Users:
    """Users as JSON, kept while they are the same objects (authentication gives the same one again)."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[User, msgspec.Raw]] = {}

    def raw(self, user: User) -> msgspec.Raw:
        """`{"username":…,"uid":…,"groups":[…],"extra":{…}}`."""
        found = self._known.get(id(user))
        if found is None:
            if len(self._known) >= _USERS_KEPT:
                self._known.clear()
            # the user is kept, too: its id must not become another's
            found = self._known[id(user)] = (user, msgspec.Raw(encode(_user(user))))
        return found[1]


def _user(user: User) -> Object:
    found: Object = {"username": user.name} if user.name else {}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = user.groups
    if user.extra:
        found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return found


class Stamps:
    """Times as MicroTime; the second is written once."""

    def __init__(self) -> None:
        self._whole = -1
        self._text = ""

    def text(self, seconds: float) -> str:
        """`2026-11-30T12:00:00.000000Z`."""
        whole = int(seconds)
        if whole != self._whole:
            self._whole = whole
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(whole))
        return f"{self._text}{int((seconds - whole) * 1e6):06d}Z"


def reference(exchange: Exchange) -> Reference:
    """What a request on a resource is about; the name of what is made comes from its body."""
    info = exchange.info
    name, version = info.name, ""
    obj = exchange.request_object
    if obj is not None and info.verb in ("create", "update") and isinstance(obj, dict):
        meta = obj.get("metadata")
        if isinstance(meta, dict):
            given = meta.get("name")
            name = name or (given if isinstance(given, str) else "")
            if info.verb == "update":
                read = meta.get("resourceVersion")
                version = read if isinstance(read, str) else ""
    return Reference(info.resource, info.namespace, name, info.group, info.version, version, info.subresource)


def uri(request: Request) -> str:
    """Path and query, as they were asked for up to the spelling of escapes."""
    query = request.query
    if not query:
        return request.path
    pairs = tuple(query)
    short = sum(len(key) + len(value) for key, value in pairs) <= _QUERY_KEPT
    return f"{request.path}?{_query(pairs) if short else urlencode(pairs)}"


@lru_cache(maxsize=4096)
def _query(pairs: Sequence[tuple[str, str]]) -> str:
    return urlencode(pairs)


def sources(request: Request) -> list[str]:
    """Where it came from: what proxies say, then the other end of the connection."""
    headers = request.headers
    forwarded = headers.get("x-forwarded-for", "")
    found = [part.strip() for part in forwarded.split(",")[:16] if part.strip()] if forwarded else []
    real = headers.get("x-real-ip", "")
    if real and real not in found:
        found.append(real)
    if request.remote and request.remote not in found:
        found.append(request.remote)
    return found


def agent(request: Request) -> str:
    """The client's name, cut to a bounded length as upstream does."""
    told = request.headers.get("user-agent", "")
    return told if len(told) <= _AGENT_LIMIT else told[:_AGENT_LIMIT] + "...TRUNCATED"


@lru_cache(maxsize=64)
def _good(code: int) -> msgspec.Raw:
    return msgspec.Raw(encode({"metadata": {}, "code": code}))


def status(response: Response) -> Any:
    """How it ended; a failure with its reason and message."""
    if response.code < 400:
        return _good(response.code)
    found: Object = {"metadata": {}, "code": response.code}
    told = read_json(response.body)
    if isinstance(told, dict):
        for name in ("status", "message", "reason", "details"):
            if name in told:
                found[name] = told[name]
    return found


def read_json(data: bytes) -> Any:
    """A JSON value; None for what is none."""
    try:
        return _decode(data) if data else None
    except msgspec.DecodeError:
        return None


def answer(exchange: Exchange, response: Response) -> Any:
    """The object of an answer, also of one in pieces or zipped; None where it has none (streams, text)."""
    if response.content_type.startswith("application/json") and response.chunks is None:
        body = response.body if response.pieces is None else b"".join(response.pieces)
        if response.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, 31)
        return read_json(body)
    found = exchange.response_object
    return read_json(found) if isinstance(found, bytes) else found
