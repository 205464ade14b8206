"""Locals that live across a call: the cells that they lie in while a body waits for its next step.

Everything is kept at first; `prune` drops cells that nobody reads and zeroes those that are dead at a
control point, so a list from a cache ends up as its members and the fields read later.
"""

from __future__ import annotations

from attrs import define, field

from dashpot.model.core import Node
from dashpot.model.kernel.layout import Reference, Row
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.values import (
    Items,
    Maybe,
    Nothing,
    Object,
    OneOf,
    Owner,
    Record,
    Scalar,
    Table,
    Value,
    choices,
)
from dashpot.model.kernel.widen import Widen
from dashpot.model.kernel.world import Actor, Worker, World
from dashpot.model.types import Optional, OwnerRef, Type

OWNER = Optional(OwnerRef())


@define(eq=False)
class Place:
    """The cells of one local, grown by the first value of each shape that is kept in it."""

    world: World
    actor: str
    name: str
    root: str
    some: int = -1
    cell: int = -1
    type: Type | None = None
    owner: int = -1
    fields: dict[str, Place] = field(factory=dict)
    kind: str = ""
    fixed: int = -1
    slot: int = -1
    current: int = -1
    row: Row = field(factory=dict)
    members: dict[int, Member] = field(factory=dict)
    ordered: bool = False
    limit: int = -1
    table: Type | None = None

    # ------------------------------------------------------------------ save
    def save(self, path: Path, value: Value) -> None:
        """Keep `value`; cells that this shape does not use are reset."""
        g = self.world.g
        match value:
            case Nothing():
                self._some(path, g.false)
            case Maybe(some=some, value=inner):
                self._some(path, some)
                self._content(path, inner)
            case _:
                if self.some >= 0:
                    path.set(self.some, g.true)
                self._content(path, value)

    def _some(self, path: Path, node: Node) -> None:
        if self.some < 0:
            self.some = self._add("some", 0, 1, 1)
        path.set(self.some, node)

    def _add(self, what: str, lo: int, hi: int, initial: int = 0, texts: tuple[str, ...] | None = None) -> int:
        name = f"{self.name}.{what}" if what else self.name
        self.grow()
        return self.world.layout.add("local", name, lo, hi, initial, actor=self.actor, kind="", texts=texts)

    def grow(self) -> None:
        """A new cell: steps that loaded this local before it had the cell must be built again."""
        self.world.stale = self.world.stale or (self.actor, self.root) in self.world.loaded

    def _content(self, path: Path, value: Value) -> None:
        match value:
            case Scalar():
                self._scalar(path, value)
            case Owner():
                if self.owner < 0:
                    self._owner()
                path.set(self.owner, self.world.g.add(value.node, self.world.g.const(1)))
                path.set(self.cell, value.incarnation)
            case Record(fields=fields):
                for name, part in fields.items():
                    self._field(name).save(path, part)
            case Table(entries=entries, key=key):
                self.table = key
                for k, (there, part) in entries.items():
                    self._field(str(k)).save(path, Maybe(there, part))
            case Object() | OneOf():
                self._object(path, value)
            case Items():
                self._items(path, value)
            case _:
                pass

    def _owner(self) -> None:
        """Cells of an owner reference, laid out as the field `owner` of an object; 0 is none."""
        finite = self.world.schema.finite
        leaf = next(iter(finite.leaves(OWNER, "owner")))
        self.owner = self._add("owner", 0, leaf.hi, 0, leaf.texts)
        if leaf.ref:
            self.world.layout.amend(self.owner, ref=leaf.ref, base=leaf.base)
        self.cell = self._add("owner.incarnation", 0, finite.incarnations)

    def _field(self, name: str) -> Place:
        if name not in self.fields:
            self.fields[name] = Place(self.world, self.actor, f"{self.name}.{name}", self.root)
        return self.fields[name]

    def _scalar(self, path: Path, value: Scalar) -> None:
        node = value.node
        if self.cell < 0:
            key = (self.actor, self.name, "")
            lo, hi = self.world.widened.get(key, (min(0, node.lo), node.hi))
            finite = self.world.schema.finite
            known = finite.texts(value.type)
            if known:
                lo, hi = finite.scalar_range(value.type) or (lo, hi)
            group = finite.group(value.type)
            if group and known:
                lo, hi, known = 0, hi + 1, ("none", *known)
            self.cell = self._add("", lo, hi, min(max(0, lo), hi), known)
            if group:
                self.world.layout.amend(self.cell, ref=group, base=1)
            self.type = value.type
            if known and known[-1].endswith("or more"):
                self.world.layout.ages.append((self.cell, 0))
        c = self.world.layout.cells[self.cell]
        if c.ref:
            node = self.world.g.add(node, self.world.g.const(1))
        if node.lo < c.lo or node.hi > c.hi:
            raise Widen((self.actor, self.name, ""), min(c.lo, node.lo), max(c.hi, node.hi))
        path.set(self.cell, node)

    def _object(self, path: Path, value: Object | OneOf) -> None:
        g, layout = self.world.g, self.world.layout
        options = choices(g, value)
        kind = options[0][1].kind
        if not self.kind:
            self.kind = kind
            if self.fixed < 0:
                self.grow()
                self.slot = layout.add_slot("local", f"{self.name}.slot", kind, actor=self.actor)
            where = None if self.fixed >= 0 else self.slot
            self.current = self._add("current", 0, 1)
            layout.currency.setdefault(kind, []).append((where, self.fixed, self.current))
            self.grow()
            self.row = layout.copy(kind, "local", actor=self.actor, prefix=f"{self.name}.")
            if "incarnation" in self.row:
                refs = layout.references.setdefault(kind, [])
                refs.append(Reference(where, self.fixed, self.row["incarnation"], None, 1))
            if self.fixed >= 0:
                _index(self.world, kind, self.fixed, [self.current, *self.row.values()])
        if self.fixed < 0:
            codes = [(c, g.const(self.world.schema.slot_code(kind, o.slot))) for c, o in options]
            path.set(self.slot, _merge(self.world, codes))
        path.set(self.current, _merge(self.world, [(c, _current(self.world, path, o)) for c, o in options]))
        for leaf, cell in self.row.items():
            path.set(cell, _merge(self.world, [(c, _leaf(self.world, o, leaf)) for c, o in options]))

    def _items(self, path: Path, value: Items) -> None:
        g = self.world.g
        if value.ranks is not None and not self.ordered:
            self.ordered = True
            self.grow()
        inside: dict[int, list[tuple[Node, Value, Node]]] = {}
        for i, (there, item) in enumerate(value.items):
            rank = value.ranks[i] if value.ranks is not None else g.const(0)
            for key, guard, part in _keyed(self.world, item, i):
                inside.setdefault(key, []).append((g.and_(there, guard), part, rank))
        for key in inside:
            if key not in self.members:
                self.grow()
                self.members[key] = Member(self.world, self.actor, f"{self.name}[{key}]", self.root)
        for key, member in self.members.items():
            member.save(path, inside.get(key, []))
        if value.limit is not None or self.limit >= 0:
            if self.limit < 0:
                self.limit = self._add("limit", 0, 15)
            path.set(self.limit, g.clamp(value.limit if value.limit is not None else g.const(15), 0, 15))

    def cells(self) -> list[int]:
        """All cells of this local."""
        own = [self.some, self.cell, self.owner, self.slot, self.current, self.limit]
        out = [c for c in own if c >= 0] + list(self.row.values())
        for part in self.fields.values():
            out += part.cells()
        for member in self.members.values():
            out += [c for c in (member.inside, member.rank) if c >= 0]
            out += member.place.cells() if member.place is not None else []
        return out

    # ------------------------------------------------------------------ load
    def load(self, path: Path) -> Value:
        value = self._load(path)
        return value if self.some < 0 else Maybe(path.get(self.some), value)

    def _at(self, path: Path, slot: int) -> Node:
        """This is the object of that slot."""
        g = self.world.g
        code = g.const(self.world.schema.slot_code(self.kind, slot))
        return g.true if self.fixed >= 0 else g.eq(path.get(self.slot), code)

    def _load(self, path: Path) -> Value:
        g = self.world.g
        if self.kind:
            current, row = path.get(self.current), {leaf: path.get(cell) for leaf, cell in self.row.items()}
            incarnation = g.const(0)
            if "incarnation" in row:
                top = self.world.schema.finite.incarnations
                incarnation = g.table((0, *range(top + 1)), row["incarnation"])
            slots = range(self.world.schema.info(self.kind).size) if self.fixed < 0 else (self.fixed,)
            options = [
                (
                    g.true
                    if self.fixed >= 0
                    else g.eq(path.get(self.slot), g.const(self.world.schema.slot_code(self.kind, s))),
                    Object(self.kind, s, row.__getitem__, incarnation, current, "local"),
                )
                for s in slots
            ]
            options = [o for o in options if path.resolve(o[0]) is not g.false]
            return options[0][1] if len(options) == 1 else OneOf(options)
        if self.members or self.ordered:
            loaded = [m.load(path) for m in self.members.values()]
            items = [(there, v) for there, v, _ in loaded if v is not None]
            ranks = [rank for _, v, rank in loaded if v is not None]
            return Items(items, ranks if self.ordered else None, path.get(self.limit) if self.limit >= 0 else None)
        if self.owner >= 0:
            count = len(self.world.schema.finite.owners)
            return Owner(g.table((0, *range(count)), path.get(self.owner)), path.get(self.cell))
        if self.table is not None:
            entries: dict[int, tuple[Node, Value]] = {}
            for k, place in self.fields.items():
                part = place.load(path)
                assert isinstance(part, Maybe)
                entries[int(k)] = (part.some, part.value)
            return Table(entries, self.table)
        if self.cell >= 0:
            assert self.type is not None
            node = path.get(self.cell)
            c = self.world.layout.cells[self.cell]
            return Scalar(g.table((0, *range(c.hi)), node) if c.ref else node, self.type)
        if self.fields:
            return Record({n: p.load(path) for n, p in self.fields.items()})
        return Nothing() if self.some >= 0 else Items([])


