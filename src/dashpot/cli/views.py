"""Expressions that a command line brings along (`--eval`, `--view`), read in the words of a spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dashpot.cli.files import read_spec
from dashpot.cli.problem import WRONG, Problem

if TYPE_CHECKING:
    from dashpot.model.expr import Expr
    from dashpot.model.program import Program


@frozen
class Asked:
    """An expression over the truth of a world, and the text that a person wrote for it."""

    text: str
    expr: Expr


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


NAME = "asked_on_the_command_line"


def _element(formula: object) -> Expr | None:
    from dashpot.model.expr import Binary, ListLiteral, Method
    from dashpot.model.program import State

    match formula:
        case State(body=Binary(left=Method(base=ListLiteral(items=(single,))))):
            return single
    return None
