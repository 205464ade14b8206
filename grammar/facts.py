"""Which terms are known not to be null once a condition is known to be true or false."""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.grammar.inline import substitute
from dashpot.model import types as t
from dashpot.model.expr import Binary, Builtin, Element, Expr, Fold, Literal, Local, Member, Method, Unary


def facts(test: Expr, truth: bool) -> frozenset[Expr]:
    """Terms that are not null where `test` was found to be `truth`; spans do not count in terms."""
    match test:
        case Unary(op="!", operand=inner):
            return facts(inner, not truth)
        case Binary(op="&&", left=a, right=b) if truth:
            return facts(a, True) | facts(b, True)
        case Binary(op="||", left=a, right=b) if not truth:
            return facts(a, False) | facts(b, False)
        case Binary(op=op, left=a, right=b) if op in ("==", "!="):
            return frozenset(_equality(a, b, (op == "==") == truth))
        case Binary(op=op, left=a, right=b) if op in ("<", "<=", ">", ">=", "in"):
            return frozenset([*_chain(a), *_chain(b)])
        case Builtin(op="has", args=(inner,)) if truth:
            return frozenset(_chain(inner))
        case Member():
            return frozenset(_chain(test))
        case _:
            return frozenset()


def of_elements(base: Expr, var: str) -> frozenset[Expr]:
    """What is known of each element of a collection, called `var`: the tests of the filters it went through."""
    known: frozenset[Expr] = frozenset()
    while isinstance(base, Fold | Method):
        if isinstance(base, Fold) and base.op == "filter" and base.body is not None:
            of = Local(var, base.type.element) if isinstance(base.type, t.ListOf | t.SetOf) else None
            tested = facts(base.body, True)
            known |= {substitute(f, {base.var: of}, "truth") for f in tested} if of is not None else frozenset()
        elif base.op not in ("sortBy", "take", "drop"):
            break
        base = base.base
    return known


def _equality(a: Expr, b: Expr, equal: bool) -> Iterator[Expr]:
    for one, other in ((a, b), (b, a)):
        null = isinstance(other, Literal) and other.value is None
        if null and not equal:
            yield from _chain(one)
        elif equal and not null and not isinstance(other.type, t.Optional | t.Null):
            yield from _chain(one)
        else:
            yield from list(_chain(one))[1:]


def _chain(term: Expr) -> Iterator[Expr]:
    """The term and all that it is read from: a member that exists is a member of something."""
    yield term
    if isinstance(term, Member | Element):
        yield from _chain(term.base)