@define(eq=False)
class Member:
    """One element of a kept collection: whether it is in, its rank, its value."""

    world: World
    actor: str
    name: str
    root: str
    inside: int = -1
    rank: int = -1
    place: Place | None = None
    constant: Scalar | None = None

    def save(self, path: Path, options: list[tuple[Node, Value, Node]]) -> None:
        g = self.world.g
        if self.inside < 0:
            layout = self.world.layout
            self.inside = layout.add("local", self.name, 0, 1, actor=self.actor, texts=("out", "in"))
            self.rank = layout.add("local", f"{self.name}.rank", 0, 15, actor=self.actor)
            first = options[0][1]
            if isinstance(first, Object):
                _index(self.world, first.kind, first.slot, [self.inside, self.rank])
            if isinstance(first, Scalar) and first.node.is_const:
                self.constant = first
            else:
                self.place = Place(self.world, self.actor, self.name + ".value", self.root)
                self.place.fixed = first.slot if isinstance(first, Object) else -1
        there = g.or_(*[guard for guard, _, _ in options])
        path.set(self.inside, there)
        rank = g.clamp(_merge(self.world, [(c, r) for c, _, r in options]), 0, 15)
        path.set(self.rank, g.ite(there, rank, g.const(0)))
        if options and self.place is not None:
            value = options[-1][1]
            if len(options) > 1 and isinstance(value, Object):
                value = OneOf([(c, o) for c, o, _ in options if isinstance(o, Object)])
            self.place.save(path, value)
            # What is not in keeps nothing, so that states which differ only there are one.
            for cell in self.place.cells():
                path.set(cell, g.ite(there, path.get(cell), g.const(self.world.layout.cells[cell].initial)))

    def load(self, path: Path) -> tuple[Node, Value | None, Node]:
        if self.inside < 0:
            return self.world.g.false, None, self.world.g.const(0)
        value = self.constant if self.place is None else self.place.load(path)
        return path.get(self.inside), value, path.get(self.rank)


