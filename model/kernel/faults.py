"""Faults: what Kubernetes really does to a controller. Each has a budget, and then stops."""

from __future__ import annotations

from dashpot.model.core import Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel import caches as c
from dashpot.model.kernel.bodies import handle
from dashpot.model.kernel.layout import read_row
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.stepping import idle
from dashpot.model.kernel.world import Actor, World
from dashpot.model.program import Controller, Environment, Fault
from dashpot.model.span import Span
from dashpot.model.system import Label

ON_ACTORS = ("crash", "stale_restart", "pause", "down", "partition", "timeout")
ON_CACHES = ("relist", "drop")


def faults_of(world: World) -> list[Fault]:
    """The check's faults, or else those of the environments in its run."""
    if world.check.faults is not None:
        return [f for f in world.check.faults if f.limit > 0]
    environments = [e for e in world.program.environments if e.name in world.check.run]
    return [f for e in environments for f in e.faults if f.limit > 0]


def budget_name(fault: Fault) -> str:
    """What a budget is called in stories: "relist Pod for A"."""
    parts = [fault.name, fault.target or "", f"for {fault.by}" if fault.by else ""]
    return " ".join(p for p in parts if p)


def allocate(world: World, faults: list[Fault]) -> None:
    """A counter for each budget, and the flags of lasting faults."""
    g_layout = world.layout
    for fault in faults:
        name = budget_name(fault)
        if name not in world.budgets:
            world.budgets[name] = g_layout.add("budget", name, 0, fault.limit, fault.limit)
        for actor in world.actors:
            if not hits(fault, actor):
                continue
            if fault.name in ("pause", "down") and not actor.halted:
                actor.halted.append(g_layout.add("control", "stands still", 0, 1, actor=actor.name))
            if fault.name == "partition" and not actor.cut:
                actor.cut.append(g_layout.add("control", "cut off", 0, 1, actor=actor.name))
    if any(f.name == "node_down" for f in faults):
        for actor in world.actors:
            place = getattr(actor.decl, "place", None)
            if place is not None and place.of == "Node":
                actor.halted.append(g_layout.add("control", "node down", 0, 1, actor=actor.name))


def hits(fault: Fault, actor: Actor) -> bool:
    """Whether a fault's budget can hit this actor (never an environment, but by name for time-outs)."""
    if isinstance(actor.decl, Environment):
        return False
    return fault.target is None or fault.target in (actor.decl.name, actor.name)


def timeouts(faults: list[Fault], actor: Actor) -> list[str]:
    """Budgets by which a call of this actor may lose its answer."""
    return [budget_name(f) for f in faults if f.name == "timeout" and hits(f, actor)]


def build(world: World, faults: list[Fault]) -> None:
    """The steps of every fault."""
    for fault in faults:
        if fault.name in ON_ACTORS:
            for actor in world.actors:
                if hits(fault, actor):
                    _on_actor(world, fault, actor)
        elif fault.name in ON_CACHES:
            _on_caches(world, fault)
        elif fault.name == "node_down":
            _node_down(world, fault)
        else:
            raise SpecError("D313", f"there is no fault {fault.name}", fault.span)
    for actor in world.actors:
        _ends(world, actor)


def _on_actor(world: World, fault: Fault, actor: Actor) -> None:
    match fault.name:
        case "crash":
            _step(world, fault, actor.name, "crash", lambda path: restart(world, path, actor))
        case "pause":
            _step(world, fault, actor.name, "pause", lambda path: _halt(world, path, actor, lose=False))
        case "down":
            _step(world, fault, actor.name, "down", lambda path: _halt(world, path, actor, lose=True))
        case "partition":
            _step(world, fault, actor.name, "partition", lambda path: _raise_flag(world, path, actor.cut[0]))
        case "stale_restart":
            _freezing(world, fault, actor)
            _step(world, fault, actor.name, "stale_restart", lambda path: _stale(world, path, actor))


