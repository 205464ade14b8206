"""The literal anchor (a ReplicaSet over a stale cache) as a hand-written System: cells, updates, goals."""

from __future__ import annotations

from dashpot.model.core import Graph, Node
from dashpot.model.system import Cell, Goal, Group, Label, Symmetry, System, Update

ABSENT, PENDING, RUNNING, TERMINATING = range(4)
DOWN, NO_WATCH, WATCHING = range(3)


class Anchor:
    """Builds the system for N slots, up to R replicas desired and Q undelivered changes."""

    def __init__(self, slots: int, replicas: int, queue: int, fix: bool, symmetry: bool = False) -> None:
        self.g = Graph()
        self.slots, self.replicas, self.queue, self.fix = slots, replicas, queue, fix
        self.cells: list[Cell] = []
        self.updates: list[Update] = []
        self.group = symmetry
        self.link = self._cell("link", 0, 2)
        self.calm = self._cell("calm", 0, 1)
        self.todo = self._cell("todo", -slots, replicas)
        self.desired = self._cell("desired", 0, replicas)
        self.seen = self._cell("seen", 0, replicas)
        self.store = [self._cell("store", 0, 3, slot=s) for s in range(slots)]
        self.cache = [self._cell("cache", 0, 3, slot=s) for s in range(slots)]
        self.length = self._cell("length", 0, queue)
        self.places = [self._cell(f"slot{k}", 0, slots, ref="Slot") for k in range(queue)]
        self.phases = [self._cell(f"phase{k}", 0, 3) for k in range(queue)]

    def _cell(self, path: str, lo: int, hi: int, initial: int = 0, slot: int = -1, ref: str | None = None) -> Node:
        index = len(self.cells)
        dims = (("Slot", slot),) if slot >= 0 and self.group else ()
        self.cells.append(
            Cell(index, "store", "", "World", slot, path, lo, hi, initial, dims=dims,
                 ref=ref if self.group else None, base=1, root=True)
        )  # fmt: skip
        return self.g.cell(index, lo, hi)

    def alive(self, phase: Node) -> Node:
        return self.g.or_(self.g.eq(phase, self.g.const(PENDING)), self.g.eq(phase, self.g.const(RUNNING)))

    def sent(self, slot: int, phase: int) -> list[tuple[Node, Node]]:
        """Append a change to the queue; an overflow closes the watch."""
        g = self.g
        watching = g.eq(self.link, g.const(WATCHING))
        fits = g.lt(self.length, g.const(self.queue))
        found = [
            (self.length, g.ite(watching, g.ite(fits, g.add(self.length, g.const(1)), g.const(0)), self.length)),
            (self.link, g.ite(g.and_(watching, g.not_(fits)), g.const(NO_WATCH), self.link)),
        ]
        for k in range(self.queue):
            here = g.eq(self.length, g.const(k))
            for cell, value in ((self.places[k], slot + 1), (self.phases[k], phase)):
                kept = g.ite(here, g.const(value), cell)
                found.append((cell, g.ite(watching, g.ite(fits, kept, g.const(0)), cell)))
        return found

    def empty(self) -> list[tuple[Node, Node]]:
        return [(cell, self.g.const(0)) for cell in (self.length, *self.places, *self.phases)]

    def add(
        self,
        verb: str,
        guard: list[Node],
        assigns: list[tuple[Node, Node]],
        role: str = "step",
        actor: str = "Weather",
    ) -> None:
        label = Label(
            actor, "update", verb, fair=role == "step", fairness=(actor, verb), role=role, changes=(("World", "spec"),)
        )
        self.updates.append(Update(label, tuple(guard), tuple((c.value, v) for c, v in assigns)))

    def system(self) -> System:
        self._weather()
        self._kubelet()
        self._controller()
        g = self.g
        live = g.sum(self.alive(s) for s in self.store)
        goals = (
            Goal("no_overshoot", "always", g.true, g.true, g.le(live, g.const(self.replicas))),
            Goal("settles", "converges", g.true, g.true, g.eq(live, self.desired)),
        )
        groups = (Group("Slot", self.slots),) if self.group else ()
        return System(g, tuple(self.cells), tuple(self.updates), (), goals, Symmetry(groups))

    def _weather(self) -> None:
        g = self.g
        wild = g.not_(self.calm)
        up = g.not_(g.eq(self.link, g.const(DOWN)))
        for d in range(self.replicas + 1):
            self.add("scale", [wild, g.ne(self.desired, g.const(d))], [(self.desired, g.const(d))], "environment")
        lost = [(self.seen, g.const(0)), *((c, g.const(ABSENT)) for c in self.cache), *self.empty()]
        gone = [*lost, (self.link, g.const(DOWN)), (self.todo, g.const(0))]
        self.add("crash", [wild, up], gone, "environment")
        watching = g.eq(self.link, g.const(WATCHING))
        self.add("drop", [wild, watching], [*self.empty(), (self.link, g.const(NO_WATCH))], "environment")
        self.add("calm", [wild], [(self.calm, g.true)], "environment")
        for s in range(self.slots):
            stop = [(self.store[s], g.const(TERMINATING)), *self.sent(s, TERMINATING)]
            self.add("evict", [wild, g.eq(self.store[s], g.const(RUNNING))], stop, "environment")

    def _kubelet(self) -> None:
        g = self.g
        for s in range(self.slots):
            for verb, old, new in (("start", PENDING, RUNNING), ("stop", TERMINATING, ABSENT)):
                write = [(self.store[s], g.const(new)), *self.sent(s, new)]
                self.add(f"{verb}{s}", [g.eq(self.store[s], g.const(old))], write, actor="Kubelet")

    def _controller(self) -> None:
        g = self.g
        link = self.link
        listed = [*zip(self.cache, self.store, strict=True), (link, g.const(WATCHING))]
        up = g.not_(g.eq(link, g.const(DOWN)))
        watching = g.eq(link, g.const(WATCHING))
        own = {"actor": "Controller"}
        self.add("boot", [g.eq(link, g.const(DOWN))], [(self.seen, self.desired), *listed], **own)
        self.add("relist", [g.eq(link, g.const(NO_WATCH))], listed, **own)
        self.add("observe", [up, g.ne(self.seen, self.desired)], [(self.seen, self.desired)], **own)
        first = self.places[0]
        shown = [(c, g.ite(g.eq(first, g.const(s + 1)), self.phases[0], c)) for s, c in enumerate(self.cache)]
        rest: list[tuple[Node, Node]] = [(self.length, g.sub(self.length, g.const(1)))]
        for cells in (self.places, self.phases):
            rest += list(zip(cells, [*cells[1:], g.const(0)], strict=True))
        self.add("deliver", [watching, g.lt(g.const(0), self.length)], [*shown, *rest], **own)
        cached = g.sum(self.alive(c) for c in self.cache)
        diff = g.sub(self.seen, cached)
        calm = [watching, g.eq(self.length, g.const(0))] if self.fix else []
        zero = g.const(0)
        self.add("sync", [up, g.eq(self.todo, zero), g.ne(diff, zero), *calm], [(self.todo, diff)], **own)
        wants, excess = g.lt(zero, self.todo), g.lt(self.todo, zero)
        for s in range(self.slots):
            self._write(s, [up, wants], [up, excess])
        full = g.and_(*(g.ne(c, g.const(ABSENT)) for c in self.store))
        none = g.and_(*(g.not_(self.alive(c)) for c in self.cache))
        self.add("full", [up, wants, full], [(self.todo, zero)], **own)
        self.add("none", [up, excess, none], [(self.todo, zero)], **own)

    def _write(self, s: int, wants: list[Node], excess: list[Node]) -> None:
        g = self.g
        store, seen = self.store[s], self.alive(self.cache[s])
        made = [(store, g.const(PENDING)), *self.sent(s, PENDING), (self.todo, g.sub(self.todo, g.const(1)))]
        self.add(f"create{s}", [*wants, g.eq(store, g.const(ABSENT))], made, actor="Controller")
        fewer = (self.todo, g.add(self.todo, g.const(1)))
        killed = [(store, g.const(TERMINATING)), *self.sent(s, TERMINATING), fewer]
        self.add(f"kill{s}", [*excess, seen, self.alive(store)], killed, actor="Controller")
        self.add(f"skip{s}", [*excess, seen, g.not_(self.alive(store))], [fewer], actor="Controller")


def anchor(slots: int = 3, replicas: int = 2, queue: int = 2, fix: bool = False, symmetry: bool = False) -> System:
    """The anchor at one size."""
    return Anchor(slots, replicas, queue, fix, symmetry).system()
