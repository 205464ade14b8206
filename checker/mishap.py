"""What faults and merged deliveries do, in words for people who know Kubernetes and not this checker."""

from __future__ import annotations

from collections.abc import Sequence

from dashpot.checker.flight import Flight
from dashpot.checker.scene import Change, Key, Scene, compared
from dashpot.model.system import Label

SHOWN = 3
"""Changes that one sentence names."""


def mishap(index: int, labels: Sequence[Label], scenes: Sequence[Scene], under_way: Sequence[Flight]) -> str:
    """What step `index` (from 0) does beyond its changes; "" where its name says all."""
    label = labels[index]
    if label.role == "fault" or label.verb in ("resume", "reconnect"):
        if label.verb in ("drop", "relist"):
            return _lost(index, labels, scenes, under_way)
        if label.verb == "stale_restart":
            return _old(index, labels)
        if label.verb == "timeout" or any(d.startswith("Timeout") for d in label.detail):
            return ""
        return _WORDS.get(label.verb, "").format(actor=label.actor, object=label.object)
    landed = [f for f in under_way if f.landed == index and f.how == "delivered" and f.actor == label.actor]
    texts = [_merged(flight, scenes) for flight in landed if len(flight.sent) > 1]
    return "; ".join(text for text in texts if text)


_WORDS = {
    "crash": "{actor} restarts and lists everything anew",
    "pause": "{actor} stands still while time goes on",
    "resume": "{actor} goes on where it stood",
    "down": "{actor} is down: memory and queue are lost",
    "partition": "{actor} is cut off from the API server",
    "reconnect": "{actor} reaches the API server again",
    "node_down": "everything on {object} stands still from now on",
    "freeze": "the API server that {actor} will restart against stands still here",
}


def _old(index: int, labels: Sequence[Label]) -> str:
    """A restart against an API server that stood still."""
    actor = labels[index].actor
    still = next((i for i in range(index - 1, -1, -1) if labels[i].actor == actor and labels[i].verb == "freeze"), None)
    if still is None:
        return f"{actor} restarts and lists everything from an API server that lags"
    return f"{actor} restarts and lists everything as it was at step {still + 1}"


def _lost(index: int, labels: Sequence[Label], scenes: Sequence[Scene], under_way: Sequence[Flight]) -> str:
    """A dropped event, or a watch that broke and is listed anew."""
    label = labels[index]
    kind = label.object
    lost = [f for f in under_way if f.actor == label.actor and f.landed == index and f.key[0] == kind]
    if label.verb == "drop":
        if not lost or not lost[0].sent:
            return f"an event of {kind} never reaches {label.actor}"
        what = _during(lost[0].key, lost[0].sent, scenes)
        return f"{label.actor} never hears of {steps(lost[0].sent)}" + (f" ({what})" if what else "")
    sent = tuple(sorted({s for f in lost for s in f.sent}))
    seen = f"; of {steps(sent)} only the outcome is seen" if len(sent) > 1 else ""
    return f"the watch broke and {label.actor} lists {kind} anew{seen}"


def _merged(flight: Flight, scenes: Sequence[Scene]) -> str:
    """Several changes that came as one: what was in between, nobody saw."""
    last = scenes[flight.sent[-1] + 1].objects().get(flight.key)
    hidden = []
    for change in _changes(flight.key, flight.sent[:-1], scenes):
        gone = last is None or (change.field and last.fields.get(change.field) != change.after) or change.field == ""
        if gone:
            hidden.append(_words(change))
    between = f" and {flight.actor} never sees {', '.join(dict.fromkeys(hidden[:SHOWN]))}" if hidden else ""
    return f"{steps(flight.sent)} come as one change{between}"


def _during(key: Key, sent: Sequence[int], scenes: Sequence[Scene]) -> str:
    return ", ".join(_words(change) for change in _changes(key, sent, scenes)[:SHOWN])


def _changes(key: Key, sent: Sequence[int], scenes: Sequence[Scene]) -> list[Change]:
    """What some steps changed of one object."""
    found = []
    for step in sent:
        old, new = ({k: v for k, v in scenes[i].objects().items() if k == key} for i in (step, step + 1))
        found += compared(old, new)
    return found


def _words(change: Change) -> str:
    if change.field:
        return f"{change.object} {change.field} = {change.after}"
    return f"{change.object} {'gone' if change.after is None else 'made'}"


def steps(sent: Sequence[int]) -> str:
    """Steps counted from 0 as people count them: "step 3", "steps 1 and 2"."""
    numbers = [str(s + 1) for s in sent]
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    return f"steps {', '.join(numbers[:-1])} and {numbers[-1]}"
