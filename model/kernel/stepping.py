"""Bodies as steps of actors: starting, going on after a call, resting, ending, and what each step is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dashpot.model import types as t
from dashpot.model.automaton import Automaton, Bind, Call, End
from dashpot.model.core import Node
from dashpot.model.kernel import caches as c
from dashpot.model.kernel.basis import of_local
from dashpot.model.kernel.bodies import Run, Stop, own_step
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.flow import needed
from dashpot.model.kernel.locals import Place, place
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.terms import Env
from dashpot.model.kernel.values import Object, Scalar, Value
from dashpot.model.kernel.world import Actor, Worker, World, Writer
from dashpot.model.program import Action, Controller
from dashpot.model.span import NOWHERE, Span
from dashpot.model.system import Label


def running(world: World, path: Path, actor: Actor) -> None:
    """An actor that is paused or down takes no step."""
    for cell in actor.halted:
        path.assume(world.g.eq(path.get(cell), world.g.const(0)))


# ---------------------------------------------------------------------- resting places
def rest(
    world: World, path: Path, actor: Actor, worker: Worker, point: tuple[str, int], body: Automaton, stop: Stop
) -> None:
    """Leave the body at a node: its counter, and the locals that later nodes may read."""
    path.set(worker.pc, world.g.const(worker.places[point]))
    worker.reached.add(point)
    live = needed(body, stop.at)
    fixed = world.env(actor)
    for name in sorted(n for n in stop.env if n not in fixed and (n in live or of_local(n) in live)):
        if name in stop.env:
            place(world, actor, worker, name).save(path, stop.env[name])


def resume(world: World, path: Path, actor: Actor, worker: Worker, body: Automaton, at: int) -> Env:
    """The locals as they were left."""
    env = world.env(actor)
    live = needed(body, at)
    for name in sorted(live | {n for n in worker.locals if of_local(n) in live}):
        world.loaded.add((actor.name, name))
        if name in worker.locals:
            env[name] = place(world, actor, worker, name).load(path)
    return env


def idle(world: World, path: Path, actor: Actor, worker: Worker) -> None:
    """The pass is over: counter, key and locals are reset."""
    g, layout = world.g, world.layout
    path.set(worker.pc, g.const(0))
    if worker.key >= 0:
        path.set(worker.key, g.const(0))
    for index in local_cells(worker):
        path.set(index, g.const(layout.cells[index].initial))


def local_cells(worker: Worker) -> list[int]:
    """Every cell that a local of this worker lies in."""
    out: list[int] = []
    for found in worker.locals.values():
        assert isinstance(found, Place)
        out += found.cells()
    return out


# ---------------------------------------------------------------------- labels
def describe(
    world: World,
    path: Path,
    actor: Actor,
    action: str,
    thing: str,
    stop: Stop,
    role: str,
    span: Span,
    fair: bool = True,
) -> Label:
    """The label of a step of a body, from what happened on the way."""
    call, answer = stop.call, stop.answer
    detail = list(path.detail)
    verb = "end"
    object_ = thing
    if call is not None and answer is not None:
        verb, span = call.verb, call.span
        object_ = answer.about or call.kind
        detail.append(answer.outcome if answer.outcome != "ok" else "")
    elif stop.at >= 0:
        verb = "read"
    elif isinstance(actor.decl, Controller):
        verb = "end"
    else:
        verb = "act"
    if stop.error == "panic":
        detail.append("panics")
    elif stop.error:
        detail.append("gives up and requeues")
    elif stop.end is not None and stop.end.how in ("requeue", "after"):
        detail.append("requeues")
    return Label(
        actor.name,
        verb,
        action,
        object_,
        tuple(d for d in detail if d),
        fair and not stop.timeout,
        (actor.name, action, thing),
        "fault" if stop.timeout else role,
        tuple(dict.fromkeys(path.changes)),
        tuple(dict.fromkeys(path.reads)),
        span,
        tuple(path.decided),
    )


# ---------------------------------------------------------------------- controllers
def controller_steps(world: World, actor: Actor, timeouts: list[str]) -> None:
    """Start a pass on a dirty key, go on after each call, end."""
    decl = actor.decl
    assert isinstance(decl, Controller)
    bodies = {"reconcile": decl.reconcile, **({"gone": decl.gone} if decl.gone is not None else {})}
    points = [(name, at) for name, body in bodies.items() for at in resting_points(body, actor)]
    for worker in actor.workers:
        worker.places = {point: i + 1 for i, point in enumerate(points)}
        top = len(points)
        world.layout.amend(worker.pc, hi=top, texts=("idle", *[f"{n}@{_line(bodies[n], at)}" for n, at in points]))
    for worker in actor.workers:
        for key in range(len(actor.dirty)):
            _start(world, actor, worker, key, timeouts)
        for point in _reached(worker):
            _continue(world, actor, worker, point, bodies[point[0]], timeouts)


def _reached(worker: Worker) -> Iterator[tuple[str, int]]:
    """Points that some step rests at, those found on the way included."""
    done: set[object] = set()
    while True:
        fresh = [p for p in worker.places if p in worker.reached and p not in done]
        if not fresh:
            return
        done.add(fresh[0])
        name, at = fresh[0]
        yield name, at


def _line(body: Automaton, at: int) -> str:
    span = body.nodes[at].span
    return str(span.line) if span is not NOWHERE else str(at)


def resting_points(body: Automaton, actor: Actor) -> list[int]:
    """Nodes at which a body may wait: those behind a call, or behind a read that is a step of its own."""
    out: list[int] = []
    for node in body.nodes:
        targets: list[int] = []
        if isinstance(node, Call):
            targets = [node.next, *[h for _, h in node.handlers]]
        elif isinstance(node, Bind) and own_step(actor, node):
            targets = [node.next]
        out += [at for at in targets if at not in out and not isinstance(body.nodes[at], End)]
    return out


def _start(world: World, actor: Actor, worker: Worker, key: int, timeouts: list[str]) -> None:
    decl = actor.decl
    assert isinstance(decl, Controller)
    g, schema = world.g, world.schema
    thing = schema.object_text(decl.kind, key)

    def build(path: Path) -> Label | None:
        path.notes["who"] = _who(actor, "reconcile", thing)
        path.assume(g.eq(path.get(worker.pc), g.const(0)))
        path.assume(path.get(actor.dirty[key]))
        running(world, path, actor)
        for other in actor.workers:
            if other is not worker:
                path.assume(g.ne(path.get(other.key), g.const(key + 1)))
        _own_writes_seen(world, path, actor, key)
        path.set(actor.dirty[key], g.false)
        present, copy = world.seen(path, actor, decl.kind)[key]
        writer = Writer(actor, key, "reconcile")
        env = world.env(actor)
        if path.branch(present):
            body, name = decl.reconcile, "reconcile"
            kept = _snapshot(world, copy)
            path.reads.append((decl.kind, key))
            env[body.params[0]] = kept
        elif decl.gone is not None:
            body, name = decl.gone, "gone"
            env[body.params[0]] = Scalar(g.const(schema.name_index(decl.kind, key)), t.Name(decl.kind))
        else:
            idle(world, path, actor, worker)
            return Label(
                actor.name, "end", "reconcile", thing, ("the object is gone",), True, (actor.name, "reconcile", thing)
            )
        run = Run(world, path, actor, writer, body, env, timeouts)
        return _finish(world, path, actor, worker, key, name, body, run.step(0), decl.span)

    world.rule(build, decl.span)
    if len(actor.dirty) > 1:
        _queue(world, actor, key, thing)


def _queue(world: World, actor: Actor, key: int, thing: str) -> None:
    """A dirty key waits its turn while the workers are busy with others: the queue is first in, first out."""
    g = world.g
    busy = [g.ne(_pre(world, w.pc), g.const(0)) for w in actor.workers]
    world.waiting.append(((actor.name, "reconcile", thing), g.and_(_pre(world, actor.dirty[key]), *busy)))


def _pre(world: World, index: int) -> Node:
    cell = world.layout.cells[index]
    return world.g.cell(index, cell.lo, cell.hi)


def _who(actor: Actor, action: str, thing: str) -> Label:
    """What a step is called while nobody knows yet what it does."""
    return Label(actor.name, "act", action, thing, (), True, (actor.name, action, thing))


def _snapshot(world: World, copy: Object) -> Object:
    from dashpot.model.kernel.layout import frozen_copy

    return frozen_copy(world.schema, copy, copy.current)


def _continue(
    world: World, actor: Actor, worker: Worker, point: tuple[str, int], body: Automaton, timeouts: list[str]
) -> None:
    decl = actor.decl
    assert isinstance(decl, Controller)
    g = world.g
    name, at = point

    def build(path: Path) -> Label | None:
        path.assume(g.eq(path.get(worker.pc), g.const(worker.places[point])))
        running(world, path, actor)
        key = 0
        if len(actor.dirty) > 1:
            key = path.choose(len(actor.dirty))
        path.notes["who"] = _who(actor, name, world.schema.object_text(decl.kind, key))
        path.assume(g.eq(path.get(worker.key), g.const(key + 1)))
        env = resume(world, path, actor, worker, body, at)
        run = Run(world, path, actor, Writer(actor, key, name), body, env, timeouts)
        return _finish(world, path, actor, worker, key, name, body, run.step(at), decl.span)

    world.rule(build, decl.span)


def _finish(
    world: World,
    path: Path,
    actor: Actor,
    worker: Worker,
    key: int,
    name: str,
    body: Automaton,
    stop: Stop,
    span: Span,
) -> Label:
    g = world.g
    if stop.at >= 0:
        rest(world, path, actor, worker, (name, stop.at), body, stop)
        path.set(worker.key, g.const(key + 1))
    else:
        idle(world, path, actor, worker)
        _requeue(world, path, actor, key, stop)
    thing = world.schema.object_text(actor.kind, key)
    return describe(world, path, actor, name, thing, stop, "step", span)


def _requeue(world: World, path: Path, actor: Actor, key: int, stop: Stop) -> None:
    """An error or `requeue` makes the key dirty at once; `requeue after` waits for ticks."""
    g = world.g
    if stop.error or (stop.end is not None and stop.end.how == "requeue"):
        path.set(actor.dirty[key], g.true)
    elif stop.end is not None and stop.end.how == "after":
        assert stop.end.delay is not None
        value, ok = world.terms(path, actor).value(stop.end.delay, stop.env)
        path.assume(ok)
        node = scalar(value)
        ticks = (
            [max(1, -(-ms // world.schema.finite.tick_ms)) for ms in range(node.lo, node.hi + 1)]
            if (node.hi - node.lo < 1000)
            else [1]
        )
        top = world.layout.cells[actor.delay[key]].hi
        delay: Node = g.const(min(top, ticks[0]))
        if not node.is_const:
            delay = g.const(min(top, max(ticks)))
        path.set(actor.delay[key], delay)


def _own_writes_seen(world: World, path: Path, actor: Actor, key: int) -> None:
    """read_own_writes: a key waits until the caches have passed the controller's own last writes for it."""
    g = world.g
    for cache in actor.caches.values():
        for entry in cache.entries:
            if entry.own:
                path.assume(g.not_(path.get(entry.own[key])))


