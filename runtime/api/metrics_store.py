"""A store that is timed: etcd_request_duration_seconds, of whatever kind the store is.

Source: k8s.io/apiserver pkg/storage/etcd3/metrics, release 1.34.
"""

from __future__ import annotations

from time import perf_counter

from dashpot.runtime.api.metrics_cells import Cell, Hist, Registry
from dashpot.runtime.store.base import Delete, Entry, Put, Range, Store, StoreStatus, Watch, Written


class MeasuredStore:
    """The store of one resource; passes everything on."""

    def __init__(self, store: Store, registry: Registry, group: str, resource: str) -> None:
        self.store = store
        self._registry = registry
        self._place = (group, resource)
        self._cells: dict[str, tuple[Hist, Cell, Cell, Hist]] = {}
        self._listed = [
            registry[f"apiserver_storage_list_{what}total"].cell(group, resource)
            for what in ("", "fetched_objects_", "evaluated_objects_", "returned_objects_")
        ]

    def _made(self, operation: str) -> tuple[Hist, Cell, Cell, Hist]:
        """The cells of an operation, from its first use on."""
        registry, (group, resource) = self._registry, self._place
        labels = (operation, group, resource)
        found = self._cells[operation] = (
            registry["etcd_request_duration_seconds"].hist(*labels),
            registry["etcd_requests_total"].cell(*labels),
            registry["etcd_request_errors_total"].cell(*labels),
            registry["etcd_request_latencies_summary"].hist(operation, f"{resource}.{group}" if group else resource),
        )
        return found

    def _count(self, operation: str, began: float, failed: bool) -> None:
        took = perf_counter() - began
        hist, total, errors, old = self._cells.get(operation) or self._made(operation)
        hist.observe(took)
        old.observe(took * 1e6)
        total.value += 1
        if failed:
            errors.value += 1

    async def get(self, key: str, revision: int = 0) -> Entry | None:
        """One key."""
        began, failed = perf_counter(), True
        try:
            found = await self.store.get(key, revision)
            failed = False
            return found
        finally:
            self._count("get", began, failed)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Range:
        """Keys of a prefix."""
        began, failed = perf_counter(), True
        try:
            found = await self.store.range(prefix, start=start, limit=limit, revision=revision)
            failed = False
            lists, *objects = self._listed
            lists.value += 1
            for cell in objects:
                cell.value += len(found.entries)
            return found
        finally:
            self._count("list", began, failed)

    async def count(self, prefix: str) -> int:
        """How many keys there are."""
        began, failed = perf_counter(), True
        try:
            found = await self.store.count(prefix)
            failed = False
            return found
        finally:
            self._count("count", began, failed)

    async def put(self, put: Put) -> Written:
        """Writes one key."""
        began, failed = perf_counter(), True
        try:
            written = await self.store.put(put)
            failed = False
            return written
        finally:
            self._count("update" if put.expect else "create", began, failed)

    async def delete(self, delete: Delete) -> Written:
        """Removes one key."""
        began, failed = perf_counter(), True
        try:
            written = await self.store.delete(delete)
            failed = False
            return written
        finally:
            self._count("delete", began, failed)

    # -- not counted --------------------------------------------------------------------------------------------

    async def revision(self) -> int:
        """The newest revision."""
        return await self.store.revision()

    def watch(self, prefix: str, after: int) -> Watch:
        """Events of a prefix."""
        return self.store.watch(prefix, after)

    async def grant(self, ttl_s: float) -> int:
        """A new lease."""
        return await self.store.grant(ttl_s)

    async def keep_alive(self, lease: int) -> float:
        """Keeps a lease."""
        return await self.store.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        """Ends a lease."""
        await self.store.revoke(lease)

    async def compact(self, revision: int) -> None:
        """Forgets what is old."""
        await self.store.compact(revision)

    async def defragment(self) -> None:
        """Gives space back."""
        await self.store.defragment()

    async def disarm(self) -> None:
        """Takes the alarm back."""
        await self.store.disarm()

    async def status(self) -> StoreStatus:
        """Sizes and state."""
        return await self.store.status()

    async def close(self) -> None:
        """Closes the store."""
        await self.store.close()
