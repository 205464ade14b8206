"""The scheduler's figures, under the names that kube-scheduler has (S66). v1.34."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


def _doubling(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**n for n in range(count))


class Metrics:
    """Figures of one scheduler.

    queued, sizes  asked when the figures are: pods by queue, the cache's sizes
    refused   the same: waiting pods by (plugin, profile)
    incoming  pods by (queue, event), counted by the queue
    """

    def __init__(
        self,
        queued: Callable[[], Mapping[str, int]],
        sizes: Callable[[], Mapping[str, int]],
        refused: Callable[[], Mapping[tuple[str, str], int]],
        incoming: Tally[tuple[str, str]],
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self._queued, self._sizes, self._refused, self._incoming = queued, sizes, refused, incoming
        self._counted: Tally[tuple[str, str]] = Tally()
        how = ["result", "profile"]
        attempts, seconds = _doubling(1, 2, 5), _doubling(0.001, 2, 15)
        self.attempts = Counter("scheduler_schedule_attempts_total", "Cycles.", how, registry=registry)
        self.attempt = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "A cycle and its binding.",
            how,
            buckets=seconds,
            registry=registry,
        )
        self.algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "A cycle.", buckets=seconds, registry=registry
        )
        self.sli = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the queue to the binding.",
            ["attempts"],
            buckets=_doubling(0.01, 2, 20),
            registry=registry,
        )
        self.tries = Histogram(
            "scheduler_pod_scheduling_attempts", "Cycles that a pod took.", buckets=attempts, registry=registry
        )
        self.preemptions = Counter("scheduler_preemption_attempts_total", "Preemptions.", registry=registry)
        self.victims = Histogram(
            "scheduler_preemption_victims", "Victims at once.", buckets=_doubling(1, 2, 7), registry=registry
        )
        self._pending = Gauge("scheduler_pending_pods", "Pods that wait.", ["queue"], registry=registry)
        self._came = Counter(
            "scheduler_queue_incoming_pods_total", "Pods that came.", ["queue", "event"], registry=registry
        )
        self._unfit = Gauge(
            "scheduler_unschedulable_pods", "Pods that a plugin refused.", ["plugin", "profile"], registry=registry
        )
        self._size = Gauge("scheduler_cache_size", "What is known.", ["type"], registry=registry)
        self._known: set[tuple[str, str]] = set()

    def text(self) -> bytes:
        """All of them, in Prometheus' text format."""
        for queue, count in self._queued().items():
            self._pending.labels(queue).set(count)
        for kind, count in self._sizes().items():
            self._size.labels(kind).set(count)
        for where, count in self._incoming.items():
            self._came.labels(*where).inc(count - self._counted[where])
            self._counted[where] = count
        refused = self._refused()
        self._known |= set(refused)
        for pair in self._known:
            self._unfit.labels(*pair).set(refused.get(pair, 0))
        return generate_latest(self.registry)
