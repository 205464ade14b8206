"""A small hand-built world: one controller that fills up pods by a lagging cache, and its sources.

One Database, three Pod slots, an informer with one undelivered change at a time. The controller creates a
pod while its cache shows fewer than wanted; a user scales. Built cell by cell, so that story, page and
graph are tested without the engine and without the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dashpot.checker.verdict import Trace, Violated
from dashpot.model.core import Graph, Node
from dashpot.model.interpret import evaluate
from dashpot.model.span import Span
from dashpot.model.system import Cell, Goal, Label, Symmetry, System, Update

FILE = "fleet.loop"
TEXT = """\
controller Fleet for Database {
  owns Pod
  reconcile db {
    let pods = list cached Pod where p -> p.owner == db
    if pods.size() < db.spec.members {
      create Pod { generateName: db.name + "-", owner: db }
    }
    if pods.size() > db.spec.members {
      delete pods.first()  // any of them
    }
  }
}
property enough for db in Database =
  always Pod.count(p, p.owner == db) <= db.spec.members
property settles for db in Database =
  converges to Pod.count(p, p.owner == db) == db.spec.members
"""
SOURCES = {FILE: TEXT}
SLOTS = 3


def place(text: str, after: str = "") -> Span:
    """Where a piece of TEXT stands first, behind `after`."""
    at = TEXT.index(after + text) + len(after)
    line = TEXT.count("\n", 0, at) + 1
    column = at - TEXT.rfind("\n", 0, at)
    return Span(FILE, line, column, line, column + len(text))


class World:
    """Builds a System cell by cell, by name."""

    def __init__(self) -> None:
        self.g = Graph()
        self.cells: list[Cell] = []
        self.updates: list[Update] = []
        self.at: dict[str, int] = {}

    def cell(
        self,
        area: str,
        actor: str,
        kind: str,
        slot: int,
        path: str,
        hi: int,
        initial: int = 0,
        texts: tuple[str, ...] | None = None,
    ) -> Node:
        cell = Cell(len(self.cells), area, actor, kind, slot, path, 0, hi, initial, texts)
        self.cells.append(cell)
        self.at[cell.name] = cell.index
        return self.g.cell(cell.index, 0, hi)

    def node(self, name: str) -> Node:
        cell = self.cells[self.at[name]]
        return self.g.cell(cell.index, cell.lo, cell.hi)

    def update(self, label: Label, guard: Iterable[Node], assigns: Mapping[str, Node | int]) -> None:
        pairs = [(self.at[n], self.g.const(v) if isinstance(v, int) else v) for n, v in assigns.items()]
        self.updates.append(Update(label, tuple(guard), tuple(pairs)))

    def system(self, *goals: Goal) -> System:
        return System(self.g, tuple(self.cells), tuple(self.updates), (), goals, Symmetry())


def fleet(wanted: int = 1) -> System:
    """The world above; the goal "enough" says that there are never more pods than wanted."""
    w = World()
    g = w.g
    members = w.cell("store", "", "Database", 0, "spec.members", 2, wanted)
    w.cell("store", "", "Database", 0, "name", 0, texts=("db",))
    for s in range(SLOTS):
        w.cell("store", "", "Pod", s, "present", 1)
        w.cell("store", "", "Pod", s, "owner", 1, texts=("null", "db"))
    for s in range(SLOTS):
        w.cell("cache", "Fleet", "Pod", s, "present", 1)
        w.cell("cache", "Fleet", "Pod", s, "owner", 1, texts=("null", "db"))
    w.cell("pending", "Fleet", "Pod", -1, "count", 1)
    w.cell("pending", "Fleet", "Pod", -1, "0.slot", SLOTS - 1)
    w.cell("pending", "Fleet", "Pod", -1, "0.present", 1)
    w.cell("queue", "Fleet", "Database", 0, "dirty", 1, 1, texts=("clean", "dirty"))
    w.cell("memory", "Fleet", "", -1, "passes", 1)
    cached = g.sum(w.node(f"cache.Fleet.Pod[{s}].present") for s in range(SLOTS))
    truth = g.sum(w.node(f"store.Pod[{s}].present") for s in range(SLOTS))
    for s in range(SLOTS):
        _write(w, s, "create", g.lt(cached, members))
        _write(w, s, "delete", g.lt(members, cached))
        _deliver(w, s)
    for n in range(3):
        label = Label("Users", "patch", "scale", "Database db", (f"members = {n}",), False, role="environment")
        w.update(label, [g.ne(members, g.const(n))], {"store.Database[0].spec.members": n})
    body = g.le(truth, members)
    parts = (
        (place("Pod.count(p, p.owner == db) <= db.spec.members"), body),
        (place("Pod.count(p, p.owner == db)"), truth),
        (place("db.spec.members", after="<= "), members),
    )
    enough = Goal("enough", "always", g.true, g.true, body, "Database db", parts, place("property enough"))
    exact = g.eq(truth, members)
    parts = (
        (place("Pod.count(p, p.owner == db) == db.spec.members"), exact),
        (place("Pod.count(p, p.owner == db)", after="converges to "), truth),
        (place("db.spec.members", after="== db) == "), members),
    )
    settles = Goal("settles", "converges", g.true, g.true, exact, "Database db", parts, place("property settles"))
    return w.system(enough, settles)


def _taken(w: World, slot: int) -> dict[str, Node | int]:
    """The cache after it took the undelivered change, if there is one: field by field of one slot."""
    g = w.g
    arrives = g.and_(w.node("pending.Fleet.Pod.count"), g.eq(w.node("pending.Fleet.Pod.0.slot"), g.const(slot)))
    come = w.node("pending.Fleet.Pod.0.present")
    present = f"cache.Fleet.Pod[{slot}].present"
    owner = f"cache.Fleet.Pod[{slot}].owner"
    return {present: g.ite(arrives, come, w.node(present)), owner: g.ite(arrives, come, w.node(owner))}


def _write(w: World, slot: int, verb: str, decided: Node) -> None:
    """Create or delete one pod, as the cache has it; the change before it is delivered with it."""
    g = w.g
    store = w.node(f"store.Pod[{slot}].present")
    before = [w.node(f"store.Pod[{i}].present") for i in range(slot)]
    seen = w.node(f"cache.Fleet.Pod[{slot}].present")
    guard = [g.not_(store), *before] if verb == "create" else [store, seen]
    test = place("pods.size() < db.spec.members" if verb == "create" else "pods.size() > db.spec.members")
    span = place('create Pod { generateName: db.name + "-", owner: db }' if verb == "create" else "delete pods.first()")
    label = Label(
        "Fleet",
        verb,
        "reconcile",
        f"Pod db-{slot}",
        reads=(("Pod", -1),),
        changes=(("Pod", "*"),),
        span=span,
        decided=((test, True),),
    )
    new = int(verb == "create")
    assigns: dict[str, Node | int] = {f"store.Pod[{slot}].present": new, f"store.Pod[{slot}].owner": new}
    assigns |= {"pending.Fleet.Pod.count": 1, "pending.Fleet.Pod.0.slot": slot, "pending.Fleet.Pod.0.present": new}
    for s in range(SLOTS):
        assigns |= _taken(w, s)
    w.update(label, [*guard, decided], {**assigns, "memory.Fleet.passes": 1})


def _deliver(w: World, slot: int) -> None:
    g = w.g
    arrives = [w.node("pending.Fleet.Pod.count"), g.eq(w.node("pending.Fleet.Pod.0.slot"), g.const(slot))]
    empty = {"pending.Fleet.Pod.count": 0, "pending.Fleet.Pod.0.slot": 0, "pending.Fleet.Pod.0.present": 0}
    w.update(Label("Fleet", "deliver", "", f"Pod db-{slot}"), arrives, {**_taken(w, slot), **empty})


def walk(system: System, *objects: tuple[str, str, str]) -> Trace:
    """The run that takes the steps named (actor, verb, object) one after the other; each must be possible."""
    values = tuple(c.initial for c in system.cells)
    states, steps = [values], []
    for actor, verb, name in objects:
        index = next(
            i for i, u in enumerate(system.updates)
            if (u.label.actor, u.label.verb, u.label.object) == (actor, verb, name)
            and all(evaluate(n, values.__getitem__) for n in u.guard)
        )  # fmt: skip
        after = list(values)
        for cell, node in system.updates[index].assigns:
            after[cell] = evaluate(node, values.__getitem__)
        values = tuple(after)
        states.append(values)
        steps.append(index)
    return Trace(tuple(states), tuple(steps))


def twins() -> tuple[System, Violated]:
    """Two pods where one is wanted: the second create is decided before the first is delivered."""
    system = fleet()
    trace = walk(system, ("Fleet", "create", "Pod db-0"), ("Fleet", "create", "Pod db-1"))
    return system, Violated("safety", 2, trace, system.goals[0], None, ("Database db", ""))


def tide() -> tuple[System, Violated]:
    """One pod is wanted, and for ever two are made and two are deleted, each time by a stale cache."""
    system = fleet()
    round_ = [
        ("Fleet", "create", "Pod db-0"),
        ("Fleet", "create", "Pod db-1"),
        ("Fleet", "deliver", "Pod db-1"),
        ("Fleet", "delete", "Pod db-0"),
        ("Fleet", "delete", "Pod db-1"),
        ("Fleet", "deliver", "Pod db-1"),
    ]
    trace = walk(system, *round_, *round_)
    loop = Trace(trace.states, trace.steps, trace.states.index(trace.states[-1]))
    return system, Violated("loop", len(loop.steps), loop, system.goals[1], None, ("Database db", ""))


def rivals() -> tuple[System, Violated]:
    """Two actors set one field of one object in turns, each to its own value."""
    w = World()
    phase = w.cell("store", "", "Service", 0, "spec.type", 1, texts=("Local", "Global"))
    for value, actor in enumerate(("Old", "New")):
        label = Label(actor, "patch", "reconcile", "Service web", changes=(("Service", "spec.type"),))
        w.update(label, [w.g.ne(phase, w.g.const(value))], {"store.Service[0].spec.type": value})
    goal = Goal("calm", "converges", w.g.true, w.g.true, w.g.eq(phase, w.g.const(0)))
    system = w.system(goal)
    trace = walk(system, ("New", "patch", "Service web"), ("Old", "patch", "Service web"))
    loop = Trace(trace.states, trace.steps, 0)
    return system, Violated("loop", 2, loop, goal)


def sleeper() -> tuple[System, Violated]:
    """A controller reads Nodes, is not woken by them, and sleeps when one becomes ready."""
    w = World()
    node = w.cell("store", "", "Node", 0, "status.ready", 1, texts=("false", "true"))
    seen = w.cell("cache", "Joiner", "Node", 0, "status.ready", 1, texts=("false", "true"))
    joined = w.cell("store", "", "Machine", 0, "status.joined", 1, texts=("false", "true"))
    dirty = w.cell("queue", "Joiner", "Machine", 0, "dirty", 1, 1)
    w.cell("pending", "Joiner", "Node", -1, "count", 1)
    idle = Label("Joiner", "end", "reconcile", "Machine m", reads=(("Node", 0),))
    w.update(idle, [dirty, w.g.not_(seen)], {"queue.Joiner.Machine[0].dirty": 0})
    join = Label("Joiner", "update", "reconcile", "Machine m", reads=(("Node", 0),))
    done = {"store.Machine[0].status.joined": 1, "queue.Joiner.Machine[0].dirty": 0}
    w.update(join, [dirty, seen, w.g.not_(joined)], done)
    boot = {"store.Node[0].status.ready": 1, "pending.Joiner.Node.count": 1}
    w.update(Label("Cloud", "patch", "boot", "Node n", role="environment"), [w.g.not_(node)], boot)
    waits = w.node("pending.Joiner.Node.count")
    arrive: dict[str, Node | int] = {"cache.Joiner.Node[0].status.ready": node, "pending.Joiner.Node.count": 0}
    w.update(Label("Joiner", "deliver", "", "Node n"), [waits], arrive)
    goal = Goal("joins", "converges", w.g.true, w.g.true, joined, "Machine m")
    system = w.system(goal)
    steps = (("Joiner", "end", "Machine m"), ("Cloud", "patch", "Node n"), ("Joiner", "deliver", "Node n"))
    return system, Violated("stuck", 3, walk(system, *steps), goal)


def forgetful(stale: bool = False, remembers: bool = True) -> tuple[System, Violated]:
    """A controller writes, crashes (or restarts on an old list), and never writes the second half."""
    w = World()
    first = w.cell("store", "", "Job", 0, "spec.claim", 1, texts=("null", "c"))
    second = w.cell("store", "", "Job", 0, "status.bound", 1, texts=("false", "true"))
    todo = w.cell("memory" if remembers else "control", "Binder", "", -1, "todo", 1)
    claim = Label("Binder", "patch", "reconcile", "Job j")
    w.update(claim, [w.g.not_(first)], {"store.Job[0].spec.claim": 1, w.cells[todo.value].name: 1})
    w.update(Label("Binder", "update", "reconcile", "Job j"), [todo], {"store.Job[0].status.bound": 1})
    crash = Label("Binder", "stale_restart" if stale else "crash", role="fault", fair=False)
    w.update(crash, [todo], {w.cells[todo.value].name: 0})
    goal = Goal("bound", "converges", w.g.true, w.g.true, second, "Job j")
    system = w.system(goal)
    return system, Violated("stuck", 2, walk(system, ("Binder", "patch", "Job j"), ("Binder", crash.verb, "")), goal)
