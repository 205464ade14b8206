"""A report as the verdict table: what was asked, what was explored, one line a property."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dashpot.cli import console
from dashpot.cli.console import grouped, paint, plural

if TYPE_CHECKING:
    from dashpot.checker.verdict import Report, Result, Unknown, Verdict
    from dashpot.cli.inquiry import Checked
    from dashpot.model.program import Check, Fault

WORDS = {"safety": "violated", "stuck": "stuck", "trapped": "trapped", "loop": "loops"}
"""How each kind of violation reads in the table."""

REASONS = {
    "time": "out of time",
    "memory": "out of memory",
    "states": "too many states",
    "interrupted": "interrupted",
    "bound": "bound hit",
}
"""How each limit of a search reads; other reasons speak for themselves."""


def heading(check: Check, faults: tuple[Fault, ...]) -> str:
    """One line: the check, who runs in it, the scope, the faults."""
    parts = [paint(check.name, "bold"), " + ".join(check.run)]
    scope = ", ".join(f"{name} {value_text(value)}" for name, value in check.scope)
    if scope:
        parts.append(scope)
    parts.append(", ".join(budget(f) for f in faults) or "no faults")
    return "   ".join(parts)


def budget(fault: Fault) -> str:
    """`relist Pod for Operator 1`."""
    by = f"for {fault.by}" if fault.by else ""
    return " ".join(part for part in (fault.name, fault.target or "", by, str(fault.limit)) if part)


def value_text(value: int | bool | str | tuple[str, ...]) -> str:
    """A value of a scope as the spec writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def explored(report: Report) -> str:
    """One line: how much of the world was seen."""
    states = f"{grouped(report.states)} distinct states"
    if report.orbits_of is not None:
        states = f"{grouped(report.states)} orbits of {grouped(report.orbits_of)} distinct states"
    parts = [states, f"{grouped(report.transitions)} transitions", f"depth {report.depth}"]
    parts += ["complete" if report.complete else paint("incomplete", "yellow"), f"{report.cpu_s:.1f} s"]
    return "  " + "  ".join(parts)


def table(report: Report, runs: Mapping[str, str]) -> list[str]:
    """The lines of the property table; `runs`: property → id of the saved run."""
    shown = [r for r in report.results if not _silent(r)]
    rows = [["property", "verdict", "steps", "run", ""]]
    rows += [[r.property, _word(r.verdict), steps(r.verdict), runs.get(r.property, "–"), remark(r)] for r in shown]
    lines = console.columns(rows, right=frozenset({2}))
    styled = [paint(lines[0], "dim")] if shown else []
    styled += [paint(line, _style(r)) for line, r in zip(lines[1:], shown, strict=True)]
    quiet = [r.property for r in report.results if _silent(r)]
    if quiet:
        styled.append(paint(f"also looked for, not found: {', '.join(quiet)}", "dim"))
    return ["  " + line for line in styled]


def _silent(result: Result) -> bool:
    """A property that every check looks for, of which nothing was said and nothing was seen."""
    from dashpot.checker.judge import DEFAULTS
    from dashpot.checker.verdict import Holds

    return result.property in DEFAULTS and not result.expected and isinstance(result.verdict, Holds)


def _word(verdict: Verdict) -> str:
    from dashpot.checker.verdict import Holds, Violated

    if isinstance(verdict, Holds):
        return "✓ holds"
    return f"✗ {WORDS.get(verdict.kind, verdict.kind)}" if isinstance(verdict, Violated) else "? unknown"


def steps(verdict: Verdict) -> str:
    """ "9", or "5+4↻" for a lasso: the stem and the cycle."""
    from dashpot.checker.verdict import Unknown

    if isinstance(verdict, Unknown) or verdict.trace is None:
        return "–"
    trace = verdict.trace
    if trace.loop is None:
        return str(getattr(verdict, "steps", len(trace.steps)))
    return f"{trace.loop}+{len(trace.steps) - trace.loop}↻"


def remark(result: Result) -> str:
    """What the check had said of it, and whether it was right; for an unknown, why."""
    from dashpot.checker.verdict import Unknown, Violated

    verdict = result.verdict
    if isinstance(verdict, Unknown):
        return unknown(verdict)
    said = {True: "✓", False: "✗", None: "?"}[result.as_said]
    if result.note:
        return f"{said} {result.note}"
    if result.expected:
        text = f"as expected {said}" if result.as_said else f"expected to {_expectation(result)} {said}"
    elif not result.judged:
        text = "not judged"
    else:
        text = "unexpected ✗" if result.as_said is False else ""
    if isinstance(verdict, Violated) and verdict.others:
        text += f"  (and {plural(verdict.others, 'other object')})"
    return text


def unknown(verdict: Unknown) -> str:
    """Why something is not decided."""
    why = REASONS.get(verdict.reason, "")
    return f"{why}: {verdict.detail}" if why else verdict.detail


def _expectation(result: Result) -> str:
    return "be violated" if result.expected == "violation" else "hold"


def _style(result: Result) -> str:
    if not result.judged:
        return "dim"
    return {True: "", False: "red", None: "yellow"}[result.as_said]


def footnotes(checked: Checked) -> list[str]:
    """What the verdict does not cover: bounds that were hit, lag that was not explored."""
    lines = [f"bound hit:  {bound}" for bound in checked.report.bounds]
    if checked.report.cross_checked:
        lines.append("cross-check:  the same verdicts without symmetry, and as many states")
    if checked.report.absent:
        absent = ", ".join(checked.report.absent)
        lines.append(f"not asked here:  {absent}: nothing that is spoken of occurs in this check")
    if checked.report.never_fired:
        lines.append(f"never fired here:  {', '.join(checked.report.never_fired)}")
    lag = checked.report.lag
    if lag:
        lines.append(f"lag:  up to {lag} undelivered changes a cache; what lags further behind is not explored")
    return ["  " + paint(line, "yellow" if line.startswith("bound") else "dim") for line in lines]
