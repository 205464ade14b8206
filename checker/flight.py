"""Changes on their way from the store to the caches, followed through a trace.

Each change that a step makes in the store becomes one flight for every cache of its kind: sent by that
step, landed by the step that delivered it, lost in a crash or a relist, or still under way at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import frozen

from dashpot.checker.scene import Item, Key, Scene, Undelivered
from dashpot.model.system import Label

Difference: TypeAlias = tuple[str, str | None, str | None]
"""One field that a cache shows otherwise than the store: (field, cache, truth)."""


@frozen
class Flight:
    """One change under way to one cache.

    actor    whose cache it is for
    key      the object that changed
    object   what people call it
    sent     steps that made it, first to last (several when changes were merged); empty if it was there at the start
    landed   the step that took it from the list; None if none did
    how      "delivered" | "lost" (dropped, or swept away by a restart or relist) | "" still under way
    """

    actor: str
    key: Key
    object: str
    sent: tuple[int, ...]
    landed: int | None = None
    how: str = ""


@frozen
class _Open:
    key: Key
    object: str
    sent: tuple[int, ...]

    def close(self, actor: str, step: int | None, how: str) -> Flight:
        return Flight(actor, self.key, self.object, self.sent, step, how)


def flights(scenes: Sequence[Scene], labels: Sequence[Label], watchers: dict[str, tuple[str, ...]]) -> list[Flight]:
    """All flights of a trace, by cache, in the order in which they were sent. Steps count from 0."""
    result: list[Flight] = []
    for actor, kinds in watchers.items():
        for kind in kinds:
            if any(u.kind == kind for scene in scenes for u in scene.pending.get(actor, ())):
                result += _listed(scenes, labels, actor, kind)
            else:
                result += _guessed(scenes, actor, kind)
    return result


def touched(before: Scene, after: Scene, kind: str) -> dict[Key, Item]:
    """Objects of a kind whose truth differs between two states, as they are called where they exist."""
    old = {k: i for k, i in before.objects().items() if k[0] == kind}
    new = {k: i for k, i in after.objects().items() if k[0] == kind}
    return {k: new.get(k, old.get(k)) or old[k] for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)}


def _listed(scenes: Sequence[Scene], labels: Sequence[Label], actor: str, kind: str) -> Iterable[Flight]:
    """Follow the list of undelivered changes of one cache: which were taken from its head, which joined its tail."""
    queue = [_Open(u.key, u.title, ()) for u in _of(scenes[0], actor, kind)]
    for step, label in enumerate(labels):
        after = _of(scenes[step + 1], actor, kind)
        if label.actor == actor and label.verb == "stale_restart":
            for gone in queue:
                yield gone.close(actor, step, "lost")
            queue = _since(scenes, labels, actor, kind, step)
            continue
        fresh = [u for u in after[-1:] if u.key in touched(scenes[step], scenes[step + 1], kind)]
        merged = bool(fresh and queue and queue[-1].key == fresh[0].key and len(after) <= len(queue))
        keep = len(after) - (1 if fresh and not merged else 0)
        taken, queue = queue[: max(len(queue) - keep, 0)], queue[max(len(queue) - keep, 0) :]
        how = "delivered" if label.verb == "deliver" or (fresh and not merged) else "lost"
        for gone in taken:
            yield gone.close(actor, step, how)
        if merged:
            queue[-1] = _Open(queue[-1].key, fresh[0].title, (*queue[-1].sent, step))
        elif fresh:
            queue.append(_Open(fresh[0].key, fresh[0].title, (step,)))
        for late in after[len(queue) :]:
            queue.append(_Open(late.key, late.title, (step,)))
    for left in queue:
        yield left.close(actor, None, "")


def _since(scenes: Sequence[Scene], labels: Sequence[Label], actor: str, kind: str, restart: int) -> list[_Open]:
    """What a restart against an API server that had stood still has yet to see: the changes since it stood still.

    Several changes of one object may have been merged; only the last list entry of an object can be of several.
    """
    still = [i for i in range(restart) if labels[i].actor == actor and labels[i].verb == "freeze"]
    after = _of(scenes[restart + 1], actor, kind)
    opened = []
    for position, late in enumerate(after):
        made = [
            i for i in range(still[-1] if still else 0, restart) if late.key in touched(scenes[i], scenes[i + 1], kind)
        ]
        before = sum(other.key == late.key for other in after[:position])
        last = not any(other.key == late.key for other in after[position + 1 :])
        opened.append(_Open(late.key, late.title, tuple(made[before:] if last else made[before : before + 1])))
    return opened


def _of(scene: Scene, actor: str, kind: str) -> list[Undelivered]:
    return [u for u in scene.pending.get(actor, ()) if u.kind == kind]


def _guessed(scenes: Sequence[Scene], actor: str, kind: str) -> Iterable[Flight]:
    """Without a list: a change has landed once the cache shows the object as the store does."""
    queue: dict[Key, _Open] = {}
    for step in range(len(scenes) - 1):
        before, after = scenes[step], scenes[step + 1]
        for key, item in touched(before, after, kind).items():
            sent = (*queue[key].sent, step) if key in queue else (step,)
            queue[key] = _Open(key, item.title, sent)
        truth, cached = after.objects(), after.objects(actor)
        for key in [k for k in queue if _agree(truth.get(k), cached.get(k))]:
            yield queue.pop(key).close(actor, step, "delivered")
    for left in queue.values():
        yield left.close(actor, None, "")


def _agree(truth: Item | None, cached: Item | None) -> bool:
    return not differing(truth, cached)


def differing(truth: Item | None, cached: Item | None) -> list[Difference]:
    """Where a cached object differs from the truth: (field, cache, truth); field "" when one of the two is absent.

    Fields that the cache does not keep are not compared.
    """
    if truth is None and cached is None:
        return []
    if truth is None or cached is None:
        return [("", cached.summary() if cached else None, truth.summary() if truth else None)]
    shared = [path for path in cached.fields if path in truth.fields]
    pairs = [("name", cached.name, truth.name), *((p, cached.fields[p], truth.fields[p]) for p in shared)]
    return [(field, shown, true) for field, shown, true in pairs if shown != true]
