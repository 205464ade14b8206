"""Counters, gauges and histograms as cheap as attributes, and the text in which Prometheus reads them.

A request touches about ten of them, so a cell is found once and kept by its user; `inc` and `observe` take no lock: the
server has one thread. Names stay as Kubernetes has them, also where a counter does not end in `_total`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

SERIES_MAX = 5_000
"""Series of one family; what comes after shares one series whose labels say `other`."""


@frozen
class Row:
    """One metric: what the table knows of it. `since` and `until` are Kubernetes releases; `until` empty: still there
    in 1.34."""

    name: str
    kind: str
    """counter, gauge, histogram or summary."""
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    since: str
    until: str
    help: str
    zero: str = ""
    """Why nothing ever counts in it; empty where something does."""


class Cell:
    """One counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        """Adds."""
        self.value += by


class Hist:
    """One histogram; without bounds, a summary: count and sum alone."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = ()) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def many(self, value: float, times: int) -> None:
        """Counts a value several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        """How many values."""
        return sum(self.counts)


@define(eq=False)
class Family:
    """All series of one metric."""

    row: Row
    cells: dict[tuple[str, ...], Cell] = field(factory=dict)
    hists: dict[tuple[str, ...], Hist] = field(factory=dict)

    def cell(self, *values: str) -> Cell:
        """The counter or gauge of these label values, in the table's order."""
        found = self.cells.get(values)
        if found is None:
            values = self._bounded(values, self.cells)
            found = self.cells.setdefault(values, Cell())
        return found

    def hist(self, *values: str) -> Hist:
        """The histogram of these label values."""
        found = self.hists.get(values)
        if found is None:
            values = self._bounded(values, self.hists)
            found = self.hists.setdefault(values, Hist(self.row.buckets))
        return found

    def set(self, value: float, *values: str) -> None:
        """Sets a gauge."""
        self.cell(*values).value = value

    def clear(self) -> None:
        """Forgets all series: of gauges that are looked up anew at each scrape."""
        self.cells.clear()
        self.hists.clear()

    def _bounded(
        self, values: tuple[str, ...], known: dict[tuple[str, ...], Cell] | dict[tuple[str, ...], Hist]
    ) -> tuple[str, ...]:
        assert len(values) == len(self.row.labels), f"{self.row.name}{self.row.labels}: {values}"
        return values if len(known) < SERIES_MAX else ("other",) * len(values)

    def text(self) -> Iterator[str]:
        """The lines of the family, each with its end."""
        row = self.row
        yield f"# HELP {row.name} {row.help}\n# TYPE {row.name} {row.kind}\n"
        if not row.labels:
            if row.kind in ("histogram", "summary"):
                self.hist()
            else:
                self.cell()
        for values, cell in self.cells.items():
            yield f"{row.name}{_labelled(row.labels, values)} {_number(cell.value)}\n"
        for values, hist in self.hists.items():
            yield from _hist_text(row, values, hist)


def _hist_text(row: Row, values: tuple[str, ...], hist: Hist) -> Iterator[str]:
    labels = _labelled(row.labels, values)
    total = 0
    if row.kind == "histogram":
        inner = labels[1:-1] + "," if labels else ""
        for bound, count in zip(hist.bounds, hist.counts, strict=False):
            total += count
            yield f'{row.name}_bucket{{{inner}le="{_number(bound)}"}} {total}\n'
        total += hist.counts[-1]
        yield f'{row.name}_bucket{{{inner}le="+Inf"}} {total}\n'
    else:
        total = hist.count
    yield f"{row.name}_sum{labels} {_number(hist.sum)}\n{row.name}_count{labels} {total}\n"


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(pairs)}}}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


class Registry:
    """All families of a server, by name."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._families = {row.name: Family(row) for row in rows}

    def __getitem__(self, name: str) -> Family:
        return self._families[name]

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def pages(self) -> Iterator[str]:
        """The page, family by family."""
        for name in sorted(self._families):
            yield "".join(self._families[name].text())
