"""A state as people see it: the objects of the store, what each cache shows of them, what is on its way.

A `System` knows only cells; a `Stage` reads from their area, actor, kind, slot and path which object and
field each one holds, and turns the values of a state into a `Scene`. Nothing is assumed of the spec: kinds
without a `present` cell always exist, caches and pending changes may be missing, and a slot without a name
is named by the labels of the steps that touch it, else by its number.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen

from dashpot.model.core import Node
from dashpot.model.interpret import reads
from dashpot.model.system import Cell, System, Update

Key: TypeAlias = tuple[str, int]
"""An object's place in the scope: (kind, slot); slot -1 for a kind that has no slots."""

QUIET = frozenset({"present", "name", "uid", "resourceVersion", "incarnation", "slot", "between"})
"""Paths that identify an object or a version: its name shows them, and their numbers mean nothing to a reader."""

KEPT = frozenset({"generation", "creationTimestamp"})
"""Fields that the API server keeps by itself: a change of them is no news beside the one that it follows from."""

SOME = ".some"
"""How the path of the bit ends that says whether an optional value, or an entry of a map, is there."""

_DUTIES = ("own.", "owed.")
"""Fields of a pending change that say whom it wakes, and nothing of the object."""

ZEROS = frozenset({"null", "false", "0", "", "[]", "{}", "none", "no", "absent", "—"})
"""Texts of a field that say as much as leaving it out, when a new object is described."""

_OWN = ("store", "local", "memory", "control")
"""Areas into which what a step has read flows because the spec says so."""

LASTING = ("memory", "budget", "clock")
"""Areas whose zero is a fact as any other."""

_SLOT = re.compile(r"(\w+)\[(\d+)\]")


@frozen
class Item:
    """An object in one state: kind, slot, its name there, and its fields by dotted path, as texts."""

    kind: str
    slot: int
    name: str
    fields: dict[str, str]

    @property
    def key(self) -> Key:
        return self.kind, self.slot

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()

    def summary(self) -> str:
        """The fields that are more than their zero, on one line: "owner = db, spec.members = 2"."""
        pairs = ((p, t) for p, t in self.fields.items() if p not in KEPT and t.lower() not in ZEROS)
        return ", ".join(f"{path} = {text}" for path, text in pairs)


@frozen
class Undelivered:
    """One change that a cache has not seen yet; `gone` when it takes the object away."""

    kind: str
    slot: int
    name: str
    gone: bool
    fields: dict[str, str]

    @property
    def key(self) -> Key:
        return self.kind, self.slot

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@frozen
class Scene:
    """One state.

    truth    objects in the store
    caches   actor → objects that its cache shows
    pending  actor → changes not yet delivered to it, oldest first within a kind
    private  actor → what it keeps for itself: memory, queue, locals ("" for the clock and budgets)
    """

    truth: tuple[Item, ...]
    caches: dict[str, tuple[Item, ...]]
    pending: dict[str, tuple[Undelivered, ...]]
    private: dict[str, dict[str, str]]

    def objects(self, actor: str = "") -> dict[Key, Item]:
        """The objects of the store, or of an actor's cache, by key."""
        return {item.key: item for item in (self.caches.get(actor, ()) if actor else self.truth)}


@frozen
class Change:
    """One field of one object that a step changed.

    where   "" the store | "cache" an actor's cache | "memory" what an actor keeps for itself
    field   dotted path; "" when the object came or went, and then `before` and `after` are None where it was absent
    """

    object: str
    field: str
    before: str | None
    after: str | None
    where: str = ""
    actor: str = ""


