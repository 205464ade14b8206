"""What a search answers: Holds, Violated or Unknown, never one folded into another."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from dashpot.model.system import Goal, Obligation

KINDS = ("safety", "stuck", "trapped", "loop")
"""How a property can be violated, most severe first (semantics.md, "Fairness and verdicts")."""


@frozen
class Trace:
    """A path through the world from its start.

    states  unpacked cell values, one tuple a state; len(states) == len(steps) + 1
    steps   indices into `System.updates`
    loop    for a lasso: index of the state that the last step leads back to (states[-1] == states[loop]); else None
    """

    states: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    loop: int | None = None


@frozen
class Holds:
    """Explored completely and never broken (or, for `sometimes`, seen: `trace` is the witness)."""

    trace: Trace | None = None


@frozen
class Violated:
    """Broken, with the evidence.

    kind         safety | stuck | trapped | loop
    steps        length as `within` counts it (semantics.md, ruling 2)
    goal         the state property that broke, or None
    obligation   the step obligation that the last step broke, or None
    about        (object, field) as people call them
    message      one sentence: what is wrong
    others       number of other instances or objects that break the same property
    """

    kind: str
    steps: int
    trace: Trace
    goal: Goal | None = None
    obligation: Obligation | None = None
    about: tuple[str, str] = ("", "")
    message: str = ""
    others: int = 0


@frozen
class Unknown:
    """Not decided. reason: bound | states | time | memory | interrupted; detail says which and what was covered."""

    reason: str
    detail: str


Verdict: TypeAlias = Holds | Violated | Unknown


@frozen
class Result:
    """The verdict on one property, and what the check had said of it.

    expected   "" (nothing said) | "holds" | "violation"
    as_said    True: as expected, or nothing was said and it holds; False: not; None: undecided
    judged     whether this line counts for the exit status (ruling 10: beside `expect violation of`, default
               properties are reported, not judged)
    note       why it is not as said ("expected within 7, found after 9"; "expected as stuck, is loop")
    """

    property: str
    verdict: Verdict
    expected: str = ""
    as_said: bool | None = True
    judged: bool = True
    note: str = ""


@frozen
class Report:
    """The answer to one check.

    states        distinct states reached (orbits when symmetry was on), transitions: edges between them
    cross_checked the search without symmetry came to the same verdicts and as many states
    orbits_of     how many states those orbits stand for; None without symmetry
    depth         breadth-first levels
    complete      every state was explored
    symmetry      names of the groups that were used
    never_fired   names of actions and handlers that fired in no explored step (judged per file, ruling 10)
    absent        properties of the file that were not asked: nothing that they speak of occurs in this check
    bounds        what overflowed ("Pod slots: 12 steps"), empty if nothing did
    lag           up to how many undelivered changes a cache was explored; 0 where nothing can lag
    """

    check: str
    states: int
    transitions: int
    depth: int
    complete: bool
    cpu_s: float
    results: tuple[Result, ...]
    symmetry: tuple[str, ...] = ()
    never_fired: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ()
    lag: int = 0
    orbits_of: int | None = None
    cross_checked: bool = False

    @property
    def status(self) -> int:
        """0 all judged lines as said, 1 one is not, 3 one is undecided (and none is wrong)."""
        said = [r.as_said for r in self.results if r.judged]
        return 1 if False in said else 3 if None in said else 0
