"""A counterexample as a story: who did what, what it changed, what was stale, and why it went wrong.

A `Story` is a value that needs neither the system nor the search any more: renderers (text, page) read
nothing else, and a saved run holds it whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from dashpot.checker.blame import WRITES, Blame, blame, deed, source, why_nothing_helps
from dashpot.checker.cast import cast
from dashpot.checker.flight import Difference, Flight, differing, flights
from dashpot.checker.mishap import mishap
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
    note       what a fault or a merged delivery does to a run, in words; "" for most steps
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
    note: str
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
    actors     who acts in this world, in the order of the check's run
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
    actors: tuple[str, ...]


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
    notes = [mishap(i, labels, scenes, under_way) for i in range(len(updates))]
    steps = tuple(
        _step(stage, update, (scenes[i], scenes[i + 1]), i, stale[i], notes[i], sources, i >= stem)
        for i, update in enumerate(updates)
    )
    name = property or _property(violated)
    found = blame(stage, violated, sources)
    facts = Facts(stage, violated, name, scenes, tuple(labels), _reads(stale))
    return Story(
        title=_title(name, violated),
        property=name,
        kind=violated.kind,
        sentence=_sentence(name, violated, labels, scenes),
        steps=steps,
        stem=stem,
        cycle=len(updates) - stem,
        blame=found,
        why=why_nothing_helps(stage, violated, found, sources),
        fix=remedy(facts),
        replay=replay,
        others=violated.others,
        scenes=stage.cleared(scenes, trace.states),
        flights=under_way,
        excerpts=_excerpts(steps, found, violated, sources),
        actors=cast(system),
    )


def _step(
    stage: Stage,
    update: Update,
    scenes: tuple[Scene, Scene],
    index: int,
    stale: tuple[Stale, ...],
    note: str,
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
        note=note,
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


NOTHING = "nothing to change"
"""The detail of a write that leaves the object as it was."""


def _untold(label: Label, changes: Sequence[Change]) -> Iterator[str]:
    """The details of a step that neither its object nor its changes say already."""
    changed = [c.field for c in changes if c.where == "" and c.object == label.object]
    became = {(c.field.rpartition(".")[2], c.after) for c in changes if c.where == ""}
    name = label.object.partition(" ")[2]
    for text in label.detail:
        field, _, value = text.partition(" = ")
        told = (changed or NOTHING in label.detail) and field.startswith(_FIELDS)
        told = told or (text.startswith("(delivers ") and any(c.where == "cache" for c in changes))
        told = told or (field, value.rpartition(" ")[2]) in became
        if not told and not (name and value == name):
            yield text.removeprefix("(").removesuffix(")") if text.startswith("(") else text


def _changes(stage: Stage, update: Update, before: Scene, after: Scene) -> list[Change]:
    """What a step changed, without what merely was renumbered or grew older."""
    if update.label.verb == "tick" or any(d.startswith("overflows") for d in update.label.detail):
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
            mattered = stage.read(update)[key]
            unlike = [d for d in differing(truth.get(key), cached.get(key)) if d[0] in mattered]
            shown, true = (", ".join(f"{d[0]} = {d[k]}" for d in unlike) for k in (1, 2))
            differences = [(OTHER, shown, true)]
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
    thing, field = violated.about
    thing = thing or (violated.goal.about if violated.goal is not None else "")
    about = f"{field} of {thing}" if thing and field not in ("", "*", "uid", name) else thing
    return f"{name} for {about}" if about else name


def _sentence(name: str, violated: Violated, labels: Sequence[Label], scenes: Sequence[Scene]) -> str:
    """What is wrong, in one sentence: of the verdict where it says more than its kind, else from the trace."""
    thing, field = violated.about
    if violated.kind == "safety":
        return _broken(name, violated, labels)
    if name == "hot_loop" and thing:
        return _written(thing, field, violated.trace.loop or 0, labels, scenes)
    if name == "terminates" and thing:
        return f"{thing} is being deleted and never goes."
    match violated.kind:
        case "stuck":
            return f"Nothing that is left to happen makes `{name}` hold."
        case "trapped":
            return f"The loop changes the store for ever, no way leads out of it, and `{name}` does not last."
    return f"A fair run can go round for ever without `{name}`, though a way out exists."


def _broken(name: str, violated: Violated, labels: Sequence[Label]) -> str:
    """What a step, or the state after it, breaks."""
    thing, field = violated.about
    if name == "lost_update" and thing:
        return f"What another wrote to {field} of {thing} since it was read is overwritten."
    if violated.obligation is not None and violated.obligation.what.endswith("is not allowed here") and labels:
        return f"`{name}` forbids this {labels[-1].verb} of {thing}."
    if violated.message:
        text = violated.message.replace("it does not hold", f"`{name}` does not hold")
        text = text if text.startswith(name) else text[0].upper() + text[1:]
        return text if text[-1] in ".!?" else f"{text}."
    what = violated.obligation.what if violated.obligation is not None else ""
    after = f"after step {len(labels)}" if labels else "at the start"
    return f"`{name}` breaks {after}{': ' + what if what else ''}."


def _written(thing: str, field: str, start: int, labels: Sequence[Label], scenes: Sequence[Scene]) -> str:
    """A hot loop: what is written again and again, and by whom."""
    makers: dict[str, None] = {}
    takers: dict[str, None] = {}
    for i in range(start, len(labels)):
        moved = compared(scenes[i].objects(), scenes[i + 1].objects())
        mine = [c for c in moved if c.object == thing and (field == "*" or c.field == field)]
        if field == "*":
            made = any(c.field == "" and c.before is None for c in mine)
            taken = any((c.field == "" and c.after is None) or c.field == "deletionTimestamp" for c in mine)
            makers |= {labels[i].actor: None} if made else {}
            takers |= {labels[i].actor: None} if taken and not made else {}
        elif labels[i].verb in WRITES and (mine or (labels[i].object == thing and not moved)):
            makers[labels[i].actor] = None
    if field == "*":
        by, off = (f" by {_listed(list(who))}" if who else "" for who in (makers, takers))
        return f"{thing} is made{by} and taken away{off} again and again, for ever."
    who = f" by {_listed(list(makers))}{' in turns' if len(makers) > 1 else ''}" if makers else ""
    return f"{field} of {thing} is written{who} again and again, for ever."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _excerpts(
    steps: Sequence[StoryStep], found: Blame, violated: Violated, sources: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    spans = [s.span for s in steps] + [line.span for s in steps for line in s.decided]
    spans += [c.span for c in found.conjuncts]
    if violated.goal is not None:
        spans.append(violated.goal.span)
    files = dict.fromkeys(span.file for span in spans if span.file)
    return tuple((name, sources[name]) for name in files if name in sources)
