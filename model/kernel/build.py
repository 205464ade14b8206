"""From a Program and one of its checks to a System: tables, cells, steps, goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from dashpot.model import types as t
from dashpot.model.automaton import Call
from dashpot.model.core import Graph, Node
from dashpot.model.expr import Assignment, Element, Literal, Member
from dashpot.model.fault import SpecError
from dashpot.model.kernel import caches as c
from dashpot.model.kernel import clock, collector, faults, incarnations, lost, ownership
from dashpot.model.kernel.domain import Finite, scalar
from dashpot.model.kernel.fields import assign
from dashpot.model.kernel.goals import goals, quiet, watch_writes
from dashpot.model.kernel.layout import Layout, read_row
from dashpot.model.kernel.names import Naming, created, deleted
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.scalarsets import scalarsets
from dashpot.model.kernel.schema import FOREGROUND, ORPHAN, KindInfo, Schema
from dashpot.model.kernel.stepping import action_steps, controller_steps, delivery_steps, resync_steps
from dashpot.model.kernel.values import Scalar, Value
from dashpot.model.kernel.verbs import new_leaves
from dashpot.model.kernel.walk import calls, kinds_named, parts
from dashpot.model.kernel.widen import Ranges, Widen, attempts, widen_fields
from dashpot.model.kernel.world import Actor, Declaration, Worker, World
from dashpot.model.program import (
    Admission,
    Check,
    Controller,
    Environment,
    Fault,
    GivenObject,
    Process,
    Program,
    Wake,
)
from dashpot.model.system import Group, RankClass, Symmetry, System, Update

GC_MODULES = ("kubernetes.gc", "gc")


def build(program: Program, check: Check, raised: Mapping[str, int] | None = None) -> System:
    """The world of one check as a transition system.

    raised   what overflowed in an earlier world ("Pod slots", "Kind.spec.field") → room to add to it (ruling 18)
    """
    widened: Ranges = {("raised", what, ""): (0, more) for what, more in (raised or {}).items()}
    grant = attempts()
    while True:
        try:
            return assemble(program, check, widened)
        except Widen as request:
            if not grant(request, widened):
                break
    raise SpecError("D314", "a local number of this run has no bounds", check.span, "use a range type")


def assemble(program: Program, check: Check, widened: Ranges) -> System:
    world = furnish(program, check, widened)
    for actor in world.actors:
        delivery_steps(world, actor)
        if check.resync:
            resync_steps(world, actor)
    fault_list = faults.faults_of(world)
    faults.build(world, fault_list)
    if not any(a.decl.module in GC_MODULES for a in world.actors):
        collector.build(world)
    incarnations.renumber(world)
    finish_currency(world)
    if clock.ticking(pieces(program, check), world.schema.finite.constants):
        clock.build(world)
    return system(world)


# ---------------------------------------------------------------------- what is in the run
def declarations(program: Program, check: Check) -> list[Declaration]:
    """Actors of the run, in its order; nothing named: everything that the file declares."""
    known: dict[str, Declaration] = {
        d.name: d for d in (*program.controllers, *program.processes, *program.environments)
    }
    return [known[n] for n in check.run if n in known]


def hooks(program: Program, check: Check) -> list[Admission]:
    return [a for name in check.run for a in program.admissions if a.name == name]


def pieces(program: Program, check: Check) -> list[object]:
    """All declarations whose terms matter to this check."""
    named = {n for x in check.expects for n in x.names}
    properties = [p for p in program.properties if p.module == check.module or p.name in named]
    return [*declarations(program, check), *hooks(program, check), *check.given, *properties]


def constants(program: Program, check: Check) -> dict[str, int | bool | str]:
    values = {k.name: k.value for k in program.constants}
    for name, value in check.scope:
        if name in values and not isinstance(value, tuple):
            values[name] = value
    return values


def on(world_constants: dict[str, int | bool | str], term: object) -> bool:
    """Whether an `if CONST` clause is switched on."""
    if term is None:
        return True
    g = Graph()
    from dashpot.model.kernel.terms import Look, Terms

    finite = Finite(g, world_constants, {})
    look = Look(lambda kind, look_: [], lambda name: Scalar(g.false, t.Bool()))
    terms = Terms(Schema(finite, {}), Path(g, [], []), look)
    value, _ = terms.value(term, {})  # type: ignore[arg-type]
    return bool(scalar(value).value)


# ---------------------------------------------------------------------- tables
def schema_of(program: Program, check: Check, raised: Mapping[str, int]) -> tuple[Schema, list[GivenObject]]:
    """Kinds, slots, names, symbols, ages: every table of the world."""
    values = constants(program, check)
    actors = declarations(program, check)
    run: list[object] = [*actors, *hooks(program, check)]
    scope = dict(check.scope)
    resources = {r.kind: r for r in program.resources}
    kinds = set().union(*[kinds_named(x) for x in [*run, *check.given]]) | (scope.keys() & resources.keys())
    kinds |= {a.place.of for a in actors if getattr(a, "place", None) and a.place.of in resources}  # type: ignore[union-attr]
    kinds &= resources.keys()
    given = list(check.given) + _implied(check, run, kinds, scope)
    everything = pieces(program, check)
    tick_ms, oldest = clock.scale(clock.durations([*everything], values))
    finite = Finite(Graph(), values, {x.name: x for x in program.enums if isinstance(x, t.Enum)})
    placed = {a.place.of for a in actors if getattr(a, "place", None)}  # type: ignore[union-attr]
    finite.symmetric, finite.asymmetric = scalarsets(
        list(finite.enums.values()), everything, [resources[k] for k in sorted(kinds)], placed
    )
    finite.tick_ms, finite.oldest = tick_ms, oldest
    finite.symbols = _symbols(scope, everything)
    longest = scope.get("list")
    if isinstance(longest, int):
        finite.longest_list = longest
    schema = Schema(finite, {k: KindInfo(resources[k]) for k in sorted(kinds)})
    finite.longest_list += max((n for what, n in raised.items() if not what.endswith(" slots")), default=0)
    sizes = {k: _size(k, scope, given) + raised.get(f"{k} slots", 0) for k in kinds}
    naming = _naming(everything + [resources[k] for k in kinds], values, schema, sizes, given, finite.symbols)
    _slots(schema, naming, given, sizes, created(run))
    _fill_tables(schema, naming, everything, run, given)
    return schema, given


def _implied(
    check: Check, run: list[object], kinds: set[str], scope: dict[str, int | bool | str | tuple[str, ...]]
) -> list[GivenObject]:
    """A kind of the scope that nobody creates and no `given` names is there from the start, with defaults."""
    made = created(run) | {g.kind for g in check.given}
    out: list[GivenObject] = []
    for kind in sorted(kinds):
        count = scope.get(kind)
        if kind not in made and isinstance(count, int):
            base = kind[0].lower() + kind[1:]
            out += [GivenObject(kind, base if count == 1 else f"{base}-{i}", False, ()) for i in range(count)]
    return out


def _size(kind: str, scope: dict[str, int | bool | str | tuple[str, ...]], given: list[GivenObject]) -> int:
    count = scope.get(kind)
    there = sum(1 for g in given if g.kind == kind)
    return max(int(count), there) if isinstance(count, int) else max(1, there)


def _symbols(scope: dict[str, int | bool | str | tuple[str, ...]], everything: Iterable[object]) -> list[str]:
    pool = scope.get("opaque")
    out = list(pool) if isinstance(pool, tuple) else []
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Literal) and isinstance(p.type, t.Opaque) and isinstance(p.value, str):
                out.append(p.value)
    return list(dict.fromkeys(out)) or ["a"]


def _naming(
    everything: list[object],
    values: dict[str, int | bool | str],
    schema: Schema,
    sizes: dict[str, int],
    given: list[GivenObject],
    symbols: list[str],
) -> Naming:
    types = {
        (k, f"{side}.{f.name}"): f.type
        for k, info in schema.kinds.items()
        for side in ("spec", "status")
        for f in info.declared(side)
    }
    naming = Naming(everything, values, types, symbols, sizes)
    naming.largest = max([v for v in values.values() if isinstance(v, int) and v < 50] + list(sizes.values()) + [1])
    naming.run(given)
    return naming


def _slots(
    schema: Schema, naming: Naming, given: list[GivenObject], sizes: dict[str, int], makes: set[str]
) -> None:
    """A slot for each name of a kind; the rest of its scope for generated names."""
    for kind, info in schema.kinds.items():
        there = [g.name for g in given if g.kind == kind]
        terms = sorted(naming.kinds.get(kind, set()) - set(there)) if kind in makes else []
        info.names = there + [n for n in terms if "~" not in n]
        info.fixed = set(range(len(info.names)))
        if kind in naming.generated:
            free = max(1, sizes[kind] - len(info.names))
            info.names += [f"{kind}~{i}" for i in range(free)]


def _fill_tables(
    schema: Schema, naming: Naming, everything: list[object], run: list[object], given: list[GivenObject]
) -> None:
    finite = schema.finite
    schema.finalizers = _finalizers(everything)
    schema.labels = _labels(everything)
    words = naming.all() | {n for info in schema.kinds.values() for n in info.names}
    words |= set(schema.finalizers) | set(schema.labels) | set(schema.kinds)
    generated = [n for info in schema.kinds.values() for n in info.names if "~" in n]
    finite.names = ["", *sorted(w for w in words if w and w not in generated and "~" not in w), *generated]
    finite.owners = [(k, s) for k, info in schema.kinds.items() for s in range(info.size)]
    removed = deleted(run) | {g.kind for g in given if any(i.path[0] == "owner" for i in g.items)}
    for piece in run:
        removed |= {x.kind for x in calls(piece) if any(f.path[0] in ("owner", "finalizers") for f in x.fields)}
    finite.returning = frozenset(k for k in schema.kinds if k in created(run) and k in removed)


def _finalizers(everything: list[object]) -> list[str]:
    """Finalizers that anybody sets, tests or takes off."""
    out: list[str] = []
    how = {x.how for piece in everything for x in calls(piece)}
    out += [FOREGROUND] * ("foreground" in how) + [ORPHAN] * ("orphan" in how)
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Assignment) and p.path[:1] == ("finalizers",):
                out += [x.value for x in parts(p.value) if isinstance(x, Literal) and isinstance(x.value, str)]
    return list(dict.fromkeys(out))


def _labels(everything: list[object]) -> list[str]:
    """Label and annotation keys that anybody names."""
    out: list[str] = []
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Assignment) and p.path[0] in ("labels", "annotations"):
                if len(p.path) > 1:
                    key = p.path[1]
                    out.append(key if isinstance(key, str) else str(getattr(key, "value", "")))
                out += [str(i.path[0]) for i in getattr(p.value, "items", ()) if isinstance(i, Assignment)]
            if isinstance(p, Element) and isinstance(p.base, Member) and p.base.name in ("labels", "annotations"):
                out.append(str(getattr(p.key, "value", "")))
            if isinstance(p, Member) and isinstance(p.base, Member) and p.base.name in ("labels", "annotations"):
                out.append(p.name)
    return list(dict.fromkeys(out))


# ---------------------------------------------------------------------- cells
def furnish(program: Program, check: Check, widened: Ranges) -> World:
    """The world with its cells, its start, and the steps of all actors."""
    schema, given = schema_of(program, check, {str(k[1]): n for k, (_, n) in widened.items() if k[0] == "raised"})
    widen_fields(schema, widened)
    schema.prepare()
    world = World(program, check, schema, Layout(schema))
    world.widened = widened
    layout = world.layout
    written = _written(program, check)
    for kind, info in schema.kinds.items():
        world.store[kind] = [layout.copy(kind, "store", slot=s) for s in range(info.size)]
        for slot, row in enumerate(world.store[kind]):
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
                for f in (*call.fields, *call.ops):
                    heads = [p for p in f.path if isinstance(p, str)]
                    out.setdefault(call.kind, set()).add(".".join(heads[:2]))
            if call.verb == "bind":
                out.setdefault(call.kind, set()).add("spec.nodeName")
            if call.verb in ("delete", "evict"):
                out.setdefault(call.kind, set()).add("deletionTimestamp")
    return out


def places(world: World, decl: Declaration) -> list[tuple[str, Value | None]]:
    """Instances of an actor: one, or one for each seat or object of its place."""
    place = getattr(decl, "place", None)
    if place is None:
        return [(decl.name, None)]
    g, finite = world.g, world.schema.finite
    if place.of in world.schema.kinds:
        info = world.schema.info(place.of)
        return [
            (f"{decl.name}[{n}]", Scalar(g.const(finite.name(n)), t.Name(place.of))) for n in info.names
        ]
    enum = finite.enums[place.of]
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
    from dashpot.model.automaton import End

    return any(isinstance(p, End) and p.how == "after" for p in parts(decl))


def _caches(world: World, actor: Actor) -> None:
    """A cache for each kind that the actor is woken by or reads; copies only where somebody reads them."""
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
        if mode != "live" and (kind in read or indexes) and lag:
            c.allocate(world.layout, cache, lag, len(actor.dirty))


def _read_kinds(decl: Controller | Process) -> set[str]:
    from dashpot.model import expr as e
    from dashpot.model.program import Action

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


# ---------------------------------------------------------------------- the start
def begin(world: World, given: list[GivenObject]) -> None:
    """Store the given objects, bring every cache in step, run add handlers, make every key dirty."""
    g, layout = world.g, world.layout
    path = quiet(world)
    for cell in layout.cells:
        path.overlay[cell.index] = g.const(cell.initial)
    for obj in given:
        _store_given(world, path, obj)
    for actor in world.actors:
        for decl, row in actor.memory.values():
            _initial_memory(world, path, decl.default, decl.type, decl.name, row)
        for kind, cache in actor.caches.items():
            for slot, row in enumerate(cache.rows):
                for leaf, cell in row.items():
                    path.overlay[cell] = read_row(g, path, world.store[kind][slot], leaf)
    for cell_index, node in list(path.overlay.items()):
        layout.amend(cell_index, initial=node.value)
    for actor in world.actors:
        if not actor.blind:
            faults.listed(world, path, actor)
    for cell_index, node in path.overlay.items():
        node = path.resolve(node)
        assert node.is_const, layout.cells[cell_index].name
        if layout.cells[cell_index].area != "memory":
            layout.amend(cell_index, initial=node.value)
        else:
            world.started[cell_index] = node.value


def _initial_memory(world: World, path: Path, default: object, ty: t.Type, name: str, row: dict[str, int]) -> None:
    if default is None:
        return
    value, _ = world.terms(path, None).value(default, {})  # type: ignore[arg-type]
    from dashpot.model.kernel.fields import adapt

    leaves, _ = world.schema.finite.store(ty, name, adapt(world.schema, value, ty))
    for leaf, cell in row.items():
        path.overlay[cell] = leaves[leaf]


def _store_given(world: World, path: Path, obj: GivenObject) -> None:
    slot = world.schema.slot_of(obj.kind, obj.name)
    row = world.store[obj.kind][slot]
    leaves = new_leaves(world, path, obj.kind)
    leaves["creationTimestamp"] = world.g.const(world.schema.finite.oldest)
    terms = world.terms(path, None)
    for item in obj.items:
        value, ok = terms.value(item.value, {})
        if ok is world.g.false:
            raise SpecError("D315", f"this value of {obj.kind} {obj.name} is undefined", item.span)
        overflow = assign(terms, obj.kind, leaves, item.path, value, {})
        if overflow is world.g.true:
            raise SpecError("D316", "this value is outside the range of its field", item.span, "raise the bound")
    for leaf, cell in row.items():
        path.overlay[cell] = leaves[leaf]


# ---------------------------------------------------------------------- the end
def finish_currency(world: World) -> None:
    """A write to an object makes every copy kept in a local stale, whoever holds it."""
    g, layout = world.g, world.layout
    for index, update in enumerate(world.updates):
        assigned = dict(update.assigns)
        extra: list[tuple[int, Node]] = []
        for kind, slot, _ in world.commits.get(index, []):
            for slot_cell, fixed, current in layout.currency.get(kind, ()):
                if current in assigned:
                    continue
                cell = layout.cells[current]
                now = g.cell(current, cell.lo, cell.hi)
                if slot_cell is None:
                    here = g.bool(fixed == slot)
                elif slot_cell in assigned:
                    continue
                else:
                    c_ = layout.cells[slot_cell]
                    here = g.eq(g.cell(slot_cell, c_.lo, c_.hi), g.const(slot))
                extra.append((current, g.and_(now, g.not_(here))))
        if extra:
            merged: dict[int, Node] = {}
            for cell_index, node in extra:
                merged[cell_index] = g.and_(merged[cell_index], node) if cell_index in merged else node
            world.updates[index] = attrs.evolve(update, assigns=update.assigns + tuple(merged.items()))


def system(world: World) -> System:
    """The finished System; memory that add handlers filled at the start gets its first value here."""
    cells = [
        attrs.evolve(cell, initial=world.started[cell.index]) if cell.index in world.started else cell
        for cell in world.layout.cells
    ]
    updates, asked = tuple(world.updates), tuple(goals(world))
    if world.sink >= 0:
        inside = world.g.eq(world.g.cell(world.sink, 0, 1), world.g.const(0))
        updates = tuple(attrs.evolve(u, guard=(*u.guard[:1], inside, *u.guard[1:])) for u in updates)
        asked = tuple(
            attrs.evolve(
                goal,
                alive=world.g.and_(goal.alive, inside),
                body=world.g.and_(goal.body, inside) if goal.op == "sometimes" else goal.body,
            )
            for goal in asked
        )
    vacuity = tuple((what, span, tuple(updates)) for (what, span), updates in world.fired.items())
    return System(
        world.g,
        tuple(cells),
        updates,
        tuple(RankClass(tuple(cells_)) for cells_ in world.layout.generations.values()),
        asked,
        _symmetry(world),
        (),
        vacuity,
    )


def _symmetry(world: World) -> Symmetry:
    finite = world.schema.finite
    groups = tuple(Group(n, len(finite.enums[n].members)) for n in sorted(finite.symmetric))
    return Symmetry(groups, finite.asymmetric)


__all__ = ["Call", "Update", "assemble", "build", "furnish"]
