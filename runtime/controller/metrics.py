"""Figures of controllers under the names of controller-runtime and of client-go's workqueue; and what fails, by key.

The last error of a key that fails again and again they do not tell: it has names that begin with `dashpot_`.

Sources: controller-runtime pkg/internal/controller/metrics and pkg/metrics/workqueue.go, release 0.21.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from attrs import frozen
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

RECONCILE_S = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
)  # fmt: skip
QUEUE_S = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)

RESULTS = {"done": "success", "requeue": "requeue", "after": "requeue_after"}
"""How a pass ended → the label `result`; all else is `error`."""


ERROR_MAX = 300
"""Characters of an error that a figure carries."""

FAILING = {
    "keys": "Keys whose last pass failed.",
    "since_seconds": "When the key that has failed for longest failed first, and its last error.",
    "last_seconds": "When it failed last.",
}
"""What the figures of keys that fail are called, behind `dashpot_controller_failing_`."""


@frozen
class Failure:
    """A key whose last passes failed: when the first of them did, and the last (seconds since 1970); its error."""

    since: float
    last: float
    error: str


class Metrics:
    """All figures of one manager."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._queues: list[Callable[[], None]] = []
        self._failing: dict[str, dict[Hashable, Failure]] = {}
        registry, by, queue = self.registry, ["controller"], ["name", "controller"]
        runtime = "controller_runtime"
        self.reconciles = Counter(f"{runtime}_reconcile_total", "Passes.", [*by, "result"], registry=registry)
        self.errors = Counter(f"{runtime}_reconcile_errors_total", "Passes that failed.", by, registry=registry)
        self.panics = Counter(f"{runtime}_reconcile_panics_total", "Undefined terms.", by, registry=registry)
        self.seconds = Histogram(
            f"{runtime}_reconcile_time_seconds", "How long passes take.", by, buckets=RECONCILE_S, registry=registry
        )
        self.most = Gauge(f"{runtime}_max_concurrent_reconciles", "Workers.", by, registry=registry)
        self.active = Gauge(f"{runtime}_active_workers", "Workers with a key.", by, registry=registry)
        self.depth = Gauge("workqueue_depth", "Keys that wait.", queue, registry=registry)
        self.adds = Counter("workqueue_adds_total", "Keys added.", queue, registry=registry)
        self.retries = Counter("workqueue_retries_total", "Keys added for later.", queue, registry=registry)
        self.waited = Histogram(
            "workqueue_queue_duration_seconds", "How long keys wait.", queue, buckets=QUEUE_S, registry=registry
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds", "How long work takes.", queue, buckets=QUEUE_S, registry=registry
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds", "The longest pass at work.", queue, registry=registry
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds", "How long passes at work have taken.", queue, registry=registry
        )

    def queue(self, name: str) -> QueueFigures:
        """The figures of one actor's queue."""
        return QueueFigures(self, name)

    def passed(self, name: str, how: str, seconds: float) -> None:
        """Counts a pass: how it ended, and how long it took."""
        result = RESULTS.get(how, "error")
        self.reconciles.labels(name, result).inc()
        self.seconds.labels(name).observe(seconds)
        if result == "error":
            self.errors.labels(name).inc()
        if how == "panic":
            self.panics.labels(name).inc()

    def failed(self, name: str, key: Hashable, error: str, at: float) -> None:
        """A pass for a key failed, `at` seconds since 1970."""
        keys = self._failing.setdefault(name, {})
        known = keys.get(key)
        keys[key] = Failure(known.since if known else at, at, error)

    def settled(self, name: str, key: Hashable) -> None:
        """A pass for a key did not fail."""
        if name in self._failing:
            self._failing[name].pop(key, None)

    def ended(self, name: str) -> None:
        """An actor has ended: none of its keys is tried any more."""
        self._failing.pop(name, None)

    def running(self, name: str, longest: Callable[[], float]) -> None:
        """Whom to ask, at each scrape, for how long the longest pass of an actor has run."""

        def ask() -> None:
            self.longest.labels(name, name).set(longest())
            self.unfinished.labels(name, name).set(longest())

        self._queues.append(ask)

    def text(self) -> bytes:
        """What /metrics answers."""
        for ask in self._queues:
            ask()
        return generate_latest(self.registry) + self._failures().encode()

    def _failures(self) -> str:
        """How many keys of each actor fail; the one that has failed for longest: since when, with the last error."""
        pages: dict[str, list[str]] = {name: [] for name in FAILING}
        for actor, keys in self._failing.items():
            pages["keys"].append(f'{{controller="{actor}"}} {len(keys)}')
            if keys:
                key, one = min(keys.items(), key=lambda item: item[1].since)
                labels = f'controller="{actor}",key="{_escaped(str(key))}"'
                pages["since_seconds"].append(f'{{{labels},error="{_escaped(one.error)}"}} {one.since:.3f}')
                pages["last_seconds"].append(f"{{{labels}}} {one.last:.3f}")
        found = []
        for name, rows in pages.items():
            full = f"dashpot_controller_failing_{name}"
            found += [f"# HELP {full} {FAILING[name]}", f"# TYPE {full} gauge", *(full + row for row in rows)]
        return "\n".join((*found, ""))


def _escaped(text: str) -> str:
    return text[:ERROR_MAX].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class QueueFigures:
    """A queue's part of the figures (see QueueMetrics)."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._depth = metrics.depth.labels(name, name)
        self._adds = metrics.adds.labels(name, name)
        self._retries = metrics.retries.labels(name, name)
        self._waited = metrics.waited.labels(name, name)
        self._worked = metrics.worked.labels(name, name)

    def depth(self, count: int) -> None:
        """How many keys wait for a worker."""
        self._depth.set(count)

    def added(self) -> None:
        """A key was added that did not wait already."""
        self._adds.inc()

    def taken(self, waited: float) -> None:
        """A worker took a key."""
        self._waited.observe(waited)

    def finished(self, worked: float) -> None:
        """A worker is done with a key."""
        self._worked.observe(worked)

    def retried(self) -> None:
        """A key was added for later."""
        self._retries.inc()
