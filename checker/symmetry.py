"""Interchangeable objects: one representative for all states that differ only in which object is which.

The representative of an orbit is exact. Every element of a group has a signature (the cells that only it indexes, and
which cells without index name it), which permutations carry along. Among the states of an orbit whose elements stand in
the order of their signatures, the smallest packed integer is the representative; they differ only by permutations of
elements of equal signature, which are tried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations, product
from math import factorial

from dashpot.model.lower.layout import Layout
from dashpot.model.lower.python import Backend
from dashpot.model.system import Cell, Group, System

Permutation = tuple[int, ...]
"""old element → new element"""

Move = Callable[[int], int]

Tie = tuple[str, int, int]
"""Elements start..end-1 of a group, by its name, have equal signatures."""

Ties = tuple[Tie, ...]

Place = tuple[tuple[str, ...], tuple[int, ...]]
"""A family of cells, and the elements that index one of them."""


class Symmetries:
    """The permutations of a system's groups, acting on its packed states."""

    def __init__(self, backend: Backend) -> None:
        self.layout: Layout = backend.layout
        self._system: System = backend.system
        self._take(tuple(g for g in backend.system.symmetry.groups if self._used(g)))
        # A cell that is left out for one element alone (nothing can ever be there) has no image: its group is searched
        # without reduction.
        while (whole := tuple(g for g in self.groups if self._closed(g))) != self.groups:
            self._take(whole)
        self._moves: dict[tuple[str, Permutation], Move] = {}
        self._swaps: dict[Tie, list[Move]] = {}
        self._free: dict[Tie, list[Move]] = {}

    def _take(self, groups: tuple[Group, ...]) -> None:
        """These groups are the ones that act."""
        self.groups: tuple[Group, ...] = groups
        self._names = {group.name for group in groups}
        self._families: dict[int, Place] = {}
        self._at: dict[Place, int] = {}
        for cell in self._system.cells:
            self._place(cell)

    def _closed(self, group: Group) -> bool:
        """Whether every cell has a counterpart under each exchange of neighbours, hence under every permutation."""
        for at in range(group.size - 1):
            swap = list(range(group.size))
            swap[at : at + 2] = at + 1, at
            for cell in self._system.cells:
                if self.layout.width[cell.index] and self._counterpart(cell, group, tuple(swap)) is None:
                    return False
        return True

    def _used(self, group: Group) -> bool:
        return group.size > 1 and any(
            cell.width and (cell.ref == group.name or any(name == group.name for name, _ in cell.dims))
            for cell in self._system.cells
        )

    def _place(self, cell: Cell) -> None:
        """Families are told apart by what is the same for all elements, and else by their order."""
        actor = cell.actor.partition("[")[0]
        dims = self._indexed(cell)
        fixed = (cell.kind, cell.family or cell.path) if dims else (cell.kind, cell.path, str(cell.slot), cell.actor)
        names = tuple(name for name, _ in dims)
        for nth in range(len(self._system.cells)):
            place: Place = ((cell.area, actor, *fixed, *names, str(nth)), tuple(e for _, e in dims))
            if place not in self._at:
                self._at[place] = cell.index
                self._families[cell.index] = place
                return

    def move(self, group: Group, permutation: Permutation) -> Move:
        """The action of a permutation of one group on packed states."""
        known = self._moves.get((group.name, permutation))
        if known is None:
            known = self._compile(group, permutation)
            self._moves[group.name, permutation] = known
        return known

    def _compile(self, group: Group, permutation: Permutation) -> Move:
        layout = self.layout
        kept = 0
        shifted: dict[int, int] = {}
        texts: list[str] = []
        tables: dict[str, object] = {}
        for cell in self._system.cells:
            if not layout.width[cell.index]:
                continue
            there = self._image(cell, group, permutation)
            if cell.ref == group.name:
                name = f"T{len(tables)}"
                tables[name] = _renamed(cell, layout, permutation)
                raw = f"{name}[s >> {layout.shift[cell.index]} & {(1 << layout.width[cell.index]) - 1}]"
                texts.append(f"{raw} << {layout.shift[there]}")
            elif there == cell.index:
                kept |= layout.mask(cell.index)
            else:
                distance = layout.shift[there] - layout.shift[cell.index]
                shifted[distance] = shifted.get(distance, 0) | layout.mask(cell.index)
        for distance, mask in shifted.items():
            texts.append(f"(s & {mask}) {'<<' if distance > 0 else '>>'} {abs(distance)}")
        terms = [f"s & {kept}", *texts] if kept or not texts else texts
        move: Move = eval(f"lambda s: {' | '.join(terms)}", tables)
        return move

    def _image(self, cell: Cell, group: Group, permutation: Permutation) -> int:
        image = self._counterpart(cell, group, permutation)
        assert image is not None, cell.name
        return image

    def _counterpart(self, cell: Cell, group: Group, permutation: Permutation) -> int | None:
        """The cell that this one becomes; None where it has none of its width."""
        family, _ = self._families[cell.index]
        there = tuple(permutation[e] if name == group.name else e for name, e in self._indexed(cell))
        image = self._at.get((family, there))
        if image is None or self.layout.width[image] != self.layout.width[cell.index]:
            return None
        return image

    def orbit(self, state: int) -> set[int]:
        """All states that differ from this one by a permutation, itself included."""
        found = {state}
        for group in self.groups:
            moves = [self.move(group, p) for p in permutations(range(group.size))]
            found = {move(s) for s in found for move in moves}
        return found

    def representative(self) -> Move:
        """The function from states to the representatives of their orbits."""
        lines = ["def canon(s):", " ties = ()"]
        space: dict[str, object] = {}
        for k, group in enumerate(self.groups):
            names = [f"e{k}_{element}" for element in range(group.size)]
            for name, text in zip(names, self._signatures(group), strict=True):
                lines.append(f" {name} = {text}")
            space[f"sort{k}"] = self._sorter(group)
            lines.append(f" if not {' < '.join(names)}: s, ties = sort{k}(s, ({', '.join(names)}), ties)")
        space["settle"] = self._settle
        lines += [" return settle(s, ties) if ties else s"]
        exec(compile("\n".join(lines), "<canon>", "exec"), space)
        found: Move = space["canon"]  # type: ignore[assignment]
        return found

    def covered(self, states: Iterable[int]) -> int:
        """How many states the orbits of these representatives have in all.

        An orbit has as many states as there are permutations for each that changes nothing. Where no two signatures are
        equal, only the identity changes nothing.
        """
        lines = ["def size(s):"]
        signatures = []
        for k, group in enumerate(self.groups):
            names = [f"e{k}_{element}" for element in range(group.size)]
            lines += [f" {name} = {text}" for name, text in zip(names, self._signatures(group), strict=True)]
            signatures.append(names)
        distinct = " and ".join(" < ".join(names) for names in signatures) or "True"
        listed = "".join(f"({', '.join(names)}), " for names in signatures)
        lines += [f" if {distinct}: return {self.order}", f" return counted(s, ({listed}))"]
        space: dict[str, object] = {"counted": self._orbit_size}
        exec(compile("\n".join(lines), "<orbits>", "exec"), space)
        size: Callable[[int], int] = space["size"]  # type: ignore[assignment]
        return sum(map(size, states))

    def _orbit_size(self, state: int, signatures: tuple[tuple[int, ...], ...]) -> int:
        """The orbit of a representative, some of whose elements have equal signatures."""
        same = 1
        free = []
        for group, values in zip(self.groups, signatures, strict=True):
            for tie in _ties(group.name, values):
                if self._alike(state, tie):
                    same *= factorial(tie[2] - tie[1])
                else:
                    free.append(tie)
        if free:
            same *= sum(_applied(moves, state) == state for moves in product(*map(self._choices, free)))
        return self.order // same

    def _signatures(self, group: Group) -> list[str]:
        """Per element: an expression over `s` for what distinguishes it, whatever the others are called."""
        layout = self.layout
        naming = [
            cell for cell in self._system.cells
            if cell.ref == group.name and layout.width[cell.index] and not self._indexed(cell)
        ]  # fmt: skip
        texts = []
        for element in range(group.size):
            own = [
                cell.index for cell in self._system.cells
                if self._indexed(cell) == ((group.name, element),) and cell.ref not in self._names
                and layout.width[cell.index]
            ]  # fmt: skip
            terms, width = _gathered(layout, own)
            for cell in naming:
                value = cell.base + element - layout.lo[cell.index] << layout.shift[cell.index]
                terms.append(f"(s & {layout.mask(cell.index)} == {value}) << {width}")
                width += 1
            texts.append(" | ".join(terms) or "0")
        return texts

    def _indexed(self, cell: Cell) -> tuple[tuple[str, int], ...]:
        return tuple(d for d in cell.dims if d[0] in self._names)

    def _sorter(self, group: Group) -> Callable[[int, tuple[int, ...], Ties], tuple[int, Ties]]:
        """Brings the elements of a group into the order of their signatures, and tells which of them are equal."""
        elements = range(group.size)
        identity = tuple(elements)

        moves: dict[tuple[int, ...], Move | None] = {}

        def sort(state: int, signatures: tuple[int, ...], ties: Ties) -> tuple[int, Ties]:
            order = tuple(sorted(elements, key=signatures.__getitem__))
            if order not in moves:
                moves[order] = None if order == identity else self.move(group, _inverse(order))
            move = moves[order]
            if move is not None:
                state = move(state)
            return state, (*ties, *_ties(group.name, [signatures[element] for element in order]))

        return sort

    def _settle(self, state: int, ties: Ties) -> int:
        """The smallest state among those that permute elements of equal signature."""
        free = [tie for tie in ties if not self._alike(state, tie)]
        if not free:
            return state
        least = state
        for moves in product(*map(self._choices, free)):
            moved = _applied(moves, state)
            if moved < least:
                least = moved
        return least

    def _alike(self, state: int, tie: Tie) -> bool:
        """Whether equal elements are equal in everything: swapping neighbours changes nothing."""
        swaps = self._swaps.get(tie)
        if swaps is None:
            name, start, end = tie
            group = self._named(name)
            pairs = [(*range(k), k + 1, k, *range(k + 2, group.size)) for k in range(start, end - 1)]
            swaps = self._swaps[tie] = [self.move(group, pair) for pair in pairs]
        return all(swap(state) == state for swap in swaps)

    def _choices(self, tie: Tie) -> list[Move]:
        """The permutations of equal elements."""
        known = self._free.get(tie)
        if known is None:
            name, start, end = tie
            group = self._named(name)
            orders = [(*range(start), *p, *range(end, group.size)) for p in permutations(range(start, end))]
            known = self._free[tie] = [self.move(group, order) for order in orders]
        return known

    def _named(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)

    @property
    def order(self) -> int:
        """Number of permutations in all."""
        total = 1
        for group in self.groups:
            total *= factorial(group.size)
        return total


