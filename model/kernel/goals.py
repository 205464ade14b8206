"""Properties over the truth: state goals, one an object of `for x in Kind`, and obligations of writes."""

from __future__ import annotations

from collections.abc import Callable

from dashpot.model import expr as e
from dashpot.model.core import Node
from dashpot.model.kernel import lost
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.terms import Env
from dashpot.model.kernel.values import Nothing, Scalar, Value
from dashpot.model.kernel.walk import calls, kinds_named, properties_of
from dashpot.model.kernel.world import World, Write
from dashpot.model.program import Converges, LeadsTo, OnWrite, Property, State
from dashpot.model.span import Span
from dashpot.model.system import Goal

Observer = Callable[[Path, World, Write], None]


def judged(world: World) -> list[Property]:
    """Properties that this check can be asked about: those of its file, and those it names."""
    names = {n for x in world.check.expects for n in x.names}
    out = []
    for p in properties_of(world.program, world.check):
        known = kinds_named(p) <= world.store.keys() and (p.each is None or p.each[1] in world.store)
        if known or p.name in names:
            out.append(p)
    return out


# ---------------------------------------------------------------------- state goals
def goals(world: World) -> list[Goal]:
    """Every state property of the run, instance by instance, and `terminates` for what may be deleted."""
    out: list[Goal] = []
    for p in judged(world):
        if isinstance(p.formula, State | LeadsTo | Converges) and not _monotone(p):
            out += _instances(world, p)
    return out + _terminates(world)


def _monotone(p: Property) -> bool:
    return isinstance(p.formula, State) and p.formula.op == "monotone"


def _instances(world: World, p: Property) -> list[Goal]:
    path = quiet(world)
    if p.each is None:
        return [_goal(world, path, p, {}, world.g.true, "")]
    var, kind = p.each
    out = []
    for slot, (present, copy) in enumerate(world.stored(path, kind)):
        out.append(_goal(world, path, p, {var: copy}, present, world.schema.object_text(kind, slot)))
    return out


def quiet(world: World) -> Path:
    """A path for terms of properties: it only reads."""
    path = Path(world.g, world.layout.cells, [])
    path.quiet = True
    return path


def _goal(world: World, path: Path, p: Property, env: Env, alive: Node, about: str) -> Goal:
    g, f = world.g, p.formula
    terms = world.terms(path, None)
    premise = g.true
    match f:
        case State(op=op, body=body):
            pass
        case LeadsTo(trigger=trigger, goal=goal):
            op, body, premise = "leads_to", goal, terms.test(trigger, env)
        case Converges(premise=while_, goal=goal):
            op, body = "converges", goal
            premise = terms.test(while_, env) if while_ is not None else g.true
        case _:
            raise AssertionError(p.name)
    node = terms.test(body, env)
    return Goal(p.name, op, alive, premise, node, about, tuple(_parts(world, path, body, env)), p.span)


def _parts(world: World, path: Path, x: e.Expr, env: Env) -> list[tuple[Span, Node]]:
    """The conjuncts of a term, each followed by both sides of its comparison: what a story shows of a state."""
    terms = world.terms(path, None)
    match x:
        case e.Binary(op="&&", left=a, right=b):
            return _parts(world, path, a, env) + _parts(world, path, b, env)
        case e.Let(name=name, value=value, body=body):
            inner = {**env, name: terms.value(value, env)[0]}
            return _parts(world, path, body, inner)
        case e.Binary(op="==" | "!=" | "<" | "<=" | ">" | ">=", left=a, right=b):
            sides = [(side.span, terms.value(side, env)[0]) for side in (a, b)]
            shown = [(span, v.node) for span, v in sides if isinstance(v, Scalar) and not v.node.is_const]
            return [(x.span, terms.test(x, env)), *shown]
        case _:
            return [(x.span, terms.test(x, env))]


