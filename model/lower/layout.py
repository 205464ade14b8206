"""Where each cell lies in a packed state: one integer a state, cells from the lowest bit up in their own order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from dashpot.model.system import System


@frozen
class Layout:
    """Bit positions of the cells of a system.

    shift, width  per cell index, in bits; width 0: a constant cell, which takes no room
    lo            per cell index: the value that is stored as 0
    bits          total width of a state
    """

    shift: tuple[int, ...]
    width: tuple[int, ...]
    lo: tuple[int, ...]
    bits: int

    def mask(self, index: int) -> int:
        """The bits of one cell, in place."""
        return ((1 << self.width[index]) - 1) << self.shift[index]

    def pack(self, values: Sequence[int]) -> int:
        """The packed form of cell values (by cell index)."""
        state = 0
        for shift, lo, value in zip(self.shift, self.lo, values, strict=True):
            state |= (value - lo) << shift
        return state

    def read(self, index: int, state: int) -> int:
        """The value of one cell in a packed state."""
        return (state >> self.shift[index] & (1 << self.width[index]) - 1) + self.lo[index]

    def unpack(self, state: int) -> tuple[int, ...]:
        """The cell values of a packed state, by cell index."""
        return tuple(
            (state >> shift & (1 << width) - 1) + lo
            for shift, width, lo in zip(self.shift, self.width, self.lo, strict=True)
        )


def lay_out(system: System) -> Layout:
    """Give every cell its bits.

    A ranked cell has room for one value more than its range: a step may write one more than the highest, and only
    then are the ranks renumbered (system.RankClass).
    """
    ranked = {index for rank in system.ranks for index in rank.cells}
    shifts: list[int] = []
    widths: list[int] = []
    total = 0
    for cell in system.cells:
        width = (cell.hi - cell.lo + (cell.index in ranked)).bit_length()
        shifts.append(total)
        widths.append(width)
        total += width
    return Layout(tuple(shifts), tuple(widths), tuple(cell.lo for cell in system.cells), total)


def renumber(values: Sequence[int], floor: int) -> tuple[int, ...]:
    """Ranks made dense from `floor` on, order kept; values below `floor` stay (system.RankClass)."""
    high = {value: floor + i for i, value in enumerate(sorted({v for v in values if v >= floor}))}
    return tuple(high.get(value, value) for value in values)


def renumberer(layout: Layout, cells: tuple[int, ...], floor: int) -> Callable[[int], int]:
    """A function from packed states to packed states that renumbers one rank class, remembering what it did."""
    mask = 0
    for index in cells:
        mask |= layout.mask(index)
    known: dict[int, int] = {}

    def ranked(state: int) -> int:
        part = state & mask
        change = known.get(part)
        if change is None:
            values = [layout.read(index, state) for index in cells]
            change = part
            for index, value in zip(cells, renumber(values, floor), strict=True):
                change ^= value - layout.lo[index] << layout.shift[index]
            known[part] = change
        return state ^ change

    return ranked
