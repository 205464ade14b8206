"""Folds and methods over collections: sums over guarded items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.core import Graph, Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.equality import contains, equal
from dashpot.model.kernel.values import Items, Maybe, Nothing, OneOf, Scalar, Table, Value, choose, positions
from dashpot.model.span import NOWHERE, Span

if TYPE_CHECKING:
    from dashpot.model.kernel.terms import Env, Result, Terms


def as_items(terms: Terms, value: Value) -> tuple[Items, Node]:
    """A collection as guarded items: sets, lists, ranges, keys of a map."""
    g = terms.g
    match value:
        case Items():
            return settled(terms, value), g.true
        case Maybe(some=some, value=inner):
            items, ok = as_items(terms, inner)
            return items, g.and_(some, ok)
        case Table(entries=entries, key=key):
            return Items([(there, Scalar(g.const(k), key)) for k, (there, _) in entries.items()]), g.true
        case _:
            return Items([]), g.false


def fold(terms: Terms, x: e.Fold, env: Env) -> Result:
    """A fold over a collection, item by item."""
    g = terms.g
    base, ok = terms.value(x.base, env)
    items, there = as_items(terms, base)
    ok = g.and_(ok, there)
    if x.body is None:
        bodies = [(v, g.true) for _, v in items.items]
    else:
        bodies = [
            terms.value(x.body, {**env, x.var: v}) if inside is not g.false else (Scalar(g.false, t.Bool()), g.true)
            for inside, v in items.items
        ]
    pairs = [(inside, value, fine) for (inside, _), (value, fine) in zip(items.items, bodies, strict=True)]
    all_ok = g.and_(ok, *[g.or_(g.not_(inside), fine) for inside, _, fine in pairs])
    match x.op:
        case "all" | "exists":
            return _quantifier(terms, x.op, pairs, ok)
        case "exists_one":
            hits = g.sum(g.and_(inside, scalar(v)) for inside, v, _ in pairs)
            return Scalar(g.eq(hits, g.const(1)), t.Bool()), all_ok
        case "count":
            if x.body is None:
                return Scalar(g.sum(inside for inside, _ in items.items), t.Int()), ok
            return Scalar(g.sum(g.and_(inside, scalar(v)) for inside, v, _ in pairs), t.Int()), all_ok
        case "filter":
            kept: list[tuple[Node, Value]] = [
                (g.and_(inside, fine, scalar(test)), v)
                for (inside, v), (_, test, fine) in zip(items.items, pairs, strict=True)
            ]
            return Items(kept, items.ranks, None, items.apart), all_ok
        case "map":
            return _map(terms, x, items, pairs), all_ok
        case "sum":
            return Scalar(g.sum(g.ite(inside, scalar(v), g.const(0)) for inside, v, _ in pairs), t.Int()), all_ok
        case "min" | "max":
            return _extreme(terms, x.op, pairs, all_ok)
        case "sortBy":
            return _sorted(terms, items, [v for _, v, _ in pairs]), all_ok
        case "first":
            filtered: list[tuple[Node, Value]] = [
                (g.and_(inside, fine, scalar(test)) if x.body else inside, v)
                for (inside, v), (_, test, fine) in zip(items.items, pairs, strict=True)
            ]
            return first(terms, Items(filtered, items.ranks, None, items.apart), ok, x.span)
    raise SpecError("D306", f"the checker cannot evaluate `.{x.op}()` over its finite values", x.span)


def _quantifier(terms: Terms, op: str, pairs: list[tuple[Node, Value, Node]], ok: Node) -> Result:
    """all / exists absorb undefined items when a defined one decides, as CEL's macros do."""
    g = terms.g
    wanted = op == "exists"
    hits, fine = [], []
    for inside, value, defined in pairs:
        node = scalar(value)
        hits.append(g.and_(inside, defined, node if wanted else g.not_(node)))
        fine.append(g.or_(g.not_(inside), defined))
    decided = g.or_(*hits)
    result = decided if wanted else g.not_(decided)
    return Scalar(result, t.Bool()), g.and_(ok, g.or_(decided, *([g.and_(*fine)])))


