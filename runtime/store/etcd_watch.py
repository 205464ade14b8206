"""A watch of an etcd cluster: one stream to one member, with the value before each change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]

from dashpot.runtime.store import etcd_messages as m
from dashpot.runtime.store.base import Compacted, Entry, Event, StoreError, Unavailable
from dashpot.runtime.store.etcd_link import TIMED_OUT, Link, meant, told_of

AGAIN_S = 0.1
"""Seconds after which a progress note is asked for again; as kube-apiserver does."""


def entry_of(kv: Any) -> Entry:
    """A KeyValue as an entry."""
    return Entry(kv.key.decode(), kv.value, kv.create_revision, kv.mod_revision, kv.lease)


def event_of(event: Any) -> Event:
    """An event of a watch. Raises Compacted where the value before it is gone: the reader must list anew."""
    kv = event.kv
    previous = entry_of(event.prev_kv) if event.HasField("prev_kv") else None
    if event.type == m.DELETE:
        if previous is None:
            raise Compacted(kv.mod_revision)
        return Event(kv.mod_revision, kv.key.decode(), None, previous, previous.created, previous.lease)
    if previous is None and kv.create_revision != kv.mod_revision:
        raise Compacted(kv.mod_revision)
    return Event(kv.mod_revision, kv.key.decode(), kv.value, previous, kv.create_revision, kv.lease)


class EtcdWatch:
    """One watch. It ends with Unavailable where its member goes away or loses its leader; nothing is hidden by trying
    again, and a reader goes on at another member by a new watch from `progress`.

    It is asked for from `after` on, not one later, and what came at `after` is left out: so etcd refuses a revision
    that is compacted away even where nothing of it is missing yet, as the other stores do. (etcd before 3.4.36 loses
    a delete that was made at the very revision of a compaction.)
    """

    def __init__(self, link: Link, prefix: bytes, end: bytes, after: int, trusted: bool) -> None:
        self._link = link
        self._request = m.WatchCreateRequest(
            key=prefix or b"\0",
            range_end=end or b"\0",
            start_revision=max(after, 1),
            progress_notify=True,
            prev_kv=True,
            fragment=True,
        )
        self._after = after
        self._trusted = trusted
        self._reached = after
        self._asked = False
        self._closed = False
        self._call: Any = None
        self._created = False
        self._requests: asyncio.Queue[Any] = asyncio.Queue()
        self._asking: asyncio.Task[None] | None = None
        self.ended: Callable[[EtcdWatch], None] = lambda _: None

    @property
    def progress(self) -> int:
        """All events of the prefix up to this revision were delivered."""
        return self._reached

    def ask_progress(self) -> bool:
        """Asks for a note; False at an etcd whose notes may overtake events (etcd#15220)."""
        if not self._trusted or self._closed:
            return False
        self._asked = True
        if self._created and self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return True

    async def _ask(self) -> None:
        """Asks until a note comes: etcd leaves a request without an answer while a watch of it still catches up."""
        try:
            while self._asked and not self._closed:
                self._requests.put_nowait(m.WatchRequest(progress_request=m.WatchProgressRequest()))
                await asyncio.sleep(AGAIN_S)
        finally:
            self._asking = None

    async def close(self) -> None:
        """Ends the stream; idempotent."""
        self._closed = True
        self.ended(self)
        if self._asking is not None:
            self._asking.cancel()
        if self._call is not None:
            self._call.cancel()
        self._requests.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        """The batches."""
        if self._closed:
            return
        self._requests.put_nowait(m.WatchRequest(create_request=self._request))
        # Not `write`: where a call is cancelled before it has begun, gRPC leaves a writer waiting for ever.
        member, self._call = await self._link.stream("Watch", self._questions())
        try:
            async for batch in self._batches():
                yield batch
            if not self._closed:
                raise Unavailable(f"etcd at {member.endpoint} ended a watch", client=TIMED_OUT)
        except grpc.aio.AioRpcError as error:
            if not self._closed:
                self._link.leave(member)
                raise self._told(error.code(), error.details() or "", member.endpoint) from None
        except asyncio.CancelledError:
            if not self._closed or meant():
                raise
        finally:
            await self.close()

    async def _questions(self) -> AsyncIterator[Any]:
        """What is sent; ends after `close`, for gRPC lets go of this only where it is the one that ends the call."""
        while (request := await self._requests.get()) is not None:
            yield request

    @staticmethod
    def _told(code: Any, details: str, endpoint: str) -> StoreError:
        told = told_of(code, details, endpoint, False)
        return told if isinstance(told, Unavailable) else Unavailable(str(told), client=TIMED_OUT)

    async def _batches(self) -> AsyncIterator[Sequence[Event]]:
        parts: list[Any] = []
        async for answer in self._call:
            if answer.canceled:
                if answer.compact_revision:
                    raise Compacted(answer.compact_revision)
                raise Unavailable(f"etcd ended a watch: {answer.cancel_reason}", client=TIMED_OUT)
            if answer.created:
                self._created = True
                if self._asked:
                    self.ask_progress()
                continue
            parts += answer.events
            if answer.fragment:
                continue
            events = [event_of(part) for part in parts if part.kv.mod_revision > self._after]
            parts.clear()
            if events:
                self._reached = max(self._reached, events[-1].revision)
                yield events
            elif not answer.events and self._trusted:
                self._asked = False
                self._reached = max(self._reached, answer.header.revision)
                yield ()