class Stage:
    """Reads states of one system. Building it walks the cells and labels once."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._truth: dict[Key, dict[str, Cell]] = defaultdict(dict)
        self._caches: dict[str, dict[Key, dict[str, Cell]]] = defaultdict(lambda: defaultdict(dict))
        self._pending: dict[tuple[str, str], dict[str, Cell]] = defaultdict(dict)
        self._private: dict[str, list[Cell]] = defaultdict(list)
        self._own: dict[tuple[str, str], dict[str, Cell]] = defaultdict(dict)
        acting = {update.label.actor for update in system.updates}
        for cell in system.cells:
            self._sort(cell, acting)
        self._forget_unkept()
        self._names = _names(system)

    def _sort(self, cell: Cell, acting: set[str]) -> None:
        """Put a cell in its place. Caches of none that acts (an old API server) are nobody's view and stay out."""
        if cell.area in ("cache", "pending") and cell.actor not in acting:
            return
        if cell.area == "store":
            self._truth[cell.kind, cell.slot][cell.path] = cell
        elif cell.area == "cache":
            self._caches[cell.actor][cell.kind, cell.slot][cell.path] = cell
        elif cell.area == "pending":
            self._pending[cell.actor, cell.kind][cell.path] = cell
        elif cell.area != "shadow":
            self._private[cell.actor].append(cell)
            self._own[cell.area, cell.actor].setdefault(cell.path, cell)

    def _forget_unkept(self) -> None:
        """Leave out fields that a cache does not keep: nobody reads them there, so no step brings them up to date."""
        assigned = {index for update in self.system.updates for index, _ in update.assigns}
        for slots in self._caches.values():
            for key, row in slots.items():
                stored = self._truth.get(key, {})
                for path in [p for p, c in row.items() if p != "present" and c.index not in assigned]:
                    if path in stored and stored[path].index in assigned:
                        del row[path]

    @property
    def watchers(self) -> dict[str, tuple[str, ...]]:
        """Actor → kinds that it caches, in the order of the cells."""
        kinds = {a: dict.fromkeys(kind for kind, _ in slots) for a, slots in self._caches.items()}
        for actor, kind in self._pending:
            kinds.setdefault(actor, {})[kind] = None
        return {actor: tuple(seen) for actor, seen in kinds.items()}

    def decisive(self, update: Update) -> dict[Key, set[str]]:
        """The cached objects that a step depends on, with the fields of them that it reads.

        Read from the update itself: what its guard tests and what flows into the store, locals and memory.
        Where it reads none, all fields of the objects that its label names.
        """
        found = self.read(update)
        if not found:
            kept = self._caches.get(update.label.actor, {})
            wanted = set(update.label.reads)
            for key, fields in kept.items():
                if key in wanted or (key[0], -1) in wanted:
                    found[key] = set(fields)
        return found

    def roots(self, update: Update) -> list[Node]:
        """What a step tests, what it owes, and what flows into the store, locals and memory."""
        cells = self.system.cells
        owed = [obligation.holds for obligation in update.obligations]
        return [*update.guard, *owed, *(node for index, node in update.assigns if cells[index].area in _OWN)]

    def read(self, update: Update) -> dict[Key, set[str]]:
        """The cached objects that the tests and writes of a step read, with the fields."""
        found: dict[Key, set[str]] = {}
        for cell in (self.system.cells[index] for index in reads(self.roots(update))):
            if cell.area == "cache" and cell.actor == update.label.actor:
                found.setdefault((cell.kind, cell.slot), set()).add(cell.path)
        return found

    def row(self, key: Key, actor: str = "") -> Mapping[str, Cell]:
        """The cells of an object, by path: in an actor's cache, or in the store."""
        return (self._caches.get(actor, {}) if actor else self._truth).get(key, {})

    def title(self, key: Key, values: Sequence[int] | None = None) -> str:
        """What people call an object: by its name cell in `values`, else as the labels call it."""
        kind, _ = key
        cell = self._truth.get(key, {}).get("name")
        if cell is not None and (values is not None or cell.lo == cell.hi):
            return f"{kind} {cell.text(values[cell.index] if values is not None else cell.lo)}"
        return f"{kind} {self._name(key)}".rstrip()

    def _name(self, key: Key) -> str:
        return self._names.get(key, f"#{key[1]}" if key[1] >= 0 else "")

    def _private_name(self, cell: Cell) -> str:
        """What a cell that is no object's field is called: "memory seen", "queue Database db dirty"."""
        whose = self.title((cell.kind, cell.slot)) if cell.slot >= 0 else cell.kind
        return " ".join(part for part in (cell.area, whose, cell.path) if part)

    def scene(self, values: Sequence[int]) -> Scene:
        """The state with these cell values."""
        truth = tuple(self._items(self._truth, values))
        caches = {actor: tuple(self._items(slots, values)) for actor, slots in self._caches.items()}
        pending: dict[str, tuple[Undelivered, ...]] = defaultdict(tuple)
        for (actor, _), cells in self._pending.items():
            pending[actor] += tuple(self._undelivered(cells, values))
        private: dict[str, dict[str, str]] = {}
        for actor, owned in self._private.items():
            private[actor] = {self._private_name(c): self._kept(c, values) for c in owned if told(c.path)}
        return Scene(truth, caches, dict(pending), private)

    def cleared(self, scenes: Sequence[Scene], rows: Sequence[Sequence[int]]) -> tuple[Scene, ...]:
        """The scenes of a run without what is empty: locals of who is idle, entries of memory that are never used."""
        used = {c.index for c in self.system.cells if any(row[c.index] != c.lo for row in rows)}
        return tuple(
            evolve(scene, private=self._cleared(values, used)) for scene, values in zip(scenes, rows, strict=True)
        )

    def _cleared(self, values: Sequence[int], used: set[int]) -> dict[str, dict[str, str]]:
        left: dict[str, dict[str, str]] = {}
        for actor, owned in self._private.items():
            lit = {
                self._private_name(c): self._kept(c, values)
                for c in owned
                if told(c.path)
                and not (c.area == "local" and c.path.endswith(".current"))  # whether a write would be a Conflict
                and (values[c.index] != c.lo or (c.area in LASTING and ("." not in c.path or c.index in used)))
            }
            left |= {actor: lit} if lit else {}
        return left

    def _field(self, row: Mapping[str, Cell], path: str, values: Sequence[int]) -> str:
        if beyond(row, path, values):
            return "—"
        return "null" if absent(row, path, values) else self.text(row[path], values)

    def _kept(self, cell: Cell, values: Sequence[int]) -> str:
        """The text of what an actor keeps: a value, or "null" where an optional one or an entry is not there."""
        return (
            self._field(self._own[cell.area, cell.actor], cell.path, values)
            if cell.slot < 0
            else self.text(cell, values)
        )

    def text(self, cell: Cell, values: Sequence[int]) -> str:
        """A cell's value as text; a reference to a slot ("Pod[0]") by the name of the object there."""
        text = cell.text(values[cell.index])
        reference = _SLOT.fullmatch(text)
        if reference is None:
            return text
        key = reference[1], int(reference[2])
        return self.title(key, values).removeprefix(f"{key[0]} ") if key in self._truth else text

    def _items(self, slots: Mapping[Key, dict[str, Cell]], values: Sequence[int]) -> Iterator[Item]:
        for key, cells in slots.items():
            present = cells.get("present")
            if present is not None and not values[present.index]:
                continue
            fields = {path: self._field(cells, path, values) for path in cells if told(path)}
            yield Item(key[0], key[1], self._called(key, cells, values), fields)

    def _called(self, key: Key, cells: Mapping[str, Cell], values: Sequence[int]) -> str:
        name = cells.get("name") or self._truth.get(key, {}).get("name")
        return name.text(values[name.index]) if name is not None else self._name(key)

    def _undelivered(self, cells: Mapping[str, Cell], values: Sequence[int]) -> Iterator[Undelivered]:
        places: dict[int, dict[str, Cell]] = defaultdict(dict)
        for path, cell in cells.items():
            place, _, field = path.partition(".")
            if field and place.isdigit():
                places[int(place)][field] = cell
        count = cells.get("count")
        for position, parts in sorted(places.items()):
            key = _target(parts, values)
            if key is None or (count is not None and position >= values[count.index]):
                continue
            present = parts.get("present")
            fields = {path: self._field(parts, path, values) for path in parts if told(path)}
            gone = present is not None and not values[present.index]
            yield Undelivered(key[0], key[1], self._called(key, parts, values), gone, fields)


