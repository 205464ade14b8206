"""What is looked up when somebody reads /metrics: sizes, counts, seats, the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from attrs import define, field
from prometheus_client.process_collector import ProcessCollector

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.addresses import Services
from dashpot.runtime.api.auth.authn import Authenticator
from dashpot.runtime.api.cache_figures import CacheFigures
from dashpot.runtime.api.flow import FlowControl, Lane
from dashpot.runtime.api.flow_levels import Level
from dashpot.runtime.api.metrics_cells import Hist, Registry
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.tally import show
from dashpot.runtime.store.base import Store, StoreError, StoreStatus

COUNT_EVERY_S = 60.0
"""How long the number of objects of a resource that no cache follows is believed (upstream counts once a minute)."""
PATIENCE_S = 2.0


class Recorded(Protocol):
    """What the audit trail counts."""

    events: int
    levels: dict[str, int]

    def errors(self) -> Mapping[str, int]:
        """Events lost, by sink."""
        ...


@define(eq=False)
class Scrape:
    """Fills the gauges of a registry from the parts of a server."""

    registry: Registry
    stores: Sequence[Store]
    storages: Callable[[], Mapping[tuple[str, str], Storage]]
    """By group and plural; they come and go."""
    _counted: dict[tuple[str, str], tuple[float, int]] = field(factory=dict)
    _process: ProcessCollector = field(factory=lambda: ProcessCollector(registry=None))

    def set(self, name: str, value: float, *labels: str) -> None:
        """Sets one gauge, or a counter that somebody else keeps."""
        self.registry[name].set(value, *labels)

    # -- stores and caches --------------------------------------------------------------------------------------

    async def store(self) -> None:
        """Sizes of the stores, numbers of objects."""
        for index, store in enumerate(self.stores):
            name = f"etcd-{index}"
            status = await self._status(store)
            size = float(status.size) if status is not None else -1.0
            self.set("apiserver_storage_size_bytes", size, name)
            backend = status.backend if status is not None else name
            self.set("apiserver_storage_db_total_size_in_bytes", size, f"{backend}-{index}")
            self.set("etcd_db_total_size_in_bytes", size, f"{backend}-{index}")
            if status is not None:
                self.set("etcd_version_info", 1, status.backend)
        names = ("apiserver_storage_objects", "apiserver_resource_objects", "etcd_object_counts")
        for name in (*names, "apiserver_resource_size_estimate_bytes"):
            self.registry[name].clear()
        for (group, plural), storage in self.storages().items():
            count = await self._objects(group, plural, storage)
            qualified = f"{plural}.{group}" if group else plural
            self.set("apiserver_storage_objects", count, qualified)
            self.set("etcd_object_counts", count, qualified)
            self.set("apiserver_resource_objects", count, group, plural)
            self.set("apiserver_resource_size_estimate_bytes", _size(storage), group, plural)
            self._cache(group, plural, storage)

    async def _status(self, store: Store) -> StoreStatus | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await store.status()
        except (StoreError, TimeoutError):
            return None

    async def _objects(self, group: str, plural: str, storage: Storage) -> int:
        cache = storage.cache
        if cache.live and cache.filled:
            return len(cache)
        now = asyncio.get_running_loop().time()
        known = self._counted.get((group, plural))
        if known is not None and now - known[0] < COUNT_EVERY_S:
            return known[1]
        try:
            async with asyncio.timeout(PATIENCE_S):
                count = await storage.store.count(storage.keys.prefix)
        except (StoreError, TimeoutError):
            return -1
        self._counted[group, plural] = (now, count)
        return count

    def _cache(self, group: str, plural: str, storage: Storage) -> None:
        cache, resource = storage.cache, storage.resource
        if not cache.filled:
            return
        fanout = cache.fanout
        received = cache.history.end
        self.set("apiserver_storage_events_received_total", received, group, plural)
        self.set("apiserver_watch_cache_events_received_total", received, group, plural)
        self.set("apiserver_watch_cache_events_dispatched_total", received, group, plural)
        self.set("apiserver_watch_cache_initializations_total", cache.restarts + 1, group, plural)
        qualified = f"{plural}.{group}" if group else plural
        self.set("apiserver_watch_cache_watch_cache_initializations_total", cache.restarts + 1, qualified)
        self.set("apiserver_watch_cache_resource_version", cache.version, group, plural)
        self.set("watch_cache_capacity", cache.history.limits.most, group, plural)
        self._figures(group, plural, resource, cache.figures)
        self.set("apiserver_watch_events_total", fanout.delivered, group, resource.version, plural)
        self.set("apiserver_registered_watchers", len(fanout.watchers), group, resource.version, resource.kind)

    def _figures(self, group: str, plural: str, resource: Resource, figures: CacheFigures) -> None:
        self.set("apiserver_cache_list_total", figures.lists, group, plural, "")
        self.set("apiserver_cache_list_fetched_objects_total", figures.looked_at, group, plural, "")
        self.set("apiserver_cache_list_returned_objects_total", figures.listed, group, plural)
        self.set("apiserver_init_events_total", figures.initial, group, plural)
        self.set("etcd_bookmark_counts", figures.bookmarks, group, plural)
        self.set("apiserver_terminated_watchers_total", figures.slow, group, plural)
        self.set("apiserver_watch_cache_consistent_read_total", figures.consistent, group, plural, "true", "false")
        self.set("apiserver_watch_cache_consistent_read_total", figures.fell_back, group, plural, "false", "true")
        self._share("apiserver_watch_cache_read_wait_seconds", figures.waits, group, plural)
        self._share("apiserver_watch_events_sizes", figures.sizes, group, resource.version, plural)
        self._share(
            "apiserver_watch_list_duration_seconds", figures.streams, group, resource.version, plural, "cluster"
        )

    async def services(self, services: Services) -> None:
        """Addresses and node ports of services."""
        network, addresses, ports = services.pools
        try:
            async with asyncio.timeout(PATIENCE_S):
                taken, open_ports = await addresses.used(), await ports.used()
        except (StoreError, TimeoutError):
            return
        prefix = "kube_apiserver_"
        self.set(f"{prefix}clusterip_allocator_allocated_ips", taken, network)
        self.set(f"{prefix}clusterip_allocator_available_ips", addresses.size - taken, network)
        self.set(f"{prefix}nodeport_allocator_allocated_ports", open_ports)
        self.set(f"{prefix}nodeport_allocator_available_ports", ports.size - open_ports)

    # -- flow control -------------------------------------------------------------------------------------------

    def flow(self, flow: FlowControl) -> None:
        """Seats and queues."""
        for kind, inflight in flow.kinds.items():
            running, waiting = inflight.look()
            self.set("apiserver_current_inflight_requests", running, kind)
            self.set("apiserver_current_inqueue_requests", waiting, kind)
            for what in ("current_requests", "request_count_samples"):
                name = f"apiserver_flowcontrol_read_vs_write_{what}"
                self._sample(name, running / max(flow.pool.total, 1), "executing", kind)
                self._sample(name, waiting / max(flow.pool.total, 1), "waiting", kind)
        prefix = "apiserver_flowcontrol_"
        limits = 0
        for level in flow.pool.levels.values():
            name = level.name
            for limit in ("request_concurrency_limit", "nominal_limit_seats", "target_seats"):
                self.set(prefix + limit, level.nominal, name)
            current = max(level.nominal, level.used)
            limits += current
            self.set(f"{prefix}lower_limit_seats", level.lower, name)
            self.set(f"{prefix}upper_limit_seats", level.upper, name)
            self.set(f"{prefix}current_limit_seats", current, name)
            wanted = level.used + level.waiting_seats
            self.set(f"{prefix}demand_seats_high_watermark", max(level.most, wanted), name)
            level.most = wanted
            for demand in ("demand_seats_average", "demand_seats_smoothed"):
                self.set(prefix + demand, wanted, name)
            self._level(level, current, wanted)
            for clock in ("current_r", "dispatch_r", "latest_s"):
                self.set(prefix + clock, level.clock, name)
        self.set(f"{prefix}seat_fair_frac", flow.pool.total / limits if limits else 0.0)
        for lane in flow.lanes.values():
            self._lane(lane)

    def _level(self, level: Level, seats: int, wanted: int) -> None:
        """How much of a priority level is in use."""
        prefix, name = "apiserver_flowcontrol_", level.name
        self._sample(f"{prefix}demand_seats", wanted / max(level.nominal, 1), name)
        executing, waiting = level.used / max(seats, 1), level.waiting_seats / max(seats, 1)
        self._sample(f"{prefix}priority_level_seat_utilization", executing, name, "executing")
        for what in ("request_utilization", "request_count_samples"):
            self._sample(f"{prefix}priority_level_{what}", executing, "executing", name)
            self._sample(f"{prefix}priority_level_{what}", waiting, "waiting", name)

    def _lane(self, lane: Lane) -> None:
        prefix = "apiserver_flowcontrol_"
        labels = (lane.level, lane.schema)
        counts = {
            "dispatched_requests_total": lane.dispatched,
            "current_executing_requests": lane.executing,
            "current_executing_seats": lane.seats,
            "request_concurrency_in_use": lane.seats,
            "current_inqueue_requests": lane.waiting,
            "current_inqueue_seats": lane.waiting_seats,
            "request_dispatch_no_accommodation_total": lane.no_room,
        }
        for name, value in counts.items():
            self.set(prefix + name, value, *labels)
        for reason, count in lane.refused.items():
            self.set(f"{prefix}rejected_requests_total", count, *labels, reason)
        self._share(f"{prefix}request_wait_duration_seconds", lane.waited, *labels, "true")
        self._share(f"{prefix}request_wait_duration_seconds", lane.gave_up, *labels, "false")
        self._share(f"{prefix}request_execution_seconds", lane.ran, *labels, "regular")
        self._share(f"{prefix}request_execution_seconds", lane.watched, *labels, "watch")
        self._share(f"{prefix}request_queue_length_after_enqueue", lane.lengths, *labels)
        self._share(f"{prefix}work_estimated_seats", lane.estimated, *labels)

    def _sample(self, name: str, value: float, *labels: str) -> None:
        """One more value of what is looked at when the metrics are (upstream: each nanosecond)."""
        self.registry[name].hist(*labels).observe(value)

    def _share(self, name: str, hist: Hist, *labels: str) -> None:
        """A histogram that somebody else keeps."""
        self.registry[name].hists.setdefault(labels, hist)

    # -- the rest -----------------------------------------------------------------------------------------------

    def authentication(self, authenticator: Authenticator) -> None:
        """How many were known."""
        for result, count in authenticator.attempts.items():
            self.set("authentication_attempts", count, result)

    def audit(self, trail: Recorded) -> None:
        """Events written and lost."""
        self.set("apiserver_audit_event_total", trail.events)
        for level, count in trail.levels.items():
            self.set("apiserver_audit_level_total", count, level)
        for sink, count in trail.errors().items():
            self.set("apiserver_audit_error_total", count, sink)

    def process(self) -> None:
        """Processor, memory and files of this process."""
        for family in self._process.collect():
            for sample in family.samples:
                self.set(sample.name, sample.value)

    def whole(self) -> None:
        """What the process counted where no server was at hand."""
        show(self.registry)

    def older(self) -> None:
        """Names that are gone upstream, from those that are there."""
        counts = self.registry["apiserver_request_count"]
        for cell in counts.cells.values():
            cell.value = 0.0
        for labels, cell in self.registry["apiserver_request_total"].cells.items():
            verb, _, group, version, resource, subresource, scope, component, code = labels
            old = (verb, group, version, resource, subresource, scope, component, "", "application/json", code)
            counts.cell(*old).value += cell.value
        summaries = self.registry["apiserver_request_latencies_summary"]
        for place, hist in self.registry["apiserver_request_latencies"].hists.items():
            summary = summaries.hist(*place)
            summary.counts[0], summary.sum = hist.count, hist.sum
        for kind, cell in self.registry["apiserver_dropped_requests_total"].cells.items():
            self.set("apiserver_dropped_requests", cell.value, *kind)


def _size(storage: Storage) -> float:
    """Bytes of the objects that the cache knows."""
    snapshot = storage.cache.snapshot() if storage.cache.filled else None
    return -1.0 if snapshot is None else float(sum(len(stored.raw) for stored in snapshot.all("")))
