"""The work queue between an informer's handlers and a reconciler: each key once, never two workers on one key.

    while (key := await queue.get()) is not None:
        try: await reconcile(key); queue.forget(key)
        except Retry: queue.add_rate_limited(key)
        finally: queue.done(key)

Source: client-go util/workqueue, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, Protocol, TypeVar

from attrs import define, field

from dashpot.runtime.client.tokenbucket import TokenBucket

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

BASE_S, MOST_S = 0.005, 1000.0
QPS, BURST = 10.0, 100


class RateLimiter(Protocol[K_contra]):
    """How long a key that failed waits."""

    def when(self, key: K_contra) -> float:
        """Counts a failure; seconds to wait."""
        ...

    def forget(self, key: K_contra) -> None:
        """The key is fine again."""
        ...

    def requeues(self, key: K_contra) -> int:
        """How many failures are counted."""
        ...


@define(eq=False)
class Exponential(Generic[K]):
    """`base` · 2ⁿ seconds after n earlier failures of the key, `most` at the most."""

    base: float = BASE_S
    most: float = MOST_S
    _failures: dict[K, int] = field(factory=dict, init=False)

    def when(self, key: K) -> float:
        """Counts a failure; seconds to wait."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        # 2.0 ** 1024 overflows; by 64 any base has passed any limit
        return min(self.base * 2.0 ** min(count, 64), self.most)

    def forget(self, key: K) -> None:
        """The key is fine again."""
        self._failures.pop(key, None)

    def requeues(self, key: K) -> int:
        """How many failures are counted."""
        return self._failures.get(key, 0)


@define(eq=False)
class Overall:
    """All keys together: `qps` a second after the first `burst`."""

    qps: float = QPS
    burst: int = BURST
    _bucket: TokenBucket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._bucket = TokenBucket(self.qps, self.burst)

    def when(self, key: Hashable) -> float:
        """Seconds to wait for a token."""
        return self._bucket.reserve()

    def forget(self, key: Hashable) -> None:
        """Tokens know no keys."""
        return

    def requeues(self, key: Hashable) -> int:
        """Tokens know no keys."""
        return 0


class Slowest(Generic[K]):
    """The longest wait of several limiters."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        """Counts a failure; seconds to wait."""
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: K) -> None:
        """The key is fine again."""
        for limiter in self._limiters:
            limiter.forget(key)

    def requeues(self, key: K) -> int:
        """How many failures are counted."""
        return max(limiter.requeues(key) for limiter in self._limiters)


def controllers_limiter() -> RateLimiter[Hashable]:
    """What controllers use: 5 ms · 2ⁿ for each key, and 10 a second after 100 for all."""
    return Slowest(Exponential(), Overall())


class QueueMetrics(Protocol):
    """Who keeps a queue's figures (upstream: workqueue_depth, _adds_total, _queue_duration_seconds,
    _work_duration_seconds, _retries_total). Times in seconds."""

    def depth(self, count: int) -> None:
        """How many keys wait for a worker."""
        ...

    def added(self) -> None:
        """A key was added that did not wait already."""
        ...

    def taken(self, waited: float) -> None:
        """A worker took a key."""
        ...

    def finished(self, worked: float) -> None:
        """A worker is done with a key."""
        ...

    def retried(self) -> None:
        """A key was added for later."""
        ...


@define
class Figures:
    """The plain sums of a queue's figures."""

    length: int = 0
    adds: int = 0
    retries: int = 0
    takes: int = 0
    waited: float = 0.0
    worked: float = 0.0
    longest_wait: float = 0.0

    def depth(self, count: int) -> None:
        """How many keys wait for a worker."""
        self.length = count

    def added(self) -> None:
        """A key was added that did not wait already."""
        self.adds += 1

    def taken(self, waited: float) -> None:
        """A worker took a key."""
        self.takes += 1
        self.waited += waited
        self.longest_wait = max(self.longest_wait, waited)

    def finished(self, worked: float) -> None:
        """A worker is done with a key."""
        self.worked += worked

    def retried(self) -> None:
        """A key was added for later."""
        self.retries += 1


