"""The cells of a world: allocation, and the rows that copies of objects lie in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from attrs import define, evolve, field, frozen

from dashpot.model.core import Graph, Node
from dashpot.model.kernel.domain import Leaf
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.schema import Schema
from dashpot.model.kernel.values import Object
from dashpot.model.system import Cell


@frozen
class Reference:
    """A copy that names an incarnation: of `slot`, or of the slot that `slot_cell` holds.

    cell   the incarnation, plus `base` (locals: 1, so that 0 is "no copy"); valid: a cell that is 0 for "no copy"
    """

    slot_cell: int | None
    slot: int
    cell: int
    valid: int | None
    base: int = 0


Row = dict[str, int]
"""Leaf path → cell, with "present" and "incarnation" beside the leaves of the kind."""


@define(eq=False)
class Layout:
    """All cells, and which of them age, hold incarnations, or say that a copy is current.

    ages        (cell, first value that is an age): every tick these grow
    references  kind → copies that carry the incarnation of an object of that kind
    generations kind → cells that hold a generation of one of its objects ("": of any kind, where they meet)
    currency    kind → [(slot cell or None, fixed slot, current cell)]: cleared by a write to the object
    """

    schema: Schema
    cells: list[Cell] = field(factory=list)
    ages: list[tuple[int, int]] = field(factory=list)
    references: dict[str, list[Reference]] = field(factory=dict)
    generations: dict[str, list[int]] = field(factory=dict)
    owner_references: list[tuple[int, int]] = field(factory=list)
    currency: dict[str, list[tuple[int | None, int, int]]] = field(factory=dict)

    @property
    def g(self) -> Graph:
        return self.schema.finite.g

    def add(
        self,
        area: str,
        path: str,
        lo: int,
        hi: int,
        initial: int = 0,
        *,
        actor: str = "",
        kind: str = "",
        slot: int = -1,
        texts: tuple[str, ...] | None = None,
        root: bool = False,
    ) -> int:
        index = len(self.cells)
        cell = Cell(index, area, actor, kind, slot, path, lo, hi, initial, texts, root=root)
        if slot >= 0 and kind in self.schema.finite.symmetric_kinds:
            cell = evolve(cell, dims=((kind, slot),))
        self.cells.append(cell)
        return index

    def add_slot(self, area: str, path: str, kind: str, *, actor: str) -> int:
        """A cell that holds a slot of `kind` (see `Schema.slot_code`)."""
        names = self.schema.info(kind).names
        base = self.schema.slot_code(kind, 0)
        texts = ("none",) * base + tuple(names)
        owner = kind if area == "pending" else ""
        cell = self.add(area, path, 0, len(names) - 1 + base, 0, actor=actor, kind=owner, texts=texts)
        if base:
            self.amend(cell, ref=kind, base=base)
        return cell

    def amend(self, cell: int, **changes: Any) -> None:
        """Change what is known of a cell."""
        self.cells[cell] = attrs.evolve(self.cells[cell], **changes)

    def leaves(
        self, leaves: Iterable[Leaf], area: str, *, actor: str = "", kind: str = "", slot: int = -1, prefix: str = ""
    ) -> Row:
        """Cells for a run of leaves; leaf paths as keys. Ages and owner incarnations are registered."""
        row: Row = {}
        for leaf in leaves:
            row[leaf.path] = self.add(
                area,
                prefix + leaf.path,
                leaf.lo,
                leaf.hi,
                leaf.zero,
                actor=actor,
                kind=kind,
                slot=slot,
                texts=leaf.texts,
            )
            if leaf.dims or leaf.ref:
                self.amend(
                    row[leaf.path], dims=self.cells[row[leaf.path]].dims + leaf.dims, ref=leaf.ref, base=leaf.base
                )
                self.amend(row[leaf.path], family=prefix + leaf.family if leaf.family else "")
            if leaf.ranked:
                self.generations.setdefault("" if self.schema.crossing else kind, []).append(row[leaf.path])
            age = self.age_base(kind, leaf)
            if age is not None:
                self.ages.append((row[leaf.path], age))
        for path, cell in row.items():
            if path.endswith(".incarnation") and path[: -len(".incarnation")] in row:
                self.owner_references.append((row[path[: -len(".incarnation")]], cell))
        return row

    def age_base(self, kind: str, leaf: Leaf) -> int | None:
        """For a leaf that holds a time: the value that stands for age 0."""
        texts = leaf.texts
        if texts and texts[-1].endswith("ticks ago or more"):
            return 1 if texts[0] == "null" else 0
        return None

    def copy(self, kind: str, area: str, *, actor: str = "", slot: int = -1, prefix: str = "") -> Row:
        """Cells for a copy of an object of `kind`: presence, incarnation where kinds return, its leaves."""
        row: Row = {"present": self.add(area, prefix + "present", 0, 1, actor=actor, kind=kind, slot=slot)}
        if self.schema.returns(kind) and area != "store":
            # One value more: NEW, the object that this very step makes; locals keep 0 for "no copy".
            top = self.schema.finite.incarnations + (area == "local")
            row["incarnation"] = self.add(area, prefix + "incarnation", 0, top, actor=actor, kind=kind, slot=slot)
        row.update(self.leaves(self.schema.info(kind).leaves, area, actor=actor, kind=kind, slot=slot, prefix=prefix))
        return row

    def zeros(self, row: Row) -> dict[str, Node]:
        return {leaf: self.g.const(self.cells[cell].initial if leaf != "present" else 0) for leaf, cell in row.items()}


def read_row(g: Graph, path: Path, row: Row, leaf: str) -> Node:
    """A leaf of a copy that lies in cells; the incarnation of kinds that never return is 0."""
    cell = row.get(leaf)
    return g.const(0) if cell is None else path.get(cell)


def copy_of(schema: Schema, path: Path, kind: str, slot: int, row: Row, current: Node, source: str) -> Object:
    """The object whose leaves lie in `row`, as it is at this point of the step."""
    g = schema.finite.g
    return Object(
        kind, slot, lambda leaf: read_row(g, path, row, leaf), read_row(g, path, row, "incarnation"), current, source
    )


def frozen_copy(schema: Schema, copy: Object, current: Node, source: str = "local") -> Object:
    """A snapshot: later writes of the step do not show in it."""
    snapshot = {leaf.path: copy.read(leaf.path) for leaf in schema.info(copy.kind).leaves}
    return Object(copy.kind, copy.slot, snapshot.__getitem__, copy.incarnation, current, source)