def _index(world: World, kind: str, slot: int, cells: list[int]) -> None:
    """These cells belong to one of several interchangeable objects."""
    if kind in world.schema.finite.symmetric_kinds:
        for cell in cells:
            family = world.layout.cells[cell].path.replace(f"[{slot}]", "[*]")
            world.layout.amend(cell, dims=((kind, slot),), family=family)


def _merge(world: World, options: list[tuple[Node, Node]]) -> Node:
    if not options:
        return world.g.const(0)
    result = options[-1][1]
    for guard, node in reversed(options[:-1]):
        result = world.g.ite(guard, node, result)
    return result


def _current(world: World, path: Path, copy: Object) -> Node:
    """A snapshot stops being current when this very step wrote its object (the answer itself is current)."""
    if copy.source != "new" and any((k, s) == (copy.kind, copy.slot) for k, s, _ in path.commits):
        return world.g.false
    return copy.current


def _leaf(world: World, copy: Object, leaf: str) -> Node:
    if leaf == "present":
        return world.g.true
    if leaf == "incarnation":
        return world.g.add(copy.incarnation, world.g.const(1))
    return copy.read(leaf)


def _keyed(world: World, item: Value, position: int) -> list[tuple[int, Node, Value]]:
    """The key under which an element is kept: an object's slot, a constant's value, else its position."""
    g = world.g
    match item:
        case Object(slot=slot):
            return [(slot, g.true, item)]
        case OneOf(choices=options):
            return [(o.slot, c, o) for c, o in options]
        case Scalar(node=node) if node.is_const:
            return [(node.value, g.true, item)]
        case Maybe(some=some, value=inner):
            return [(k, g.and_(some, c), v) for k, c, v in _keyed(world, inner, position)]
        case _:
            return [(1000 + position, g.true, item)]


def place(world: World, actor: Actor, worker: Worker, name: object) -> Place:
    """The place of a local of a worker, made when first needed."""
    found = worker.locals.get(str(name))
    if found is None:
        index = actor.workers.index(worker)
        suffix = f"#{index}" if len(actor.workers) > 1 else ""
        found = worker.locals[str(name)] = Place(world, actor.name, f"{name}{suffix}", str(name))
    assert isinstance(found, Place)
    return found
