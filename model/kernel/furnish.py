"""The furniture of a world: cells of the store, of every actor and its caches, and the steps that actors take."""

from __future__ import annotations

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.automaton import End
from dashpot.model.kernel import caches as c
from dashpot.model.kernel import faults, lost, ownership
from dashpot.model.kernel.goals import watch_writes
from dashpot.model.kernel.layout import Layout
from dashpot.model.kernel.start import begin
from dashpot.model.kernel.stepping import action_steps, controller_steps
from dashpot.model.kernel.tables import declarations, generations_counted, on, pieces, place_of, schema_of
from dashpot.model.kernel.values import Scalar, Value
from dashpot.model.kernel.walk import calls, parts
from dashpot.model.kernel.widen import Ranges, widen_fields
from dashpot.model.kernel.world import Actor, Declaration, Worker, World
from dashpot.model.program import Action, Check, Controller, Environment, Fault, Process, Program, Wake


def furnish(program: Program, check: Check, widened: Ranges) -> World:
    """The world with its cells, its start, and the steps of all actors."""
    schema, given = schema_of(program, check, {str(k[1]): n for k, (_, n) in widened.items() if k[0] == "raised"})
    widen_fields(schema, widened)
    schema.prepare()
    world = World(program, check, schema, Layout(schema))
    world.widened = widened
    world.ranked = not generations_counted(pieces(program, check))
    layout = world.layout
    written = _written(program, check)
    for kind, info in schema.kinds.items():
        world.store[kind] = [layout.copy(kind, "store", slot=s) for s in range(info.size)]
        for row in world.store[kind]:
            layout.amend(row["present"], root=True)
            for leaf, cell in row.items():
                if any(leaf == f or leaf.startswith(f + ".") for f in written.get(kind, ())):
                    layout.amend(cell, root=True)
    for decl in declarations(program, check):
        for name, me in places(world, decl):
            world.actors.append(_actor(world, decl, name, me))
    fault_list = faults.faults_of(world)
    faults.allocate(world, fault_list)
    faults.prepare_views(world, fault_list, _lag(check))
    world.tags = lost.allocate(world)
    world.owners = ownership.allocate(world)
    limits = _limits(world)
    begin(world, given)
    watch_writes(world)
    _actor_steps(world, fault_list, limits)
    return world


def _lag(check: Check) -> int:
    lag = dict(check.scope).get("lag", 2)
    return lag if isinstance(lag, int) else 2


def _written(program: Program, check: Check) -> dict[str, set[str]]:
    """Fields that some call of the run changes on an object that exists: changes people can observe."""
    out: dict[str, set[str]] = {}
    for piece in declarations(program, check):
        for call in calls(piece):
            if call.verb != "create":
                for steps in [*(f.path for f in call.fields), *(o.path for o in call.ops)]:
                    heads = [p for p in steps if isinstance(p, str)]
                    out.setdefault(call.kind, set()).add(".".join(heads[:2]))
            if call.verb == "bind":
                out.setdefault(call.kind, set()).add("spec.nodeName")
            if call.verb in ("delete", "evict"):
                out.setdefault(call.kind, set()).add("deletionTimestamp")
    return out


def places(world: World, decl: Declaration) -> list[tuple[str, Value | None]]:
    """Instances of an actor: one, or one for each seat or object of its place."""
    place = place_of(decl)
    if place is None:
        return [(decl.name, None)]
    g, finite = world.g, world.schema.finite
    if place in world.schema.kinds:
        info = world.schema.info(place)
        return [(f"{decl.name}[{n}]", Scalar(g.const(finite.name(n)), t.Name(place))) for n in info.names]
    enum = finite.enums[place]
    return [(f"{decl.name}[{m}]", Scalar(g.const(i), enum)) for i, m in enumerate(enum.members)]


