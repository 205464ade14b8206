"""A failing run as a story: who did what and when, which line of a spec decided, and why that matters."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from dashpot.model.program import Program
from dashpot.model.span import Span
from dashpot.runtime.sim.claims import Broken, family
from dashpot.runtime.sim.laws import LINES
from dashpot.runtime.sim.world import Run

SHOWN = 14
"""Writes of the plane that are told; those before are counted."""
MATTERS = {
    "safety": "The spec promises it at every moment, and users build on that.",
    "stuck": "Nothing changes any more: no event and no timer is left that would ever repair it.",
    "loop": "Writes go on and never arrive: load without an end, and not what was asked for.",
}


@frozen
class Line:
    """One line of a story. `at`: seconds of the run."""

    at: float
    who: str
    what: str
    place: str = ""


@frozen
class Story:
    """What is told of one failure. `claimed`, `decided`: the text of those lines."""

    headline: str
    broken: Broken
    claimed: str
    decided: str
    lines: tuple[Line, ...]
    skipped: int
    why: str
    writes: int
    faults: int


def tell(run: Run, broken: Broken, programs: Mapping[str, Program]) -> Story:
    """The story of a failure of a run (best a small one)."""
    texts = {file: text for program in programs.values() for file, text in program.sources}
    lines = [Line(one.at, "fault", one.text) for one in run.fired]
    lines += [Line(run.begun + item.at, "client", run.told[item.number]) for item in run.plan.items
              if item.number in run.told]  # fmt: skip
    mine = _about(run, broken)
    shown = mine[-SHOWN:]
    lines += shown
    until = broken.at if broken.kind == "safety" else max((line.at for line in lines), default=run.begun)
    lines = sorted((line for line in lines if line.at <= until), key=lambda line: line.at)
    return Story(
        f"{broken.text} ({broken.kind})",
        broken,
        LINES.get(broken.property) or line_of(texts, broken.property_at),
        line_of(texts, broken.line),
        tuple(lines),
        len(mine) - len(shown),
        comment_above(texts, broken.property_at) or MATTERS[broken.kind],
        sum(1 for item in run.plan.items if not item.is_fault),
        sum(1 for item in run.plan.items if item.is_fault),
    )


def _about(run: Run, broken: Broken) -> list[Line]:
    """What the plane did to the object and to what it owns, and what it tried in vain."""
    uids = _family(run, broken)
    found = [
        Line(one.at, one.deed.actor, f"{_verb(one.deed.verb, one.verb)} {one.kind} {one.key}", str(one.deed.span))
        for one in run.commits
        if one.deed.span.file and uids & family(one.object)
    ]
    found += [
        Line(at, deed.actor, f"{deed.verb} {deed.kind} {deed.name}: {how}".replace(" :", ":"), str(deed.span))
        for at, deed, how in run.deeds
        if how and broken.deed is not None and deed.key == broken.deed.key and deed.actor == broken.deed.actor
    ]
    return sorted((line for line in found if line.at <= broken.at), key=lambda line: line.at)


def _verb(said: str, did: str) -> str:
    return said if said in ("create", "delete", "evict", "bind") else did


def _family(run: Run, broken: Broken) -> set[str]:
    key = broken.about.rpartition(" ")[2]
    kind = broken.about.rpartition(" ")[0]
    uids: set[str] = set()
    for commit in run.commits:
        if commit.key == key and kind in ("", commit.kind):
            uids.add(commit.object["metadata"]["uid"])
    if broken.deed is not None and not kind:
        for commit in run.commits:
            if commit.kind == broken.deed.kind and commit.key == broken.deed.key:
                uids.add(commit.object["metadata"]["uid"])
    return uids


def line_of(texts: Mapping[str, str], span: Span) -> str:
    """The line of a text where a span begins."""
    rows = texts.get(span.file, "").splitlines()
    return rows[span.line - 1].strip() if 0 < span.line <= len(rows) else ""


def comment_above(texts: Mapping[str, str], span: Span) -> str:
    """The comment that stands directly above a line, without its slashes."""
    rows = texts.get(span.file, "").splitlines()[: max(span.line - 1, 0)]
    found: list[str] = []
    while rows and rows[-1].strip().startswith("//"):
        found.insert(0, rows.pop().strip().lstrip("/ "))
    return " ".join(found)
