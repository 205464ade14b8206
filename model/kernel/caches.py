"""What a controller sees: cached copies, undelivered changes in order, and the keys that they owe.

A change is merged into the last undelivered one if that is of the same key (ruling 6); a full list
delivers its oldest with the write. `when` and key terms are evaluated at the write, on the true pair.
"""

from __future__ import annotations

from attrs import define, field

from dashpot.model import expr as e
from dashpot.model.core import Node
from dashpot.model.kernel.layout import Layout, Reference, Row, copy_of, read_row
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.values import Object
from dashpot.model.kernel.walk import parts
from dashpot.model.program import Index, Wake


@define(eq=False)
class Entry:
    """One undelivered change: which slot, the object after it, the keys it owes.

    `between`: the object was deleted and came back within this merged change.
    `own`: keys whose reconcile made one of the writes in it (read_own_writes).
    """

    slot: int
    row: Row
    between: int
    owed: list[int]
    own: list[int]


@define(eq=False)
class Cache:
    """One actor's view of one kind.

    mode     lagging | read_own_writes | live
    watched  whether changes wake keys; rows are empty where nobody reads the copies
    missed   a bit a slot where a fault may drop changes: what the copy shows has lost one since
    """

    actor: str
    kind: str
    mode: str
    wakes: list[Wake]
    indexes: list[Index]
    rows: list[Row] = field(factory=list)
    entries: list[Entry] = field(factory=list)
    count: int = -1
    missed: list[int] = field(factory=list)

    @property
    def lagging(self) -> bool:
        return bool(self.entries)


def allocate(layout: Layout, cache: Cache, lag: int, keys: int, key_kind: str, drops: bool = False) -> None:
    """Cells for the copies and for `lag` undelivered changes that may owe `keys` keys each."""
    info = layout.schema.info(cache.kind)
    for slot in range(info.size):
        row = layout.copy(cache.kind, "cache", actor=cache.actor, slot=slot)
        cache.rows.append(row)
        if "incarnation" in row:
            ref = Reference(None, slot, row["incarnation"], row["present"])
            layout.references.setdefault(cache.kind, []).append(ref)
        if drops:
            cache.missed.append(layout.add("shadow", "missed", 0, 1, actor=cache.actor, kind=cache.kind, slot=slot))
    if lag:
        cache.count = layout.add("pending", "count", 0, lag, actor=cache.actor, kind=cache.kind)
    for i in range(lag):
        own = [
            layout.add("pending", f"{i}.own.{k}", 0, 1, actor=cache.actor, kind=cache.kind)
            for k in range(keys if cache.mode == "read_own_writes" else 0)
        ]
        slot_cell = layout.add_slot("pending", f"{i}.slot", cache.kind, actor=cache.actor)
        row = layout.copy(cache.kind, "pending", actor=cache.actor, prefix=f"{i}.")
        between = layout.add("pending", f"{i}.between", 0, 1, actor=cache.actor, kind=cache.kind)
        owed = [layout.add("pending", f"{i}.owed.{k}", 0, 1, actor=cache.actor, kind=cache.kind) for k in range(keys)]
        if key_kind in layout.schema.finite.symmetric_kinds:
            for what, cells in (("owed", owed), ("own", own)):
                for k, cell in enumerate(cells):
                    layout.amend(cell, dims=((key_kind, k),), family=f"{i}.{what}.*")
        cache.entries.append(Entry(slot_cell, row, between, owed, own))
        if "incarnation" in row:
            refs = layout.references.setdefault(cache.kind, [])
            refs.append(Reference(slot_cell, -1, row["incarnation"], row["present"]))


def cells_of(entry: Entry) -> list[int]:
    """Every cell of one undelivered change, in the same order for all of them."""
    return [entry.slot, *entry.row.values(), entry.between, *entry.owed, *entry.own]


def undelivered(layout: Layout, path: Path, cache: Cache, slot: int) -> Node:
    """Some change of this slot has not been delivered, and perhaps never will be."""
    g = layout.g
    if not cache.lagging:
        return g.false
    lost = path.get(cache.missed[slot]) if cache.missed else g.false
    count, code = path.get(cache.count), g.const(layout.schema.slot_code(cache.kind, slot))
    return g.or_(
        lost,
        *[g.and_(g.lt(g.const(i), count), g.eq(path.get(entry.slot), code)) for i, entry in enumerate(cache.entries)],
    )


def drop(path: Path, layout: Layout, cache: Cache) -> None:
    """Throw the oldest change away: its copy stays as it is, and is no longer the newest."""
    g, oldest = layout.g, cache.entries[0]
    for slot, cell in enumerate(cache.missed):
        here = g.eq(path.get(oldest.slot), g.const(layout.schema.slot_code(cache.kind, slot)))
        path.set_if(here, cell, g.true)
    shift(path, layout, cache, g.true)


def caught_up(path: Path, layout: Layout, cache: Cache, slot: int, test: Node) -> None:
    """Where `test` holds the copy of a slot is replaced: what was dropped before is made good."""
    if cache.missed:
        path.set_if(test, cache.missed[slot], layout.g.false)


