"""The store in an etcd cluster (3.4 or newer), shared with whoever else serves it.

All reads are linearizable. A write is one transaction that compares the key's revision.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from dashpot.runtime.store import etcd_messages as m
from dashpot.runtime.store.base import (
    Compacted,
    Delete,
    Entry,
    NoLease,
    Put,
    Range,
    StoreError,
    StoreStatus,
    Unavailable,
    Written,
)
from dashpot.runtime.store.engine import LEASE_RANGE, QUOTA, check_size, space_warnings
from dashpot.runtime.store.etcd_link import TIMED_OUT, Link, access_from, telling
from dashpot.runtime.store.etcd_watch import EtcdWatch, entry_of
from dashpot.runtime.store.keys import after_prefix
from dashpot.runtime.store.leases import LONGEST_S

FIRST_PAGE = 500
PAGE_BYTES = 8 << 20
"""A list without limit is read in pages, each twice as long as the one before while they stay below this."""

SLOW_S = 300.0
"""Time-out of compaction, defragmentation and snapshots."""

TRUSTED = ((3, 4, 31), (3, 5, 13))
"""The first releases of their lines whose progress notes never overtake events (etcd#15220, as Kubernetes has it)."""


def trusts(version: str) -> bool:
    """Whether progress notes of this release of etcd can be relied upon."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return False
    release = tuple(int(part) for part in found.groups())
    return any(release >= first and release[:2] == first[:2] for first in TRUSTED) or release >= (3, 6, 0)


class EtcdStore:
    """Open it with `open`."""

    backend = "etcd"

    def __init__(self, link: Link, quota: int) -> None:
        self._link = link
        self._quota = quota
        self._watches: set[EtcdWatch] = set()
        self._closed = False
        self.trusted = False

    @classmethod
    async def open(cls, endpoints: Sequence[str], options: Mapping[str, str], *, quota: int = QUOTA) -> Self:
        """Connects to the members that are named, and asks what they are. Raises StoreError.

        `quota` is what the members were started with (--quota-backend-bytes); etcd does not tell.
        """
        self = cls(Link(endpoints, access_from(options)), quota)
        try:
            await self.revision()
            await self._look()
        except BaseException:
            await self._link.close()
            raise
        return self

    async def _look(self) -> None:
        """Progress notes are trusted where all members that answer are new enough."""
        versions = []
        for member in self._link.members:
            try:
                answer = await self._link.ask(member, "Status", m.StatusRequest(), timeout=1)
            except Unavailable:
                continue
            versions.append(answer.version)
        self.trusted = bool(versions) and all(map(trusts, versions))

    def _check(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed")

    # ------------------------------------------------------------------ reads
    async def _read(self, request: Any) -> Any:
        self._check()
        try:
            return await self._link.call("Range", request)
        except Compacted:
            raise Compacted(await self.compacted()) from None

    async def revision(self) -> int:
        """The newest revision, by a read that a majority confirms."""
        answer = await self._read(m.RangeRequest(key=b"\0", limit=1, keys_only=True))
        return int(answer.header.revision)

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """One key, newest or as of a revision."""
        answer = await self._read(m.RangeRequest(key=key.encode(), revision=revision))
        return entry_of(answer.kvs[0]) if answer.kvs else None

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """The keys of a prefix, from `start` on, at most `limit`."""
        while True:
            try:
                return await self._range(prefix, max(start, prefix), limit, revision)
            except Compacted:
                # A list of the newest state in pages, overtaken by a compaction: begin anew.
                if revision:
                    raise

    async def _range(self, prefix: str, start: str, limit: int, revision: int) -> Range:
        low, high = start.encode() or b"\0", after_prefix(prefix).encode() or b"\0"
        entries: list[Entry] = []
        at, page = revision, FIRST_PAGE
        while True:
            wanted = min(page, limit - len(entries)) if limit else page
            answer = await self._read(m.RangeRequest(key=low, range_end=high, limit=wanted, revision=at))
            at = revision or at or answer.header.revision
            entries += [entry_of(kv) for kv in answer.kvs]
            remaining = answer.count - len(answer.kvs)
            if not answer.more or (limit and len(entries) >= limit):
                return Range(entries, at, remaining > 0, remaining)
            low = answer.kvs[-1].key + b"\0"
            if sum(len(kv.value) for kv in answer.kvs) < PAGE_BYTES:
                page *= 2

    async def count(self, prefix: str) -> int:
        """How many keys begin with a prefix."""
        low, high = prefix.encode() or b"\0", after_prefix(prefix).encode() or b"\0"
        answer = await self._read(m.RangeRequest(key=low, range_end=high, count_only=True))
        return int(answer.count)

    def watch(self, prefix: str, after: int) -> EtcdWatch:
        """All events of the prefix above `after`."""
        watch = EtcdWatch(self._link, prefix.encode(), after_prefix(prefix).encode(), after, self.trusted)
        watch.ended = self._watches.discard
        self._watches.add(watch)
        return watch

    # ------------------------------------------------------------------ writes
    async def put(self, put: Put) -> Written:
        """Writes one key."""
        self._check()
        check_size(put.key, put.value)
        key = put.key.encode()
        request = m.PutRequest(key=key, value=put.value, lease=put.lease, prev_kv=True)
        if put.expect is None:
            answer = await self._link.call("Put", request, write=True)
            return Written(True, answer.header.revision, None, _previous(answer))
        done, answer = await self._compared(key, put.expect, m.RequestOp(request_put=request))
        if not done:
            return _refused(answer)
        return Written(True, answer.header.revision, None, _previous(answer.responses[0].response_put))

    async def delete(self, delete: Delete) -> Written:
        """Removes one key."""
        self._check()
        key = delete.key.encode()
        request = m.DeleteRangeRequest(key=key, prev_kv=True)
        if delete.expect is None:
            answer = deleted = await self._link.call("DeleteRange", request, write=True)
        else:
            done, answer = await self._compared(key, delete.expect, m.RequestOp(request_delete_range=request))
            if not done:
                return _refused(answer)
            deleted = answer.responses[0].response_delete_range
        previous = entry_of(deleted.prev_kvs[0]) if deleted.prev_kvs else None
        return Written(bool(deleted.deleted), answer.header.revision, None, previous)

    async def _compared(self, key: bytes, expect: int, then: Any) -> tuple[bool, Any]:
        compare = m.Compare(result=m.EQUAL, target=m.MOD, key=key, mod_revision=expect)
        otherwise = m.RequestOp(request_range=m.RangeRequest(key=key))
        request = m.TxnRequest(compare=[compare], success=[then], failure=[otherwise])
        answer = await self._link.call("Txn", request, write=True)
        return bool(answer.succeeded), answer

    # ------------------------------------------------------------------ leases
    async def grant(self, ttl_s: float) -> int:
        """A new lease; etcd counts whole seconds, and gives it no less than its election time-out."""
        self._check()
        if not 0 < ttl_s <= LONGEST_S:
            raise StoreError(LEASE_RANGE.format(ttl_s))
        answer = await self._link.call("LeaseGrant", m.LeaseGrantRequest(TTL=math.ceil(ttl_s)), write=True)
        return int(answer.ID)

    async def keep_alive(self, lease: int) -> float:
        """Starts the lease's time anew."""
        self._check()
        member, call = await self._link.stream("LeaseKeepAlive", _once(m.LeaseKeepAliveRequest(ID=lease)))
        try:
            async with asyncio.timeout(self._link.access.timeout):
                with telling(member.endpoint):
                    answer = await anext(aiter(call), None)
        except TimeoutError:
            self._link.leave(member)
            raise Unavailable(f"etcd at {member.endpoint} does not answer", client=TIMED_OUT) from None
        except Unavailable:
            self._link.leave(member)
            raise
        finally:
            call.cancel()
        if answer is None:
            raise Unavailable(f"etcd at {member.endpoint} ended a stream", client=TIMED_OUT)
        if answer.TTL <= 0:
            raise NoLease("etcdserver: requested lease not found")
        return float(answer.TTL)

    async def revoke(self, lease: int) -> None:
        """Ends a lease now."""
        self._check()
        await self._link.call("LeaseRevoke", m.LeaseRevokeRequest(ID=lease), write=True)

    # ------------------------------------------------------------------ space
    async def compacted(self) -> int:
        """The oldest revision that can be asked for; etcd tells it only to a watch that begins before it."""
        try:
            await self._link.call("Range", m.RangeRequest(key=b"\0", limit=1, revision=1))
            return 0
        except Compacted:
            pass
        watch = EtcdWatch(self._link, b"\0", b"\1", 0, False)
        try:
            async for _ in watch:
                continue
        except Compacted as error:
            return error.compacted
        finally:
            await watch.close()
        return 0

    async def compact(self, revision: int) -> None:
        """Forgets what is older than `revision`; nothing where that is forgotten already."""
        self._check()
        try:
            await self._link.call("Compact", m.CompactionRequest(revision=revision), write=True, timeout=SLOW_S)
        except Compacted:
            return

    async def defragment(self) -> None:
        """Gives free space back, member by member: each answers nothing meanwhile."""
        self._check()
        for member in self._link.members:
            await self._link.ask(member, "Defragment", m.DefragmentRequest(), timeout=SLOW_S)

    async def disarm(self) -> None:
        """Takes the quota alarm of each member back."""
        self._check()
        answer = await self._link.call("Alarm", m.AlarmRequest())
        for alarm in answer.alarms:
            if alarm.alarm == m.NOSPACE:
                request = m.AlarmRequest(action=m.DEACTIVATE, memberID=alarm.memberID, alarm=m.NOSPACE)
                await self._link.call("Alarm", request, write=True)

    async def status(self) -> StoreStatus:
        """Sizes of the member that answers, and the state of the cluster."""
        self._check()
        member = self._link.current
        found = await self._link.ask(member, "Status", m.StatusRequest())
        alarms = await self._link.call("Alarm", m.AlarmRequest())
        alarm = any(one.alarm == m.NOSPACE for one in alarms.alarms)
        leases = await self._link.call("LeaseLeases", m.LeaseLeasesRequest())
        return StoreStatus(
            backend="etcd",
            revision=await self.revision(),
            compacted=await self.compacted(),
            size=found.dbSize,
            size_in_use=found.dbSizeInUse,
            quota=self._quota,
            keys=await self.count(""),
            leases=len(leases.leases),
            alarm=alarm,
            warnings=space_warnings(found.dbSize, self._quota, alarm),
        )

    async def snapshot(self, path: Path) -> None:
        """Saves etcd's own snapshot to a new file, which `etcdctl snapshot restore` takes."""
        self._check()
        member, call = await self._link.stream("Snapshot", m.SnapshotRequest())
        draft = path.with_name(f".{path.name}.part")
        try:
            with telling(member.endpoint), draft.open("xb") as file:
                async for answer in call:
                    file.write(answer.blob)
            if path.exists():
                raise StoreError(f"'{path}' is there already")
            draft.rename(path)
        except OSError as error:
            raise StoreError(f"cannot write '{path}': {error.strerror or error}") from None
        finally:
            call.cancel()
            draft.unlink(missing_ok=True)

    async def close(self) -> None:
        """Ends watches and connections; idempotent."""
        if not self._closed:
            self._closed = True
            for watch in list(self._watches):
                await watch.close()
            await self._link.close()


async def _once(request: Any) -> AsyncIterator[Any]:
    yield request


def _previous(answer: Any) -> Entry | None:
    return entry_of(answer.prev_kv) if answer.HasField("prev_kv") else None


def _refused(answer: Any) -> Written:
    found = answer.responses[0].response_range.kvs
    return Written(False, answer.header.revision, entry_of(found[0]) if found else None)