def marks(path: str) -> bool:
    """Whether a path is the bit of an optional value or an entry of a map, not a field that is called `some`."""
    return path.endswith(SOME) and path.count(".") > path.startswith(("spec.", "status."))


def told(path: str) -> bool:
    """Whether a path is a field that people know of."""
    if marks(path):
        return False
    return path.rpartition(".")[2] not in QUIET and not path.startswith(_DUTIES)


def absent(row: Mapping[str, Cell], path: str, values: Sequence[int]) -> bool:
    """Whether a value is part of an optional one, or of an entry of a map, that is not there."""
    parts = path.split(".")
    marks = (row.get(".".join(parts[:n]) + SOME) for n in range(1, len(parts) + 1))
    return any(mark is not None and not values[mark.index] for mark in marks)


def beyond(row: Mapping[str, Cell], path: str, values: Sequence[int]) -> bool:
    """Whether a value is part of a list entry behind the end of the list."""
    parts = path.split(".")
    for n, part in enumerate(parts):
        size = row.get(".".join([*parts[:n], "size"])) if part.isdigit() else None
        if size is not None and values[size.index] <= int(part):
            return True
    return False


def _target(parts: Mapping[str, Cell], values: Sequence[int]) -> Key | None:
    """The object that a pending change speaks of; None when the place is free."""
    slot = parts.get("slot")
    if slot is None:
        cell = next(iter(parts.values()))
        return cell.kind, cell.slot
    element = values[slot.index] - slot.base
    return (slot.kind, element) if element >= 0 else None