class WorkQueue(Generic[K]):
    """Keys in order of their first addition. For one event loop; time is the loop's."""

    def __init__(self, limiter: RateLimiter[K] | None = None, metrics: QueueMetrics | None = None) -> None:
        self._limiter: RateLimiter[K] = limiter if limiter is not None else controllers_limiter()
        self._metrics: QueueMetrics = metrics if metrics is not None else Figures()
        self._queue: deque[K] = deque()
        self._dirty: dict[K, float] = {}
        """Keys that need work, and since when."""
        self._processing: dict[K, float] = {}
        """Keys that a worker has, and since when."""
        self._later: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ending = False

    def __len__(self) -> int:
        """How many keys wait for a worker."""
        return len(self._queue)

    @property
    def ending(self) -> bool:
        """Whether nothing more is taken in."""
        return self._ending

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._later)

    @property
    def longest_running(self) -> float:
        """For how long a worker has had its key, the longest; seconds."""
        return max((_now() - since for since in self._processing.values()), default=0.0)

    def add(self, key: K) -> None:
        """The key needs work. A key that waits is not added twice; one that a worker has comes again afterwards."""
        if self._ending or key in self._dirty:
            return
        self._dirty[key] = _now()
        self._metrics.added()
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: K, seconds: float) -> None:
        """The key needs work, but not yet. Of several times for one key the earliest counts."""
        if self._ending:
            return
        self._metrics.retried()
        if seconds <= 0:
            self.add(key)
            return
        due = _now() + seconds
        known = self._later.get(key)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._later[key] = (due, asyncio.get_running_loop().call_at(due, self._due, key))

    def add_rate_limited(self, key: K) -> None:
        """The key failed: again after its back-off."""
        self.add_after(key, self._limiter.when(key))

    def forget(self, key: K) -> None:
        """The key is fine: its next failure counts as the first."""
        self._limiter.forget(key)

    def requeues(self, key: K) -> int:
        """How often the key has failed."""
        return self._limiter.requeues(key)

    async def get(self) -> K | None:
        """The next key, which no other worker gets until `done`; None when the queue has ended and is empty."""
        while not self._queue:
            if self._ending:
                return None
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the key that woke this one is another's now
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise
        key = self._queue.popleft()
        self._taken(key)
        return key

    def waiting(self) -> list[K]:
        """The keys that wait for a worker, in order."""
        return list(self._queue)

    def take(self, key: K) -> bool:
        """As `get`, but this very key; whether it waited. For one who decides the order himself."""
        if key not in self._queue:
            return False
        self._queue.remove(key)
        self._taken(key)
        return True

    def _taken(self, key: K) -> None:
        self._metrics.depth(len(self._queue))
        now = _now()
        self._metrics.taken(now - self._dirty.pop(key))
        self._processing[key] = now
        self._idle.clear()

    def done(self, key: K) -> None:
        """The worker is through with the key, well or not."""
        since = self._processing.pop(key, None)
        if since is None:
            return
        self._metrics.finished(_now() - since)
        if key in self._dirty:
            self._push(key)
        if not self._processing:
            self._idle.set()

    def shut_down(self) -> None:
        """Nothing more is taken in; workers get what is there, then None. Delayed keys are dropped."""
        self._ending = True
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
        while self._getters:
            self._wake()

    async def drain(self) -> None:
        """As shut_down, and waits until all that was taken in is done."""
        self.shut_down()
        while self._queue or self._processing:
            self._idle.clear()
            await self._idle.wait()

    def _due(self, key: K) -> None:
        del self._later[key]
        self.add(key)

    def _push(self, key: K) -> None:
        self._queue.append(key)
        self._metrics.depth(len(self._queue))
        self._wake()

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


async def work(
    queue: WorkQueue[K],
    one: Callable[[K], Awaitable[object]],
    *,
    workers: int = 1,
) -> None:
    """Runs workers until the queue ends. `one` is a coroutine function; a key for which it raises comes again after
    its back-off, any other is forgotten. It may add its key for later itself."""

    async def loop() -> None:
        while (key := await queue.get()) is not None:
            try:
                await one(key)
            except Exception:
                queue.add_rate_limited(key)
            else:
                queue.forget(key)
            finally:
                queue.done(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(loop())


def _now() -> float:
    return asyncio.get_running_loop().time()
