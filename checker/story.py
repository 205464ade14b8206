"""A counterexample as a story: who did what, what it changed, what was stale, and why it went wrong.

A `Story` is a value that needs neither the system nor the search any more: renderers (text, page) read
nothing else, and a saved run holds it whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from dashpot.checker.blame import Blame, blame, deed, source, why_nothing_helps
from dashpot.checker.flight import Difference, Flight, differing, flights
from dashpot.checker.remedy import Facts, StaleRead, remedy
from dashpot.checker.retrace import retraced
from dashpot.checker.scene import Change, Key, Scene, Stage, compared
from dashpot.checker.stale import OTHER, misled
from dashpot.checker.verdict import Violated
from dashpot.model.span import Span
from dashpot.model.system import Label, System, Update


@frozen
class Stale:
    """A cached object that decided a step although the store had moved on.

    object       the object as people call it
    differences  (field, what the cache shows, the truth); field "" and None where one of them has no such object
    missing      steps whose change had not been delivered yet, first to last, counted from 1; empty if unknown
    comes        the step that delivers it, too late; None if that never happens in this run
    """

    actor: str
    object: str
    differences: tuple[Difference, ...]
    missing: tuple[int, ...]
    comes: int | None


@frozen
class Line:
    """A test on the way to a step: its place, its text there, and whether it was true."""

    span: Span
    text: str
    truth: bool


@frozen
class StoryStep:
    """One step.

    number     counted from 1; state `number` of the run is the one that it leads to
    verb       as in the label; for a pass without a call the name of its action
    deed       the step in words, without the actor: "create Pod db-1", "scale: patch Database db"
    detail     outcome and arguments as people read them, as far as changes do not say them
    role       step | fault | environment
    changes    what it changed: the store first, then the actor's cache or memory
    looked     whether it decided by cached objects, `stale`: those of them that were out of date
    decided    the tests that led to it
    span       the call or declaration that made it, `text` its line in the spec
    repeats    whether it is part of the cycle of a lasso
    """

    number: int
    actor: str
    verb: str
    deed: str
    action: str
    object: str
    detail: tuple[str, ...]
    role: str
    changes: tuple[Change, ...]
    looked: bool
    stale: tuple[Stale, ...]
    decided: tuple[Line, ...]
    span: Span
    text: str
    repeats: bool


@frozen
class Story:
    """A counterexample, told.

    title      the property and what it is about
    kind       safety | stuck | trapped | loop
    sentence   what is wrong, in one sentence
    stem       number of steps before the cycle; all of them when there is none
    cycle      number of steps that repeat for ever; 0 when the run just ends
    blame      which part of the property failed, with its values
    why        why no fair step saves the run
    fix        what would, where the trace shows it
    replay     the command that tells this story again
    others     number of other objects that break the same property
    scenes     the states, one more than steps
    flights    changes under way to caches
    excerpts   the files that the story points at: (name, text)
    """

    title: str
    property: str
    kind: str
    sentence: str
    steps: tuple[StoryStep, ...]
    stem: int
    cycle: int
    blame: Blame
    why: tuple[str, ...]
    fix: tuple[str, ...]
    replay: str
    others: int
    scenes: tuple[Scene, ...]
    flights: tuple[Flight, ...]
    excerpts: tuple[tuple[str, str], ...]


def story(
    system: System, violated: Violated, sources: Mapping[str, str], *, property: str = "", replay: str = ""
) -> Story:
    """The story of a violation.

    `system` may be the whole world of which a pruned one was searched: its states are walked anew. `sources` gives
    the text of each file; a missing file only costs the quoted lines. `property` names what was violated where
    neither goal nor obligation does (the default properties over components).
    """
    stage = Stage(system)
    violated = retraced(system, violated)
    trace = violated.trace
    updates = [system.updates[i] for i in trace.steps]
    scenes = tuple(stage.scene(values) for values in trace.states)
    labels = [u.label for u in updates]
    under_way = tuple(flights(scenes, labels, stage.watchers))
    stale = [_stale(stage, scenes[i], trace.states[i], u, i, under_way) for i, u in enumerate(updates)]
    stem = len(updates) if trace.loop is None else trace.loop
    steps = tuple(
        _step(stage, update, (scenes[i], scenes[i + 1]), i, stale[i], sources, i >= stem)
        for i, update in enumerate(updates)
    )
    name = property or _property(violated)
    found = blame(stage, violated, sources)
    facts = Facts(stage, violated, name, scenes, tuple(labels), _reads(stale))
    return Story(
        title=_title(name, violated),
        property=name,
        kind=violated.kind,
        sentence=_capital(violated.message, name) or _sentence(name, violated, len(updates), stem),
        steps=steps,
        stem=stem,
        cycle=len(updates) - stem,
        blame=found,
        why=why_nothing_helps(stage, violated, found),
        fix=remedy(facts),
        replay=replay,
        others=violated.others,
        scenes=stage.cleared(scenes, trace.states),
        flights=under_way,
        excerpts=_excerpts(steps, found, violated, sources),
    )


def _step(
    stage: Stage,
    update: Update,
    scenes: tuple[Scene, Scene],
    index: int,
    stale: tuple[Stale, ...],
    sources: Mapping[str, str],
    repeats: bool,
) -> StoryStep:
    label = update.label
    changes = tuple(_changes(stage, update, *scenes))
    bare = label.verb in ("act", "start", "end") and label.action
    detail = tuple(_untold(label, changes)) or (("nothing to do",) if label.verb == "end" else ())
    return StoryStep(
        number=index + 1,
        actor=label.actor,
        verb=label.action if bare else label.verb,
        deed=deed(label),
        action=label.action,
        object=label.object,
        detail=detail,
        role=label.role,
        changes=changes,
        looked=label.verb != "deliver" and bool(stage.decisive(update)),
        stale=stale,
        decided=tuple(Line(s, source(sources, s), truth) for s, truth in label.decided if s.file == label.span.file),
        span=label.span,
        text=source(sources, label.span),
        repeats=repeats,
    )


_FIELDS = ("spec.", "status.", "finalizers", "owner", "labels", "annotations", "deletionTimestamp")
"""How a detail begins that says what a write sets."""


def _untold(label: Label, changes: Sequence[Change]) -> Iterator[str]:
    """The details of a step that neither its object nor its changes say already."""
    changed = [c.field for c in changes if c.where == "" and c.object == label.object]
    name = label.object.partition(" ")[2]
    for text in label.detail:
        field, _, value = text.partition(" = ")
        told = changed and field.startswith(_FIELDS)
        told = told or (text.startswith("(delivers ") and any(c.where == "cache" for c in changes))
        if not told and not (name and value == name):
            yield text.removeprefix("(").removesuffix(")") if text.startswith("(") else text


def _changes(stage: Stage, update: Update, before: Scene, after: Scene) -> list[Change]:
    """What a step changed, without what merely was renumbered or grew older."""
    if update.label.verb == "tick":
        return []
    assigned = {index for index, _ in update.assigns}
    ranked = {c for rank in stage.system.ranks for c in rank.cells}
    silent = {
        (c.area, c.actor, stage.title((c.kind, c.slot)), c.path)
        for c in (stage.system.cells[i] for i in ranked - assigned)
    }
    changes = compared(before.objects(), after.objects())
    actor = update.label.actor
    for owner in after.caches:
        if owner == actor or owner in after.pending or not changes:
            changes += compared(before.objects(owner), after.objects(owner), "cache", owner)
    old, new = before.private.get(actor, {}), after.private.get(actor, {})
    for name in new:
        if name.startswith("memory ") and old.get(name) != new[name]:
            changes.append(Change("memory", name.removeprefix("memory "), old.get(name), new[name], "memory", actor))
    areas = {"": "store", "cache": "cache", "memory": "memory"}
    return [c for c in changes if (areas[c.where], c.actor, c.object, c.field) not in silent]


def _stale(
    stage: Stage, scene: Scene, values: Sequence[int], update: Update, step: int, under_way: Sequence[Flight]
) -> tuple[Stale, ...]:
    """The cached objects that misled a step: with the truth in their place it would have been another."""
    actor = update.label.actor
    if actor not in scene.caches or update.label.role == "fault" or update.label.verb in ("deliver", "resync"):
        return ()
    truth, cached = scene.objects(), scene.objects(actor)
    found = []
    for key, fields in sorted(misled(stage, update, values).items()):
        late = [f for f in under_way if _missing(f, actor, key, step)]
        sent = tuple(dict.fromkeys(s + 1 for f in late for s in f.sent if s < step))
        comes = next((f.landed + 1 for f in late if f.landed is not None and f.how == "delivered"), None)
        differences = [d for d in differing(truth.get(key), cached.get(key)) if d[0] in fields]
        if OTHER in fields:
            differences = [(OTHER, "an earlier one", "another of the same name")]
        if differences:
            title = (truth.get(key) or cached[key]).title
            found.append(Stale(actor, title, tuple(differences), sent, comes))
    return tuple(found)


def _missing(flight: Flight, actor: str, key: Key, step: int) -> bool:
    """Whether this flight was under way to the actor's cache when the step was taken."""
    started = not flight.sent or flight.sent[0] < step
    return flight.actor == actor and flight.key == key and started and (flight.landed is None or flight.landed >= step)


