"""Assigning to an object: a value fitted to the type at a path, leaf by leaf."""

from __future__ import annotations

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.core import Graph, Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel.domain import scalar, total
from dashpot.model.kernel.equality import contains, equal
from dashpot.model.kernel.schema import Schema
from dashpot.model.kernel.terms import Env, Terms
from dashpot.model.kernel.values import (
    Items,
    Maybe,
    Nothing,
    Object,
    OneOf,
    Owner,
    Record,
    Scalar,
    Table,
    Value,
    choices,
    choose,
)

Steps = tuple[str | e.Expr, ...]


def adapt(schema: Schema, value: Value, ty: t.Type) -> Value:
    """`value` in the shape that a field of type `ty` takes: objects become names or owner references."""
    g = schema.finite.g
    match value, ty:
        case Maybe(some=some, value=inner), t.Optional(inner=inner_type):
            return Maybe(some, adapt(schema, inner, inner_type))
        case Maybe(value=inner), _:
            return adapt(schema, inner, ty)
        case _, t.Optional(inner=inner_type):
            return value if isinstance(value, Nothing) else adapt(schema, value, inner_type)
        case Object() | OneOf(), t.OwnerRef():
            result: Value = schema.reference(choices(g, value)[-1][1])
            for guard, option in choices(g, value)[:-1]:
                result = choose(g, guard, schema.reference(option), result)
            return result
        case Object() | OneOf(), t.Name():
            names = [(guard, schema.field(o, "name")) for guard, o in choices(g, value)]
            result = names[-1][1]
            for guard, name in names[:-1]:
                result = choose(g, guard, name, result)
            return result
        case Owner(), t.Name():
            return schema.owner_field(value, "name")
        case Items(items=items, ranks=ranks), t.SetOf(element=element) | t.ListOf(element=element):
            return Items([(i, adapt(schema, v, element)) for i, v in items], ranks)
        case Record(fields=fields), t.ListOf() | t.SetOf() if not fields:
            return Items([], [])
        case Items(items=items), t.MapOf() | t.Struct() if not items:
            return Record({})
        case _:
            return value


def assign(terms: Terms, kind: str, leaves: dict[str, Node], steps: Steps, value: Value, env: Env) -> Node:
    """Put `value` at `steps` into `leaves`; the node says where it does not fit the scope."""
    schema, g = terms.schema, terms.g
    head = steps[0]
    assert isinstance(head, str)
    match head:
        case "name" | "generateName" | "namespace":
            return g.false
        case "finalizers":
            _finalizers(schema, leaves, value)
            return g.false
        case "labels" | "annotations":
            return _labels(terms, leaves, steps, value, env)
        case "owners":
            return assign(terms, kind, leaves, ("owner",), _first(g, value), env)
        case "owner" | "deletionTimestamp" | "creationTimestamp" | "generation":
            return _put(schema, t.METADATA[head], head, adapt(schema, value, t.METADATA[head]), leaves)
        case "spec" | "status":
            if len(steps) == 1:
                assert isinstance(value, Record), value
                return g.or_(*[assign(terms, kind, leaves, (head, n), v, env) for n, v in value.fields.items()])
            name = steps[1]
            assert isinstance(name, str)
            ty, path = schema.field_type(kind, f"{head}.{name}"), f"{head}.{name}"
            if len(steps) > 2:
                now = schema.finite.load(ty, path, leaves.__getitem__)
                value = replaced(terms, now, ty, steps[2:], value, env)
            return _put(schema, ty, path, adapt(schema, value, ty), leaves)
    raise SpecError("D312", f"`{head}` cannot be set by this write")


def _first(g: Graph, value: Value) -> Value:
    """The first of some owners, which is the one that the checker has of them."""
    owner: Value = Nothing()
    for inside, item in reversed(value.items if isinstance(value, Items) else []):
        owner = choose(g, inside, item, owner)
    return owner


def _put(schema: Schema, ty: t.Type, path: str, value: Value, leaves: dict[str, Node]) -> Node:
    part, overflow = schema.finite.store(ty, path, value)
    leaves.update(part)
    return overflow


def _finalizers(schema: Schema, leaves: dict[str, Node], value: Value) -> None:
    g = schema.finite.g
    items = value if isinstance(value, Items) else Items([])
    for name in schema.finalizers:
        here = Scalar(g.const(schema.finite.name(name)), t.Name())
        leaves[f"finalizers.{name}"] = contains(schema, items, here)


def _labels(terms: Terms, leaves: dict[str, Node], steps: Steps, value: Value, env: Env) -> Node:
    schema, section = terms.schema, str(steps[0])
    kind_of = t.Optional(t.Opaque())
    if len(steps) > 1:
        key = steps[1]
        text = key if isinstance(key, str) else str(getattr(key, "value", ""))
        return _put(schema, kind_of, f"{section}.{text}", value, leaves)
    fields = value.fields if isinstance(value, Record) else {}
    out = [_put(schema, kind_of, f"{section}.{label}", fields.get(label, Nothing()), leaves) for label in schema.labels]
    return terms.g.or_(*out)


