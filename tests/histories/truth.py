"""The one history behind all that was seen: which write made which revision."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable

from attrs import define, field, frozen
from tests.histories.record import DONE, UNKNOWN, Object, Record, Write, bare, key_of, revision_of


@frozen
class Change:
    """One revision: what its key holds from then on (None: nothing), and what it held before."""

    revision: int
    key: str
    now: Object | None
    before: Object | None


@define(eq=False)
class Truth:
    """Changes in order of revision."""

    changes: list[Change]
    faults: list[str] = field(factory=list)
    revisions: list[int] = field(factory=list)
    of_key: dict[str, list[Change]] = field(factory=dict)
    keys: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.revisions = [change.revision for change in self.changes]
        for change in self.changes:
            self.of_key.setdefault(change.key, []).append(change)
        self.keys = sorted(self.of_key)

    def state(self, revision: int) -> dict[str, Object]:
        """All objects as of a revision, in order of key."""
        found: dict[str, Object] = {}
        for key in self.keys:
            now = self.at(key, revision)
            if now is not None:
                found[key] = now
        return found

    def at(self, key: str, revision: int) -> Object | None:
        """One object as of a revision."""
        changes = self.of_key.get(key, [])
        index = bisect_right(changes, revision, key=lambda change: change.revision)
        return changes[index - 1].now if index else None

    def place(self, key: str, fits: Callable[[Object | None], bool], least: int) -> int | None:
        """The first revision from `least` on at which what a key holds fits."""
        changes = self.of_key.get(key, [])
        index = bisect_right(changes, least, key=lambda change: change.revision)
        if fits(changes[index - 1].now if index else None):
            return least
        return next((change.revision for change in changes[index:] if fits(change.now)), None)

    def span(self, key: str, revision: int) -> tuple[int, float] | None:
        """From which revision to which (not included) a key held what was written at a revision; None for never."""
        changes = self.of_key.get(key, [])
        index = bisect_right(changes, revision, key=lambda change: change.revision)
        if not index or changes[index - 1].revision != revision or changes[index - 1].now is None:
            return None
        return revision, changes[index].revision if index < len(changes) else math.inf


@define(eq=False)
class Evidence:
    """What is known of each revision, from whoever told of it."""

    told: dict[int, tuple[str, Object | None]] = field(factory=dict)
    faults: list[str] = field(factory=list)

    def add(self, revision: int, key: str, obj: Object | None, who: str) -> None:
        """One witness; a fault where another one said something else."""
        now = None if obj is None else bare(obj)
        known = self.told.setdefault(revision, (key, now))
        if known[0] != key:
            self.faults.append(f"revision {revision} comes twice: {known[0]} and {key} ({who})")
        elif known[1] != now:
            self.faults.append(f"revision {revision} of {key} is not the same for {who}: {now} was {known[1]}")

    def truth(self) -> Truth:
        """The history."""
        last: dict[str, Object | None] = {}
        changes = []
        for revision, (key, now) in sorted(self.told.items()):
            changes.append(Change(revision, key, now, last.get(key)))
            last[key] = now
        return Truth(changes, self.faults)


def gathered(record: Record, more: Iterable[tuple[int, str, Object | None]] = ()) -> Truth:
    """The history out of everything that was seen, and out of what a store itself tells (`more`)."""
    evidence = Evidence()
    for revision, key, obj in more:
        evidence.add(revision, key, obj, "the store")
    stored = set(evidence.told)
    for write in record.writes:
        if write.outcome == DONE and write.verb != "delete":
            evidence.add(revision_of(write.answer), write.key, write.answer, f"the answer to {write.verb}")
    for watch in record.watches:
        for _, kind, obj in watch.events:
            if kind in ("ADDED", "MODIFIED"):
                evidence.add(revision_of(obj), key_of(obj), obj, f"watch {watch.name}")
            elif kind == "DELETED" and not watch.label:
                evidence.add(revision_of(obj), key_of(obj), None, f"watch {watch.name}")
    for read in record.reads:
        if read.found is not None:
            evidence.add(revision_of(read.found), read.key, read.found, "a get")
    for listing in record.listings:
        for page in listing.pages:
            for item in page.items:
                evidence.add(revision_of(item), key_of(item), item, "a list")
    if stored:
        for revision in sorted(set(evidence.told) - stored):
            evidence.faults.append(f"revision {revision} of {evidence.told[revision][0]} was seen, and is not stored")
    return evidence.truth()


@define(eq=False)
class Causes:
    """Which write made which change. `made` is the revision of each write that is in the history."""

    made: dict[int, int] = field(factory=dict)
    faults: list[str] = field(factory=list)


def causes(record: Record, truth: Truth) -> Causes:
    """Each change has exactly one write that asked for it and fits it; each write that was acknowledged has its one."""
    found = Causes()
    by_token = {write.token: write for write in record.writes if write.token}
    by_uid: dict[str, list[Write]] = {}
    open_deletes: dict[str, list[Write]] = {}
    for write in record.writes:
        if write.verb == "delete" and write.outcome == DONE:
            by_uid.setdefault(write.answer["details"]["uid"], []).append(write)
        elif write.verb == "delete" and write.outcome == UNKNOWN:
            open_deletes.setdefault(write.key, []).append(write)
    uids: dict[str, str] = {}
    for change in truth.changes:
        if change.now is None:
            _deleted(change, by_uid, open_deletes, found)
            continue
        _written(change, by_token, uids, found)
    for uid, writes in by_uid.items():
        if len(writes) > 1:
            found.faults.append(f"{len(writes)} deletes of {writes[0].key} ({uid}) were acknowledged")
        for write in writes:
            if id(write) not in found.made:
                found.faults.append(f"the delete of {write.key} ({uid}) was acknowledged, and is not in the history")
    return found


def _deleted(
    change: Change, by_uid: dict[str, list[Write]], open_deletes: dict[str, list[Write]], found: Causes
) -> None:
    if change.before is None:
        found.faults.append(f"revision {change.revision} deletes {change.key}, which is not there")
        return
    writes = by_uid.get(change.before["metadata"]["uid"], [])
    for write in writes or open_deletes.get(change.key, []):
        if write.expect and write.expect != revision_of(change.before):
            continue
        found.made.setdefault(id(write), change.revision)
        if not writes:
            open_deletes[change.key].remove(write)
        return
    found.faults.append(f"nobody asked for the delete of {change.key} at {change.revision}")


def _written(change: Change, by_token: dict[str, Write], uids: dict[str, str], found: Causes) -> None:
    now, before = change.now, change.before
    assert now is not None
    write = by_token.get(now.get("data", {}).get("w", ""))
    what = f"revision {change.revision} of {change.key}"
    if write is None or write.key != change.key or write.outcome not in (DONE, UNKNOWN):
        found.faults.append(f"{what} was written by nobody, or by a write that was refused: {now.get('data')}")
        return
    if id(write) in found.made:
        found.faults.append(f"{what}: one {write.verb} was done twice ({found.made[id(write)]})")
    found.made[id(write)] = change.revision
    meta = now["metadata"]
    if before is None:
        if write.verb != "create":
            found.faults.append(f"{what}: {write.verb} made an object out of nothing")
        if meta["uid"] in uids:
            found.faults.append(f"{what}: the uid {meta['uid']} was {uids[meta['uid']]}'s")
        uids[meta["uid"]] = what
        wanted = write.sent
    else:
        old = before["metadata"]
        if write.verb == "create":
            found.faults.append(f"{what}: a create over an object that was there ({old['resourceVersion']})")
        if (meta["uid"], meta["creationTimestamp"]) != (old["uid"], old["creationTimestamp"]):
            found.faults.append(f"{what}: uid or creationTimestamp changed")
        if write.expect and write.expect != revision_of(before):
            found.faults.append(f"{what}: written over {old['resourceVersion']}, asked for over {write.expect}")
        wanted = write.sent
        if write.verb == "patch":
            wanted = {
                "data": {**before.get("data", {}), **write.sent["data"]},
                "labels": {**old.get("labels", {}), **write.sent["labels"]},
            }
    if now.get("data", {}) != wanted["data"] or meta.get("labels", {}) != wanted["labels"]:
        found.faults.append(f"{what}: {write.verb} left {now.get('data')} {meta.get('labels')}, not {wanted}")
