"""What is counted of one watch cache, for the metrics."""

from __future__ import annotations

from attrs import define, field

from dashpot.runtime.api.metrics_cells import Hist

_WAITS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3)
_SIZES = tuple(1024.0 * 2**i for i in range(8))
_STREAMS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60)


@define(eq=False)
class CacheFigures:
    """Plain numbers; whoever does a thing counts it."""

    consistent: int = 0
    """Consistent reads that the cache could serve."""
    fell_back: int = 0
    """Consistent reads for which the store was asked."""
    lists: int = 0
    looked_at: int = 0
    listed: int = 0
    """Objects sent for lists."""
    initial: int = 0
    """Objects that watches were told at their beginning."""
    bookmarks: int = 0
    """Notes of the store that all events up to a revision were told."""
    slow: int = 0
    """Watches that were closed because they did not read."""
    waits: Hist = field(factory=lambda: Hist(_WAITS))
    sizes: Hist = field(factory=lambda: Hist(_SIZES))
    """Bytes of the events sent to watches."""
    streams: Hist = field(factory=lambda: Hist(_STREAMS))
    """Seconds until a streaming list had sent all that there was."""

    def sent(self, events: int, size: int) -> None:
        """A watch was sent so many events, `size` bytes together."""
        self.sizes.many(size / events, events)

    def served(self, looked_at: int, listed: int) -> None:
        """A list was served from the cache."""
        self.lists += 1
        self.looked_at += looked_at
        self.listed += listed
