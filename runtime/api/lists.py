"""Lists: all pages of one list show one revision; from the watch cache where it knows that, else from the store.

Sources: KEP-365 (pages), KEP-2340 and KEP-4988 (lists from the cache); k8s.io/apiserver pkg/storage/etcd3/store.go.
"""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api import continuation, forms, yaml_text
from dashpot.runtime.api.accept import JSON, MANY, PARTIAL, TABLE, YAML, Form, negotiate
from dashpot.runtime.api.asking import EXACT, Asked, check_list, read
from dashpot.runtime.api.conversion import Conversion
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.failing import ContinueExpired, failure, too_large
from dashpot.runtime.api.flow_turns import turn
from dashpot.runtime.api.selection import Predicate
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.store.base import Compacted, FutureRevision, StoreError

Object = dict[str, Any]

WHOLE = 256 * 1024
"""Bytes up to which a list is one body; longer ones stay in pieces, which nobody joins into one."""
_TURN = 256
"""Objects rendered before others get their turn."""
_STORE_PAGE = 1_000


@frozen
class Page:
    """A part of a list: objects as of `revision`; where it goes on ("" at its end), and how many follow (None where
    that is not known)."""

    found: list[Stored]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Object:
        """The list's metadata."""
        told: Object = {"resourceVersion": str(self.revision)}
        if self.token:
            told["continue"] = self.token
            if self.remaining:
                told["remainingItemCount"] = self.remaining
        return told


async def list_response(exchange: Exchange, resource: Resource, storage: Storage) -> Response:
    """The answer to a list: JSON, YAML, Table or metadata alone."""
    request = exchange.request
    form = negotiate(request.headers.get("accept", ""), MANY)
    include = forms.include_object(request) if form.shape == TABLE else ""
    asked = read(exchange, resource)
    check_list(asked)
    page = await page_of(exchange, asked, storage)
    conversion = Conversion(resource, storage.webhook)
    await conversion.prepare(page.found)
    pieces = await _pieces(exchange, form, resource, page, conversion, include)
    if request.get("pretty") and form.media == JSON:
        return forms.body(request, msgspec.json.format(b"".join(pieces), indent=2) + b"\n", 200)
    size = sum(map(len, pieces))
    if size >= forms.GZIP_FROM and forms.accepts_gzip(request):
        return Response(200, content_type=form.media, headers=dict(forms.GZIPPED), pieces=await _zipped(pieces))
    if size <= WHOLE:
        return Response(200, b"".join(pieces), form.media)
    return Response(200, content_type=form.media, pieces=pieces)


async def matching(exchange: Exchange, resource: Resource, storage: Storage) -> list[Stored]:
    """The objects that a request on a collection means, as they are stored (deletecollection)."""
    asked = read(exchange, resource)
    check_list(asked)
    return (await page_of(exchange, asked, storage)).found


async def page_of(exchange: Exchange, asked: Asked, storage: Storage) -> Page:
    """The objects that are asked for."""
    info = exchange.info
    prefix = storage.keys.under(info.namespace)
    try:
        return await _page(exchange, asked, storage, prefix)
    except FutureRevision:
        raise too_large(asked.number, await storage.store.revision()) from None
    except StoreError as error:
        raise failure(error) from None


async def _page(exchange: Exchange, asked: Asked, storage: Storage, prefix: str) -> Page:
    start, revision = "", 0
    if asked.token:
        goes_on = continuation.parse(asked.token)
        start, revision = prefix + goes_on.start, max(goes_on.revision, 0)
        try:
            return await _at(asked, storage, prefix, start, revision)
        except Compacted:
            raise ContinueExpired(goes_on.newest().token()) from None
    number = asked.number
    if number and (asked.match == EXACT or (asked.limit and not asked.match)):
        return await _at(asked, storage, prefix, "", number)
    if not asked.version:
        return await _at(asked, storage, prefix, "", 0)
    if not await storage.cache.not_older(number):
        return await _from_store(asked, storage, prefix, "", 0)
    stale = None
    if storage.faults is not None:
        agent = exchange.request.headers.get("user-agent", "")
        stale = await storage.faults.read(storage.resource.qualified, agent, exchange.user.name, storage.cache)
    return _from_cache(asked, storage, prefix, "", stale) or await _from_store(asked, storage, prefix, "", 0)


async def _at(asked: Asked, storage: Storage, prefix: str, start: str, revision: int) -> Page:
    """A page of one revision; of the newest, all that was acknowledged before the call, for 0."""
    cache = storage.cache
    if revision == 0:
        fell_back = not await cache.consistent()
        cache.figures.fell_back += fell_back
        found = None if fell_back else _from_cache(asked, storage, prefix, start, None)
    else:
        found = _from_cache(asked, storage, prefix, start, revision) if await cache.not_older(revision) else None
    return found or await _from_store(asked, storage, prefix, start, revision)


