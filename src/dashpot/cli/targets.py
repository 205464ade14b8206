"""What a command line asks for: which files, which of their checks and scenarios, with which scope."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from dashpot.cli.files import specs
from dashpot.cli.problem import WRONG, Problem, choose, nearest

if TYPE_CHECKING:
    from dashpot.model.program import Check, Program, Scenario


@frozen
class Wanted:
    """The checks and scenarios of one program that were asked for, in the order of its text."""

    program: Program
    checks: tuple[Check, ...]
    scenarios: tuple[Scenario, ...]


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Files and names out of the words of a command: `a.loop b.loop small` → both files, one name.

    A word is a file if it ends in .loop, has a slash, or is there as a file or folder.
    """
    files = [w for w in words if w.endswith(".loop") or os.sep in w or os.path.exists(w)]
    names = [w for w in words if w not in files]
    if not files:
        here = sorted(f for f in os.listdir() if f.endswith(".loop"))
        hint = f"in this folder: {', '.join(here)}" if here else "`dashpot new web` writes one to start from"
        missing = f"there is no file or folder '{names[0]}'" if names else "name a .loop file or a folder of them"
        close = nearest(names[0], here) if names else ""
        raise Problem(WRONG, missing, f"did you mean '{close}'?" if close else hint)
    return specs(files), names


def mine(program: Program) -> Wanted:
    """All checks and scenarios of the file itself, not of the modules it uses."""
    return Wanted(
        program,
        tuple(c for c in program.checks if c.module == program.main),
        tuple(s for s in program.scenarios if s.module == program.main),
    )


def chosen(programs: list[Program], names: list[str], only_scenarios: bool = False) -> list[Wanted]:
    """What `names` stand for in each program; without names everything. An unknown name is a Problem."""
    everything = [mine(p) for p in programs]
    if only_scenarios:
        everything = [evolve(w, checks=()) for w in everything]
    if not names:
        return everything
    known = {c.name for w in everything for c in w.checks} | {s.name for w in everything for s in w.scenarios}
    what = "scenario" if only_scenarios else "check or scenario"
    for name in names:
        if name not in known:
            raise choose(what, name, sorted(known), ", ".join(p.main for p in programs))
    return [
        Wanted(
            w.program,
            tuple(c for c in w.checks if c.name in names),
            tuple(s for s in w.scenarios if s.name in names),
        )
        for w in everything
    ]


def only_check(program: Program, name: str | None) -> Check:
    """The check of this name, or the only one there is."""
    checks = mine(program).checks
    names = [c.name for c in checks]
    if name is not None:
        if name not in names:
            raise choose("check", name, names, program.main)
        return checks[names.index(name)]
    if len(checks) != 1:
        hint = f"name one of: {', '.join(names)}" if names else "a check says what runs: check small { run … }"
        raise Problem(WRONG, f"{program.main} has {len(checks) or 'no'} checks", hint)
    return checks[0]


def with_scope(program: Program, check: Check, settings: list[str]) -> Check:
    """The check with `--set NAME=VALUE` in place of what its scope says."""
    scope = dict(check.scope)
    for setting in settings:
        name, sign, text = setting.partition("=")
        name = name.strip()
        if not sign or not name or not text.strip():
            raise Problem(WRONG, f"'{setting}' sets nothing", "write --set NAME=VALUE, as in --set MAX=3")
        names = _names(program)
        if name not in names:
            raise choose("constant or kind", name, sorted(names))
        scope[name] = _value(program, name, text.strip())
    return evolve(check, scope=tuple(scope.items()))


def constants_of(program: Program, settings: list[str]) -> dict[str, int | bool | str]:
    """What `--set CONST=VALUE` says of constants, where there is no check."""
    found: dict[str, int | bool | str] = {}
    for setting in settings:
        name, sign, text = setting.partition("=")
        name = name.strip()
        if not sign or not name or not text.strip():
            raise Problem(WRONG, f"'{setting}' sets nothing", "write --set NAME=VALUE, as in --set MAX=3")
        names = [c.name for c in program.constants]
        if name not in names:
            raise choose("constant", name, sorted(names))
        value = _value(program, name, text.strip())
        if not isinstance(value, tuple):
            found[name] = value
    return found


def _names(program: Program) -> list[str]:
    constants = [c.name for c in program.constants]
    return [*constants, *(r.kind for r in program.resources), "lag", "opaque"]


def _value(program: Program, name: str, text: str) -> int | bool | str | tuple[str, ...]:
    from dashpot.model.types import Bool, Duration, Enum, Int

    declared = next((c for c in program.constants if c.name == name), None)
    kind = declared.type if declared is not None else Int()
    if isinstance(kind, Bool):
        if text in ("true", "false"):
            return text == "true"
        raise Problem(WRONG, f"{name} is true or false, not '{text}'", f"write --set {name}=true")
    if isinstance(kind, Duration):
        from argparse import ArgumentTypeError

        from dashpot.cli.parser import seconds

        try:
            return round(seconds(text) * 1000)
        except ArgumentTypeError as error:
            raise Problem(WRONG, f"{name} is a duration: {error}") from None
    if isinstance(kind, Int):
        digits = text.removeprefix("-") if declared is not None else text
        if digits.isascii() and digits.isdigit():
            return int(text)
        raise Problem(WRONG, f"{name} is a number, not '{text}'", f"write --set {name}=2")
    if isinstance(kind, Enum) and text not in kind.members:
        raise choose(f"member of {kind.name}", text, list(kind.members))
    return text
