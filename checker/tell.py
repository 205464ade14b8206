"""A story as text for a terminal: one line a step, stale reads bracketed to the change that they missed."""

from __future__ import annotations

import textwrap

from attrs import frozen

from dashpot.checker.blame import SHOWN
from dashpot.checker.mishap import steps
from dashpot.checker.scene import Change
from dashpot.checker.stale import OTHER
from dashpot.checker.story import Stale, Story, StoryStep

KINDS = {"safety": "violated", "stuck": "gets stuck", "trapped": "is trapped in a loop", "loop": "loops"}

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@frozen
class _Ink:
    """Colours a text, or leaves it as it is."""

    color: bool

    def __call__(self, text: str, *styles: str) -> str:
        if not self.color or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[s] for s in styles)}m{text}\x1b[0m"


def tell(story: Story, color: bool = False, width: int = 100) -> str:
    """The whole story as lines of at most `width` columns where words allow it; ends without a newline."""
    ink = _Ink(color)
    width = max(width, 40)
    lines = [f"{ink(story.title, 'bold')}  {ink(KINDS.get(story.kind, story.kind), 'red', 'bold')}{_length(story)}"]
    lines += _wrapped(story.sentence, width, "  ")
    lines += [""] if story.steps else []
    lines += _steps(story, ink, width)
    lines += _blame(story, ink, width)
    for heading, texts, style in (("Why nothing helps", story.why, "bold"), ("What would help", story.fix, "green")):
        if texts:
            lines += ["", ink(heading, style)]
            for text in texts:
                lines += _wrapped(text, width, "  · ", "    ")
    if story.others:
        more = "objects break" if story.others > 1 else "object breaks"
        lines += ["", f"{story.others} more {more} it in the same way."]
    if story.replay:
        lines += ["", f"{ink('Again:', 'dim')} {story.replay}"]
    return "\n".join(line.rstrip() for line in lines)


def _length(story: Story) -> str:
    if story.cycle:
        return f"  {story.stem}+{story.cycle}↻ steps"
    return f"  {story.stem} step{'s' * (story.stem != 1)}" if story.stem else ""


def _steps(story: Story, ink: _Ink, width: int) -> list[str]:
    gutter = _Gutter.of(story)
    actor_width = min(max((len(s.actor) for s in story.steps), default=0), max(width // 4, 8))
    what_width = min(max((len(s.deed) for s in story.steps), default=0), max(width * 2 // 5, 16))
    lines: list[str] = []
    for step in story.steps:
        if step.repeats and step.number == story.stem + 1:
            repeats = f"these {story.cycle} steps repeat for ever" if story.cycle > 1 else "this step repeats for ever"
            bar = gutter.column(step.number, "between")
            lines.append(f"     {bar}{ink(f'↻ {repeats}', 'yellow', 'bold')}")
        lines += _step(step, gutter, ink, (actor_width, what_width, width))
    return lines


def _step(step: StoryStep, gutter: _Gutter, ink: _Ink, widths: tuple[int, int, int]) -> list[str]:
    actor_width, what_width, width = widths
    mark = "↻" if step.repeats else " "
    actor_style = {"fault": "red", "environment": "cyan"}.get(step.role, "bold")
    what = step.deed
    head = f"{mark}{step.number:>3} {gutter.column(step.number, 'head')}"
    indent = " " * 5 + gutter.column(step.number, "body")
    notes = [_change(c, step) for c in step.changes]
    if step.detail:
        notes.append("(" + ", ".join(step.detail) + ")")
    text = "; ".join(notes)
    left = f"{ink(step.actor.ljust(actor_width), actor_style)} {what.ljust(what_width)}"
    column = len(head) + max(actor_width, len(step.actor)) + 1 + max(what_width, len(what)) + 2
    room = width - column
    if room >= 24 or not notes:
        body = textwrap.wrap(text, max(room, 24))
        lines = [f"{ink(head, 'dim')}{left}  {body[0] if body else ''}"]
        pad = " " * (column - len(indent))
        lines += [f"{ink(indent, 'dim')}{pad}{part}" for part in body[1:]]
    else:
        lines = [f"{ink(head, 'dim')}{ink(step.actor, actor_style)} {what}"]
        room = max(width - len(indent) - 2, 20)
        lines += [f"{ink(indent, 'dim')}  {part}" for part in textwrap.wrap(text, room)]
    for part in textwrap.wrap(step.note, max(width - len(indent) - 4, 20)):
        lines.append(f"{ink(indent, 'dim')}  {ink(part, 'red' if step.role == 'fault' else 'yellow')}")
    for stale in step.stale:
        texts = textwrap.wrap(stale_text(stale, step.number), max(width - len(indent) - 9, 20))
        marks = [ink("stale ", "yellow")] + ["      "] * len(texts)
        lines += [f"{ink(indent, 'dim')}  {mark}{text}" for mark, text in zip(marks, texts, strict=False)]
    for line in step.decided[-2:] if step.stale or step.number == gutter.last else ():
        place = f"{line.span.file}:{line.span.line}"
        text = f"because {place}  {line.text}  is {'true' if line.truth else 'false'}"
        parts = textwrap.wrap(text, max(width - len(indent) - 2, 20))
        lines += [f"{ink(indent, 'dim')}  {ink(part, 'dim')}" for part in parts]
    return lines


def _change(change: Change, step: StoryStep) -> str:
    """One change as a note: "spec.members  1 → 2", "+ Pod db-1  owner = db", "cache: …"."""
    where = ""
    if change.where == "cache":
        where = "cache: " if change.actor == step.actor else f"cache of {change.actor}: "
    elif change.where == "memory":
        where = "memory: "
    if change.before is None and change.field == "":
        return f"{where}+ {change.object}" + (f"  {change.after}" if change.after else "")
    if change.after is None and change.field == "":
        return f"{where}- {change.object}"
    known = change.where == "memory" or change.object == step.object
    name = change.field if known else f"{change.object} {change.field}"
    return f"{where}{name}  {change.before} → {change.after}"


def stale_text(stale: Stale, number: int) -> str:
    """The stale read of a step in words: what the cache shows, what is true, which delivery is missing."""
    shown = []
    for field, cache, truth in stale.differences:
        if field == OTHER:
            was, now = (f" ({text})" if text else "" for text in (cache, truth))
            shown.append(f"its cache shows the earlier {stale.object}{was}, which is gone; another took the name{now}")
        elif field:
            shown.append(f"its cache shows {stale.object} {field} = {cache}, in truth it is {truth}")
        elif cache is None:
            shown.append(f"its cache shows no {stale.object}, in truth there is one")
        else:
            shown.append(f"its cache still shows {stale.object}, in truth it is gone")
    text = "; ".join(shown)
    if stale.missing:
        text += f"; the delivery of {steps([n - 1 for n in stale.missing])} is missing"
        comes = "this step" if stale.comes == number else f"step {stale.comes}"
        text += f" (it comes with {comes})" if stale.comes else " (it never comes in this run)"
    return text


def _blame(story: Story, ink: _Ink, width: int) -> list[str]:
    lines: list[str] = []
    for conjunct in story.blame.conjuncts:
        place = f"{conjunct.span.file}:{conjunct.span.line}  " if conjunct.span.file else ""
        judged = story.blame.judged(conjunct.values) if conjunct.values else ()
        verdict = f"is {_series(judged)}" if judged else f"breaks {story.property}"
        text = f"{place}{conjunct.text}  {verdict}"
        lines += ["", *(ink(line, "red") for line in _wrapped(text, width, "✗ ", "  "))]
        wide = max((len(b.text) for b in conjunct.bindings), default=0)
        for binding in conjunct.bindings:
            value = _series(story.blame.judged(binding.values))
            name = binding.text.ljust(min(wide, max(width - 16, 16)))
            lines += _wrapped(f"{name}  = {value}", width, "    ", "      ", keep=True)
    if story.cycle and lines:
        first, last = story.blame.states[0], story.blame.states[-1]
        lines += [ink(f"    (after step {first}{f' to {last}' if last != first else ''})", "dim")]
    return lines


def _series(values: tuple[str, ...]) -> str:
    """One value, or those of the states of a loop one after the other."""
    if len(set(values)) == 1:
        return values[0]
    more = " …" if len(values) > 2 * SHOWN else ""
    return ", ".join(values[: 2 * SHOWN]) + more


def _wrapped(text: str, width: int, first: str, rest: str | None = None, keep: bool = False) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        drop_whitespace=True,
        replace_whitespace=not keep,
    ) or [first]


@frozen
class _Gutter:
    """Brackets left of the steps, from the change that is missing to the step that decided without it."""

    spans: tuple[tuple[int, int], ...]
    tracks: tuple[int, ...]
    last: int

    @classmethod
    def of(cls, story: Story) -> _Gutter:
        spans: dict[tuple[int, int], None] = {}
        for step in story.steps:
            for stale in step.stale:
                if stale.missing:
                    spans[stale.missing[0], step.number] = None
        ends: list[int] = []
        tracks = []
        for start, end in sorted(spans)[:SHOWN]:
            track = next((i for i, e in enumerate(ends) if e < start), len(ends))
            ends[track : track + 1] = [end]
            tracks.append(track)
        return cls(tuple(sorted(spans)[:SHOWN]), tuple(tracks), len(story.steps))

    def column(self, number: int, part: str) -> str:
        """The gutter's characters beside a step. part: "head", "body" (its further lines), "between" (before it)."""
        if not self.tracks:
            return ""
        cells = [" "] * (max(self.tracks) + 1)
        for (start, end), track in zip(self.spans, self.tracks, strict=True):
            at = start if part == "body" else end if part == "between" else -1
            inside = start < number < end or number == at
            if part == "head" and number in (start, end):
                cells[track] = "╭" if number == start else "╰"
            elif inside:
                cells[track] = "│"
        return "".join(cells) + " "