def _actor(world: World, decl: Declaration, name: str, me: Value | None) -> Actor:
    layout, schema, finite = world.layout, world.schema, world.schema.finite
    actor = Actor(name, decl, me)
    if not isinstance(decl, Environment):
        for f in (*decl.memory, *[i.field for i in decl.indexes]):
            row = layout.leaves(finite.leaves(f.type, f.name, f.span), "memory", actor=name)
            actor.memory[f.name] = (f, row)
    count = decl.workers if isinstance(decl, Controller) else 1
    keys = schema.info(decl.kind).size if isinstance(decl, Controller) else 0
    for i in range(count):
        pc = layout.add("control", f"at{i or ''}", 0, 63, actor=name)
        key = -1
        if isinstance(decl, Controller):
            texts = ("none", *schema.info(decl.kind).names)
            key = layout.add("control", f"key{i or ''}", 0, keys, actor=name, texts=texts)
            if decl.kind in finite.symmetric_kinds:
                layout.amend(key, ref=decl.kind, base=1)
        actor.workers.append(Worker(pc, key))
    if isinstance(decl, Controller):
        for k in range(keys):
            actor.dirty.append(layout.add("queue", "dirty", 0, 1, actor=name, kind=decl.kind, slot=k))
        if _delays(decl):
            for k in range(keys):
                actor.delay.append(
                    layout.add("queue", "delay", 0, max(1, finite.oldest), actor=name, kind=decl.kind, slot=k)
                )
        else:
            actor.delay = []
    if not isinstance(decl, Environment):
        _caches(world, actor)
    return actor


def _delays(decl: Controller) -> bool:
    return any(isinstance(p, End) and p.how == "after" for p in parts(decl))


def _caches(world: World, actor: Actor) -> None:
    """A cache for each kind that the actor is woken by or reads; copies where somebody reads, or a fault hits, them."""
    decl = actor.decl
    assert isinstance(decl, Controller | Process)
    values = world.schema.finite.constants
    wakes: list[Wake] = []
    if isinstance(decl, Controller):
        wakes = [w for w in decl.wakes if on(values, w.only_if) and w.kind in world.store]
    modes = {m.kind: m.mode for m in decl.caches if on(values, m.only_if)}
    read = _read_kinds(decl)
    if isinstance(decl, Controller):
        read.add(decl.kind)
    for kind in sorted({w.kind for w in wakes} | (read & world.store.keys())):
        default = "lagging" if isinstance(decl, Controller) else "live"
        mode = modes.get(kind, default)
        indexes = [i for i in decl.indexes if i.kind == kind]
        cache = c.Cache(actor.name, kind, mode, [w for w in wakes if w.kind == kind], indexes)
        actor.caches[kind] = cache
        lag = _lag(world.check)
        if mode != "live" and lag and (kind in read or indexes or faults.on_cache(world, actor, kind)):
            drops = faults.on_cache(world, actor, kind, ("drop",))
            c.allocate(world.layout, cache, lag, len(actor.dirty), actor.kind, drops)


def _read_kinds(decl: Controller | Process) -> set[str]:
    out = {i.kind for i in decl.indexes}
    for p in parts(decl):
        if isinstance(p, e.Cached) or (isinstance(p, e.Kind) and p.look == "cache"):
            out.add(p.kind)
        if isinstance(p, Action):
            out |= {ty.kind for _, ty in p.params if isinstance(ty, t.Object)}
    return out


def _limits(world: World) -> dict[str, dict[str, str]]:
    """Budget cells of `at most N` actions: actor → action → budget name."""
    out: dict[str, dict[str, str]] = {}
    for actor in world.actors:
        for action in getattr(actor.decl, "actions", ()):
            if action.limit is not None:
                name = f"{actor.name}.{action.name}"
                world.budgets[name] = world.layout.add("budget", name, 0, action.limit, action.limit)
                out.setdefault(actor.name, {})[action.name] = name
    return out


def _actor_steps(world: World, fault_list: list[Fault], limits: dict[str, dict[str, str]]) -> None:
    """Steps of all actors, built until no local needs another cell."""
    while True:
        world.updates.clear()
        world.waiting.clear()
        world.fired.clear()
        world.commits.clear()
        world.creations.clear()
        world.stale = False
        for actor in world.actors:
            lost_answers = faults.timeouts(fault_list, actor)
            if isinstance(actor.decl, Controller):
                controller_steps(world, actor, lost_answers)
            else:
                action_steps(world, actor, actor.decl.actions, limits.get(actor.name, {}), lost_answers)
        if not world.stale:
            return