def _names(system: System) -> dict[Key, str]:
    """Names of slots: those of pending changes, and of labels whose update touches one slot of the kind they name."""
    found: dict[Key, set[str]] = defaultdict(set)
    for cell in system.cells:
        if cell.area == "pending" and cell.path.endswith(".slot") and cell.texts is not None:
            for value, text in enumerate(cell.texts, cell.lo - cell.base):
                found[cell.kind, value].add(text)
    for update in system.updates:
        kind, _, name = update.label.object.partition(" ")
        cells = (system.cells[index] for index, _ in update.assigns)
        slots = {c.slot for c in cells if c.kind == kind and c.slot >= 0 and c.area in ("store", "cache")}
        if name and len(slots) == 1:
            found[kind, slots.pop()].add(name)
        for key, called in _arguments(system, update):
            found[key].add(called)
    return {key: names.pop() for key, names in found.items() if len(names) == 1}


def _arguments(system: System, update: Update) -> Iterator[tuple[Key, str]]:
    """The objects that an action is given ("p = web, n = east"): the first guards say, in order, that they exist."""
    if not update.label.fairness or update.label.action in ("", "reconcile"):
        return
    given = [text.rpartition(" = ")[2] for text in update.label.fairness[-1].split(", ") if " = " in text]
    cells = [system.cells[node.value] for node in update.guard if node.op == "cell"]
    there = [(c.kind, c.slot) for c in cells if c.path == "present"]
    if len(given) == len(there):
        yield from zip(there, given, strict=True)


def compared(before: Mapping[Key, Item], after: Mapping[Key, Item], where: str = "", actor: str = "") -> list[Change]:
    """What differs between two sets of objects: objects that came, went, or have another field."""
    result: list[Change] = []
    for key in dict.fromkeys([*before, *after]):
        old, new = before.get(key), after.get(key)
        if old is None and new is not None:
            result.append(Change(new.title, "", None, new.summary(), where, actor))
        elif new is None and old is not None:
            result.append(Change(old.title, "", old.summary(), None, where, actor))
        elif old is not None and new is not None:
            for path, text in new.fields.items():
                if path not in KEPT and old.fields.get(path) != text:
                    result.append(Change(new.title, path, old.fields.get(path), text, where, actor))
    return result