# ---------------------------------------------------------------------- processes and environments
def action_steps(
    world: World, actor: Actor, actions: tuple[Action, ...], limits: dict[str, str], timeouts: list[str]
) -> None:
    """Each action for each combination of its parameters, then its later calls."""
    points = [(a.name, at) for a in actions for at in resting_points(a.body, actor)]
    worker = actor.workers[0]
    worker.places = {point: i + 1 for i, point in enumerate(points)}
    bodies = {a.name: a.body for a in actions}
    texts = ("idle", *[f"{n}@{_line(bodies[n], at)}" for n, at in points])
    world.layout.amend(worker.pc, hi=len(points), texts=texts)
    for action in actions:
        for args in _combinations(world, actor, action):
            _act(world, actor, worker, action, args, limits.get(action.name), timeouts)
    named = {a.name: a for a in actions}
    for name, at in _reached(worker):
        _go_on(world, actor, worker, named[name], at, timeouts)


Argument = Callable[[Path], tuple[Node, Value]]


def _combinations(world: World, actor: Actor, action: Action) -> list[tuple[list[Argument], str, str]]:
    """Parameters bound in every way: (arguments, text, object acted on)."""
    combos: list[tuple[list[Argument], str, str]] = [([], "", "")]
    for name, ty in action.params:
        extended: list[tuple[list[Argument], str, str]] = []
        for args, text, thing in combos:
            for arg, shown, obj in _arguments(world, actor, name, ty):
                extended.append(([*args, arg], f"{text}, {shown}" if text else shown, thing or obj))
        combos = extended
    return combos