def _from_cache(asked: Asked, storage: Storage, prefix: str, start: str, revision: int | None) -> Page | None:
    snapshot = storage.cache.snapshot(revision)
    if snapshot is None:
        return None
    storage.cache.readable(prefix)
    predicate = asked.selection.predicate
    name = asked.selection.name
    if name and (prefix != storage.keys.prefix or not storage.keys.namespaced):
        stored = snapshot.get(prefix + name)
        found, last, left = ([stored] if stored is not None else []), "", 0
    else:
        found, last, left = snapshot.page(prefix, predicate, start, asked.limit)
    figures = storage.cache.figures
    figures.served(len(found) if predicate is None else len(storage.cache), len(found))
    figures.consistent += revision is None and not asked.version
    if not last:
        return Page(found, snapshot.revision)
    token = continuation.following(snapshot.revision, prefix, last).token()
    return Page(found, snapshot.revision, token, left if predicate is None else None)


async def _from_store(asked: Asked, storage: Storage, prefix: str, start: str, revision: int) -> Page:
    """Range by range until the limit is full; later ranges stay at the revision of the first."""
    predicate: Predicate | None = asked.selection.predicate
    found: list[Stored] = []
    step = asked.limit if asked.limit and predicate is None else max(_STORE_PAGE, asked.limit)
    while True:
        part = await storage.store.range(prefix, start=start, limit=step, revision=revision)
        revision = part.revision
        for index, entry in enumerate(part.entries):
            stored = storage.known(entry)
            if predicate is not None and not predicate(stored):
                continue
            found.append(stored)
            if asked.limit and len(found) == asked.limit:
                rest = len(part.entries) - index - 1
                if not rest and not part.more:
                    return Page(found, revision)
                token = continuation.following(revision, prefix, entry.key).token()
                return Page(found, revision, token, rest + part.remaining if predicate is None else None)
        if not part.more:
            return Page(found, revision)
        start = part.entries[-1].key + "\0"


def _start(kind: str, api_version: str, page: Page, more: Object | None = None) -> bytes:
    """The JSON of a list up to its items."""
    return forms.encode({"kind": kind, "apiVersion": api_version, "metadata": page.metadata(), **(more or {})})[:-1]


def _joined(raws: list[bytes]) -> list[bytes]:
    """Items of a JSON list with commas between them; the items are the stored bytes themselves."""
    pieces = [b","] * max(0, 2 * len(raws) - 1)
    pieces[0::2] = raws
    return pieces


async def _pieces(
    exchange: Exchange, form: Form, resource: Resource, page: Page, conversion: Conversion, include: str
) -> list[bytes]:
    if form.plain and form.media == JSON:
        same, one = conversion.same, conversion.one
        raws = [stored.raw if same(stored) else one(stored).raw for stored in page.found]
        head = _start(resource.list_kind or f"{resource.kind}List", resource.api_version, page)
        return [head + b',"items":[', *_joined(raws), b"]}"]
    items: list[bytes] = []
    yaml = form.media == YAML
    for index, stored in enumerate(page.found):
        items.append(_item(exchange, form, resource, conversion.one(stored), include, yaml))
        if index % _TURN == _TURN - 1 or (yaml and index % 8 == 7):
            await turn()
    name = "items"
    kind, api_version, more = resource.list_kind or f"{resource.kind}List", resource.api_version, None
    if form.shape == PARTIAL:
        kind, api_version = "PartialObjectMetadataList", form.api_version
    elif form.shape == TABLE:
        kind, api_version, name = "Table", form.api_version, "rows"
        more = {"columnDefinitions": forms.printer(resource).definitions}
    if not yaml:
        return [_start(kind, api_version, page, more) + f',"{name}":['.encode(), *_joined(items), b"]}"]
    first = yaml_text.dump({"apiVersion": api_version, **(more or {})})
    if not items:
        return [first, f"{name}: []\n".encode(), yaml_text.dump({"kind": kind, "metadata": page.metadata()})]
    last = yaml_text.dump({"kind": kind, "metadata": page.metadata()})
    return [first, f"{name}:\n".encode(), *items, last]


def _item(exchange: Exchange, form: Form, resource: Resource, stored: Stored, include: str, yaml: bool) -> bytes:
    if form.shape == PARTIAL and not yaml:
        return forms.partial_raw(stored, form)
    if form.shape == PARTIAL:
        shown: Object = forms.partial(stored.glance, form)
    elif form.shape == TABLE:
        shown = forms.printer(resource).line(stored.glance, exchange.arrived, include)
    else:
        shown = stored.glance
    return yaml_text.item(shown) if yaml else forms.encode(shown)


async def _zipped(pieces: list[bytes]) -> list[bytes]:
    """One gzip stream; others get their turn between the pieces."""
    packer = forms.packer()
    packed: list[bytes] = []
    since = 0
    for piece in pieces:
        if out := packer.compress(piece):
            packed.append(out)
        since += len(piece)
        if since >= WHOLE:
            since = 0
            await turn()
    packed.append(packer.flush())
    return packed