def _step(world: World, fault: Fault, actor: str, verb: str, act: object) -> None:
    name = budget_name(fault)

    def rule(path: Path) -> Label | None:
        world.spend(path, name)
        assert callable(act)
        act(path)
        return label(actor, verb, path, fault.span)

    world.rule(rule, fault.span)


def label(actor: str, verb: str, path: Path, span: Span, object_: str = "") -> Label:
    """The label of a fault step."""
    return Label(actor, verb, "", object_, tuple(path.detail), False, (actor, verb, object_), "fault", (), (), span)


# ---------------------------------------------------------------------- crash, pause, down, partition
def forget(world: World, path: Path, actor: Actor) -> None:
    """Memory, queue and work in progress are lost."""
    g = world.g
    for worker in actor.workers:
        idle(world, path, actor, worker)
    for _, row in actor.memory.values():
        for cell in row.values():
            path.set(cell, g.const(world.layout.cells[cell].initial))
    for cell in (*actor.dirty, *actor.delay):
        path.set(cell, g.const(0))


def restart(world: World, path: Path, actor: Actor) -> None:
    """Start anew: list every kind, run the add handlers, every key that exists is dirty."""
    forget(world, path, actor)
    for kind in actor.caches:
        world.relist(path, actor, kind, everything=True)
    listed(world, path, actor)


def listed(world: World, path: Path, actor: Actor) -> None:
    """What a first list leads to: add handlers, and a dirty key for every object of the controller's kind."""
    for cache in actor.caches.values():
        for index in cache.indexes:
            for event, body in index.handlers:
                if event == "add":
                    for present, copy in world.seen(path, actor, cache.kind):
                        handle(world, path, actor, body, {body.params[0]: copy}, path.resolve(present))
    if isinstance(actor.decl, Controller):
        for key, (present, _) in enumerate(world.seen(path, actor, actor.kind)):
            path.set(actor.dirty[key], present)


def _halt(world: World, path: Path, actor: Actor, lose: bool) -> None:
    _raise_flag(world, path, actor.halted[0])
    if lose:
        forget(world, path, actor)


def _raise_flag(world: World, path: Path, cell: int) -> None:
    path.assume(world.g.eq(path.get(cell), world.g.const(0)))
    path.set(cell, world.g.true)


def _ends(world: World, actor: Actor) -> None:
    """A pause, a partition, a down actor ends at some time: a fair step."""
    g = world.g
    for cell, verb in [(x, "resume") for x in actor.halted] + [(x, "reconnect") for x in actor.cut]:
        if world.layout.cells[cell].path == "node down":
            continue

        def rule(path: Path, cell: int = cell, verb: str = verb) -> Label | None:
            path.assume(path.get(cell))
            path.set(cell, g.false)
            if verb == "resume" and _down_fault(world, actor):
                restart(world, path, actor)
            return Label(actor.name, verb, fair=True, fairness=(actor.name, verb, ""))

        world.rule(rule)


def _down_fault(world: World, actor: Actor) -> bool:
    return any(f.name == "down" and hits(f, actor) for f in faults_of(world))


# ---------------------------------------------------------------------- stale restart
def prepare_views(world: World, faults: list[Fault], lag: int) -> None:
    """Room for a frozen API server for each actor that may restart on one."""
    for actor in world.actors:
        if not any(f.name == "stale_restart" and hits(f, actor) for f in faults):
            continue
        lagging = {k: cache for k, cache in actor.caches.items() if cache.rows}
        if not lagging:
            continue
        actor.frozen = world.layout.add("control", "frozen API server", 0, 1, actor=actor.name)
        for kind, cache in lagging.items():
            view = c.Cache(f"{actor.name}'s old API server", kind, "lagging", cache.wakes, cache.indexes)
            c.allocate(world.layout, view, len(cache.entries) or lag, len(actor.dirty), actor.kind)
            actor.views[kind] = view