def _reads(stale: Sequence[tuple[Stale, ...]]) -> tuple[StaleRead, ...]:
    return tuple(
        StaleRead(step, s.object, s.missing, s.differences[0][1] is None, frozenset(d[0] for d in s.differences) - {""})
        for step, group in enumerate(stale)
        for s in group
    )


def _property(violated: Violated) -> str:
    if violated.goal is not None:
        return violated.goal.property
    return violated.obligation.property if violated.obligation is not None else ""


def _title(name: str, violated: Violated) -> str:
    about = " ".join(part for part in violated.about if part)
    if not about and violated.goal is not None:
        about = violated.goal.about
    return f"{name} for {about}" if about else name


def _capital(message: str, name: str) -> str:
    """A message as a sentence, unless it begins with the property's own name."""
    text = message if not message or message.startswith(name) else message[0].upper() + message[1:]
    return text if not text or text[-1] in ".!?" else f"{text}."


def _sentence(name: str, violated: Violated, steps: int, stem: int) -> str:
    cycle = steps - stem
    match violated.kind:
        case "safety":
            what = violated.obligation.what if violated.obligation is not None else ""
            after = f"after {steps} step{'s' * (steps != 1)}" if steps else "at the start"
            return f"{name} breaks {after}{': ' + what if what else ''}."
        case "stuck":
            return f"After {stem} steps nothing changes the store any more, and {name} does not hold."
        case "trapped":
            return f"After {stem} steps these {cycle} repeat for ever, and no step leads out of them."
    turns = "every fair step has its turn"
    return f"After {stem} steps these {cycle} can repeat for ever: {turns}, and {name} never holds for good."


def _excerpts(
    steps: Sequence[StoryStep], found: Blame, violated: Violated, sources: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    spans = [s.span for s in steps] + [line.span for s in steps for line in s.decided]
    spans += [c.span for c in found.conjuncts]
    if violated.goal is not None:
        spans.append(violated.goal.span)
    files = dict.fromkeys(span.file for span in spans if span.file)
    return tuple((name, sources[name]) for name in files if name in sources)
