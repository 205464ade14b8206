"""Binary operators and built-in functions of the language over symbolic values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.core import Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.equality import contains, equal
from dashpot.model.kernel.folds import whole
from dashpot.model.kernel.values import Items, Maybe, Nothing, Object, OneOf, Scalar, Table, Value, choices, choose

if TYPE_CHECKING:
    from dashpot.model.kernel.terms import Env, Result, Terms


def binary(terms: Terms, x: e.Binary, env: Env) -> Result:
    """A binary operator, with CEL's absorption of undefined operands."""
    g = terms.g
    left, ok = terms.value(x.left, env)
    right, ok2 = terms.value(x.right, env)
    left, right = whole(terms, left), whole(terms, right)
    match x.op:
        case "&&":
            a, b = scalar(left), scalar(right)
            # CEL: a defined false on either side decides.
            fine = g.or_(g.and_(ok, ok2), g.and_(ok, g.not_(a)), g.and_(ok2, g.not_(b)))
            return Scalar(g.and_(g.or_(g.not_(ok), a), g.or_(g.not_(ok2), b)), t.Bool()), fine
        case "||":
            a, b = scalar(left), scalar(right)
            fine = g.or_(g.and_(ok, ok2), g.and_(ok, a), g.and_(ok2, b))
            return Scalar(g.or_(g.and_(ok, a), g.and_(ok2, b)), t.Bool()), fine
        case "==":
            return Scalar(equal(terms.schema, left, right), t.Bool()), g.and_(ok, ok2)
        case "!=":
            return Scalar(g.not_(equal(terms.schema, left, right)), t.Bool()), g.and_(ok, ok2)
        case "in":
            return Scalar(_member(terms, left, right), t.Bool()), g.and_(ok, ok2)
    if ok is g.false or ok2 is g.false:
        return Scalar(g.false, t.Bool()), g.false  # what stands for an undefined operand need not have its shape
    match x.op:
        case "+" if isinstance(left, Items) and isinstance(right, Items):
            return _join(terms, x, left, right), g.and_(ok, ok2)
        case "+" if _is_text(x, left, right):
            return _concatenate(terms, left, right), g.and_(ok, ok2)
    some = g.and_(*[v.some for v in (left, right) if isinstance(v, Maybe)])
    if isinstance(left, Nothing) or isinstance(right, Nothing):
        return Scalar(g.false, t.Bool()), g.false
    fine = g.and_(ok, ok2, some)
    a, b = scalar(left), scalar(right)
    if _is_time(left) or _is_time(right):
        if x.op in ("<", "<=", ">", ">="):
            a, b = b, a  # the older moment is the smaller one; ages run the other way
    return _arithmetic(terms, x, a, b, fine)


def _arithmetic(terms: Terms, x: e.Binary, a: Node, b: Node, ok: Node) -> Result:
    g = terms.g
    match x.op:
        case "<":
            return Scalar(g.lt(a, b), t.Bool()), ok
        case "<=":
            return Scalar(g.le(a, b), t.Bool()), ok
        case ">":
            return Scalar(g.lt(b, a), t.Bool()), ok
        case ">=":
            return Scalar(g.le(b, a), t.Bool()), ok
        case "+":
            return Scalar(g.add(a, b), t.Int()), ok
        case "-":
            return Scalar(g.sub(a, b), t.Int()), ok
        case "*":
            return Scalar(g.mul(a, b), t.Int()), ok
        case "/" | "%":
            nonzero = g.ne(b, g.const(0))
            result = g.const(0)
            for divisor in range(b.lo, b.hi + 1):
                if divisor:
                    op = g.div if x.op == "/" else g.mod
                    result = g.ite(g.eq(b, g.const(divisor)), op(a, g.const(divisor)), result)
            return Scalar(result, t.Int()), g.and_(ok, nonzero)
    raise AssertionError(x.op)


def _member(terms: Terms, left: Value, right: Value) -> Node:
    g = terms.g
    match right:
        case Maybe(some=some, value=inner):
            return g.and_(some, _member(terms, left, inner))
        case Items():
            return contains(terms.schema, right, left)
        case Table(entries=entries):
            return g.or_(*[g.and_(there, g.eq(scalar(left), g.const(k))) for k, (there, _) in entries.items()])
        case _:
            return g.false


def _join(terms: Terms, x: e.Binary, left: Items, right: Items) -> Items:
    """Lists are joined, sets united."""
    g = terms.g
    if isinstance(x.type, t.ListOf) and left.ranks is not None and right.ranks is not None:
        shift = g.const(len(left.items))
        return Items([*left.items, *right.items], [*left.ranks, *[g.add(r, shift) for r in right.ranks]])
    fresh: list[tuple[Node, Value]] = [
        (g.and_(inside, g.not_(contains(terms.schema, left, v))), v) for inside, v in right.items
    ]
    return Items([*left.items, *fresh])


def _is_time(value: Value) -> bool:
    inner = value.value if isinstance(value, Maybe) else value
    return isinstance(inner, Scalar) and isinstance(inner.type, t.Time)