def _ties(name: str, signatures: Sequence[int]) -> Iterator[Tie]:
    """The stretches of equal signatures in an ascending list."""
    start = 0
    for end in range(1, len(signatures) + 1):
        if end == len(signatures) or signatures[end] != signatures[start]:
            if end - start > 1:
                yield name, start, end
            start = end


def _applied(moves: Iterable[Move], state: int) -> int:
    for move in moves:
        state = move(state)
    return state


def _renamed(cell: Cell, layout: Layout, permutation: Permutation) -> tuple[int, ...]:
    """Per stored value of a reference: the stored value after renaming; what names no element stays."""
    lo, width = layout.lo[cell.index], layout.width[cell.index]
    values = []
    for raw in range(1 << width):
        element = raw + lo - cell.base
        values.append(permutation[element] + cell.base - lo if 0 <= element < len(permutation) else raw)
    return tuple(values)


def _gathered(layout: Layout, cells: list[int]) -> tuple[list[str], int]:
    """The bits of some cells side by side: terms to be or-ed, total width. Neighbours are taken together."""
    runs: list[tuple[int, int]] = []
    for index in sorted(cells, key=layout.shift.__getitem__):
        shift, width = layout.shift[index], layout.width[index]
        if runs and sum(runs[-1]) == shift:
            runs[-1] = (runs[-1][0], runs[-1][1] + width)
        else:
            runs.append((shift, width))
    terms, at = [], 0
    for shift, width in runs:
        raw = f"(s >> {shift} & {(1 << width) - 1})"
        terms.append(f"{raw} << {at}" if at else raw)
        at += width
    return terms, at


def _inverse(order: tuple[int, ...]) -> Permutation:
    """The permutation that puts the elements of `order` at the places 0, 1, …"""
    places = [0] * len(order)
    for place, element in enumerate(order):
        places[element] = place
    return tuple(places)


def canoniser(backend: Backend) -> Move | None:
    """The function from states to representatives; None when nothing is interchangeable."""
    symmetries = Symmetries(backend)
    return symmetries.representative() if symmetries.groups else None
