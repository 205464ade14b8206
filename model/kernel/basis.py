"""The basis of a written value: what its field was in the oldest read of the object that flows into it.

A local that is computed from a tagged field carries that field's value along, under a hidden name, until the write
(a write in between replaces what the object's own local holds). Only flow counts, not a condition (ruling 5).
"""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.kernel.terms import Env
from dashpot.model.kernel.values import Maybe, Object, OneOf, Value, choices, choose
from dashpot.model.kernel.world import World

CONDITIONS = ("==", "!=", "<", "<=", ">", ">=", "in")


def hidden(kind: str, field: str, local: str) -> str:
    """The hidden local that keeps the basis of `field` for what `local` holds; no name of a spec has a colon."""
    return f"basis:{kind}:{field}:{local}"


def of_local(name: str) -> str:
    """The local that a hidden one goes with, or "" for other names."""
    return name.rpartition(":")[2] if name.startswith("basis:") else ""


def note(world: World, env: Env, local: str, term: e.Expr) -> None:
    """Remember the bases of what was just bound to a local."""
    for kind, field in world.tags:
        found = _oldest(world, kind, field, term, env, None)
        env.pop(hidden(kind, field, local), None)
        if found is not None:
            env[hidden(kind, field, local)] = found


def basis_of(world: World, kind: str, copy: Object, field: str, term: e.Expr | None, env: Env) -> tuple[Value, bool]:
    """The basis of a value written to `field` of `copy`, and whether the field itself flows into that value."""
    found = None if term is None else _oldest(world, kind, field, term, env, copy)
    return (value_at(world, copy, field), term is None) if found is None else (found, True)


def _oldest(world: World, kind: str, field: str, term: e.Expr, env: Env, target: Object | None) -> Value | None:
    """What a local carries is older than what an object's local holds now."""
    direct: Value | None = None
    for source in flows(term):
        if isinstance(source, e.Local):
            carried = env.get(hidden(kind, field, source.name))
            if carried is not None:
                return carried
        elif direct is None and isinstance(source, e.Member) and _path(source) == field:
            direct = _read(world, kind, field, source, env, target)
    return direct


def _path(x: e.Member) -> str:
    base = x.base
    return f"{base.name}.{x.name}" if isinstance(base, e.Member) and base.name in ("spec", "status") else x.name


def _read(world: World, kind: str, field: str, x: e.Member, env: Env, target: Object | None) -> Value | None:
    """The field of the object that a term reads it from, as far as that can be the object written."""
    base = x.base.base if "." in field and isinstance(x.base, e.Member) else x.base
    if not isinstance(base, e.Local) or base.name not in env:
        return None
    thing = env[base.name]
    if isinstance(thing, Maybe):
        thing = thing.value
    if not isinstance(thing, Object | OneOf):
        return None
    g = world.g
    same = [(c, o) for c, o in choices(g, thing) if o.kind == kind and (target is None or o.slot == target.slot)]
    if not same:
        return None
    result = value_at(world, same[-1][1], field)
    for guard, option in same[:-1]:
        result = choose(g, guard, value_at(world, option, field), result)
    return result


def flows(x: e.Expr) -> Iterator[e.Expr]:
    """Locals and members whose value goes into the value of a term; tests and comparisons are conditions only."""
    match x:
        case e.Local():
            yield x
        case e.Member():
            yield x
            if not isinstance(x.base.type, t.Object):
                yield from flows(x.base)
        case e.Ternary(then=a, other=b):
            yield from flows(a)
            yield from flows(b)
        case e.Binary(op=op, left=a, right=b) if op not in CONDITIONS:
            yield from flows(a)
            yield from flows(b)
        case e.Unary(operand=a) | e.Any(base=a) | e.Element(base=a):
            yield from flows(a)
        case e.Let(value=a, body=b):
            yield from flows(a)
            yield from flows(b)
        case e.Fold(base=a, body=b):
            yield from flows(a)
            if b is not None and x.op in ("map", "sum", "min", "max"):
                yield from flows(b)
        case e.Method(base=a, args=args):
            yield from flows(a)
            for arg in args:
                yield from flows(arg)
        case e.Builtin(args=args):
            for arg in args:
                yield from flows(arg)
        case e.ListLiteral(items=items):
            for item in items:
                yield from flows(item)
        case e.ObjectLiteral(items=pairs):
            for pair in pairs:
                yield from flows(pair.value)
        case _:
            return


def value_at(world: World, copy: Object, path: str) -> Value:
    """The value at a dotted path of an object."""
    head, _, name = path.partition(".")
    if name and head in ("spec", "status"):
        return world.schema.side_field(copy, head, name)
    return world.schema.field(copy, head)
