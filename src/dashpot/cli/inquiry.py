"""One file taken through the checker: what was asked of it and what came out, before anything is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from dashpot.checker.scenario import Played
    from dashpot.checker.verdict import Report
    from dashpot.grammar.report import Message
    from dashpot.model.program import Check, Fault, Program, Scenario, Step
    from dashpot.model.span import Span


@frozen
class Checked:
    """A check and its report.

    faults  the budgets that it ran with
    runs    property → id of the run saved for it
    tales   property → the one-sentence story of its violation
    flows   property → its steps as (place, what happens)
    """

    check: Check
    report: Report
    faults: tuple[Fault, ...]
    runs: dict[str, str] = field(factory=dict)
    tales: dict[str, str] = field(factory=dict)
    flows: dict[str, tuple[tuple[Span, str], ...]] = field(factory=dict)


@frozen
class Acted:
    """A scenario and what it did.

    labels  one line for each step of `played.trace`
    source  the text of its file, to quote the lines of the script
    """

    scenario: Scenario
    played: Played
    labels: tuple[str, ...] = ()
    source: str = ""

    @property
    def status(self) -> int:
        """0 it went through, 1 it failed, 3 no world was large enough for it."""
        from dashpot.cli.problem import HOLDS, UNKNOWN, VIOLATED

        failure = self.played.failure
        return HOLDS if failure is None else UNKNOWN if failure.kind == "bound" else VIOLATED

    def text(self, step: Step) -> str:
        """A line of the script as it is written."""
        written = self.source.splitlines()[step.span.line - 1 : step.span.end_line] if step.span.line else []
        first = written[0].strip() if written else step.verb
        return f"{first} …" if len(written) > 1 else first


@frozen
class Inquiry:
    """Everything that was found out about one file.

    wrong   messages, if the text is no spec or cannot be made finite
    sources the texts that messages point into, by file
    dead    actions and handlers that fired in no check (empty unless all checks ran)
    vacuous how that is judged: "" there are none, "found", "waived", "expected", "missing" (none, but expected)
    """

    file: str
    program: Program | None = None
    wrong: tuple[Message, ...] = ()
    checked: tuple[Checked, ...] = ()
    acted: tuple[Acted, ...] = ()
    dead: tuple[str, ...] = ()
    vacuous: str = ""
    sources: dict[str, str] = field(factory=dict)

    @property
    def status(self) -> int:
        """The exit status for this file alone."""
        from dashpot.cli.problem import HOLDS, VIOLATED, WRONG, worst

        statuses = [*(c.report.status for c in self.checked), *(a.status for a in self.acted)]
        if self.vacuous in ("found", "missing"):
            statuses.append(VIOLATED)
        return worst([*statuses, WRONG if self.wrong else HOLDS])
