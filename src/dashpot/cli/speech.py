"""Messages of the grammar and faults of the kernel, said on the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.files import read_spec
from dashpot.cli.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dashpot.grammar.report import Message
    from dashpot.model.program import Check, Program
    from dashpot.model.system import System


def tell(problem: Problem) -> None:
    """Says what went wrong outside a spec."""
    console.err(f"{console.paint('dashpot:', 'red', sys.stderr)} {problem.text}")
    if problem.hint:
        console.err(f"  hint: {problem.hint}")


def load_spec(path: str) -> Program:
    """The Program of a file. Raises Problem when it cannot be read, SpecRejected when it is wrong."""
    from dashpot.grammar.load import load, load_text

    text = read_spec(path)  # says in plain words why a file is no text at all
    # A pipe (`dashpot check <(…)`) can be read only once.
    return load(path) if os.path.isfile(path) else load_text(text, path, Path(path).parent)


def build_world(program: Program, check: Check) -> System:
    """The world of a check. Raises SpecRejected, with a place and the texts, when there can be none."""
    from dashpot.grammar.report import SpecRejected, from_fault
    from dashpot.model.fault import SpecError
    from dashpot.model.kernel.build import build

    try:
        return build(program, check)
    except SpecError as fault:
        raise SpecRejected([from_fault(fault, check.span)], dict(program.sources)) from None


def sources_of(messages: Iterable[Message], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The texts that messages point into: those that are known, of the library, or in files that can be read."""
    from dashpot.grammar.load import library_texts

    texts = {**library_texts(), **(known or {})}
    for message in messages:
        for span in (message.span, *(span for span, _ in message.notes)):
            if span.file and span.file not in texts:
                try:
                    texts[span.file] = read_spec(span.file)
                except Problem:
                    continue
    return texts


def say(messages: Iterable[Message], sources: Mapping[str, str] | None = None, to_stdout: bool = False) -> None:
    """Prints messages in Elm's shape, on the standard error unless they are what was asked for."""
    from dashpot.grammar.report import render

    listed = list(messages)
    stream = sys.stdout if to_stdout else sys.stderr
    text = render(listed, sources_of(listed, sources), color=console.coloured(stream))
    (console.out if to_stdout else console.err)(text, end="")