def _arguments(world: World, actor: Actor, name: str, ty: t.Type) -> list[tuple[Argument, str, str]]:
    g, schema = world.g, world.schema
    if isinstance(ty, t.Object):

        def object_at(slot: int) -> Argument:
            def bind(path: Path) -> tuple[Node, Value]:
                return world.stored(path, ty.kind)[slot] if actor.blind else world.seen(path, actor, ty.kind)[slot]

            return bind

        info = schema.info(ty.kind)
        return [(object_at(s), f"{name} = {info.names[s]}", schema.object_text(ty.kind, s)) for s in range(info.size)]

    def value_of(value: Value) -> Argument:
        return lambda path: (g.true, value)

    values = schema.finite.elements(ty)
    return [(value_of(v), f"{name} = {schema.show(v)}", "") for v in values]


def _act(
    world: World,
    actor: Actor,
    worker: Worker,
    action: Action,
    combo: tuple[list[Argument], str, str],
    limit: str | None,
    timeouts: list[str],
) -> None:
    g = world.g
    args, text, thing = combo
    role = "environment" if actor.blind and not action.fair else "step"

    def build(path: Path) -> Label | None:
        path.notes["who"] = Label(
            actor.name, "act", action.name, thing, (), role == "step", (actor.name, action.name, text), role
        )
        if len(worker.places):
            path.assume(g.eq(path.get(worker.pc), g.const(0)))
        running(world, path, actor)
        env = world.env(actor)
        for (name, _), arg in zip(action.params, args, strict=True):
            there, value = arg(path)
            path.assume(there)
            env[name] = _snapshot(world, value) if isinstance(value, Object) else value
        if action.when is not None:
            path.assume(world.terms(path, actor).test(action.when, env))
        if limit is not None:
            world.spend(path, limit)
        run = Run(world, path, actor, Writer(actor, -1, action.name), action.body, env, timeouts)
        stop = run.step(0)
        _settle(world, path, actor, worker, action, stop)
        if text:
            path.detail.insert(0, text)
        label = describe(world, path, actor, action.name, thing, stop, role, action.span, role == "step")
        key = (actor.name, action.name, text)
        return _relabel(label, key)

    first = len(world.updates)
    world.rule(build, action.span, (f"action {actor.decl.name}.{action.name}", action.span))
    if worker.places and role == "step":
        _turn(world, worker, first)


