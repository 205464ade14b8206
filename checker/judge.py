"""Holds the verdicts of a check against what the check said would come out."""

from __future__ import annotations

from attrs import evolve, frozen

from dashpot.checker.verdict import Holds, Report, Result, Unknown, Violated
from dashpot.model.program import Check, Expect, Program

DEFAULTS = ("hot_loop", "terminates", "lost_update", "wrong_uid", "unbounded", "panic", "vacuous")
"""Properties that every check looks at without being asked."""

PER_FILE = ("vacuous",)
"""Defaults that no single check can judge (semantics.md, ruling 10)."""


@frozen
class Questions:
    """What a check wants to know.

    names      properties to decide
    named      those among them that the report has a line for in any case
    needed     those among them that must be decided before a long search may stop early
    expected   property → the line of the check that speaks of it
    waived     default property → fields for which it is switched off, (kind, path); ("", ""): everywhere
    lenient    default properties that nobody spoke of are reported, not judged
    """

    names: frozenset[str]
    named: frozenset[str]
    needed: frozenset[str]
    expected: dict[str, Expect]
    waived: dict[str, frozenset[tuple[str, str]]]
    lenient: bool


def questions(program: Program, check: Check, defaults_only: bool = False) -> Questions:
    """Read the expectations and waivers of a check.

    A check that expects nothing holds all properties of its file to account; one that does is about those it names.
    """
    expected = {name: expect for expect in check.expects for name in expect.names if name not in PER_FILE}
    if defaults_only:
        expected = {name: expect for name, expect in expected.items() if name in DEFAULTS}
    own = {p.name for p in program.properties if p.module == program.main}
    user = set() if defaults_only else (set(expected) if check.expects else own)
    waived: dict[str, frozenset[tuple[str, str]]] = {}
    for waive in check.waives:
        where = (waive.kind or "", ".".join(waive.path))
        waived[waive.name] = waived.get(waive.name, frozenset()) | {where}
    lenient = not defaults_only and any(expect.violation for expect in check.expects)
    names = frozenset(user | set(DEFAULTS))
    needed = frozenset(expected) if lenient else names
    return Questions(names, frozenset(user | set(expected)), needed, expected, waived, lenient)


def judged(report: Report, wanted: Questions) -> Report:
    """The report with every line held against its expectation.

    A default property that holds and was not spoken of has no line unless it is judged: silence is what it should be.
    What was expected has a line in any case: an expectation that nothing answers is undecided.
    """
    lines = [line for line in (_judge(result, wanted) for result in report.results) if not _idle(line)]
    seen = {line.property for line in lines}
    lines += [_judge(Result(name, _missing(name, wanted)), wanted) for name in wanted.expected if name not in seen]
    return evolve(report, results=tuple(lines))


def _missing(name: str, wanted: Questions) -> Unknown:
    """Why there is no answer to what was expected."""
    if name in wanted.waived:
        return Unknown("waived", "the check waives it, so it was not looked for")
    return Unknown("absent", "nothing that it speaks of occurs in this check")


def _idle(line: Result) -> bool:
    return not line.judged and isinstance(line.verdict, Unknown) and line.verdict.reason == "decided"


def _judge(result: Result, wanted: Questions) -> Result:
    expect = wanted.expected.get(result.property)
    verdict = result.verdict
    if expect is not None and expect.violation:
        as_said, note = _as_expected(verdict, expect)
        return evolve(result, expected="violation", as_said=as_said, note=note)
    as_said = True if isinstance(verdict, Holds) else False if isinstance(verdict, Violated) else None
    if expect is not None:
        return evolve(result, expected="holds", as_said=as_said)
    lenient = wanted.lenient and result.property in DEFAULTS
    return evolve(result, expected="", as_said=as_said, judged=not lenient)


def _as_expected(verdict: object, expect: Expect) -> tuple[bool | None, str]:
    """Whether a verdict is the violation that was expected, and if not, why not."""
    if isinstance(verdict, Holds):
        return False, "a violation was expected, and it holds"
    if not isinstance(verdict, Violated):
        return None, ""
    if expect.kind is not None and verdict.kind != expect.kind:
        return False, f"expected as {expect.kind}, is {verdict.kind}"
    if expect.within is not None and verdict.steps > expect.within:
        return False, f"expected within {expect.within}, found after {verdict.steps}"
    return True, ""