def _map(terms: Terms, x: e.Fold, items: Items, pairs: list[tuple[Node, Value, Node]]) -> Value:
    g = terms.g
    out: list[tuple[Node, Value]] = [(inside, v) for inside, v, _ in pairs]
    if isinstance(x.type, t.SetOf):
        unique: list[tuple[Node, Value]] = []
        for inside, v in out:
            twin = g.or_(*[g.and_(earlier, equal(terms.schema, w, v)) for earlier, w in unique])
            unique.append((g.and_(inside, g.not_(twin)), v))
        return Items(unique)
    return Items(out, items.ranks if items.ranks is not None else [g.const(i) for i in range(len(out))])


def _extreme(terms: Terms, op: str, pairs: list[tuple[Node, Value, Node]], ok: Node) -> Result:
    g = terms.g
    best: Node | None = None
    some = g.false
    for inside, value, _ in pairs:
        node = scalar(value)
        if best is None:
            best, some = node, inside
            continue
        better = g.lt(node, best) if op == "min" else g.lt(best, node)
        best = g.ite(g.and_(inside, g.or_(g.not_(some), better)), node, best)
        some = g.or_(some, inside)
    return Scalar(best if best is not None else g.const(0), t.Int()), g.and_(ok, some)


def _sorted(terms: Terms, items: Items, keys: list[Value]) -> Value:
    """A rank an item: how many items inside come strictly before it; ties share a rank."""
    g, n = terms.g, len(keys)
    # What is surely not inside has no key (see `fold`): nothing comes before or behind it.
    here = [inside is not g.false for inside, _ in items.items]
    sooner = {
        (i, j): less(terms, keys[i], keys[j]) if here[i] and here[j] else g.false
        for i in range(n) for j in range(n) if i != j
    }  # fmt: skip
    ranks = [g.sum([g.and_(items.items[j][0], sooner[j, i]) for j in range(n) if j != i]) for i in range(n)]
    apart = {(j, i): g.or_(sooner[i, j], sooner[j, i]) for i in range(n) for j in range(i)}
    return Items(list(items.items), ranks, None, apart)


def less(terms: Terms, a: Value, b: Value) -> Node:
    """`a` sorts before `b`: lexicographic on lists, false before true, null first, the older time first."""
    g = terms.g
    if isinstance(a, Items) and isinstance(b, Items):
        result = g.false
        for (_, x), (_, y) in reversed(list(zip(a.items, b.items, strict=True))):
            result = g.or_(less(terms, x, y), g.and_(equal(terms.schema, x, y), result))
        return result
    if isinstance(a, Maybe) and isinstance(b, Maybe):
        return g.or_(g.and_(g.not_(a.some), b.some), g.and_(a.some, b.some, less(terms, a.value, b.value)))
    if isinstance(a, Scalar) and isinstance(a.type, t.Time):
        return g.lt(scalar(b), scalar(a))
    return g.lt(scalar(a), scalar(b))


def first(terms: Terms, items: Items, ok: Node, span: Span) -> Result:
    """The first item; among ties and in sets any one, chosen by the checker."""
    g, path = terms.g, terms.path
    if path.quiet:
        _settled_order(terms, items, span)
        return _first_by_slot(items, ok, g)
    some = g.or_(*[inside for inside, _ in items.items])
    some = path.resolve(some)
    if some is g.false:
        return Nothing(), g.false
    candidates = [i for i, (inside, _) in enumerate(items.items) if path.resolve(inside) is not g.false]
    if len(candidates) == 1:
        return items.items[candidates[0]][1], g.and_(ok, some)
    if not path.branch(some):
        return items.items[candidates[0]][1], g.false
    pick = candidates[path.choose(len(candidates))]
    inside, value = items.items[pick]
    path.assume(inside)
    if items.ranks is not None:
        for j in candidates:
            if j != pick:
                path.assume(g.not_(g.and_(items.items[j][0], g.lt(items.ranks[j], items.ranks[pick]))))
    return value, ok


