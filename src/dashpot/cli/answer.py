"""What `check` found, for programs: JSON with a stable schema (docs/cli.md), JUnit suites, SARIF findings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dashpot.cli.console import plural
from dashpot.cli.verdicts import steps, unknown
from dashpot.model.span import NOWHERE, Span

if TYPE_CHECKING:
    from dashpot.checker.junit import Case, Suite
    from dashpot.checker.sarif import Finding
    from dashpot.checker.verdict import Result
    from dashpot.cli.inquiry import Acted, Checked, Inquiry

FORMAT = 1
"""Version of the JSON: it grows when a key changes its meaning or goes; new keys do not count."""


def to_json(inquiries: Sequence[Inquiry], status: int, seed: int) -> str:
    """The whole answer as one JSON document."""
    from dashpot import __version__

    document = {
        "dashpot": __version__,
        "format": FORMAT,
        "seed": seed,
        "status": status,
        "files": [_file(i) for i in inquiries],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _file(inquiry: Inquiry) -> dict[str, Any]:
    from dashpot.grammar.report import to_json as messages_to_json

    return {
        "file": inquiry.file,
        "status": inquiry.status,
        "messages": json.loads(messages_to_json(inquiry.wrong)),
        "checks": [_check(c) for c in inquiry.checked],
        "scenarios": [scenario_to_json(a) for a in inquiry.acted],
        "vacuous": {"judged": inquiry.vacuous, "never_fired": list(inquiry.dead)},
    }


def _check(checked: Checked) -> dict[str, Any]:
    report = checked.report
    return {
        "check": report.check,
        "status": report.status,
        "states": report.states,
        "transitions": report.transitions,
        "depth": report.depth,
        "complete": report.complete,
        "cpu_s": round(report.cpu_s, 3),
        "symmetry": list(report.symmetry),
        "orbits_of": report.orbits_of,
        "cross_checked": report.cross_checked,
        "lag": report.lag,
        "bounds": list(report.bounds),
        "absent": list(report.absent),
        "never_fired": list(report.never_fired),
        "results": [_result(checked, r) for r in report.results],
    }


def _result(checked: Checked, result: Result) -> dict[str, Any]:
    from dashpot.checker.verdict import Holds, Unknown, Violated

    verdict = result.verdict
    plain: dict[str, Any] = {
        "property": result.property,
        "verdict": {Holds: "holds", Violated: "violated", Unknown: "unknown"}[type(verdict)],
        "expected": result.expected or None,
        "as_said": result.as_said,
        "judged": result.judged,
        "note": result.note,
        "run": checked.runs.get(result.property),
    }
    if isinstance(verdict, Violated):
        loop = verdict.trace.loop
        plain |= {
            "kind": verdict.kind,
            "steps": verdict.steps,
            "cycle": len(verdict.trace.steps) - loop if loop is not None else 0,
            "about": {"object": verdict.about[0], "field": verdict.about[1]},
            "message": checked.tales.get(result.property) or verdict.message,
            "others": verdict.others,
            "at": place(span_of(result)),
        }
    elif isinstance(verdict, Unknown):
        plain |= {"reason": verdict.reason, "detail": verdict.detail}
    return plain


def scenario_to_json(acted: Acted) -> dict[str, Any]:
    """A scenario and what it did, as JSON has it."""
    failure = acted.played.failure
    return {
        "scenario": acted.scenario.name,
        "passed": failure is None,
        "steps": len(acted.played.trace.steps),
        "failure": None
        if failure is None
        else {"kind": failure.kind, "message": failure.message, "at": place(failure.span)},
        "broken": [{"property": name, "message": text} for name, text in acted.played.broken],
    }


def place(span: Span) -> dict[str, Any] | None:
    """A place as JSON has it; None for nowhere."""
    if not span.file:
        return None
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def span_of(result: Result) -> Span:
    """Where in the spec a violation is best shown: the step that broke it, else the property itself."""
    from dashpot.checker.verdict import Violated

    verdict = result.verdict
    if not isinstance(verdict, Violated):
        return NOWHERE
    for part in (verdict.obligation, verdict.goal):
        if part is not None and part.span.file:
            return part.span
    return NOWHERE


def suites(inquiries: Sequence[Inquiry]) -> Iterator[Suite]:
    """One JUnit suite a check, one for the scenarios of a file, one for a spec that is wrong."""
    from dashpot.checker.junit import Case, Suite

    for inquiry in inquiries:
        if inquiry.wrong:
            texts = [f"{m.span}: {m.code} {m.text} {m.fix}".strip() for m in inquiry.wrong]
            yield Suite(inquiry.file, inquiry.file, (Case("spec", "error", "\n".join(texts)),))
        for checked in inquiry.checked:
            cases = tuple(_case(checked, r) for r in checked.report.results)
            yield Suite(f"{inquiry.file}.{checked.check.name}", inquiry.file, cases, checked.report.cpu_s)
        if inquiry.acted:
            acted = tuple(_acted(a) for a in inquiry.acted)
            yield Suite(f"{inquiry.file}.scenarios", inquiry.file, acted)
        if inquiry.vacuous == "found":
            dead = tuple(Case(name, "failed", f"{name} fires in no check of the file") for name in inquiry.dead)
            yield Suite(f"{inquiry.file}.vacuous", inquiry.file, dead)
        elif inquiry.vacuous == "missing":
            case = Case("vacuous", "failed", "a violation was expected, and everything fires in some check")
            yield Suite(f"{inquiry.file}.vacuous", inquiry.file, (case,))


def _case(checked: Checked, result: Result) -> Case:
    from dashpot.checker.junit import Case

    text = sentence(checked, result)
    if not result.judged and result.as_said is not True:
        return Case(result.property, "skipped", text)
    outcome = {True: "passed", False: "failed", None: "error"}[result.as_said]
    return Case(result.property, outcome, text)


def _acted(acted: Acted) -> Case:
    from dashpot.checker.junit import Case

    failure = acted.played.failure
    if failure is None:
        return Case(acted.scenario.name, "passed")
    outcome = "error" if failure.kind == "bound" else "failed"
    return Case(acted.scenario.name, outcome, f"{failure.span}: {failure.message}")


def sentence(checked: Checked, result: Result) -> str:
    """One or two sentences: what was found, and why that is not what the check says."""
    from dashpot.checker.verdict import Holds, Unknown

    verdict = result.verdict
    if isinstance(verdict, Unknown):
        return f"undecided, {unknown(verdict)}"
    if isinstance(verdict, Holds):
        missing = "holds, and the check expects a violation" if result.as_said is False else ""
        return result.note or missing
    told = checked.tales.get(result.property) or verdict.message or f"{result.property} is violated"
    ident = checked.runs.get(result.property)
    again = f"\nTold by: dashpot explain {ident}" if ident else ""
    others = f" ({plural(verdict.others, 'other object')} too)" if verdict.others else ""
    note = f" ({result.note})" if result.note else ""
    return f"{told}{others}{note} [{steps(verdict)} steps]{again}"


def findings(inquiries: Sequence[Inquiry]) -> Iterator[Finding]:
    """What is not as it should be, at the lines of the specs: violations as errors, unknowns as warnings."""
    from dashpot.checker.sarif import Finding
    from dashpot.cli.lint import finding

    for inquiry in inquiries:
        yield from (finding(m) for m in inquiry.wrong)
        for checked in inquiry.checked:
            for result in checked.report.results:
                if result.judged and result.as_said is not True:
                    yield _finding(checked, result)
        for acted in inquiry.acted:
            failure = acted.played.failure
            if failure is not None:
                text = f"scenario '{acted.scenario.name}': {failure.message}"
                yield Finding("scenario", "error", text, failure.span, key=acted.scenario.name)
        for name in inquiry.dead if inquiry.vacuous == "found" else ():
            where = Span(inquiry.file, 0, 0, 0, 0)
            yield Finding("vacuous", "error", f"{name} fires in no check of this file", where, key=name)


def _finding(checked: Checked, result: Result) -> Finding:
    from dashpot.checker.sarif import Finding

    span = span_of(result)
    return Finding(
        rule=result.property,
        level="warning" if result.as_said is None else "error",
        text=f"{result.property} in check {checked.check.name}: {sentence(checked, result)}",
        span=span if span.file else checked.check.span,
        flow=checked.flows.get(result.property, ()),
        key=f"{checked.check.name}/{result.property}",
    )
