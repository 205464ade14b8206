"""Many clients at once, each doing what a seed says, and the record of what they saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from itertools import count
from random import Random

from attrs import define, field
from tests.histories.clients import LOST, Client
from tests.histories.record import (
    CONFLICT,
    DONE,
    EXISTS,
    MISSING,
    REFUSED,
    Listing,
    Object,
    Page,
    Read,
    Record,
    Watching,
    Write,
    key_of,
    revision_of,
)

NAMESPACES = ("a", "b")
LABELS = ("x", "y")
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_REFUSALS = {"AlreadyExists": EXISTS, "Conflict": CONFLICT, "NotFound": MISSING}


def place(namespace: str, name: str = "") -> str:
    """The path of a ConfigMap, of a namespace's, or of all."""
    space = f"/api/v1/namespaces/{namespace}/configmaps" if namespace else "/api/v1/configmaps"
    return f"{space}/{name}" if name else space


@define(eq=False)
class Traffic:
    """`clients` may lead to several servers of one cluster. `gone` allows answers that a revision is forgotten."""

    clients: Sequence[Client]
    seed: int
    names: int = 8
    gone: bool = False
    record: Record = field(factory=Record)
    quiet: bool = False
    """Ends all but the watches that are kept."""
    stopping: bool = False
    _tokens: count[int] = field(factory=lambda: count(1))
    _watch_numbers: count[int] = field(factory=lambda: count(1))
    _known: dict[str, Object] = field(factory=dict)
    _revisions: list[int] = field(factory=list)
    _open: set[asyncio.Task[None]] = field(factory=set)
    _following: dict[str, Watching] = field(factory=dict)

    async def prepare(self) -> None:
        """The namespaces."""
        for name in NAMESPACES:
            code, answer = await self.clients[0].ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
            assert code in (201, 409), answer
        listed = await self.clients[0].done("GET", place(""), query={"limit": "1"})
        self._revisions.append(revision_of(listed))

    async def run(self, seconds: float, writers: int = 8, watchers: int = 6) -> None:
        """Traffic for so long, then every watch must come to its end."""
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(writers):
                group.create_task(self._client(Random(f"{self.seed}/{number}"), number, end))
            for number in range(watchers):
                group.create_task(self._watcher(Random(f"{self.seed}/w{number}"), number, end))

    async def finish(self) -> None:
        """Ends all watches."""
        self.quiet = self.stopping = True
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    # -- writes and reads ---------------------------------------------------------------------------------------

    async def _client(self, random: Random, number: int, end: float) -> None:
        client = self.clients[number % len(self.clients)]
        kinds = (
            self.create,
            self.create,
            self.update,
            self.update,
            self.patch,
            self.patch,
            self.delete,
            self.get,
            self.get,
        )
        while time.monotonic() < end and not self.quiet:
            if random.random() < 0.2:
                await self.list(client, random)
            else:
                await random.choice(kinds)(client, random)

    def _key(self, random: Random) -> str:
        return f"{random.choice(NAMESPACES)}/n{random.randrange(self.names)}"

    def _content(self, random: Random) -> tuple[str, Object]:
        token = f"t{next(self._tokens)}"
        labels = {"s": random.choice(LABELS)} if random.random() < 0.7 else {}
        return token, {"data": {"w": token, "pad": "p" * random.choice((0, 10, 700))}, "labels": labels}

    async def create(self, client: Client, random: Random) -> None:
        """A create."""
        key = self._key(random)
        token, sent = self._content(random)
        namespace, name = key.split("/")
        body = {"metadata": {"name": name, "labels": sent["labels"]}, "data": sent["data"]}
        write = Write("create", key, time.monotonic(), token, sent)
        await self._do(client, write, "POST", place(namespace), body)

    async def update(self, client: Client, random: Random) -> None:
        """An update of what was seen last, with or without its version."""
        key = self._key(random)
        token, sent = self._content(random)
        known = self._known.get(key)
        namespace, name = key.split("/")
        meta: Object = {"name": name, "labels": sent["labels"]}
        write = Write("update", key, time.monotonic(), token, sent)
        if known is not None and random.random() < 0.7:
            meta["resourceVersion"] = known["metadata"]["resourceVersion"]
            write.expect = revision_of(known)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": sent["data"]}
        await self._do(client, write, "PUT", place(namespace, name), body)

    async def patch(self, client: Client, random: Random) -> None:
        """A merge patch or a JSON patch; each adds a field, so that a lost update shows."""
        key = self._key(random)
        token = f"t{next(self._tokens)}"
        field_name = f"f{random.randrange(4)}"
        sent = {"data": {"w": token, field_name: token}, "labels": {"s": random.choice(LABELS)}}
        known = self._known.get(key)
        write = Write("patch", key, time.monotonic(), token, sent)
        namespace, name = key.split("/")
        if known is not None and random.random() < 0.3:
            write.expect = revision_of(known)
        body: object = {"metadata": {"labels": sent["labels"]}, "data": sent["data"]}
        media = MERGE
        if write.expect:
            meta = {"labels": sent["labels"], "resourceVersion": str(write.expect)}
            body = {"metadata": meta, "data": sent["data"]}
        elif random.random() < 0.3 and known is not None and known["metadata"].get("labels"):
            media = JSON_PATCH
            write.uid = known["metadata"]["uid"]
            body = [
                {"op": "test", "path": "/metadata/uid", "value": write.uid},
                {"op": "add", "path": "/data/w", "value": token},
                {"op": "add", "path": f"/data/{field_name}", "value": token},
                {"op": "add", "path": "/metadata/labels", "value": {"s": sent["labels"]["s"]}},
            ]
        await self._do(client, write, "PATCH", place(namespace, name), body, media)

    async def delete(self, client: Client, random: Random) -> None:
        """A delete, some with preconditions."""
        key = self._key(random)
        known = self._known.get(key)
        namespace, name = key.split("/")
        write = Write("delete", key, time.monotonic())
        options: Object = {}
        if known is not None and random.random() < 0.3:
            write.expect = revision_of(known)
            options["preconditions"] = {"resourceVersion": str(write.expect)}
        elif known is not None and random.random() < 0.3:
            write.uid = known["metadata"]["uid"]
            options["preconditions"] = {"uid": write.uid}
        await self._do(client, write, "DELETE", place(namespace, name), options)

    async def _do(
        self, client: Client, write: Write, method: str, path: str, body: object, media: str = "application/json"
    ) -> None:
        self.record.writes.append(write)
        write.at = client.url
        write.began = time.monotonic()
        try:
            code, answer = await client.ask(method, path, body, media=media)
        except LOST:
            await self._lost()
            return
        ended = time.monotonic()
        if code >= 500 and answer.get("reason") != "ServiceUnavailable":
            self.record.unserved += 1
            return
        write.ended = ended
        if code < 300:
            write.outcome, write.answer = DONE, answer
            if write.verb != "delete":
                self._saw(answer)
            return
        write.outcome = _REFUSALS.get(answer.get("reason", ""), REFUSED)
        if code == 422 and media == JSON_PATCH:
            write.outcome = REFUSED  # its test failed: what it was tested against is not told
        elif write.outcome == REFUSED and code not in (429, 503):
            self.record.faults.append(f"{write.verb} of {write.key}: {code} {answer.get('message')}")
        elif write.outcome == CONFLICT and not (write.expect or write.uid):
            self.record.faults.append(f"{write.verb} of {write.key} without a version: {answer.get('message')}")

    def _saw(self, obj: Object) -> None:
        self._known[key_of(obj)] = obj
        self._revisions.append(revision_of(obj))

    def _some_revision(self, random: Random) -> int:
        recent = self._revisions[-random.choice((1, 5, 50, 1000)) :]
        return random.choice(recent)

    async def get(self, client: Client, random: Random) -> None:
        """A get of the newest, of any, or of a version that is not older than one."""
        key = self._key(random)
        namespace, name = key.split("/")
        version = random.choice(("", "", "0", str(self._some_revision(random))))
        began = time.monotonic()
        try:
            code, answer = await client.ask(
                "GET", place(namespace, name), query={"resourceVersion": version} if version else None
            )
        except LOST:
            await self._lost()
            return
        if code not in (200, 404):
            self._unserved(code, answer, f"get at {version!r}")
            return
        found = answer if code == 200 else None
        self.record.reads.append(Read(key, version, began, time.monotonic(), found))
        if found is not None and version != "0":
            self._saw(found)

    async def list(self, client: Client, random: Random) -> None:
        """A list: whole or in pages, of a namespace or all, of the newest or of a version."""
        version, match = random.choice(
            (("", ""), ("", ""), ("0", ""), ("N", ""), ("N", "Exact"), ("N", "NotOlderThan"))
        )
        if version == "N":
            version = str(self._some_revision(random))
        listing = Listing(
            random.choice((*NAMESPACES, "")),
            random.choice(("", "", *LABELS)),
            version,
            match,
            random.choice((0, 0, 1, 3, 7)),
        )
        query = {"limit": str(listing.limit)} if listing.limit else {}
        if listing.label:
            query["labelSelector"] = f"s={listing.label}"
        first = {"resourceVersion": version} if version else {}
        if match:
            first["resourceVersionMatch"] = match
        self.record.listings.append(listing)
        while not self.quiet:
            began = time.monotonic()
            try:
                code, answer = await client.ask("GET", place(listing.namespace), query={**query, **first})
            except LOST:
                await self._lost()
                return
            if code != 200:
                self._unserved(code, answer, f"list at {version!r} {match}")
                return
            meta = answer["metadata"]
            following = meta.get("continue", "")
            items = answer["items"]
            left = meta.get("remainingItemCount")
            page = Page(began, time.monotonic(), int(meta["resourceVersion"]), items, left, bool(following))
            listing.pages.append(page)
            if not following:
                return
            first = {"continue": following}

    async def _lost(self) -> None:
        self.record.unserved += 1
        await asyncio.sleep(0.1)  # the server may be starting

    def _unserved(self, code: int, answer: Object, what: str) -> None:
        self.record.unserved += 1
        if code in (429, 500, 503, 504) or (code == 410 and self.gone):
            return
        self.record.faults.append(f"{what}: {code} {answer.get('message')}")

    # -- watches ------------------------------------------------------------------------------------------------

    async def _watcher(self, random: Random, number: int, end: float) -> None:
        client = self.clients[number % len(self.clients)]
        last = 0
        while time.monotonic() < end and not self.quiet:
            watch = self._some_watch(random, last if random.random() < 0.5 else 0)
            few = random.choice((3, 30, 300, 10_000))
            try:
                async with asyncio.timeout_at(asyncio.get_running_loop().time() + random.uniform(0.2, 3)):
                    await self._follow(client, watch, few)
            except LOST:
                await asyncio.sleep(0.1)
            last = watch.last if watch.error is None else 0

    def _some_watch(self, random: Random, last: int) -> Watching:
        initial = random.random() < 0.25
        version = random.choice(("", "0", "N", "N", "N"))
        if last and not initial:
            version = str(last)
        elif version == "N":
            version = str(self._some_revision(random) + random.choice((0, 0, 0, 5)) * (not initial))
        return Watching(
            random.choice((*NAMESPACES, "")),
            random.choice(("", *LABELS)),
            version,
            initial,
            initial or random.random() < 0.5,
            time.monotonic(),
            name=f"#{next(self._watch_numbers)}",
        )

    def keep(self, client: Client, namespace: str = "", label: str = "", version: int = 0) -> Watching:
        """A watch that stays open, and goes on from its last version whenever it ends."""
        number = next(self._watch_numbers)
        watch = Watching(namespace, label, str(version or self._revisions[0]), False, True, time.monotonic(), [])
        watch.name = f"#{number}, kept"

        async def follow() -> None:
            going = watch
            while not self.stopping:
                try:
                    await self._follow(client, going, 1 << 60)
                except LOST:
                    await asyncio.sleep(0.02)
                if going.error is not None and going.error.get("code") == 410:
                    if not self.gone:
                        self.record.faults.append(f"watch {going.name} from {going.version}: {going.error['message']}")
                    return
                last = max(going.last, int(going.version))
                again = Watching(namespace, label, str(last), False, True, time.monotonic(), [])
                again.name = f"#{number}, on from {last}"
                self._following[watch.name] = again
                going = again

        self._following[watch.name] = watch
        task = asyncio.get_running_loop().create_task(follow())
        self._open.add(task)
        return watch

    async def _follow(self, client: Client, watch: Watching, few: int) -> None:
        self.record.watches.append(watch)
        watch.at = client.url
        query = {"allowWatchBookmarks": "true"} if watch.bookmarks else {}
        if watch.version:
            query["resourceVersion"] = watch.version
        if watch.label:
            query["labelSelector"] = f"s={watch.label}"
        if watch.initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with aclosing(client.watch(place(watch.namespace), query)) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        error = watch.error = event["object"]
                        self._unserved(error.get("code", 0), error, f"watch from {watch.version!r}")
                        await asyncio.sleep(0.02)
                        return
                    watch.events.append((time.monotonic(), event["type"], event["object"]))
                    if len(watch.events) >= few:
                        return
        except LOST:
            self.record.unserved += 1
            raise

    async def _mark(self, client: Client, namespace: str, label: str) -> int:
        """Makes an object; its revision. An answer may still be lost, on a connection from before the wires were
        mended: then another one is made."""
        while True:
            token = f"t{next(self._tokens)}"
            sent = {"data": {"w": token}, "labels": {"s": label} if label else {}}
            write = Write("create", f"{namespace}/mark{token}{label}", time.monotonic(), token, sent)
            body = {"metadata": {"name": f"mark{token}{label}", "labels": sent["labels"]}, "data": sent["data"]}
            await self._do(client, write, "POST", place(namespace), body)
            if write.outcome == DONE:
                return revision_of(write.answer)
            await asyncio.sleep(0.1)

    async def settle(self, client: Client, within: float = 20) -> None:
        """Writes a last object of each kind, which every watch that is kept must come to."""
        marks = {}
        async with asyncio.timeout(within):
            for namespace in NAMESPACES:
                for label in ("", *LABELS):
                    marks[namespace, label] = await self._mark(client, namespace, label)
        for name, first in list(self._following.items()):
            fitting = [
                revision
                for (namespace, label), revision in marks.items()
                if first.namespace in ("", namespace) and first.label in ("", label)
            ]
            try:
                async with asyncio.timeout(within):
                    while self._following[name].last < max(fitting):
                        await asyncio.sleep(0.01)
            except TimeoutError:
                self.record.faults.append(f"watch {name} does not come to {max(fitting)}: {self._following[name].last}")