def _turn(world: World, worker: Worker, first: int) -> None:
    """An action whose guard holds waits its turn while the body of another one runs."""
    g = world.g
    at = _pre(world, worker.pc)
    for update in world.updates[first:]:
        rest = [part for part in update.guard if part is not g.eq(at, g.const(0))]
        world.waiting.append((update.label.fairness, g.and_(g.ne(at, g.const(0)), *rest)))


def _relabel(label: Label, fairness: tuple[str, ...]) -> Label:
    import attrs

    return attrs.evolve(label, fairness=fairness)


def _settle(world: World, path: Path, actor: Actor, worker: Worker, action: Action, stop: Stop) -> None:
    if stop.at >= 0:
        rest(world, path, actor, worker, (action.name, stop.at), action.body, stop)
    else:
        idle(world, path, actor, worker)


def _go_on(world: World, actor: Actor, worker: Worker, action: Action, at: int, timeouts: list[str]) -> None:
    g = world.g
    point = (action.name, at)

    def build(path: Path) -> Label | None:
        path.notes["who"] = _who(actor, action.name, "")
        path.assume(g.eq(path.get(worker.pc), g.const(worker.places[point])))
        running(world, path, actor)
        env = resume(world, path, actor, worker, action.body, at)
        run = Run(world, path, actor, Writer(actor, -1, action.name), action.body, env, timeouts)
        stop = run.step(at)
        _settle(world, path, actor, worker, action, stop)
        return describe(world, path, actor, action.name, "", stop, "step", action.span)

    world.rule(build, action.span)


# ---------------------------------------------------------------------- resync
def resync_steps(world: World, actor: Actor) -> None:
    """Periodic resync: what the caches show is told again as an update that changes nothing, filters and all."""
    if not isinstance(actor.decl, Controller):
        return
    g = world.g

    def build(path: Path) -> Label | None:
        running(world, path, actor)
        told = [g.false] * len(actor.dirty)
        for kind, cache in actor.caches.items():
            for present, shown in world.seen(path, actor, kind):
                owed = world.keys(path, actor, cache.wakes, shown, shown, present, present)
                told = [g.or_(a, g.and_(present, b)) for a, b in zip(told, owed, strict=True)]
        idle_keys = []
        for key, node in enumerate(told):
            now = path.get(actor.dirty[key])
            idle_keys.append(g.and_(node, g.not_(now)))
            path.set(actor.dirty[key], g.or_(now, node))
        path.assume(g.or_(*idle_keys))
        return Label(actor.name, "resync", fair=True, fairness=(actor.name, "resync", ""))

    world.rule(build, actor.decl.span)


# ---------------------------------------------------------------------- deliveries
def delivery_steps(world: World, actor: Actor) -> None:
    """Each lagging cache takes its oldest undelivered change."""
    for cache in actor.caches.values():
        if cache.lagging and cache.rows:  # a kind of which the scope has no object never changes
            _delivery(world, actor, cache)


def _delivery(world: World, actor: Actor, cache: c.Cache) -> None:
    g = world.g

    def build(path: Path) -> Label | None:
        path.notes["who"] = Label(actor.name, "deliver", fairness=(actor.name, "deliver", cache.kind))
        path.assume(g.lt(g.const(0), path.get(cache.count)))
        running(world, path, actor)
        for cell in actor.cut:
            path.assume(g.eq(path.get(cell), g.const(0)))
        slot = world.deliver(path, actor, cache)
        name = world.schema.object_text(cache.kind, slot)
        return Label(actor.name, "deliver", "", name, tuple(path.detail), True, (actor.name, "deliver", cache.kind))

    span = cache.wakes[0].span if cache.wakes else NOWHERE
    world.rule(build, span)
