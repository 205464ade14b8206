"""A program in which extern functions are what their `abstract` terms say, as the model has them."""

from __future__ import annotations

from typing import Any, TypeVar

from attrs import evolve, fields, has

from dashpot.model import types as t
from dashpot.model.automaton import Call
from dashpot.model.expr import Assignment, Expr, Extern, Local, Memory
from dashpot.model.kernel.walk import parts
from dashpot.model.program import Program
from dashpot.model.span import Span
from dashpot.runtime.controller import wide

T = TypeVar("T")

PLAIN = ("span", "type", "file", "module", "name")
"""Attributes in which no term stands."""


def abstracted(program: Program) -> tuple[Program, list[str]]:
    """The program without extern functions, and their names."""
    bodies = (program.controllers, program.processes, program.environments, program.admissions, program.properties)
    names = sorted({part.name for part in parts(bodies) if isinstance(part, Extern)})
    if not names:
        return program, []
    made = evolve(
        program,
        controllers=_plain(program.controllers),
        processes=_plain(program.processes),
        environments=_plain(program.environments),
        admissions=_plain(program.admissions),
        properties=_plain(program.properties),
    )
    return made, names


def _opaque(one: Assignment) -> bool:
    """Whether a function makes an opaque value of which its term says nothing: it would only be in the way of fields
    that lie in the same place."""
    value = one.value
    return isinstance(value, Extern) and isinstance(wide.bare(value.type), t.Opaque) and _says_nothing(value.abstract)


def _says_nothing(term: Expr) -> bool:
    """Whether a term is the same whatever it is given."""
    return not any(isinstance(part, Local | Memory) for part in parts(term))


def _plain(thing: T) -> T:
    found: Any = thing
    if isinstance(thing, Extern):
        return _plain(thing.abstract)  # type: ignore[return-value]
    if isinstance(thing, tuple):
        rows = [_plain(row) for row in thing]
        found = tuple(rows) if any(a is not b for a, b in zip(rows, thing, strict=True)) else thing
    elif isinstance(thing, Call) and any(map(_opaque, thing.fields)):
        found = _plain(evolve(thing, fields=tuple(one for one in thing.fields if not _opaque(one))))
    elif has(type(thing)) and not isinstance(thing, Span):
        changes = {}
        for one in fields(type(thing)):  # type: ignore[arg-type]
            if one.name not in PLAIN and one.init:
                old = getattr(thing, one.name)
                new = _plain(old)
                if new is not old:
                    changes[one.alias] = new
        found = evolve(thing, **changes) if changes else thing  # type: ignore[misc]
    return found  # type: ignore[no-any-return]