def _terminates(world: World) -> list[Goal]:
    """An object that terminates is gone some time."""
    g, path = world.g, quiet(world)
    removable = {c.kind for a in world.actors for c in calls(a.decl) if c.verb in ("delete", "evict")}
    from dashpot.model.kernel.collector import owning

    out = []
    for kind in sorted((removable | owning(world)) & world.store.keys()):
        for slot, (present, copy) in enumerate(world.stored(path, kind)):
            ending = g.and_(present, g.ne(copy.read("deletionTimestamp"), g.const(0)))
            about = world.schema.object_text(kind, slot)
            out.append(Goal("terminates", "leads_to", g.true, ending, g.not_(ending), about))
    return out


# ---------------------------------------------------------------------- obligations of writes
def watch_writes(world: World) -> None:
    """Install what looks at every change of the store: last writers, monotone fields, `on … require`."""
    numbers = lost.writer_numbers(world)
    if world.tags:
        world.onwrite.append(lambda path, w, write: lost.mark_writer(w.tags, numbers, path, w, write))
    for p in judged(world):
        if isinstance(p.formula, OnWrite):
            world.onwrite.append(_on_write(p, p.formula))
        elif _monotone(p):
            world.onwrite.append(_monotone_property(p))
    world.onwrite.append(_monotone_fields)


def _on_write(p: Property, f: OnWrite) -> Observer:
    def observe(path: Path, world: World, write: Write) -> None:
        if write.kind != f.kind or not (write.verb in f.verbs or "write" in f.verbs):
            return
        actor = write.writer.actor
        if f.actor is not None:
            if actor is None or f.actor not in _titles(actor.decl.name, actor.name, write.writer.action):
                return
        env: Env = dict(world.env(actor)) if actor is not None and f.me is None else {}
        if f.me is not None:
            if actor is None or actor.me is None:
                return
            env[f.me] = actor.me
        gone: Value = Nothing()
        if write.verb in ("delete", "evict"):
            env[f.var] = write.old if write.old is not None else gone
        else:
            env[f.var] = write.new if write.new is not None else (write.old or gone)
        env["old"] = write.old if write.old is not None else gone
        was = path.quiet
        path.quiet = True
        holds = world.terms(path, None).test(f.require, env)
        path.quiet = was
        about = (world.schema.object_text(write.kind, write.slot), write.verb)
        world.oblige(path, p.name, holds, about, f"this {write.verb} is not allowed here", write.span)

    return observe


def _titles(decl: str, name: str, action: str) -> tuple[str, ...]:
    return (decl, name, f"{decl}.{action}", action)


def _monotone_property(p: Property) -> Observer:
    def observe(path: Path, world: World, write: Write) -> None:
        assert p.each is not None and isinstance(p.formula, State)
        if write.kind != p.each[1] or write.old is None or write.new is None:
            return
        terms = world.terms(path, None)
        before, ok = terms.value(p.formula.body, {p.each[0]: write.old})
        after, ok2 = terms.value(p.formula.body, {p.each[0]: write.new})
        g = world.g
        holds = g.or_(g.not_(g.and_(ok, ok2)), g.le(scalar(before), scalar(after)))
        about = (world.schema.object_text(write.kind, write.slot), p.name)
        world.oblige(path, p.name, holds, about, "a monotone field goes back", write.span)

    return observe


def _monotone_fields(path: Path, world: World, write: Write) -> None:
    """The `monotone` modifier of fields."""
    if write.old is None or write.new is None:
        return
    g, info = world.g, world.schema.info(write.kind)
    for side in ("spec", "status"):
        for f in info.declared(side):
            if f.monotone:
                before = world.schema.side_field(write.old, side, f.name)
                after = world.schema.side_field(write.new, side, f.name)
                holds = g.le(scalar(before), scalar(after))
                about = (world.schema.object_text(write.kind, write.slot), f"{side}.{f.name}")
                world.oblige(path, "monotone", holds, about, f"{side}.{f.name} goes back", write.span)
