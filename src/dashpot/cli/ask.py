"""Takes files through grammar, kernel, search and story; what comes out is a value, and nothing is printed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import evolve, frozen

from dashpot.cli.inquiry import Acted, Checked, Inquiry
from dashpot.cli.problem import OUTSIDE, Problem
from dashpot.cli.progress import Ticker
from dashpot.cli.speech import load_spec
from dashpot.model.program import Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashpot.checker.explore import Options
    from dashpot.checker.verdict import Report, Result, Violated
    from dashpot.cli.targets import Wanted
    from dashpot.grammar.report import Message
    from dashpot.model.program import Fault, Program, Scenario
    from dashpot.model.span import Span
    from dashpot.model.system import Label, System


class Listener(Protocol):
    """Hears of each result as soon as it is there."""

    def checked(self, checked: Checked) -> None:
        """One check is decided."""

    def acted(self, acted: Acted) -> None:
        """One scenario is played."""

    def dead(self, names: tuple[str, ...], vacuous: str) -> None:
        """These fired in no check of the file; `vacuous` as in `Inquiry`."""


def load_all(files: list[str]) -> list[Inquiry]:
    """Each file with its Program, or with the messages that say why it is none."""
    from dashpot.grammar.report import SpecRejected

    inquiries = []
    for file in files:
        try:
            program = load_spec(file)
            inquiries.append(Inquiry(file, program, sources=dict(program.sources)))
        except SpecRejected as wrong:
            inquiries.append(Inquiry(file, wrong=wrong.messages, sources=wrong.sources))
    return inquiries


class Asker:
    """Runs checks and scenarios under the options of the command line.

    interrupted  Ctrl-C was pressed: what comes after is not run
    trouble      why a run could not be kept; the search is not thrown away for that
    """

    def __init__(self, args: argparse.Namespace, whole: bool) -> None:
        self._args = args
        self._whole = whole
        self.interrupted = False
        self.trouble: Problem | None = None

    def ask(self, inquiry: Inquiry, wanted: Wanted, listener: Listener) -> Inquiry:
        """The file with all its results; what cannot be made finite gets a message, and the rest goes on."""
        from dashpot.grammar.report import from_fault
        from dashpot.model.fault import SpecError

        program = wanted.program
        checked: list[Checked] = []
        acted: list[Acted] = []
        wrong: dict[Message, None] = {}
        seen = _Fired()
        for question in self._questions(wanted):
            try:
                if isinstance(question, Check):
                    checked.append(self._check(inquiry.file, program, question, seen))
                    listener.checked(checked[-1])
                else:
                    acted.append(_play(program, question))
                    listener.acted(acted[-1])
            except SpecError as fault:
                wrong[from_fault(fault, question.span)] = None
            except KeyboardInterrupt:  # outside of a search, which keeps what it has found
                self.interrupted = True
            if self.interrupted:
                break
        vacuous = ""
        if self._judges_vacuity() and not self.interrupted and not wrong:
            vacuous = vacuity(seen.dead, wanted.checks)
            listener.dead(seen.dead, vacuous)
        return evolve(
            inquiry,
            wrong=tuple(wrong),
            checked=tuple(checked),
            acted=tuple(acted),
            dead=seen.dead if vacuous else (),
            vacuous=vacuous,
        )

    def _questions(self, wanted: Wanted) -> list[Check | Scenario]:
        without = self._args.defaults_only or self._args.no_scenarios
        return [*wanted.checks, *(() if without else wanted.scenarios)]

    def _judges_vacuity(self) -> bool:
        return self._whole and not self._args.set

    def _check(self, file: str, program: Program, check: Check, seen: _Fired) -> Checked:
        from dashpot.checker.explore import examine
        from dashpot.cli.targets import with_scope

        check = with_scope(program, check, self._args.set)
        ticker = Ticker(f"{file} {check.name}", time.monotonic, self._args.quiet).start()
        try:
            found = examine(program, check, self._options(ticker))
        finally:
            ticker.done()
        system = found.space.backend.system
        seen.note(file, system, found.report)
        self.interrupted = found.space.stopped == "interrupted"
        result = Checked(check, found.report, budgets(program, check))
        for line in found.report.results:
            self._keep(file, program, system, result, line)
        return result

    def _options(self, ticker: Ticker) -> Options:
        from dashpot.checker.explore import Options

        args = self._args
        return Options(
            engine=args.engine,
            symmetry=not args.no_symmetry,
            cross_check=args.cross_check,
            defaults_only=args.defaults_only,
            max_states=args.max_states,
            max_memory_bytes=args.max_memory,
            timeout_s=args.timeout,
            progress=ticker,
        )

    def _keep(self, file: str, program: Program, system: System, checked: Checked, result: Result) -> None:
        """Saves the run of a violation and adds its id, its sentence and its steps to the results."""
        from dashpot.checker.verdict import Violated

        if not isinstance(result.verdict, Violated):
            return
        kept = keep(file, program, system, result.verdict, result.property, checked.check.name, self._args)
        self.trouble = self.trouble or kept.trouble
        if kept.id:
            checked.runs[result.property] = kept.id
        checked.tales[result.property] = kept.sentence
        checked.flows[result.property] = kept.flow


@frozen
class Kept:
    """A saved run: its short id, its story in one sentence, its steps as (place, what happens).

    trouble  why it could not be saved; then there is no id
    """

    id: str
    sentence: str
    flow: tuple[tuple[Span, str], ...]
    trouble: Problem | None = None


def keep(
    file: str, program: Program, system: System, violated: Violated, property: str, check: str, args: argparse.Namespace
) -> Kept:
    """Tells the story of a violation and saves it as a run, with the seed and the scope of the command line."""
    from dashpot.checker.runs import RunError, run_of, save
    from dashpot.checker.story import story

    sources = dict(program.sources)
    told = story(system, violated, sources, property=property)
    text = sources.get(file) or Path(file).read_text(encoding="utf-8")
    found = run_of(system, violated, told, spec=file, text=text, check=check, seed=args.seed, settings=args.set)
    ident, trouble = "", None
    try:
        ident = save(found)
    except RunError as error:
        trouble = Problem(OUTSIDE, str(error), "the answer stands, but `dashpot explain` cannot tell it")
    flow = tuple((s.span, label) for s, label in zip(told.steps, found.labels, strict=True))
    return Kept(ident, told.sentence, flow, trouble)


def budgets(program: Program, check: Check) -> tuple[Fault, ...]:
    """The faults of a check: its own, else those of the environments that run in it."""
    if check.faults is not None:
        return check.faults
    return tuple(f for e in program.environments if e.name in check.run for f in e.faults)


class _Fired:
    """Which actions and handlers of a file can fire in some check (semantics.md, ruling 10)."""

    def __init__(self) -> None:
        self._alive: set[str] = set()
        self._known: dict[str, None] = {}

    def note(self, file: str, system: System, report: Report) -> None:
        """Adds what one check has seen. A search that stopped early proves of nothing that it never fires."""
        for what, span, _ in system.vacuity:
            if span.file == file:
                self._known[what] = None
                if what not in report.never_fired or not report.complete:
                    self._alive.add(what)

    @property
    def dead(self) -> tuple[str, ...]:
        """What fired in no check."""
        return tuple(what for what in self._known if what not in self._alive)


def vacuity(dead: tuple[str, ...], checks: Sequence[Check]) -> str:
    """How `vacuous` is judged for a file: "" nothing found, "found", "waived", "expected", "missing" (but expected)."""
    if any("vacuous" in e.names and e.violation for c in checks for e in c.expects):
        return "expected" if dead else "missing"
    if any(w.name == "vacuous" for c in checks for w in c.waives):
        return "waived" if dead else ""
    return "found" if dead else ""


def play_all(inquiry: Inquiry, wanted: Wanted) -> Inquiry:
    """The scenarios of a file, played."""
    from dashpot.grammar.report import from_fault
    from dashpot.model.fault import SpecError

    acted: list[Acted] = []
    wrong: dict[Message, None] = {}
    for scenario in wanted.scenarios:
        try:
            acted.append(_play(wanted.program, scenario))
        except SpecError as fault:
            wrong[from_fault(fault, scenario.span)] = None
    return evolve(inquiry, acted=tuple(acted), wrong=tuple(wrong))


def _play(program: Program, scenario: Scenario) -> Acted:
    from dashpot.checker.scenario import perform

    played = perform(program, scenario)
    labels = tuple(_label(played.system.updates[i].label) for i in played.trace.steps)
    return Acted(scenario, played, labels, dict(program.sources).get(scenario.span.file, ""))


def _label(label: Label) -> str:
    """A step of a scenario on one line; what the script does itself needs no actor."""
    from dashpot.checker.script import SCRIPT

    actor = "" if label.actor == SCRIPT else label.actor
    action = "" if label.action in ("reconcile", "gone") or not actor else label.action
    told = " ".join(part for part in (actor, action, label.verb, label.object) if part)
    return f"{told}  ({', '.join(label.detail)})" if label.detail else told
