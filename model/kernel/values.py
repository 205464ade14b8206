"""Symbolic values: what a term of the language denotes while the kernel turns it into core IR.

A value has the shape of its type with scalar nodes at the leaves. Collections are unrolled: an item is a
node that says whether it is in, and the value it then has.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from attrs import define, field

from dashpot.model.core import Graph, Node
from dashpot.model.types import Type


@define(eq=False)
class Scalar:
    """A bool, number, enum member (its index), time (its age), symbol or name (its index in the world's table).

    `fresh`: where it is now() of this very step, which is another moment than any that is stored (None: nowhere).
    """

    node: Node
    type: Type
    fresh: Node | None = None


@define(eq=False)
class Nothing:
    """The literal null."""


@define(eq=False)
class Maybe:
    """A value that may be null: `some` says whether it is there."""

    some: Node
    value: Value


@define(eq=False)
class Record:
    """A struct, or an object literal not yet fitted to a type."""

    fields: dict[str, Value]


@define(eq=False)
class Items:
    """A set, list or comprehension: guarded items.

    `ranks`, one node an item, orders a list (ties of `sortBy` share a rank); None: no order.
    `limit`: only that many of the items, the first by rank (`take` where ties leave a choice: the choice
    is made item by item when the list is walked). `apart`: of a sorted list, where the items j < i have different keys.
    """

    items: list[tuple[Node, Value]]
    ranks: list[Node] | None = None
    limit: Node | None = None
    apart: dict[tuple[int, int], Node] = field(factory=dict)


@define(eq=False)
class Table:
    """A map over a finite key: key constant → (there, value). Total maps have `there` true everywhere."""

    entries: dict[int, tuple[Node, Value]]
    key: Type


@define(eq=False)
class Owner:
    """An owner reference: index into the world's table of (kind, slot), and the incarnation it names."""

    node: Node
    incarnation: Node


@define(eq=False)
class Object:
    """A copy of an object: in the store, in a cache, or in a local.

    read      leaf path → node ("spec.members", "deletionTimestamp", "owner", "finalizers.x", …)
    current   the copy's resourceVersion is that of the store's object (False const when unknown to be needed)
    incarnation  which incarnation of the slot's object it is a copy of (const 0 where the kind cannot return)
    source    "store" | "cache" | "local" | "new"
    """

    kind: str
    slot: int
    read: Callable[[str], Node]
    incarnation: Node
    current: Node
    source: str


@define(eq=False)
class OneOf:
    """An object out of several: exactly one guard holds (where the value is defined)."""

    choices: list[tuple[Node, Object]]


Value: TypeAlias = Scalar | Nothing | Maybe | Record | Items | Table | Owner | Object | OneOf


def choose(g: Graph, test: Node, then: Value, other: Value) -> Value:
    """`test ? then : other` on whole values."""
    if test is g.true:
        return then
    if test is g.false:
        return other
    match then, other:
        case Scalar(), Scalar():
            return Scalar(g.ite(test, then.node, other.node), then.type, _fresh(g, test, then, other))
        case Nothing(), Nothing():
            return then
        case Nothing(), Maybe():
            return Maybe(g.and_(g.not_(test), other.some), other.value)
        case Maybe(), Nothing():
            return Maybe(g.and_(test, then.some), then.value)
        case Nothing(), _:
            return Maybe(g.not_(test), other)
        case _, Nothing():
            return Maybe(test, then)
        case Maybe(), Maybe():
            return Maybe(g.ite(test, then.some, other.some), choose(g, test, then.value, other.value))
        case Maybe(), _:
            return Maybe(g.ite(test, then.some, g.true), choose(g, test, then.value, other))
        case _, Maybe():
            return Maybe(g.ite(test, g.true, other.some), choose(g, test, then, other.value))
        case Record(), Record():
            names = [n for n in then.fields if n in other.fields]
            return Record({n: choose(g, test, then.fields[n], other.fields[n]) for n in names})
        case Owner(), Owner():
            return Owner(g.ite(test, then.node, other.node), g.ite(test, then.incarnation, other.incarnation))
        case Table(), Table():
            return Table({k: _entry(g, test, then, other, k) for k in then.entries}, then.key)
        case Items(), Items():
            mine = [(g.and_(test, inside), v) for inside, v in then.items]
            theirs = [(g.and_(g.not_(test), inside), v) for inside, v in other.items]
            ordered = then.ranks is not None and other.ranks is not None
            ranks = [*(then.ranks or ()), *(other.ranks or ())] if ordered else None
            return Items(mine + theirs, ranks, _limit(g, test, then, other))
        case ((Object() | OneOf()), (Object() | OneOf())):
            mine_ = [(g.and_(test, c), o) for c, o in choices(g, then)]
            return OneOf(mine_ + [(g.and_(g.not_(test), c), o) for c, o in choices(g, other)])
        case _:
            raise TypeError(f"no common shape of {type(then).__name__} and {type(other).__name__}")


def _limit(g: Graph, test: Node, then: Items, other: Items) -> Node | None:
    """How many of the chosen items count; a side without a limit counts whole."""
    if then.limit is None and other.limit is None:
        return None
    sides = [g.const(len(one.items)) if one.limit is None else one.limit for one in (then, other)]
    return g.ite(test, *sides)


def past(value: Value) -> Value:
    """The same value once a call has been made: a moment taken before it is a moment like those that are stored."""
    match value:
        case Scalar() if value.fresh is not None:
            return Scalar(value.node, value.type)
        case Maybe():
            return Maybe(value.some, past(value.value))
        case Record():
            return Record({name: past(part) for name, part in value.fields.items()})
        case Items():
            return Items([(there, past(part)) for there, part in value.items], value.ranks, value.limit)
        case Table():
            return Table({k: (there, past(part)) for k, (there, part) in value.entries.items()}, value.key)
    return value


def _fresh(g: Graph, test: Node, then: Scalar, other: Scalar) -> Node | None:
    if then.fresh is None and other.fresh is None:
        return None
    return g.ite(test, then.fresh or g.false, other.fresh or g.false)


def _entry(g: Graph, test: Node, then: Table, other: Table, key: int) -> tuple[Node, Value]:
    (there, a), (too, b) = then.entries[key], other.entries[key]
    return g.ite(test, there, too), choose(g, test, a, b)


def choices(g: Graph, value: Object | OneOf) -> list[tuple[Node, Object]]:
    """The objects that a value may be, each with its guard."""
    return value.choices if isinstance(value, OneOf) else [(g.true, value)]


def positions(g: Graph, items: Items) -> list[Node]:
    """The place of each item among those inside, by rank; ties go by the order in which the items are written."""
    ranks = items.ranks
    if ranks is None or all(a.hi <= b.lo for a, b in pairwise(ranks)):
        before, out = g.const(0), []
        for inside, _ in items.items:
            out.append(before)
            before = g.add(before, inside)
        return out
    return [
        g.sum(
            g.and_(inside, g.le(ranks[j], rank) if j < i else g.lt(ranks[j], rank))
            for j, (inside, _) in enumerate(items.items)
            if j != i
        )
        for i, rank in enumerate(ranks)
    ]