def replaced(terms: Terms, now: Value, ty: t.Type, steps: Steps, value: Value, env: Env) -> Value:
    """`now` with the part at `steps` replaced: a struct field, a map entry, a list position."""
    g, step = terms.g, steps[0]
    if isinstance(now, Maybe) and isinstance(ty, t.Optional):
        return Maybe(now.some, replaced(terms, now.value, ty.inner, steps, value, env))
    if isinstance(now, Record) and isinstance(step, str) and isinstance(ty, t.Struct):
        inner = dict(ty.fields)[step]
        rest = steps[1:]
        part = replaced(terms, now.fields[step], inner, rest, value, env) if rest else adapt(terms.schema, value, inner)
        return Record({**now.fields, step: part})
    if isinstance(now, Table) and isinstance(ty, t.MapOf):
        return _entry(terms, now, ty, steps, value, env)
    if isinstance(now, Items) and isinstance(ty, t.ListOf):
        assert not isinstance(step, str)
        index = scalar(terms.value(step, env)[0])
        out: list[tuple[Node, Value]] = []
        for i, (inside, item) in enumerate(now.items):
            rest = steps[1:]
            part = replaced(terms, item, ty.element, rest, value, env) if rest else value
            out.append((inside, choose(g, g.eq(index, g.const(i)), part, item)))
        return Items(out, now.ranks)
    raise SpecError("D312", "this part of a field cannot be written on its own")


def _entry(terms: Terms, now: Table, ty: t.MapOf, steps: Steps, value: Value, env: Env) -> Value:
    g, step = terms.g, steps[0]
    if isinstance(step, str):
        index = g.const(terms.finite.key_of(now.key, step))
    else:
        index = scalar(adapt(terms.schema, terms.value(step, env)[0], now.key))
    entries: dict[int, tuple[Node, Value]] = {}
    for k, (there, item) in now.entries.items():
        here = g.eq(index, g.const(k))
        if len(steps) > 1:
            entries[k] = (there, choose(g, here, replaced(terms, item, ty.value, steps[1:], value, env), item))
        elif isinstance(value, Nothing) and not isinstance(ty.value, t.Optional):
            entries[k] = (g.and_(there, g.not_(here)), item)
        else:
            fitted = adapt(terms.schema, value, ty.value)
            # null takes an entry out, but of a map that has all its keys
            stays = g.true if total(ty.key) else _given(g, fitted)
            entries[k] = (g.or_(g.and_(here, stays), g.and_(there, g.not_(here))), choose(g, here, fitted, item))
    return Table(entries, now.key)


def _given(g: Graph, value: Value) -> Node:
    """Whether a value is other than null."""
    return g.false if isinstance(value, Nothing) else value.some if isinstance(value, Maybe) else g.true


def merged(schema: Schema, kind: str, leaves: dict[str, Node], steps: Steps, value: Value) -> Value:
    """What a strategic patch makes of a value for the field at `steps`: list maps are merged by their key."""
    if len(steps) == 1 and isinstance(value, Record):
        return Record({n: merged(schema, kind, leaves, (*steps, n), v) for n, v in value.fields.items()})
    ty = list_map(schema, kind, dotted(steps)) if len(steps) == 2 else None
    if ty is None or ty.key is None or not isinstance(value, Items):
        return value
    g = schema.finite.g
    now = schema.finite.load(ty, dotted(steps), leaves.__getitem__)
    assert isinstance(now, Items)
    given = [(i, v) for i, v in value.items if isinstance(v, Record)]
    kept: list[tuple[Node, Value]] = []
    known = [g.false] * len(given)
    for inside, item in now.items:
        assert isinstance(item, Record)
        after: Value = item
        for k, (there, new) in enumerate(given):
            here = g.and_(inside, there, equal(schema, item.fields[ty.key], new.fields[ty.key]))
            known[k] = g.or_(known[k], here)
            after = choose(g, here, Record({**item.fields, **new.fields}), after)
        kept.append((inside, after))
    kept += [(g.and_(there, g.not_(known[k])), new) for k, (there, new) in enumerate(given)]
    return Items(kept, [g.const(i) for i in range(len(kept))])


def list_map(schema: Schema, kind: str, path: str) -> t.ListOf | None:
    """The type of the field at a dotted path, if it is a list map: a list whose entries have a key."""
    head, *rest = path.split(".")
    ty = schema.field_type(kind, path) if head in ("spec", "status") and len(rest) == 1 else None
    return ty if isinstance(ty, t.ListOf) and ty.key is not None else None


def dotted(steps: Steps) -> str:
    """A path as people write it, keys of maps left out; `owners` is the set of what the checker keeps as `owner`."""
    return "owner" if steps[0] == "owners" else ".".join(s for s in steps if isinstance(s, str))


def differing(g_leaves: tuple[dict[str, Node], dict[str, Node]], prefix: str, terms: Terms) -> Node:
    """Some leaf at or under `prefix` differs between two versions."""
    old, new = g_leaves
    g = terms.g
    return g.or_(*[g.ne(old[leaf], new[leaf]) for leaf in new if leaf == prefix or leaf.startswith(prefix + ".")])
