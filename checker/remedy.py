"""What would have prevented a counterexample, where its trace shows it.

Every proposal is derived from facts of the trace and the system: which read was stale and whose write it
missed, what a crash cut off, who sleeps, who writes the same field in turns. Names decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import evolve, frozen

from dashpot.checker.blame import WRITES, asleep, enabled, step_name
from dashpot.checker.scene import ZEROS, Scene, Stage, compared
from dashpot.checker.verdict import Violated
from dashpot.model.interpret import reads
from dashpot.model.system import Label

COLLECTED = ("foregroundDeletion", "orphan")
"""Finalizers that the garbage collector takes."""

HEARS = ("deliver", "relist", "drop", "freeze")
"""Steps of a controller in which it does not look at its objects."""

PAUSES = ("pause", "partition", "down")
RESTARTS = ("crash", "stale_restart", "timeout", "down")


@frozen
class StaleRead:
    """A stale read.

    step     the step that it decided, from 0
    missing  the steps whose change had not arrived, from 1
    unseen   the cache shows no such object
    fields   fields that the cache shows otherwise than the store
    """

    step: int
    object: str
    missing: tuple[int, ...]
    unseen: bool
    fields: frozenset[str] = frozenset()


@frozen
class Facts:
    """What the rules below may look at."""

    stage: Stage
    violated: Violated
    property: str
    scenes: tuple[Scene, ...]
    labels: tuple[Label, ...]
    stale: tuple[StaleRead, ...]


def remedy(facts: Facts) -> tuple[str, ...]:
    """Proposals, the most specific first; empty where the trace shows none."""
    named = _BY_PROPERTY.get(facts.property)
    found = dict.fromkeys(named(facts)) if named else {}
    if not found:
        for rule in _BY_KIND[facts.violated.kind]:
            found.update(dict.fromkeys(rule(facts)))
    return tuple(found)[:3]


def _last_write(facts: Facts) -> Label | None:
    return next((label for label in reversed(facts.labels) if label.verb in WRITES and label.role == "step"), None)


def _lost_update(facts: Facts) -> Iterator[str]:
    yield _guarded(_last_write(facts))


def _guarded(write: Label | None) -> str:
    """A write that overwrote what its actor had not seen."""
    verb = f"{write.verb} of {write.object}" if write else "write"
    return (
        f"Let the {verb} fail when the object has changed since it was read: `update`, or `patch … if unchanged`, "
        "with `on Conflict { requeue }`. A list that several actors write can be a list map (`keyed`) or be applied."
    )


def _wrong_uid(facts: Facts) -> Iterator[str]:
    write = facts.labels[-1] if facts.labels else None
    what = f"the {write.verb} of {write.object}" if write else "the write"
    if write is not None and write.verb in ("evict", "bind"):  # they know no `if same`
        kind = write.object.split(" ")[0]
        yield f"Read {write.object} live (`get live {kind}`) just before, and compare its uid with the one decided on."
        return
    guard = {"update": "without `force` the version", "patch": "`if unchanged`"}.get(write.verb if write else "", "")
    guard = f"{guard} fails" if guard else "`if same` compares the uid and fails"
    yield f"Bind {what} to the object that was read: {guard} if the name was taken anew."


def _hot_loop(facts: Facts) -> Iterator[str]:
    known = [*_collected(facts), *_remade(facts), *_fight(facts), *_stale_write(facts)]
    yield from known or _same_write(facts)


def _collected(facts: Facts) -> Iterator[str]:
    """What the cycle creates is collected again: its owner terminates or is gone."""
    turn = facts.labels[facts.violated.trace.loop or 0 :]
    removed = {label.object for label in turn if label.verb == "collect"}
    made = next((label for label in turn if label.verb == "create" and label.object in removed), None)
    if made is not None:
        yield (
            f"{made.actor} makes {made.object} for an owner that terminates or is gone, so it is collected again: "
            "create only for an owner that is there and has no deletionTimestamp."
        )


def _remade(facts: Facts) -> Iterator[str]:
    """One actor takes away what another makes again."""
    turn = facts.labels[facts.violated.trace.loop or 0 :]
    makers = {label.object.split(" ")[0]: label.actor for label in turn if label.verb == "create"}
    for label in turn:
        maker = makers.get(label.object.split(" ")[0], label.actor)
        if label.verb in ("delete", "evict") and label.role == "step" and maker != label.actor:
            yield (
                f"{label.actor} takes away {label.object}, and {maker} makes another, for ever: let {label.actor} ask "
                "first whether the next one would fare better, by what decides that (quota, room, the same rule)."
            )
            return


def _same_write(facts: Facts) -> Iterator[str]:
    write = _last_write(facts)
    what = f"{write.verb} {write.object}" if write else "write"
    yield f"Write only when something differs: put `{what}` under a test that compares the new value with the one read."


def _terminates(facts: Facts) -> Iterator[str]:
    for item in facts.scenes[-1].truth:
        lit = [path for path, text in item.fields.items() if text.lower() not in ZEROS]
        held = ", ".join(p.removeprefix("finalizers.") for p in lit if p.startswith("finalizers."))
        if "deletionTimestamp" not in lit:
            continue
        if held in COLLECTED:
            yield (
                f"{item.title} waits for its dependents, then the garbage collector takes {held}: create none for an "
                "owner whose deletionTimestamp is set."
            )
        elif held:
            yield f"{item.title} waits for the finalizer {held}: remove it on every path of a terminating object."
        else:
            yield f"{item.title} waits to be finished off: somebody (a kubelet, for a bound Pod) has to `delete … now`."
        break
    else:
        yield "Remove the finalizer on every path that a terminating object can take, also after a crash or an error."
    yield from _unwoken(facts)


def _unbounded(facts: Facts) -> Iterator[str]:
    write = _last_write(facts)
    what = f"`{write.verb} {write.object}`" if write else "the write"
    yield f"Nothing bounds {what}: give the object a name that is computed, so that a second create is AlreadyExists."


def _panic(facts: Facts) -> Iterator[str]:
    yield "Test for null or for the key before the member is read: `x != null && …`, `has(x.f)`, `k in m`."


_BY_PROPERTY: dict[str, Callable[[Facts], Iterator[str]]] = {
    "lost_update": _lost_update,
    "no_lost_updates": _lost_update,
    "wrong_uid": _wrong_uid,
    "hot_loop": _hot_loop,
    "terminates": _terminates,
    "unbounded": _unbounded,
    "panic": _panic,
}


def _stale_write(facts: Facts) -> Iterator[str]:
    """Writes that a stale read decided: what to do depends on the verb and on whose change was missed."""
    told: set[str] = set()
    for read in reversed(facts.stale):
        step = _decided(facts, read.step)
        if step is not None and facts.labels[step].verb not in told:
            told.add(facts.labels[step].verb)
            yield _fresher(facts, evolve(read, step=step))


def _decided(facts: Facts, step: int) -> int | None:
    """The write that a read decided: that of its own step, else the first one later in the same pass."""
    first = facts.labels[step]
    for i in range(step, len(facts.labels)):
        label = facts.labels[i]
        if label.actor != first.actor or label.verb in HEARS:
            continue
        if label.role != "step" or label.fairness != first.fairness or label.verb in ("start", "end", "act"):
            return None
        if label.verb in WRITES and facts.scenes[i].truth != facts.scenes[i + 1].truth:
            return i
    return None


def _fresher(facts: Facts, read: StaleRead) -> str:
    label = facts.labels[read.step]
    step, kind = read.step + 1, read.object.split(" ")[0]
    mine = [m for m in read.missing if facts.labels[m - 1].actor == label.actor]
    if label.verb == "create" and read.unseen:
        own = f"its own step {mine[-1]}" if mine else "what others did"
        return (
            f"Step {step} creates by a cache that does not show {own} yet: say `cache {kind} read_own_writes`, "
            f"read it live (`list live {kind}`), or give the object a computed name and handle AlreadyExists."
        )
    if label.verb in ("delete", "evict"):
        return (
            f"Step {step} destroys by a cache that is out of date: read {read.object} live just before, "
            "or delete `if unchanged`, so that a newer version refuses."
        )
    moved = compared(facts.scenes[read.step].objects(), facts.scenes[step].objects())
    if read.fields & {change.field for change in moved}:
        return _guarded(label)
    older = f"Step {step} writes a decision that is older than the store:"
    if label.object != read.object or label.verb == "create":  # no version of what is written tells
        return f"{older} read {kind} live just before, since the write itself cannot know that {read.object} changed."
    return f"{older} `update` with its version, or `if unchanged` and `on Conflict {{ requeue }}`, or read {kind} live."


def _cut_off(facts: Facts) -> Iterator[str]:
    """A restart between two writes of a pass, or one that took memory with it."""
    for i, label in enumerate(facts.labels):
        if label.role != "fault" or label.verb not in RESTARTS:
            continue
        actor = label.actor
        before, after = (facts.scenes[k].private.get(actor, {}) for k in (i, i + 1))
        lost = [n.removeprefix("memory ") for n in after if n.startswith("memory ") and before.get(n) != after[n]]
        wrote = any(step.actor == actor and step.verb in WRITES for step in facts.labels[:i])
        if label.verb == "stale_restart" and (not lost or any(read.step > i for read in facts.stale)):
            yield (
                f"After step {i + 1} {actor} acts on an old list: check the truth before what cannot be taken back "
                "(a live read, or `if unchanged`)."
            )
        elif lost:
            what = ", ".join(lost)
            yield (
                f"Step {i + 1} takes {what} with it, which {actor} had in memory only: keep it in the object's status, "
                "or derive it from the world."
            )
        elif wrote:
            yield (
                f"Step {i + 1} cuts {actor} off halfway: make each write idempotent, and derive what is left to do "
                "from the objects themselves, not from having got this far."
            )


def _outdated(facts: Facts) -> Iterator[str]:
    """The last step was taken by what an actor remembered from before it stood still."""
    last = facts.labels[-1] if facts.labels else None
    if last is None or last.role != "step":
        return
    for i, label in enumerate(facts.labels):
        if label.role == "fault" and label.verb in PAUSES and label.actor == last.actor:
            yield (
                f"{last.actor} acts by what it knew before step {i + 1} ({label.verb}): let the write itself carry "
                "the proof (`if unchanged`, a fencing number), since time may pass before any call."
            )
            return


def _unwoken(facts: Facts) -> Iterator[str]:
    """A controller sleeps although a kind that it reads has changed since it last looked."""
    if facts.violated.kind != "stuck":
        return
    stage, values = facts.stage, facts.violated.trace.states[-1]
    watched: dict[str, set[str]] = {}
    for update in stage.system.updates:
        if update.label.verb != "deliver":
            watched.setdefault(update.label.actor, set()).update(kind for kind, _ in stage.decisive(update))
    for actor, kinds in watched.items():
        if not asleep(stage.system, actor, values):
            continue
        own = [i for i, label in enumerate(facts.labels) if label.actor == actor and label.verb not in HEARS]
        for i in range(own[-1] + 1 if own else 0, len(facts.labels)):
            if facts.labels[i].verb == "tick":  # growing older is no event
                continue
            moved = compared(facts.scenes[i].objects(), facts.scenes[i + 1].objects())
            moved = [c for c in moved if _arrives(facts, actor, c.object, i)]
            moved += compared(facts.scenes[i].objects(actor), facts.scenes[i + 1].objects(actor))
            change = next((c for c in moved if c.object.split(" ")[0] in kinds), None)
            if change is not None:
                yield _wake(facts, actor, change.object.split(" ")[0], i)
                break


def _arrives(facts: Facts, actor: str, thing: str, step: int) -> bool:
    """Whether an actor hears of a change that a step makes: at once without a cache, else by a later delivery."""
    if thing.split(" ")[0] not in facts.stage.watchers.get(actor, ()):
        return True
    return any(x.actor == actor and x.verb == "deliver" and x.object == thing for x in facts.labels[step:])


def _wake(facts: Facts, actor: str, kind: str, step: int) -> str:
    """How a change of a kind could wake a controller, by what wakes it already."""
    system = facts.stage.system
    keys = {c.kind for c in system.cells if c.area == "queue" and c.actor == actor}
    heard = any(
        system.cells[index].area == "queue"
        for update in system.updates
        if update.label.actor == actor and update.label.verb == "deliver" and update.label.fairness[-1:] == (kind,)
        for index, _ in update.assigns
    )
    if kind in keys:
        return (
            f"{actor} is told of step {step + 1}, but the `when` of `for {kind}` filters it out: let it pass this "
            "change (or `requeue after`)."
        )
    if heard:
        return (
            f"{actor} watches {kind}, but step {step + 1} did not wake it: look at what the clause makes of that "
            f"change (its `when`, its keys, the {kind} before the change)."
        )
    return (
        f"{actor} reads {kind} but step {step + 1} did not wake it: say `watches {kind} as x -> …` with "
        "the keys that depend on it (or `requeue after`)."
    )


def _fight(facts: Facts) -> Iterator[str]:
    """Two actors, or one for two keys, that undo each other's change of a field.

    Only writes count: time and the collector undo nothing. Objects that come and go in the cycle are told by other
    rules, and where a property over states fails, only fields that it reads are to blame.
    """
    start = facts.violated.trace.loop
    if start is None:
        return
    turns: dict[tuple[str, str], dict[tuple[str | None, str | None], tuple[str, str]]] = {}
    rivals: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, str]]] = {}
    passing: set[str] = set()
    for i in range(start, len(facts.labels)):
        label = facts.labels[i]
        for change in compared(facts.scenes[i].objects(), facts.scenes[i + 1].objects()):
            if not change.field:
                passing.add(change.object)
            if label.verb not in WRITES or label.role != "step" or not change.field:
                continue
            known = turns.setdefault((change.object, change.field), {})
            other = known.get((change.after, change.before), _writer(label))
            known[change.before, change.after] = _writer(label)
            if other != _writer(label):
                rivals.setdefault((change.object, change.field), (other, _writer(label)))
    blamed = {what for what in turns if what[0] not in passing and _concerns(facts, *what)}
    fought = [what for what in rivals if what in blamed]
    if fought and len(fought) == len(blamed):  # else the cycle does more than undo
        yield _rivalry(*fought[0], *rivals[fought[0]])


def _rivalry(object: str, field: str, one: tuple[str, str], two: tuple[str, str]) -> str:
    """Two writers of one field: two actors, two keys of one controller, or two actions of one process."""
    what = f"{field} of {object} in turns"
    if one[0] != two[0]:
        who = f"{one[0]} and {two[0]} write {what}"
        return f"{who}: let one of them own it (`apply`), or write it only where it is unset."
    if one[1].startswith("for ") or two[1].startswith("for "):
        who = f"{one[0]} writes {what} {one[1]} and {two[1]}"
        return f"{who}: let one key own it, and the other leave alone what is not its own."
    who = f"{one[0]} writes {what}, by {one[1]} and by {two[1]}"
    return f"{who}: let what one of them does stop the other."


def _writer(label: Label) -> tuple[str, str]:
    """Who writes: the actor, and the key that it works for or the action that it takes."""
    if label.action == "reconcile" and label.fairness:
        return label.actor, f"for {label.fairness[-1]}"
    return label.actor, label.action


def _concerns(facts: Facts, object: str, field: str) -> bool:
    """Whether what is violated reads a field; where it is no property over states, any field that is written."""
    goal = facts.violated.goal
    if goal is None:
        return True
    stage = facts.stage
    cells = (stage.system.cells[i] for i in reads([goal.body, goal.premise]))
    return any(c.path == field and stage.title((c.kind, c.slot)) == object for c in cells)


def _same_again(facts: Facts) -> Iterator[str]:
    """A cycle of writes by one actor that neither a stale read nor a rival explains."""
    start = facts.violated.trace.loop
    if start is None or facts.stale or any(True for _ in _fight(facts)):
        return
    writes = [label for label in facts.labels[start:] if label.verb in WRITES and label.role == "step"]
    if writes and len({label.actor for label in writes}) == 1:
        yield from _same_write(facts)


def _panics(facts: Facts) -> Iterator[str]:
    """What is still tried, or was tried last, ends in a panic."""
    system = facts.stage.system
    left = [system.updates[i].label for i in enabled(system, facts.violated.trace.states[-1])]
    for label in (*left, *reversed(facts.labels)):
        if "panics" in label.detail:
            yield f"`{step_name(label)}` panics again and again. {next(_panic(facts))}"
            return


def _dropped(facts: Facts) -> Iterator[str]:
    for i, label in enumerate(facts.labels):
        if label.verb == "drop" and label.role == "fault":
            yield (
                f"Step {i + 1} loses an event, and the cache shows the older object from then on: look again in time "
                "(`requeue after`) and live (`get live`, `list live`), for a resync goes by the cache."
            )
            return


_BY_KIND: dict[str, tuple[Callable[[Facts], Iterator[str]], ...]] = {
    "safety": (_stale_write, _cut_off, _outdated),
    "stuck": (_panics, _dropped, _unwoken, _cut_off, _stale_write),
    "trapped": (_remade, _fight, _stale_write, _same_again),
    "loop": (_remade, _fight, _stale_write, _same_again),
}
"""The rules that may explain each kind of violation, the likeliest first."""