def view(layout: Layout, path: Path, cache: Cache) -> list[tuple[Node, Object]]:
    """The cached copies, each with whether it is there; current while nothing of it is undelivered."""
    out = []
    for slot, row in enumerate(cache.rows):
        current = layout.g.not_(undelivered(layout, path, cache, slot))
        copy = copy_of(layout.schema, path, cache.kind, slot, row, current, "cache")
        out.append((path.get(row["present"]), copy))
    return out


def shift(path: Path, layout: Layout, cache: Cache, test: Node) -> None:
    """Drop the oldest change (where `test`): the others move up, the last place is cleared."""
    g = layout.g
    for i, entry in enumerate(cache.entries):
        last = i + 1 == len(cache.entries)
        for here, there in zip(
            cells_of(entry), cells_of(cache.entries[i] if last else cache.entries[i + 1]), strict=True
        ):
            after = g.const(layout.cells[here].initial) if last else path.get(there)
            path.set_if(test, here, after)
    path.set_if(test, cache.count, g.clamp(g.sub(path.get(cache.count), g.const(1)), 0, len(cache.entries)))


def clear(path: Path, layout: Layout, cache: Cache) -> None:
    """Forget every undelivered change."""
    if cache.lagging:
        for entry in cache.entries:
            for cell in cells_of(entry):
                path.set(cell, layout.g.const(layout.cells[cell].initial))
        path.set(cache.count, layout.g.const(0))


def put(path: Path, layout: Layout, cache: Cache, change: Change) -> None:
    """Append a change, or merge it into the last one of the same key. There is room (see `overflowing`)."""
    g = layout.g
    merge = mergeable(path, layout, cache, change.slot, change.leaves["present"])
    count = path.get(cache.count)
    before = {i: {c: path.get(c) for c in cells_of(entry)} for i, entry in enumerate(cache.entries)}
    for i, entry in enumerate(cache.entries):
        append = g.and_(g.not_(merge), g.eq(count, g.const(i)))
        join = g.and_(merge, g.eq(count, g.const(i + 1)))
        here = g.or_(append, join)
        old = before[i]
        path.set_if(append, entry.slot, g.const(layout.schema.slot_code(cache.kind, change.slot)))
        back = g.and_(g.not_(old[entry.row["present"]]), change.leaves["present"])
        path.set_if(here, entry.between, g.and_(join, g.or_(old[entry.between], back)))
        for leaf, cell in entry.row.items():
            path.set_if(here, cell, change.leaves[leaf])
        for cells, bits in ((entry.owed, change.owed), (entry.own, change.own)):
            for cell, bit in zip(cells, bits, strict=False):
                path.set_if(here, cell, g.or_(bit, g.and_(join, old[cell])))
    path.set_if(g.not_(merge), cache.count, g.clamp(g.add(count, g.const(1)), 0, len(cache.entries)))


@define(eq=False)
class Change:
    """A change on its way: the slot, the object after it ("present" 0 when gone), keys owed, keys that wrote."""

    slot: int
    leaves: dict[str, Node]
    owed: list[Node]
    own: list[Node]


def mergeable(path: Path, layout: Layout, cache: Cache, slot: int, present: Node) -> Node:
    """The last undelivered change is of this key, and nothing has to see each change of the kind.

    Handlers do, and keys that are found at delivery (ruling 13): the version in between may have keys of its own, and
    one that came and went owes them, too.
    """
    g = layout.g
    late = [wake for wake in cache.wakes if is_late(wake)]
    if cache.indexes or any(map(looks_at_versions, late)):
        return g.false
    count, code = path.get(cache.count), g.const(layout.schema.slot_code(cache.kind, slot))
    last = g.or_(
        *[
            g.and_(
                g.eq(count, g.const(i + 1)),
                g.eq(path.get(entry.slot), code),
            )
            for i, entry in enumerate(cache.entries)
        ]
    )
    return g.and_(last, present) if late else last


def overflowing(path: Path, layout: Layout, cache: Cache, slot: int, present: Node) -> Node:
    """The list is full and the change cannot be merged: the oldest is delivered with the write."""
    g = layout.g
    full = g.eq(path.get(cache.count), g.const(len(cache.entries)))
    return g.and_(full, g.not_(mergeable(path, layout, cache, slot, present)))


def row_leaves(layout: Layout, path: Path, row: Row) -> dict[str, Node]:
    """The leaves of a copy that lies in cells, as they are at this point of the step."""
    return {leaf: read_row(layout.g, path, row, leaf) for leaf in row}


def is_late(wake: Wake) -> bool:
    """Its keys wait for delivery: they, or its filter, read memory or another cache (ruling 13)."""
    read = (*parts(wake.keys), *parts(wake.when))
    return any(isinstance(p, e.Memory) or (isinstance(p, e.Kind) and p.look == "cache") for p in read)


def looks_at_versions(wake: Wake) -> bool:
    """Its filter or its keys look at more of the changed object than the name, which all versions share."""
    named = locals_ = 0
    for p in parts(wake.keys):
        locals_ += isinstance(p, e.Local) and p.name in (wake.var, "old")
        named += (
            isinstance(p, e.Member) and p.name == "name" and isinstance(p.base, e.Local) and p.base.name == wake.var
        )
    return wake.when is not None or locals_ != named
