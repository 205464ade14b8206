"""The world under construction: store, actors and their caches, and how a change of the store spreads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import define, evolve, field

from dashpot.model.core import Graph, Node
from dashpot.model.kernel import caches as c
from dashpot.model.kernel.layout import Layout, Row, copy_of
from dashpot.model.kernel.path import Path, Spill, every_way
from dashpot.model.kernel.schema import Schema
from dashpot.model.kernel.terms import Env, Look, Terms
from dashpot.model.kernel.values import Items, Maybe, Nothing, Object, Owner, Scalar, Value
from dashpot.model.program import Check, Controller, Environment, Field, Process, Program, Wake
from dashpot.model.span import NOWHERE, Span
from dashpot.model.system import Label, Obligation, Update

BOUND = "@bound"
"""Property of obligations that break where a scope is too small."""

BEYOND = "beyond the scope"
"""Path of the cell that is 1 in the sink: the state behind every step that leaves the scope."""

Declaration: TypeAlias = Controller | Process | Environment


@define(eq=False)
class Worker:
    """Where a body stands: program counter (0: idle), key in work, live locals by name."""

    pc: int
    key: int = -1
    places: dict[tuple[str, int], int] = field(factory=dict)
    reached: set[tuple[str, int]] = field(factory=set)
    locals: dict[str, object] = field(factory=dict)


@define(eq=False)
class Actor:
    """One instance of a controller, process or environment.

    me       its place, or None; memory  name → (declaration, cells)
    dirty    controllers: one cell a key; delay: ticks until a key is dirty again, plus one (0: none)
    halted   cells that stop every step of it while non-zero (pause, down)
    cut      cell: its API calls and deliveries do not get through while non-zero (partition)
    """

    name: str
    decl: Declaration
    me: Value | None = None
    memory: dict[str, tuple[Field, Row]] = field(factory=dict)
    caches: dict[str, c.Cache] = field(factory=dict)
    dirty: list[int] = field(factory=list)
    delay: list[int] = field(factory=list)
    workers: list[Worker] = field(factory=list)
    halted: list[int] = field(factory=list)
    cut: list[int] = field(factory=list)
    views: dict[str, c.Cache] = field(factory=dict)
    frozen: int = -1

    @property
    def kind(self) -> str:
        return self.decl.kind if isinstance(self.decl, Controller) else ""

    @property
    def blind(self) -> bool:
        """Users and weather: what they write is intent, they look at the truth."""
        return isinstance(self.decl, Environment)


@define(eq=False)
class World:
    """Everything that the rules of the kernel share while one System is built."""

    program: Program
    check: Check
    schema: Schema
    layout: Layout
    store: dict[str, list[Row]] = field(factory=dict)
    actors: list[Actor] = field(factory=list)
    budgets: dict[str, int] = field(factory=dict)
    updates: list[Update] = field(factory=list)
    commits: dict[int, list[tuple[str, int, Node]]] = field(factory=dict)
    kept: dict[int, frozenset[int]] = field(factory=dict)
    creations: dict[int, list[tuple[str, int]]] = field(factory=dict)
    fired: dict[tuple[str, Span], list[int]] = field(factory=dict)
    onwrite: list[Callable[[Path, World, Write], None]] = field(factory=list)
    tags: dict[tuple[str, str], list[int]] = field(factory=dict)
    owners: dict[tuple[str, int, str, str], int] = field(factory=dict)
    ranked: bool = True
    stale: bool = False
    sink: int = -1
    waiting: list[tuple[tuple[str, ...], Node]] = field(factory=list)
    loaded: set[tuple[str, str]] = field(factory=set)
    started: dict[int, int] = field(factory=dict)
    widened: dict[tuple[str, object, str], tuple[int, int]] = field(factory=dict)

    @property
    def g(self) -> Graph:
        return self.schema.finite.g

    # ------------------------------------------------------------------ looking
    def stored(self, path: Path, kind: str) -> list[tuple[Node, Object]]:
        """The truth: every slot's object at this point of the step."""
        out = []
        self.schema.info(kind)
        for slot, row in enumerate(self.store[kind]):
            copy = copy_of(self.schema, path, kind, slot, row, self.g.true, "store")
            out.append((path.get(row["present"]), copy))
        return out

    def seen(self, path: Path, actor: Actor, kind: str) -> list[tuple[Node, Object]]:
        """What an actor's cache shows of a kind; the truth where the cache is live."""
        cache = actor.caches.get(kind)
        if cache is None or not cache.rows:
            return self.stored(path, kind)
        return c.view(self.layout, path, cache)

    def look(self, path: Path, actor: Actor | None) -> Look:
        def objects(kind: str, look: str) -> list[tuple[Node, Object]]:
            if look == "cache" and actor is not None:
                return self.seen(path, actor, kind)
            return self.stored(path, kind)

        def memory(name: str) -> Value:
            assert actor is not None
            decl, row = actor.memory[name]
            return self.schema.finite.load(decl.type, name, lambda leaf: path.get(row[leaf]))

        return Look(objects, memory)

    def terms(self, path: Path, actor: Actor | None) -> Terms:
        return Terms(self.schema, path, self.look(path, actor))

    def env(self, actor: Actor) -> Env:
        place = getattr(actor.decl, "place", None)
        return {place.var: actor.me} if place is not None and actor.me is not None else {}

    # ------------------------------------------------------------------ changes of the store
    def commit(self, path: Path, kind: str, slot: int, leaves: dict[str, Node], writer: Writer) -> None:
        """Put a changed object into its slot and tell every cache; the caller knows that it changed."""
        row = self.store[kind][slot]
        old = {leaf: path.get(cell) for leaf, cell in row.items()}
        gone = path.resolve(leaves["present"]) is self.g.false
        new = self.layout.zeros(row) if gone else leaves
        old["incarnation"] = self.g.const(0)
        new["incarnation"] = self.g.const(0) if gone else leaves["incarnation"]
        for leaf, cell in row.items():
            path.set(cell, new[leaf])
        path.commits.append((kind, slot, self.g.true))
        for actor in self.actors:
            cache = actor.caches.get(kind)
            if cache is not None:
                self._spread(path, actor, cache, slot, old, new, writer)
            if kind in actor.views:
                self._record(path, actor, actor.views[kind], slot, old, new)

    def _record(
        self, path: Path, actor: Actor, view: c.Cache, slot: int, old: dict[str, Node], new: dict[str, Node]
    ) -> None:
        """A frozen API server keeps what came since; when that is full its snapshot moves on by one change."""
        if not path.branch(path.get(actor.frozen)):
            return
        before, after = self._version(view.kind, slot, old), self._version(view.kind, slot, new)
        wakes = [w for w in view.wakes if not c.is_late(w)]
        owed = self.keys(path, actor, wakes, before, after, old["present"], new["present"])
        full = c.overflowing(path, self.layout, view, slot, new["present"])
        if path.branch(full):
            oldest = view.entries[0]
            for s, row in enumerate(view.rows):
                here = self.g.eq(path.get(oldest.slot), self.g.const(self.schema.slot_code(view.kind, s)))
                for leaf, cell in row.items():
                    path.set_if(here, cell, path.get(oldest.row[leaf]))
            c.shift(path, self.layout, view, self.g.true)
        c.put(path, self.layout, view, c.Change(slot, new, owed, []))

    def _spread(
        self,
        path: Path,
        actor: Actor,
        cache: c.Cache,
        slot: int,
        old: dict[str, Node],
        new: dict[str, Node],
        writer: Writer,
    ) -> None:
        g = self.g
        before = self._version(cache.kind, slot, old)
        after = self._version(cache.kind, slot, new)
        wakes = [w for w in cache.wakes if not c.is_late(w)]
        owed = self.keys(path, actor, wakes, before, after, old["present"], new["present"])
        if not cache.lagging:
            self.mark(path, actor, owed)
            late = [w for w in cache.wakes if c.is_late(w)]
            self.mark(path, actor, self.keys(path, actor, late, before, after, old["present"], new["present"]))
            if cache.rows:
                for leaf, cell in cache.rows[slot].items():
                    path.set(cell, new[leaf])
            self._handlers(path, actor, cache, before, after, old["present"], new["present"], g.true)
            return
        own = [g.truth(writer.heard and writer.actor is actor and writer.key == k) for k in range(len(actor.dirty))]
        full = path.resolve(c.overflowing(path, self.layout, cache, slot, new["present"]))
        if full is not g.false:
            self._deliver_if(path, actor, cache, full)
        c.put(path, self.layout, cache, c.Change(slot, new, owed, own))

    def _version(self, kind: str, slot: int, leaves: dict[str, Node]) -> Object:
        incarnation = leaves.get("incarnation", self.g.const(0))
        return Object(kind, slot, leaves.__getitem__, incarnation, self.g.true, "version")

    # ------------------------------------------------------------------ keys
    def keys(
        self, path: Path, actor: Actor, wakes: list[Wake], old: Object, new: Object, was: Node, now: Node
    ) -> list[Node]:
        """One node a key of the controller: whether this change wakes it."""
        g = self.g
        owed = [g.false] * len(actor.dirty)
        for wake in wakes:
            for version, there in ((old, was), (new, now)):
                if there is g.false or (version is old and (wake.source == "for" or (wake.new_only and now is g.true))):
                    continue
                if version is old and wake.new_only:
                    there = g.and_(there, g.not_(now))
                passes = self._passes(path, actor, wake, old, new, was, now)
                for key, node in enumerate(self._wake_keys(path, actor, wake, version, old, new)):
                    owed[key] = g.or_(owed[key], g.and_(there, passes, node))
            if wake.source == "for":
                owed[old.slot] = g.or_(owed[old.slot], self._passes(path, actor, wake, old, new, was, now))
        return owed

    def _passes(self, path: Path, actor: Actor, wake: Wake, old: Object, new: Object, was: Node, now: Node) -> Node:
        """`when` filters updates only; additions and removals always wake."""
        g = self.g
        if wake.when is None:
            return g.true
        env = {**self.env(actor), wake.var: new, "old": old}
        test = self.terms(path, actor).test(wake.when, env)
        return g.or_(g.not_(g.and_(was, now)), test)

    def _wake_keys(self, path: Path, actor: Actor, wake: Wake, version: Object, old: Object, new: Object) -> list[Node]:
        g = self.g
        size = len(actor.dirty)
        if wake.source == "for":
            return [g.false] * size
        if wake.source == "owns":
            owner = self.schema.field(version, "owner")
            return self.key_nodes(actor, owner)
        assert wake.keys is not None
        env = {**self.env(actor), wake.var: version, "old": old}
        value, ok = self.terms(path, actor).value(wake.keys, env)
        return [g.and_(ok, n) for n in self.key_nodes(actor, value)]

    def key_nodes(self, actor: Actor, value: Value) -> list[Node]:
        """For each key of the controller's kind: whether `value` (name, object, owner, or a set) names it."""
        g = self.g
        kind, size = actor.kind, len(actor.dirty)
        match value:
            case Nothing():
                return [g.false] * size
            case Maybe(some=some, value=inner):
                return [g.and_(some, n) for n in self.key_nodes(actor, inner)]
            case Items(items=items):
                rows = [[g.and_(inside, n) for n in self.key_nodes(actor, v)] for inside, v in items]
                return [g.or_(*[row[k] for row in rows]) for k in range(size)]
            case Owner(node=node):
                return [g.eq(node, g.const(self.schema.owner_index(kind, k))) for k in range(size)]
            case Scalar(node=node):
                return [g.eq(node, g.const(self.schema.name_index(kind, k))) for k in range(size)]
            case _:
                hits = [(guard, o.slot) for guard, o in objects_of_kind(self, value, kind)]
                return [g.or_(*[guard for guard, slot in hits if slot == k]) for k in range(size)]

    def mark(self, path: Path, actor: Actor, owed: list[Node]) -> None:
        """Put keys into the queue; a key that waits for a delayed requeue is dirty at once."""
        g = self.g
        for key, node in enumerate(owed):
            if node is not g.false:
                path.set(actor.dirty[key], g.or_(path.get(actor.dirty[key]), node))

    # ------------------------------------------------------------------ delivery
    def deliver(self, path: Path, actor: Actor, cache: c.Cache) -> int:
        """The oldest change reaches the cache: the copy is replaced, handlers run, owed keys become dirty."""
        g = self.g
        oldest = cache.entries[0]
        code = self.schema.slot_code(cache.kind, 0)
        slots = [path.resolve(g.eq(path.get(oldest.slot), g.const(s + code))) for s in range(len(cache.rows))]
        open_ = [s for s, node in enumerate(slots) if node is not g.false]
        slot = open_[path.choose(len(open_))] if len(open_) > 1 else open_[0]
        path.assume(slots[slot])
        row = cache.rows[slot]
        old = {leaf: path.get(cell) for leaf, cell in row.items()}
        new = c.row_leaves(self.layout, path, oldest.row)
        owed = [path.get(cell) for cell in oldest.owed]
        for leaf, cell in row.items():
            path.set(cell, new[leaf])
        c.caught_up(path, self.layout, cache, slot, g.true)
        late = [w for w in cache.wakes if c.is_late(w)]
        before, after = self._version(cache.kind, slot, old), self._version(cache.kind, slot, new)
        self.mark(path, actor, owed)
        c.shift(path, self.layout, cache, g.true)
        self.mark(path, actor, self.keys(path, actor, late, before, after, old["present"], new["present"]))
        self._handlers(path, actor, cache, before, after, old["present"], new["present"], g.true)
        return slot

    def _deliver_if(self, path: Path, actor: Actor, cache: c.Cache, test: Node) -> None:
        """`deliver` where `test` holds, whatever the slot: the oldest change goes with the write."""
        g = self.g
        oldest = cache.entries[0]
        new = c.row_leaves(self.layout, path, oldest.row)
        late = [w for w in cache.wakes if c.is_late(w)]
        self.mark(path, actor, [g.and_(test, path.get(cell)) for cell in oldest.owed])
        for slot, row in enumerate(cache.rows):
            code = self.schema.slot_code(cache.kind, slot)
            here = path.resolve(g.and_(test, g.eq(path.get(oldest.slot), g.const(code))))
            if here is g.false:
                continue
            old = {leaf: path.get(cell) for leaf, cell in row.items()}
            for leaf, cell in row.items():
                path.set_if(here, cell, new[leaf])
            c.caught_up(path, self.layout, cache, slot, here)
            before, after = self._version(cache.kind, slot, old), self._version(cache.kind, slot, new)
            owed = self.keys(path, actor, late, before, after, old["present"], new["present"])
            self.mark(path, actor, [g.and_(here, n) for n in owed])
            self._handlers(path, actor, cache, before, after, old["present"], new["present"], here)
        c.shift(path, self.layout, cache, test)

    def _handlers(
        self, path: Path, actor: Actor, cache: c.Cache, old: Object, new: Object, was: Node, now: Node, test: Node
    ) -> None:
        """Index handlers of the change, on the versions before and after, where `test` holds."""
        from dashpot.model.kernel.bodies import handle

        g = self.g
        for index in cache.indexes:
            for event, body in index.handlers:
                happened = {
                    "add": g.and_(test, g.not_(was), now),
                    "update": g.and_(test, was, now),
                    "delete": g.and_(test, was, g.not_(now)),
                }[event]
                happened = path.resolve(happened)
                if happened is not g.false:
                    args: dict[str, list[Value]] = {"add": [new], "update": [old, new], "delete": [old]}
                    handle(self, path, actor, body, dict(zip(body.params, args[event], strict=True)), happened)

    def relist(self, path: Path, actor: Actor, kind: str, everything: bool) -> None:
        """A list replaces the cache: keys of versions that differ become dirty (`everything`: all keys)."""
        g = self.g
        cache = actor.caches[kind]
        if not cache.rows:
            return
        for slot, row in enumerate(cache.rows):
            stored = self.store[kind][slot]
            new = {leaf: path.get(cell) for leaf, cell in stored.items()}
            new["incarnation"] = g.const(0)
            old = {leaf: path.get(cell) for leaf, cell in row.items()}
            differs = c.undelivered(self.layout, path, cache, slot)
            if not everything:
                before, after = self._version(kind, slot, old), self._version(kind, slot, new)
                owed = self.keys(path, actor, cache.wakes, before, after, old["present"], new["present"])
                self.mark(path, actor, [g.and_(differs, n) for n in owed])
                self._handlers(path, actor, cache, before, after, old["present"], new["present"], differs)
            for leaf, cell in row.items():
                path.set(cell, new[leaf])
            c.caught_up(path, self.layout, cache, slot, g.true)
        c.clear(path, self.layout, cache)

    # ------------------------------------------------------------------ updates
    def rule(
        self,
        build: Callable[[Path], Label | None],
        span: Span = NOWHERE,
        about: tuple[str, Span] | None = None,
    ) -> None:
        """Turn a rule into guarded updates, one for each way through it."""

        def run(path: Path) -> None:
            try:
                path.notes["label"] = build(path)
            except Spill:
                path.notes["label"] = self._beyond(path)

        for way in every_way(self.g, self.layout.cells, run, span):
            label = way.notes["label"]
            if label is None:
                continue
            assert isinstance(label, Label)
            obligations = tuple(o for o in way.obligations if way.resolve(o.holds) is not self.g.true)
            index = len(self.updates)
            self.updates.append(Update(label, tuple(way.guard), way.assigned(), obligations))
            self.commits[index] = way.commits
            self.kept[index] = frozenset(way.overlay)
            self.creations[index] = way.created
            if about is not None:
                self.fired.setdefault(about, []).append(index)

    def _beyond(self, path: Path) -> Label:
        """The step that leaves the scope leads to one sink, from which nothing goes on and nothing is asked."""
        if self.sink < 0:
            self.sink = self.layout.add("control", BEYOND, 0, 1)
        path.overlay = {c.index: self.g.const(c.initial) for c in self.layout.cells}
        path.overlay[self.sink] = self.g.true
        path.commits.clear()
        path.created.clear()
        path.obligations = [o for o in path.obligations if o.property == BOUND]
        who = path.notes.get("who")
        label = who if isinstance(who, Label) else Label("kubernetes", "overflow", fair=False)
        return evolve(label, detail=(*path.detail, f"overflows: {path.notes['spilled']}"))

    def spill(self, path: Path, test: Node, about: tuple[str, str], what: str, span: Span) -> None:
        """Where `test` holds the step cannot be kept in this scope: a bound, reported, and not explored beyond."""
        if path.resolve(test) is self.g.false or not path.branch(test):
            return
        path.notes["spilled"] = what
        path.obligations.append(Obligation(BOUND, self.g.false, about, what, span))
        raise Spill

    def oblige(self, path: Path, name: str, holds: Node, about: tuple[str, str], what: str, span: Span) -> None:
        """This step breaks property `name` unless `holds`."""
        holds = path.resolve(holds)
        if holds is not self.g.true:
            path.obligations.append(Obligation(name, holds, about, what, span))

    def spend(self, path: Path, budget: str) -> None:
        """Use one of a budget; without one left the way is dead."""
        g = self.g
        cell = self.budgets[budget]
        left = path.get(cell)
        path.assume(g.lt(g.const(0), left))
        top = self.layout.cells[cell].hi
        path.set(cell, g.clamp(g.sub(left, g.const(1)), 0, top))


@define(eq=False)
class Writer:
    """Who writes: the actor (None: the collector), the key of its pass, its action, and what a story calls it.

    heard   the answer arrives; a writer that does not hear it knows nothing of the version that it made
    """

    actor: Actor | None
    key: int = -1
    action: str = ""
    heard: bool = True

    @property
    def name(self) -> str:
        return self.actor.name if self.actor is not None else "kubernetes"


@define(eq=False)
class Write:
    """A write as properties see it: verb, kind, slot, the object before and after, who."""

    verb: str
    kind: str
    slot: int
    old: Object | None
    new: Object | None
    writer: Writer
    span: Span


def objects_of_kind(world: World, value: Value, kind: str) -> list[tuple[Node, Object]]:
    """The objects of one kind in a value, with guards."""
    g = world.g
    match value:
        case Maybe(some=some, value=inner):
            return [(g.and_(some, n), o) for n, o in objects_of_kind(world, inner, kind)]
        case Items(items=items):
            return [(g.and_(i, n), o) for i, v in items for n, o in objects_of_kind(world, v, kind)]
        case Object():
            return [(g.true, value)] if value.kind == kind else []
        case _:
            options = getattr(value, "choices", [])
            return [(guard, o) for guard, o in options if o.kind == kind]