def _freezing(world: World, fault: Fault, actor: Actor) -> None:
    """Freeze the snapshot of a lagging API server: a step of the fault (ruling 3)."""
    if actor.frozen < 0:
        return
    g = world.g

    def rule(path: Path) -> Label | None:
        path.assume(g.lt(g.const(0), path.get(world.budgets[budget_name(fault)])))
        _raise_flag(world, path, actor.frozen)
        for kind, view in actor.views.items():
            for slot, row in enumerate(view.rows):
                for leaf, cell in row.items():
                    path.set(cell, read_row(g, path, world.store[kind][slot], leaf))
        return label(actor.name, "freeze", path, fault.span)

    world.rule(rule, fault.span)


def _stale(world: World, path: Path, actor: Actor) -> None:
    """Restart and list from the frozen server; what came since is still to be delivered."""
    if actor.frozen < 0:
        restart(world, path, actor)
        return
    path.assume(path.get(actor.frozen))
    forget(world, path, actor)
    for kind, view in actor.views.items():
        cache = actor.caches[kind]
        for mine, theirs in zip(cache.rows, view.rows, strict=True):
            for leaf, cell in mine.items():
                path.set(cell, path.get(theirs[leaf]))
                path.set(theirs[leaf], world.g.const(world.layout.cells[theirs[leaf]].initial))
        c.clear(path, world.layout, cache)
        for slot in range(len(cache.rows)):
            c.caught_up(path, world.layout, cache, slot, world.g.true)
        path.set(cache.count, path.get(view.count))
        for entry, other in zip(cache.entries, view.entries, strict=True):
            for mine_, theirs_ in zip(_shared(entry), _shared(other), strict=True):
                path.set(mine_, path.get(theirs_))
        c.clear(path, world.layout, view)
    path.set(actor.frozen, world.g.false)
    listed(world, path, actor)


def _shared(entry: c.Entry) -> list[int]:
    return [entry.slot, *entry.row.values(), entry.between, *entry.owed]


# ---------------------------------------------------------------------- relist, drop, node_down
def on_cache(world: World, actor: Actor, kind: str, names: tuple[str, ...] = ON_CACHES) -> bool:
    """Whether a fault of the check can hit this cache: then its changes have to be on their way for a while."""
    return any(f.name in names and _reaches(f, actor, kind) for f in faults_of(world))


def _reaches(fault: Fault, actor: Actor, kind: str) -> bool:
    return fault.by in (None, actor.decl.name, actor.name) and fault.target in (None, kind)


def _on_caches(world: World, fault: Fault) -> None:
    for actor in world.actors:
        if isinstance(actor.decl, Environment):
            continue
        for kind, cache in actor.caches.items():
            if cache.lagging and _reaches(fault, actor, kind):
                _one_cache(world, fault, actor, kind, cache)


def _one_cache(world: World, fault: Fault, actor: Actor, kind: str, cache: c.Cache) -> None:
    g = world.g

    def act(path: Path) -> Label | None:
        world.spend(path, budget_name(fault))
        path.assume(g.lt(g.const(0), path.get(cache.count)))
        if fault.name == "relist":
            world.relist(path, actor, kind, everything=False)
        else:
            c.drop(path, world.layout, cache)
        return label(actor.name, fault.name, path, fault.span, kind)

    world.rule(act, fault.span)


def _node_down(world: World, fault: Fault) -> None:
    schema, g = world.schema, world.g
    for slot in range(schema.info("Node").size):
        name = schema.info("Node").names[slot]

        def rule(path: Path, slot: int = slot, name: str = name) -> Label | None:
            world.spend(path, budget_name(fault))
            hit: list[Node] = []
            for actor in world.actors:
                place = getattr(actor.decl, "place", None)
                if place is None or place.of != "Node" or actor.name != f"{actor.decl.name}[{name}]":
                    continue
                cell = actor.halted[-1]
                hit.append(g.eq(path.get(cell), g.const(0)))
                path.set(cell, g.true)
            path.assume(g.or_(*hit) if hit else g.true)
            return label("kubernetes", "node_down", path, fault.span, schema.object_text("Node", slot))

        world.rule(rule, fault.span)
