"""`==` on symbolic values of every shape; identity of objects is kind, slot and incarnation."""

from __future__ import annotations

from dashpot.model.core import Node
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.schema import Schema
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
    positions,
)


def equal(schema: Schema, a: Value, b: Value) -> Node:
    """The node of `a == b`; null equals only null."""
    g = schema.finite.g
    match a, b:
        case Nothing(), Nothing():
            return g.true
        case Nothing(), Maybe():
            return g.not_(b.some)
        case Maybe(), Nothing():
            return g.not_(a.some)
        case (Nothing(), _) | (_, Nothing()):
            return g.false
        case Maybe(), Maybe():
            both = g.and_(a.some, b.some, equal(schema, a.value, b.value))
            return g.or_(both, g.and_(g.not_(a.some), g.not_(b.some)))
        case Maybe(), _:
            return g.and_(a.some, equal(schema, a.value, b))
        case _, Maybe():
            return g.and_(b.some, equal(schema, a, b.value))
        case Scalar(), Scalar():
            same = g.eq(a.node, b.node)
            if a.fresh is None and b.fresh is None:
                return same
            # A moment that is stored is earlier than now(), also within one tick.
            now_a, now_b = a.fresh or g.false, b.fresh or g.false
            return g.and_(same, g.or_(g.and_(now_a, now_b), g.not_(g.or_(now_a, now_b))))
        case Owner(), Owner():
            return g.and_(g.eq(a.node, b.node), g.eq(a.incarnation, b.incarnation))
        case (Owner(), (Object() | OneOf())) | ((Object() | OneOf()), Owner()):
            owner, thing = (a, b) if isinstance(a, Owner) else (b, a)
            assert isinstance(owner, Owner) and isinstance(thing, Object | OneOf)
            return g.or_(*[g.and_(c, equal(schema, owner, schema.reference(o))) for c, o in choices(g, thing)])
        case ((Object() | OneOf()), (Object() | OneOf())):
            pairs = [
                g.and_(c, d, g.eq(o.incarnation, p.incarnation))
                for c, o in choices(g, a)
                for d, p in choices(g, b)
                if (o.kind, o.slot) == (p.kind, p.slot)
            ]
            return g.or_(*pairs)
        case (Scalar(), (Object() | OneOf())) | ((Object() | OneOf()), Scalar()):
            name, thing = (a, b) if isinstance(a, Scalar) else (b, a)
            assert isinstance(name, Scalar) and isinstance(thing, Object | OneOf)
            return g.or_(
                *[g.and_(c, g.eq(name.node, g.const(schema.name_index(o.kind, o.slot)))) for c, o in choices(g, thing)]
            )
        case Record(), Record():
            names = [n for n in a.fields if n in b.fields]
            return g.and_(*[equal(schema, a.fields[n], b.fields[n]) for n in names])
        case Table(), Table():
            parts = []
            for k in a.entries.keys() & b.entries.keys():
                (x, v), (y, w) = a.entries[k], b.entries[k]
                parts.append(g.or_(g.and_(x, y, equal(schema, v, w)), g.and_(g.not_(x), g.not_(y))))
            return g.and_(*parts)
        case Items(), Items():
            return _equal_items(schema, a, b)
        case _:
            return g.false


def _equal_items(schema: Schema, a: Items, b: Items) -> Node:
    """Lists are equal position by position, sets member by member; a set and a list: as sets."""
    g = schema.finite.g
    if a.ranks is not None and b.ranks is not None:
        size_a, size_b = g.sum(i for i, _ in a.items), g.sum(i for i, _ in b.items)
        same = []
        for (inside, v), at_a in zip(a.items, positions(g, a), strict=True):
            for (within, w), at_b in zip(b.items, positions(g, b), strict=True):
                clash = g.and_(inside, within, g.eq(at_a, at_b))
                if clash is not g.false:
                    same.append(g.or_(g.not_(clash), equal(schema, v, w)))
        return g.and_(g.eq(size_a, size_b), *same)
    return g.and_(_subset(schema, a, b), _subset(schema, b, a))


def _subset(schema: Schema, a: Items, b: Items) -> Node:
    g = schema.finite.g
    return g.and_(*[g.or_(g.not_(inside), contains(schema, b, v)) for inside, v in a.items])


def contains(schema: Schema, items: Items, value: Value) -> Node:
    """`value in items`."""
    g = schema.finite.g
    return g.or_(*[g.and_(inside, equal(schema, v, value)) for inside, v in items.items])


def truth(value: Value) -> Node:
    """The node of a boolean value."""
    return scalar(value)
