"""Walking over declarations: every term, node and call inside a piece of a Program."""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.model import expr as e
from dashpot.model.automaton import Automaton, Call
from dashpot.model.program import Check, Program, Property
from dashpot.model.span import Span


def parts(thing: object) -> Iterator[object]:
    """`thing` and everything below it, parents first; spans are left out."""
    stack = [thing]
    while stack:
        here = stack.pop()
        if here is None or isinstance(here, str | int | Span):
            continue
        if isinstance(here, tuple):
            stack.extend(reversed(here))
            continue
        yield here
        for name in _fields(type(here)):
            stack.append(getattr(here, name))


_FIELDS: dict[str, tuple[str, ...]] = {}


def _fields(of: type) -> tuple[str, ...]:
    """Names of the fields of a declaration, last first, places left out."""
    name = f"{of.__module__}.{of.__qualname__}"
    if name not in _FIELDS:
        attributes = getattr(of, "__attrs_attrs__", ())
        _FIELDS[name] = tuple(a.name for a in reversed(attributes) if a.name != "span")
    return _FIELDS[name]


def properties_of(program: Program, check: Check) -> list[Property]:
    """What a check can be asked about: the properties of its file, and those of other files that it names.

    A name of its own file means that property, whatever other files call so.
    """
    own = {p.name for p in program.properties if p.module == check.module}
    lent = {name for expect in check.expects for name in expect.names} - own
    return [p for p in program.properties if p.module == check.module or p.name in lent]


def calls(thing: object) -> Iterator[Call]:
    """Every API call inside."""
    return (p for p in parts(thing) if isinstance(p, Call))


def automata(thing: object) -> Iterator[Automaton]:
    """Every body inside."""
    return (p for p in parts(thing) if isinstance(p, Automaton))


def kinds_named(thing: object) -> set[str]:
    """Kinds that a piece of a Program speaks of."""
    from dashpot.model import types as t
    from dashpot.model.program import GivenObject, Index, Wake

    out: set[str] = set()
    for p in parts(thing):
        match p:
            case e.Kind(kind=kind) | e.Cached(kind=kind) | e.Given(kind=kind) | t.Object(kind=kind):
                out.add(kind)
            case Call(kind=kind) | Wake(kind=kind) | Index(kind=kind) | GivenObject(kind=kind):
                out.add(kind)
            case _:
                pass
    return out


def locals_in(thing: object) -> set[str]:
    """Names of the locals that terms inside read from outside: what a fold, a filter or a `let` binds is its own."""
    match thing:
        case None | str() | int() | Span():
            return set()
        case tuple():
            return set().union(*map(locals_in, thing))
        case e.Local(name=name):
            return {name}
        case e.Fold(base=base, var=var, body=body):
            return locals_in(base) | (locals_in(body) - {var})
        case e.Cached(name=name_term, var=bound, where=where):
            return locals_in(name_term) | (locals_in(where) - {bound or ""})
        case e.Let(name=let, value=value, body=inner):
            return locals_in(value) | (locals_in(inner) - {let})
        case Call(var=bound, where=where):
            rest = (thing.target, thing.fields, thing.ops, thing.name, thing.to)
            return locals_in(rest) | (locals_in(where) - {bound or ""})
        case _:
            return set().union(*[locals_in(getattr(thing, f)) for f in _fields(type(thing))])
