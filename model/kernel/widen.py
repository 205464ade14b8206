"""Ranges that turn out too narrow while a world is built: it is built again with what was found.

A field is widened to what the terms written to it can be, as far as they do not read the field itself (a
counter that outgrows its range is a bound). A value outside the declared range is reported all the same.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from dashpot.model import types as t
from dashpot.model.core import Node
from dashpot.model.expr import Literal
from dashpot.model.interpret import reads
from dashpot.model.kernel.schema import Schema
from dashpot.model.program import Field

WIDEST = 64
"""Values beyond the declared ones that a field is widened by at the most."""

MOST_GROWTH = 2
"""Times that one field is widened before it counts as a counter."""

Ranges = dict[tuple[str, object, str], tuple[int, int]]


class Widen(Exception):
    """A local needs more room than it was given: the world is built again with this range."""

    def __init__(self, key: tuple[str, object, str], lo: int, hi: int) -> None:
        super().__init__(str(key))
        self.key, self.lo, self.hi = key, lo, hi


def declared(schema: Schema, kind: str, path: str) -> Field | None:
    """The declaration of a plain integer field at `spec.x` or `status.x`."""
    side, _, name = path.partition(".")
    if side not in ("spec", "status"):
        return None
    for f in schema.info(kind).declared(side):
        if f.name == name and isinstance(f.type, t.Int):
            return f
    return None


def fit(schema: Schema, kind: str, path: str, node: Node, own: set[int]) -> Node:
    """Where `node` is outside the range that was declared; asks for a wider field where that helps."""
    g = schema.finite.g
    f = declared(schema, kind, path)
    if f is None or not isinstance(f.type, t.Int):
        return g.false
    lo, hi = schema.finite.limits(f.type, f.span)
    pinned = ("field", kind, path) in schema.pinned
    if (node.lo < lo or node.hi > hi) and not pinned and not own & set(reads([node])):
        wide = min(lo, node.lo), max(hi, node.hi)
        if (wide[1] - wide[0]) - (hi - lo) <= WIDEST:
            raise Widen(("field", kind, path), *wide)
    first, last = schema.declared_ranges.get((kind, path), (lo, hi))
    return g.or_(g.lt(node, g.const(first)), g.lt(g.const(last), node))


def attempts() -> Callable[[Widen, Ranges], bool]:
    """Judges each request for more room: False when a local keeps growing without end.

    A field that grows by way of something else (a local, another field) is pinned after a few rounds: it counts.
    """
    seen: dict[tuple[str, object, str], int] = {}

    def grant(request: Widen, ranges: Ranges) -> bool:
        seen[request.key] = seen.get(request.key, 0) + 1
        if request.key[0] == "field" and seen[request.key] > MOST_GROWTH:
            ranges[("pinned", *request.key[1:])] = ranges[request.key]
            return True
        ranges[request.key] = (request.lo, request.hi)
        return seen[request.key] <= 4 * MOST_GROWTH

    return grant


def widen_fields(schema: Schema, widened: Ranges) -> None:
    """Give fields the ranges that earlier attempts asked for."""
    _raise(schema, widened)
    for (what, kind, path), (lo, hi) in widened.items():
        if what == "pinned":
            schema.pinned.add(("field", kind, path))
        if what != "field":
            continue
        assert isinstance(kind, str)
        f = declared(schema, kind, path)
        assert f is not None and isinstance(f.type, t.Int)
        schema.declared_ranges[kind, path] = schema.finite.limits(f.type, f.span)
        _retype(schema, kind, path, lo, hi)


def _raise(schema: Schema, widened: Ranges) -> None:
    """More room on both sides for counters that overflowed."""
    for (what, name, _), (_, more) in widened.items():
        kind, _, path = str(name).partition(".")
        if what == "raised" and kind in schema.kinds:
            f = declared(schema, kind, path)
            if f is not None and isinstance(f.type, t.Int):
                lo, hi = schema.finite.limits(f.type, f.span)
                _retype(schema, kind, path, lo - more, hi + more)


def _retype(schema: Schema, kind: str, path: str, lo: int, hi: int) -> None:
    info, side = schema.info(kind), path.partition(".")[0]
    f = declared(schema, kind, path)
    assert f is not None
    wide = attrs.evolve(f, type=t.Int(Literal(lo, t.Int()), Literal(hi, t.Int())))
    fields = tuple(wide if x is f else x for x in info.declared(side))
    if side == "spec":
        info.resource = attrs.evolve(info.resource, spec=fields)
    else:
        info.resource = attrs.evolve(info.resource, status=fields)