def _settled_order(terms: Terms, items: Items, span: Span) -> None:
    """A property is true or false of a state: it may not take one of several that nothing puts in an order."""
    g = terms.g
    ties = []
    for i, (inside, v) in enumerate(items.items):
        for j, (other, w) in enumerate(items.items[:i]):
            tied = g.true if items.ranks is None else g.eq(items.ranks[i], items.ranks[j])
            differ = g.not_(equal(terms.schema, v, w))
            ties.append(g.and_(inside, other, tied, differ, g.not_(items.apart.get((j, i), g.false))))
    if terms.path.resolve(g.or_(*ties)) is not g.false:
        raise SpecError("D318", "several elements may come first here, and a property may not choose among them", span)


def _earlier(items: Items, i: int, g: Graph) -> list[Node]:
    """For each other item: it is inside and comes before item i, ties by position."""
    ranks = items.ranks or [g.const(0)] * len(items.items)
    out = []
    for j, (inside, _) in enumerate(items.items):
        if j != i:
            before = g.lt(ranks[j], ranks[i])
            out.append(g.and_(inside, g.or_(before, g.and_(g.truth(j < i), g.eq(ranks[j], ranks[i])))))
    return out


def _first_by_slot(items: Items, ok: Node, g: Graph) -> Result:
    result: Value | None = None
    for i, (inside, value) in enumerate(items.items):
        here = g.and_(inside, *[g.not_(n) for n in _earlier(items, i, g)])
        result = value if result is None else choose(g, here, value, result)
    some = g.or_(*[inside for inside, _ in items.items])
    return (result if result is not None else Nothing()), g.and_(ok, some)


def take(terms: Terms, items: Items, count: Node, span: Span) -> Items:
    """The first `count` items; where ties or sets leave a choice, every subset that fits is explored."""
    g, path = terms.g, terms.path
    n = len(items.items)
    ranks = items.ranks or [g.const(0)] * n
    if items.ranks is not None and all(r.is_const for r in ranks) and len({r.value for r in ranks}) == n:
        kept: list[tuple[Node, Value]] = []
        position = g.const(0)
        for i in sorted(range(n), key=lambda k: ranks[k].value):
            inside, v = items.items[i]
            kept.append((g.and_(inside, g.lt(position, count)), v))
            position = g.add(position, inside)
        return Items(kept, [g.const(i) for i in range(n)])
    if path.quiet:
        _settled_order(terms, items, span)
        first_ones: list[tuple[Node, Value]] = [
            (g.and_(inside, g.lt(g.sum(_earlier(items, i, g)), count)), v) for i, (inside, v) in enumerate(items.items)
        ]
        return Items(first_ones, items.ranks)
    limit = g.max_(count, g.const(0))
    return Items(list(items.items), items.ranks, limit if items.limit is None else g.min_(limit, items.limit))


def settled(terms: Terms, items: Items) -> Items:
    """Items without a limit: which ones it keeps is chosen here."""
    g, path = terms.g, terms.path
    if items.limit is None:
        return items
    count, n = items.limit, len(items.items)
    ranks = items.ranks or [g.const(0)] * n
    chosen: list[bool] = []
    for inside, _ in items.items:
        inside = path.resolve(inside)
        chosen.append(inside is not g.false and path.choose(2) == 1)
        if chosen[-1]:
            path.assume(inside)
    size = g.sum(inside for inside, _ in items.items)
    path.assume(g.eq(g.const(sum(chosen)), g.min_(g.max_(count, g.const(0)), size)))
    for i in range(n):
        for j in range(n):
            if chosen[j] and not chosen[i]:
                path.assume(g.not_(g.and_(items.items[i][0], g.lt(ranks[i], ranks[j]))))
    taken: list[tuple[Node, Value]] = [(g.truth(c), v) for c, (_, v) in zip(chosen, items.items, strict=True)]
    return Items(taken, items.ranks)


def whole(terms: Terms, value: Value) -> Value:
    """A value that may be looked at twice: which items a limit keeps is chosen once."""
    return settled(terms, value) if isinstance(value, Items) else value


def drop(terms: Terms, items: Items, count: Node) -> Items:
    """The items behind the first `count`; where ties leave a choice, those that `take` did not choose."""
    g = terms.g
    ranks = items.ranks
    if ranks is None or all(r.is_const for r in ranks) or terms.path.quiet:
        behind = [g.le(count, place) for place in positions(g, items)]
    else:
        taken = settled(terms, take(terms, items, count, NOWHERE))
        behind = [g.not_(inside) for inside, _ in taken.items]
    kept: list[tuple[Node, Value]] = [
        (g.and_(inside, late), v) for (inside, v), late in zip(items.items, behind, strict=True)
    ]
    return Items(kept, ranks)