def _is_text(x: e.Binary, left: Value, right: Value) -> bool:
    textual = t.Name | t.Opaque
    return any(isinstance(v, Scalar) and isinstance(v.type, textual) for v in (left, right)) or isinstance(
        x.type, textual
    )


def text_options(terms: Terms, value: Value) -> list[tuple[int, str]]:
    """The (constant, text) pairs that a scalar may stand for when names are joined."""
    if isinstance(value, Maybe):
        return text_options(terms, value.value)
    if isinstance(value, Object | OneOf):
        raise SpecError("D309", "an object stands where a text is joined", fix="write its `.name`")
    assert isinstance(value, Scalar)
    finite, node = terms.finite, value.node
    if node.op == "const":
        span = [node.value]
    elif node.op == "table":
        span = sorted(set(node.values[node.args[0].lo : node.args[0].hi + 1]))
    else:
        span = list(range(node.lo, node.hi + 1))
    if isinstance(value.type, t.Name):
        return [(v, finite.names[v]) for v in span]
    if isinstance(value.type, t.Opaque):
        return [(v, finite.symbols[v]) for v in span]
    if isinstance(value.type, t.Enum):
        return [(v, value.type.members[v]) for v in span]
    return [(v, str(v)) for v in span]


def _concatenate(terms: Terms, left: Value, right: Value) -> Value:
    """A name built from two parts: one constant for each pair of parts that can occur."""
    g, finite = terms.g, terms.finite
    a, b = scalar(left), scalar(right)
    result: Node | None = None
    for v, x in text_options(terms, left):
        for w, y in text_options(terms, right):
            text = x + y
            index = finite.names.index(text) if text in finite.names else 0
            here = g.and_(g.eq(a, g.const(v)), g.eq(b, g.const(w)))
            result = g.const(index) if result is None else g.ite(here, g.const(index), result)
    assert result is not None
    return Scalar(result, t.Name())


def builtin(terms: Terms, x: e.Builtin, env: Env) -> Result:
    """A call of a built-in function."""
    g = terms.g
    if x.op == "now":
        return Scalar(g.const(0), t.Time(), g.true), g.true
    results = [terms.value(a, env) for a in x.args]
    ok = g.and_(*[o for _, o in results])
    first = results[0][0]
    match x.op:
        case "since":
            return _since(terms, first, ok)
        case "hash":
            return _hash(terms, first), ok
        case "min" | "max":
            values = [scalar(v) for v, _ in results]
            out = values[0]
            for v in values[1:]:
                out = g.min_(out, v) if x.op == "min" else g.max_(out, v)
            return Scalar(out, t.Int()), ok
        case "gone":
            return Scalar(_gone(terms, first), t.Bool()), g.true
        case "has":
            some = first.some if isinstance(first, Maybe) else g.truth(not isinstance(first, Nothing))
            return Scalar(g.and_(ok, some), t.Bool()), g.true
        case "string":
            return _text(terms, first), ok
    raise SpecError("D306", f"the checker cannot evaluate `{x.op}()`", x.span)


def _gone(terms: Terms, value: Value) -> Node:
    """The object that `value` copies is not in the store any more (a namesake is another object)."""
    g = terms.g
    if isinstance(value, Nothing):
        return g.true
    if isinstance(value, Maybe):
        return g.or_(g.not_(value.some), _gone(terms, value.value))
    assert isinstance(value, Object | OneOf)
    alive = []
    for guard, copy in choices(g, value):
        present, stored = terms.look.objects(copy.kind, "truth")[copy.slot]
        alive.append(g.and_(guard, present, g.eq(stored.incarnation, copy.incarnation)))
    return g.not_(g.or_(*alive))


def _since(terms: Terms, value: Value, ok: Node) -> Result:
    g = terms.g
    if isinstance(value, Maybe):
        result, fine = _since(terms, value.value, ok)
        return result, g.and_(fine, value.some)
    if isinstance(value, Nothing):
        return Scalar(g.const(0), t.Duration()), g.false
    # Durations are milliseconds; a saturated age stays above every threshold of the run.
    return Scalar(g.mul(scalar(value), g.const(terms.finite.tick_ms)), t.Duration()), ok


def _hash(terms: Terms, value: Value) -> Value:
    """An injective name for a value: equal only for equal values."""
    g, finite = terms.g, terms.finite
    result = g.const(0)
    for v, text in text_options(terms, value):
        name = f"#{text}"
        index = finite.names.index(name) if name in finite.names else 0
        result = g.ite(g.eq(scalar(value), g.const(v)), g.const(index), result)
    return Scalar(result, t.Name())


def _text(terms: Terms, value: Value) -> Value:
    g, finite = terms.g, terms.finite
    result: Value | None = None
    for v, text in text_options(terms, value):
        index = finite.names.index(text) if text in finite.names else 0
        here = Scalar(g.const(index), t.Name())
        result = here if result is None else choose(g, g.eq(scalar(value), g.const(v)), here, result)
    assert result is not None
    return result
