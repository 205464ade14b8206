"""A client of a Kubernetes API: every verb on every resource, over any transport.

    client = Client(InProcess(server.local))
    pod = await client.get("pods", "web", "default")

Failures of the server are StatusErrors, a server that cannot be reached is a TransportError. Retried is what client-go
retries: 429 and 5xx with Retry-After, any request that did not reach the server, and reads whose connection broke.
Source: client-go rest, release 1.34.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from attrs import define, field, frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.discovery import Discovery
from dashpot.runtime.client.failures import expired
from dashpot.runtime.client.retrying import Sender
from dashpot.runtime.client.tokenbucket import TokenBucket
from dashpot.runtime.client.transport import Answer, Call, Transport, TransportError
from dashpot.runtime.client.watch import Watch

Object = dict[str, Any]
Body = Object | list[Any]
Patch = Literal["json", "merge", "strategic"]

JSON = "application/json"
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PAGE = 500
"""Objects of one page of a list (upstream: pager)."""
TIMEOUT_S = 60.0
USER_AGENT = "dashpot"


@frozen
class Listing:
    """Objects, and the version at which they were so. `more` is the token of the next page."""

    items: list[Object]
    version: str
    more: str = ""
    remaining: int = 0
    kind: str = ""


@frozen
class Write:
    """How a write is meant: as which field manager, only tried (dryRun), and what becomes of unknown fields: Strict,
    Warn or Ignore."""

    manager: str = ""
    dry_run: bool = False
    validation: str = ""

    def query(self) -> list[tuple[str, str]]:
        """As parameters."""
        pairs = (
            ("fieldManager", self.manager),
            ("dryRun", "All" if self.dry_run else ""),
            ("fieldValidation", self.validation),
        )
        return [(name, value) for name, value in pairs if value]


PLAIN = Write()


@frozen
class Delete:
    """How a deletion is meant. `grace` in seconds; `propagation` Background, Foreground or Orphan; `uid` and `version`
    are what the object must still have."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False

    def body(self) -> Object:
        """The DeleteOptions."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self.grace is not None:
            body["gracePeriodSeconds"] = self.grace
        if self.propagation:
            body["propagationPolicy"] = self.propagation
        must = {name: value for name, value in (("uid", self.uid), ("resourceVersion", self.version)) if value}
        if must:
            body["preconditions"] = must
        if self.dry_run:
            body["dryRun"] = ["All"]
        return body


NOW = Delete()


@define(eq=False)
class Client:
    """One user's way to one server. `namespace` is meant where a namespaced object names none; times in seconds."""

    transport: Transport = field(repr=False)
    namespace: str = "default"
    user_agent: str = USER_AGENT
    limiter: TokenBucket | None = None
    """How many requests a second; None: the server's flow control alone decides."""
    timeout: float = TIMEOUT_S
    retries: int = 10
    headers: Sequence[tuple[str, str]] = ()
    """Sent with every request: impersonation."""
    warn: Callable[[str], None] | None = field(default=None, repr=False)
    """Told each warning of the server."""
    chance: random.Random = field(factory=lambda: random.Random(0), repr=False)
    discovery: Discovery = field(init=False, repr=False)
    _sender: Sender = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.discovery = Discovery(self._fetch, lambda: asyncio.get_running_loop().time())
        self._sender = Sender(self.transport, self.limiter, self.retries, self.chance, self.warn)

    async def close(self) -> None:
        """Ends all connections."""
        await self.transport.close()

    # -- one object ---------------------------------------------------------------------------------------------

    async def get(
        self, resource: Resource | str, name: str, namespace: str = "", *, subresource: str = "", version: str = ""
    ) -> Object:
        """One object; `version` "0": any that is known."""
        query = [("resourceVersion", version)] if version else []
        return await self._object(resource, "GET", name, namespace, subresource, query)

    async def create(
        self,
        resource: Resource | str,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        name: str = "",
        how: Write = PLAIN,
    ) -> Object:
        """A new object; or, with a subresource, what is posted to the object `name` (binding, eviction, token)."""
        space = namespace or _meta(obj).get("namespace") or ""
        name = (name or _meta(obj).get("name") or "") if subresource else ""
        return await self._object(resource, "POST", name, space, subresource, how.query(), obj)

    async def update(
        self,
        resource: Resource | str,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        how: Write = PLAIN,
    ) -> Object:
        """The object as it shall be; with a resourceVersion in it, only if that is still so."""
        meta = _meta(obj)
        space = namespace or meta.get("namespace") or ""
        return await self._object(resource, "PUT", meta.get("name") or "", space, subresource, how.query(), obj)

    async def patch(
        self,
        resource: Resource | str,
        name: str,
        patch: Body,
        namespace: str = "",
        *,
        kind: Patch = "merge",
        subresource: str = "",
        how: Write = PLAIN,
    ) -> Object:
        """What shall change: a JSON patch (a list), a merge patch or a strategic one."""
        return await self._object(
            resource, "PATCH", name, namespace, subresource, how.query(), patch, content_type=PATCHES[kind]
        )

    async def apply(
        self,
        resource: Resource | str,
        obj: Object,
        namespace: str = "",
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        how: Write = PLAIN,
    ) -> Object:
        """The fields that `manager` wants; 409 with the owners of fields that others set, without `force`."""
        meta = _meta(obj)
        query = [("fieldManager", manager), ("force", "true" if force else "false")]
        query += [pair for pair in how.query() if pair[0] != "fieldManager"]
        space = namespace or meta.get("namespace") or ""
        return await self._object(
            resource, "PATCH", meta.get("name") or "", space, subresource, query, obj, content_type=PATCHES["apply"]
        )

    async def delete(
        self, resource: Resource | str, name: str, namespace: str = "", *, subresource: str = "", how: Delete = NOW
    ) -> Object:
        """The object that lives on for a while, or a Status where it is gone."""
        return await self._object(resource, "DELETE", name, namespace, subresource, (), how.body())

    async def _object(
        self,
        resource: Resource | str,
        method: str,
        name: str,
        namespace: str,
        subresource: str,
        query: Sequence[tuple[str, str]],
        body: Body | None = None,
        content_type: str = JSON,
    ) -> Object:
        found = await self.resource(resource)
        if method != "POST" and not name:
            raise ValueError(f"{found.plural}: the object has no name")
        space = (namespace or self.namespace) if found.namespaced else ""
        url = path(found, space, name, subresource)
        return await self.call(method, url, body, query=query, content_type=content_type)

    # -- many objects -------------------------------------------------------------------------------------------

    async def page(
        self,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        more: str = "",
        version: str = "",
        match: str = "",
    ) -> Listing:
        """One answer to a list. `namespace` "": all. `version` and `match` are resourceVersion and its match."""
        found = await self.resource(resource)
        query = _selected(labels, fields, limit=str(limit or ""), resourceVersion=version, resourceVersionMatch=match)
        if more:
            query.append(("continue", more))
        answer = await self.call("GET", path(found, namespace), query=query)
        meta = answer.get("metadata") or {}
        items = answer.get("items") or []
        kind = str(answer.get("kind") or "").removesuffix("List")
        api = answer.get("apiVersion")
        for item in items:
            item.setdefault("apiVersion", api)
            item.setdefault("kind", kind)
        return Listing(
            items,
            str(meta.get("resourceVersion") or ""),
            str(meta.get("continue") or ""),
            int(meta.get("remainingItemCount") or 0),
            kind,
        )

    async def list(
        self,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
        version: str = "",
        match: str = "",
    ) -> Listing:
        """All objects, page by page, as they were at one version. Where that is forgotten on the way, one list without
        pages is asked for instead, as upstream's pager does."""
        found = await self.resource(resource)
        first = await self.page(
            found, namespace, labels=labels, fields=fields, limit=page, version=version, match=match
        )
        items, more = [*first.items], first.more
        while more:
            try:
                part = await self.page(found, namespace, labels=labels, fields=fields, limit=page, more=more)
            except StatusError as error:
                if not expired(error):
                    raise
                return await self.page(found, namespace, labels=labels, fields=fields)
            items += part.items
            more = part.more
        return Listing(items, first.version, kind=first.kind)

    async def delete_collection(
        self, resource: Resource | str, namespace: str = "", *, labels: str = "", fields: str = "", how: Delete = NOW
    ) -> Object:
        """Deletes all that are selected."""
        found = await self.resource(resource)
        space = (namespace or self.namespace) if found.namespaced else ""
        return await self.call("DELETE", path(found, space), how.body(), query=_selected(labels, fields))

    def watch(
        self,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        version: str = "",
        bookmarks: bool = True,
        initial: bool = False,
        seconds: float = 0.0,
    ) -> Watch:
        """Events after `version`, until the server ends it after `seconds` (0: when it likes). With `initial`, first
        all objects that there are, and a bookmark that ends them."""

        async def opening() -> Answer:
            found = await self.resource(resource)
            query = [("watch", "true"), *_selected(labels, fields, resourceVersion=version)]
            if bookmarks:
                query.append(("allowWatchBookmarks", "true"))
            if initial:
                query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
            if seconds:
                query.append(("timeoutSeconds", str(max(1, round(seconds)))))
            return await self.stream("GET", path(found, namespace), query=query)

        return Watch(opening)

    # -- anything -----------------------------------------------------------------------------------------------

    async def resource(self, name: Resource | str) -> Resource:
        """The resource of a name, by discovery; NoMatch."""
        return await self.discovery.find(name) if isinstance(name, str) else name

    async def call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        query: Sequence[tuple[str, str]] | Mapping[str, str] = (),
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Object:
        """One request with JSON both ways; StatusError, TransportError."""
        data = msgspec.json.encode(body) if body is not None else b""
        content = await self.raw(method, path, data, query=query, content_type=content_type, accept=accept)
        try:
            answer: Object = msgspec.json.decode(content or b"{}", type=Object)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise TransportError(f"{method} {path}: the answer is no JSON object") from None
        return answer

    async def raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: Sequence[tuple[str, str]] | Mapping[str, str] = (),
        content_type: str = JSON,
        accept: str = "*/*",
    ) -> bytes:
        """One request, and the bytes of its answer. `path` is encoded for a URL."""
        _, content = await self._sender.whole(self._call(method, path, body, query, content_type, accept, self.timeout))
        return content

    async def stream(
        self, method: str, path: str, *, query: Sequence[tuple[str, str]] = (), accept: str = JSON
    ) -> Answer:
        """A request whose answer comes piece by piece (watches, logs): read it and close it."""
        return await self._sender.head(self._call(method, path, b"", query, JSON, accept, self.timeout))

    def _call(
        self,
        method: str,
        path: str,
        body: bytes,
        query: Sequence[tuple[str, str]] | Mapping[str, str],
        content_type: str,
        accept: str,
        timeout: float,
    ) -> Call:
        headers = [("accept", accept), ("user-agent", self.user_agent), *self.headers]
        if body:
            headers.append(("content-type", content_type))
        pairs = tuple(query.items()) if isinstance(query, Mapping) else tuple(query)
        return Call(method, path, pairs, tuple(headers), body, timeout)

    async def _fetch(self, path: str, accept: str) -> Object:
        return await self.call("GET", path, accept=accept)

    async def pages(
        self, resource: Resource | str, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = PAGE
    ) -> AsyncIterator[Listing]:
        """A list page by page, for those that need not hold all of it; StatusError 410 where it is forgotten."""
        more = ""
        while True:
            part = await self.page(resource, namespace, labels=labels, fields=fields, limit=limit, more=more)
            yield part
            more = part.more
            if not more:
                return


def _meta(obj: Object) -> Object:
    meta = obj.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _selected(labels: str, fields: str, **more: str) -> list[tuple[str, str]]:
    pairs = [("labelSelector", labels), ("fieldSelector", fields), *more.items()]
    return [(name, value) for name, value in pairs if value]


def path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Where a resource, one of its objects, or a part of that is served; encoded."""
    parts = ["/apis", resource.group, resource.version] if resource.group else ["/api", resource.version]
    if namespace and resource.namespaced:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    if name:
        parts.append(quote(name, safe=":"))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)
