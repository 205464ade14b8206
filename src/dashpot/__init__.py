"""Verify that control loops converge: write a controller once, check it, run it, explain it.

The command line is `dashpot`; the same two steps from Python:

    program = dashpot.load("database_operator.loop")
    report = dashpot.check(program, "small")
    assert report.status == 0, report.results
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from dashpot.checker.verdict import Report
    from dashpot.model.program import Program

__all__ = ["__version__", "check", "load"]  # pyright: ignore[reportUnsupportedDunderAll]


def load(path: str | PathLike[str]) -> Program:
    """The spec in a `.loop` file and the modules it uses, resolved and typed.

    Raises `dashpot.grammar.report.SpecRejected` with every message when the spec is wrong, OSError when the
    file cannot be read.
    """
    from pathlib import Path

    from dashpot.grammar.load import load as load_spec

    return load_spec(Path(path))


def check(spec: Program | str | PathLike[str], name: str | None = None, **options: Any) -> Report:
    """The answer to one check of a spec: every interleaving within its scope, under its faults.

    spec     a Program, or the path of a `.loop` file
    name     which check; may be left out when the file has one
    options  as `dashpot.checker.explore.Options` has them: max_states, timeout_s, symmetry, …

    Raises ValueError for an unknown name, `SpecError` for a spec that cannot be made finite in this scope.
    """
    from dashpot.checker.explore import Options
    from dashpot.checker.explore import check as explore
    from dashpot.model.program import Program

    program = spec if isinstance(spec, Program) else load(spec)
    mine = [c for c in program.checks if c.module == program.main]
    chosen = [c for c in mine if name is None or c.name == name]
    if len(chosen) != 1:
        has = ", ".join(c.name for c in mine) or "none"
        wanted = "several checks, say which" if chosen else f"no check {name!r}" if name else "no check"
        raise ValueError(f"{program.main} has {wanted} (its checks: {has})")
    return explore(program, chosen[0], Options(**options))


def __getattr__(name: str) -> str:
    # The version comes from the installed metadata; reading it takes longer than all else here, so only on demand.
    if name == "__version__":
        from importlib.metadata import version

        return version("dashpot")
    raise AttributeError(f"module 'dashpot' has no attribute {name!r}")