def method(terms: Terms, x: e.Method, env: Env) -> Result:
    """A method without a bound variable."""
    g = terms.g
    base, ok = terms.value(x.base, env)
    args = [terms.value(a, env) for a in x.args]
    ok = g.and_(ok, *[fine for _, fine in args])
    if ok is g.false:
        return Scalar(g.false, t.Bool()), ok
    if isinstance(base, Items) and base.limit is not None and x.op in ("size", "isEmpty"):
        size = g.min_(g.sum(inside for inside, _ in base.items), base.limit)
        if x.op == "size":
            return Scalar(size, t.Int()), ok
        return Scalar(g.eq(size, g.const(0)), t.Bool()), ok
    bare = base.value if isinstance(base, Maybe) else base
    if isinstance(bare, Scalar) and isinstance(bare.type, t.Name | t.Opaque):
        return _of_text(terms, x, bare, args), g.and_(ok, *[v.some for v in (base,) if isinstance(v, Maybe)])
    items, there = as_items(terms, base)
    match x.op:
        case "keys":
            return items, g.and_(ok, there)
        case "values":
            distinct: list[tuple[Node, Value]] = []
            for inside, v in bare.entries.values() if isinstance(bare, Table) else ():
                distinct.append((g.and_(inside, g.not_(contains(terms.schema, Items(distinct), v))), v))
            return Items(distinct), g.and_(ok, there)
        case "size":
            return Scalar(g.sum(inside for inside, _ in items.items), t.Int()), g.and_(ok, there)
        case "isEmpty":
            return Scalar(g.not_(g.or_(*[i for i, _ in items.items])), t.Bool()), g.and_(ok, there)
        case "take":
            return take(terms, items, scalar(args[0][0]), x.span), g.and_(ok, there)
        case "drop":
            return drop(terms, items, scalar(args[0][0])), g.and_(ok, there)
        case "contains" if isinstance(bare, Items | Table):
            return Scalar(contains(terms.schema, items, args[0][0]), t.Bool()), g.and_(ok, there)
    raise SpecError(
        "D306",
        f"the checker has no `.{x.op}()` of texts",
        x.span,
        "use an enum, or an `extern fun` with an abstraction",
    )


def _of_text(terms: Terms, x: e.Method, base: Scalar, args: list[Result]) -> Value:
    """A method of a string, tabulated over the finite texts that its arguments can be."""
    from dashpot.model.kernel.operators import text_options

    g = terms.g
    if x.op == "size":
        size = g.const(0)
        for v, text in text_options(terms, base):
            size = g.ite(g.eq(base.node, g.const(v)), g.const(len(text)), size)
        return Scalar(size, t.Int())
    arg = args[0][0]
    hits = [
        g.and_(g.eq(base.node, g.const(v)), g.eq(scalar(arg), g.const(w)))
        for v, text in text_options(terms, base)
        for w, part in text_options(terms, arg)
        if _holds(x, text, part)
    ]
    return Scalar(g.or_(*hits), t.Bool())


def _holds(x: e.Method, text: str, part: str) -> bool:
    match x.op:
        case "startsWith":
            return text.startswith(part)
        case "endsWith":
            return text.endswith(part)
        case "contains":
            return part in text
        case "matches":
            try:
                return re.search(part, text) is not None
            except re.error as error:
                raise SpecError("D306", f"{part!r} is no regular expression: {error}", x.span) from None
    raise SpecError(
        "D306",
        f"the checker has no `.{x.op}()` of texts",
        x.span,
        "use an enum, or an `extern fun` with an abstraction",
    )


def only(terms: Terms, value: Value) -> Value:
    """A OneOf narrowed to the single object it is on this way, by a choice where it is open."""
    if not isinstance(value, OneOf):
        return value
    options = [(c, o) for c, o in value.choices if terms.path.resolve(c) is not terms.g.false]
    guard, chosen = options[terms.path.choose(len(options))]
    terms.path.assume(guard)
    return chosen
