"""Expressions that a command line brings along (`--eval`, `--view`), read in the words of a spec.

An expression becomes properties of the program, one for each value that it may have; the kernel makes a node
of each as of any other property, and the value of the expression is found by asking which of them holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from dashpot.cli.files import read_spec
from dashpot.cli.problem import WRONG, Problem

if TYPE_CHECKING:
    from dashpot.model.core import Node
    from dashpot.model.expr import Expr
    from dashpot.model.program import Check, Program, Property
    from dashpot.model.system import System

NAME = "asked_on_the_command_line"

LEAST, MOST = -64, 256
"""Numbers that a value is compared with; what lies outside is shown as undefined."""


@frozen
class Asked:
    """An expression over the truth of a world, and the text that a person wrote for it."""

    text: str
    expr: Expr


@frozen
class Answer:
    """How the value of an expression is read off a state: the first case whose node is true names it.

    cases   (value, node); none of them: undefined
    number, boolean   what the values are
    """

    text: str
    cases: tuple[tuple[str, Node], ...]
    number: bool
    boolean: bool


def read(path: str, texts: list[str]) -> tuple[Program, tuple[Asked, ...]]:
    """The Program of a file, and the expressions, typed as in one of its properties."""
    from dashpot.cli.speech import load_spec

    program = load_spec(path)
    return program, tuple(_view(path, text) for text in texts)


def _view(path: str, text: str) -> Asked:
    """Reads the expression as the only element of a list in a property at the end of the file."""
    from dashpot.grammar.load import load_text
    from dashpot.grammar.report import SpecRejected

    spec = read_spec(path).rstrip() + "\n"
    line = spec.count("\n") + 1
    head = f"property {NAME} = always ["
    asked = f"{spec}{head}{text}].size() == 1\n"
    try:
        program = load_text(asked, path, Path(path).parent)
    except SpecRejected as wrong:
        mine = [m for m in wrong.messages if m.span.line >= line] or list(wrong.messages)
        place = f" (column {mine[0].span.column - len(head)})" if mine[0].span.column > len(head) else ""
        raise Problem(WRONG, f"'{text}'{place}: {mine[0].text}", mine[0].fix) from None
    found = _element(next(p.formula for p in program.properties if p.name == NAME))
    if found is None:
        raise Problem(WRONG, f"'{text}' is no single expression")
    return Asked(text, found)


def _element(formula: object) -> Expr | None:
    from dashpot.model.expr import Binary, ListLiteral, Method
    from dashpot.model.program import State

    match formula:
        case State(body=Binary(left=Method(base=ListLiteral(items=(single,))))):
            return single
    return None


def observed(program: Program, check: Check, asked: tuple[Asked, ...]) -> tuple[System, tuple[Answer, ...]]:
    """The world of a check, and how the values of the expressions are read off its states."""
    from dashpot.cli.speech import build_world
    from dashpot.model.types import Bool, Int

    cases = [_cases(one) for one in asked]
    properties = [
        _property(program, f"{NAME} {number}.{place}", test)
        for number, found in enumerate(cases)
        for place, (_, test) in enumerate(found)
    ]
    system = build_world(evolve(program, properties=(*program.properties, *properties)), check)
    nodes = {g.property: g.body for g in system.goals if g.property.startswith(NAME)}
    answers = []
    for number, (one, found) in enumerate(zip(asked, cases, strict=True)):
        kept = [(text, nodes.get(f"{NAME} {number}.{place}")) for place, (text, _) in enumerate(found)]
        if any(node is None for _, node in kept):
            raise Problem(WRONG, f"'{one.text}' speaks of a kind that does not occur in check {check.name}")
        true = [(text, node) for text, node in kept if node is not None and node is not system.terms.false]
        answers.append(Answer(one.text, tuple(true), isinstance(one.expr.type, Int), isinstance(one.expr.type, Bool)))
    goals = tuple(g for g in system.goals if not g.property.startswith(NAME))
    terms = tuple(node for answer in answers for _, node in answer.cases)
    kept_terms = tuple((f"{NAME} {i}", node) for i, node in enumerate(terms))
    return evolve(system, goals=goals, observed=(*system.observed, *kept_terms)), tuple(answers)


def _property(program: Program, name: str, test: Expr) -> Property:
    from dashpot.model.program import Property, State

    return Property(name, None, State("always", test), program.main)


def _cases(asked: Asked) -> list[tuple[str, Expr]]:
    """(value, test) for every value that the expression may have. A Problem for types without few values."""
    from dashpot.model.expr import NULL, Literal
    from dashpot.model.types import Bool, Enum, Int, Optional

    kind = asked.expr.type
    null: list[tuple[str, Expr]] = []
    if isinstance(kind, Optional):
        null, kind = [("null", _equal(asked.expr, NULL))], kind.inner
    match kind:
        case Bool():
            return [*null, ("true", asked.expr), ("false", _equal(asked.expr, Literal(False, kind)))]
        case Enum(members=members):
            return [*null, *((m, _equal(asked.expr, Literal(m, kind))) for m in members)]
        case Int():
            return [*null, *((str(n), _equal(asked.expr, Literal(n, kind))) for n in range(LEAST, MOST + 1))]
    raise Problem(
        WRONG,
        f"'{asked.text}' is no truth value, number or member of an enum",
        "ask for one of its fields, its .size(), or whether it equals something",
    )


def _equal(left: Expr, right: Expr) -> Expr:
    from dashpot.model.expr import Binary
    from dashpot.model.types import Bool

    return Binary("==", left, right, Bool())
