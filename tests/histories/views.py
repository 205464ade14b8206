"""Lists and watches against the history: a list is the state of its revision, a watch is what came after its start."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

from attrs import define, field
from tests.histories.record import Listing, Object, Record, Watching, bare, key_of, revision_of
from tests.histories.truth import Change, Truth


def viewed(record: Record, truth: Truth) -> list[str]:
    """The faults."""
    faults: list[str] = []
    for listing in record.listings:
        faults += listed(listing, truth)
    views = Views(truth)
    for watch in record.watches:
        faults += watched(watch, views)
    return faults


def meant(obj: Object, namespace: str, label: str) -> bool:
    """Whether an object is of a namespace ("": any) and has a label `s` (with a value, or "": any)."""
    meta = obj["metadata"]
    if namespace and meta["namespace"] != namespace:
        return False
    return not label or meta.get("labels", {}).get("s") == label


def _part(truth: Truth, revision: int, namespace: str, label: str) -> list[Object]:
    return [obj for obj in truth.state(revision).values() if meant(obj, namespace, label)]


def listed(listing: Listing, truth: Truth) -> list[str]:
    """All pages show one revision, the one that was asked for, and together they are its state in order."""
    if not listing.pages:
        return []
    revision = listing.pages[0].revision
    what = f"list of {listing.namespace or 'all'} ({listing.label}) at {listing.version!r} {listing.match}: {revision}"
    faults = []
    number = int(listing.version or 0)
    exact = listing.match == "Exact" or (number and listing.limit and not listing.match)
    if (exact and revision != number) or revision < number:
        faults.append(f"{what} is not what was asked for")
    wanted = _part(truth, revision, listing.namespace, listing.label)
    shown: list[Object] = []
    for page in listing.pages:
        shown += map(bare, page.items)
        if page.revision != revision:
            faults.append(f"{what}: a page of revision {page.revision}")
        if listing.limit and len(page.items) > listing.limit:
            faults.append(f"{what}: {len(page.items)} objects in a page of {listing.limit}")
        left = len(wanted) - len(shown)
        if page.more and not listing.label and page.remaining != left:
            faults.append(f"{what}: {page.remaining} are told to remain, {left} do")
    if listing.pages[-1].more:
        wanted = wanted[: len(shown)]
    if shown != wanted:
        faults.append(f"{what} is not the state of its revision: {_differ(shown, wanted)}")
    return faults


def _differ(shown: list[Object], wanted: list[Object]) -> str:
    one = {(o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in shown}
    two = {(o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in wanted}
    return f"shows {sorted(one - two)} instead of {sorted(two - one)}" if one != two else "order or content"


def event_of(change: Change, namespace: str, label: str) -> tuple[str, Object] | None:
    """What a change is to a watch."""
    was = change.before is not None and meant(change.before, namespace, label)
    now = change.now is not None and meant(change.now, namespace, label)
    if now:
        assert change.now is not None
        return ("MODIFIED" if was else "ADDED"), change.now
    if not was:
        return None
    assert change.before is not None
    meta = {**change.before["metadata"], "resourceVersion": str(change.revision)}
    return "DELETED", {**change.before, "metadata": meta}


Future = list[tuple[int, tuple[str, Object]]]


@define(eq=False)
class Views:
    """What each selection is told in all of the history; made once for all watches that share it."""

    truth: Truth
    made: dict[tuple[str, str], tuple[Future, list[int]]] = field(factory=dict)

    def of(self, namespace: str, label: str) -> tuple[Future, list[int]]:
        """The events, and their revisions."""
        found = self.made.get((namespace, label))
        if found is None:
            events = [
                (change.revision, event)
                for change in self.truth.changes
                if (event := event_of(change, namespace, label)) is not None
            ]
            found = self.made[namespace, label] = events, [revision for revision, _ in events]
        return found


def watched(watch: Watching, views: Views) -> list[str]:
    """Every event after the start, in order, none missing and none twice, up to the last one and to each bookmark."""
    what = f"watch {watch.name} of {watch.namespace or 'all'} ({watch.label}) from {watch.version!r}"
    shown = [(kind, bare(obj)) for _, kind, obj in watch.events if kind != "BOOKMARK"]
    number = int(watch.version or 0)
    if not shown:
        return []
    starts = [(number, 0)]
    if not number or watch.initial:
        starts = _starts(watch, views, shown, number)
        if not starts:
            return [f"{what}: its first events are the state of no revision"]
    future, revisions = views.of(watch.namespace, watch.label)
    faults: list[str] = []
    for start, count in reversed(starts):
        rest = future[bisect_right(revisions, start) :]
        faults = _follows(what, watch, rest, start, count)
        if not faults:
            break
    return faults


def _starts(watch: Watching, views: Views, shown: list[tuple[str, Object]], least: int) -> list[tuple[int, int]]:
    """Revisions whose state can be the beginning of the stream, and how many objects that state has: those at which
    the first object was what is shown, and the one before it if nothing was there then."""
    names = [(key_of(obj), revision_of(obj)) for _, obj in shown]
    _, revisions = views.of(watch.namespace, watch.label)
    key, first = names[0]
    end = next((c.revision for c in views.truth.of_key.get(key, []) if c.revision > first), math.inf)
    begin = bisect_left(revisions, first)
    candidates = [revisions[begin - 1] if begin else 0]
    candidates += [revision for revision in revisions[begin : bisect_left(revisions, end)]]
    found = []
    for number, revision in enumerate(candidates):
        last = candidates[number + 1] - 1 if number + 1 < len(candidates) else end
        if last < least:
            continue
        state = _part(views.truth, revision, watch.namespace, watch.label)
        cut = min(len(state), len(names))
        same = [(key_of(obj), revision_of(obj)) for obj in state[:cut]] == names[:cut]
        if same and all(kind == "ADDED" for kind, _ in shown[:cut]):
            found.append((revision, len(state)))
    return found


def _follows(what: str, watch: Watching, rest: Future, start: int, count: int) -> list[str]:
    """The events behind the first `count`, which are the state of `start`."""
    at = 0
    seen = 0
    told = start
    ended = not watch.initial
    for _, kind, obj in watch.events:
        revision = revision_of(obj)
        if kind == "BOOKMARK":
            ends = obj["metadata"].get("annotations", {}).get("k8s.io/initial-events-end") == "true"
            if ends and (ended or seen < count):
                return [f"{what}: the initial events are said to end after {seen} of {count}"]
            ended = ended or ends
            if seen < count:
                continue
            if at < len(rest) and rest[at][0] <= revision:
                return [f"{what}: the bookmark {revision} comes before the event {rest[at][0]}"]
            if revision < told:
                return [f"{what}: the bookmark {revision} goes back behind {told}"]
            told = revision
            continue
        if seen < count:
            seen += 1
            continue
        if not watch.bookmarks and revision <= told:
            return [f"{what}: the event {revision} comes after {told}"]
        if at >= len(rest):
            return [f"{what}: {kind} {revision} is in no history"]
        wanted_revision, (wanted_kind, wanted) = rest[at]
        if (revision, kind) != (wanted_revision, wanted_kind):
            return [f"{what}: {kind} {revision} comes where {wanted_kind} {wanted_revision} should ({start})"]
        if bare(obj) != wanted:
            return [f"{what}: {kind} {revision} shows {bare(obj)}, not {wanted}"]
        told = max(told, revision)
        at += 1
    return []
