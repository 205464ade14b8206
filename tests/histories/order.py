"""Linearizability: one order of revisions explains what every client saw, and when.

With the order of the writes known, the question needs no search. Every request has a set of positions in the order at
which it can have happened; one that began after another had ended is not placed before it. Taking for each, in order of
time, the first position that is left is right whenever anything is, because positions only push others upwards.
(Gibbons and Korach 1997: verifying with a given order of writes is easy; without it, it is NP-complete.)
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define
from tests.histories.record import CONFLICT, DONE, EXISTS, MISSING, Listing, Object, Read, Record, Write, revision_of
from tests.histories.truth import Causes, Truth

Fits = Callable[[Object | None], bool]
"""Whether a request can have met this (None: nothing)."""
Place = Callable[[int], int | None]
"""The first position that fits and is not below the argument."""


@define(eq=False)
class Step:
    """A request on its way. `held` is whether it promises to show what was done before it."""

    what: str
    began: float
    ended: float
    place: Place
    held: bool = True
    floor: int = 0


def ordered(record: Record, truth: Truth, made: Causes) -> list[str]:
    """The faults."""
    steps = [*_writes(record, truth, made), *_reads(record, truth), *_lists(record), *_events(record)]
    return _sweep(steps)


def _sweep(steps: list[Step]) -> list[str]:
    faults = []
    moments = [(step.began, 0, number) for number, step in enumerate(steps)]
    moments += [(step.ended, 1, number) for number, step in enumerate(steps)]
    moments.sort()
    floor = 0
    for _, end, number in moments:
        step = steps[number]
        if not end:
            step.floor = floor
            continue
        place = step.place(step.floor if step.held else 0)
        if place is None:
            faults.append(f"{step.what}: does not show revision {step.floor}, which was known before it began")
        elif step.ended < float("inf"):
            floor = max(floor, place)
    return faults


def _exactly(revision: int, *, strict: bool = False) -> Place:
    return lambda least: revision if least + strict <= revision else None


def _where(truth: Truth, key: str, fits: Fits, low: int = 0) -> Place:
    return lambda least: truth.place(key, fits, max(least, low))


def _within(span: tuple[int, float] | None, low: int) -> Place:
    if span is None:
        return lambda _: None
    start, end = span
    return lambda least: max(start, least, low) if max(least, low) < end else None


def _writes(record: Record, truth: Truth, made: Causes) -> list[Step]:
    steps = []
    for write in record.writes:
        what = f"{write.verb} of {write.key} ({write.outcome}, {write.token or write.uid})"
        revision = made.made.get(id(write))
        if revision is not None:
            steps.append(Step(what, write.began, write.ended, _exactly(revision, strict=True)))
        elif write.outcome in (EXISTS, CONFLICT, MISSING):
            steps.append(Step(what, write.began, write.ended, _where(truth, write.key, _refused(write))))
        elif write.outcome == DONE and write.verb != "delete":
            steps.append(Step(what, write.began, write.ended, lambda _: None))
    return steps


def _absent(now: Object | None) -> bool:
    return now is None


def _refused(write: Write) -> Fits:
    if write.outcome == EXISTS:
        return lambda now: now is not None
    if write.outcome == MISSING:
        return _absent

    def other(now: Object | None) -> bool:
        if now is None:
            return False
        uid = now["metadata"]["uid"]
        return bool(write.expect and revision_of(now) != write.expect) or bool(write.uid and uid != write.uid)

    return other


def _reads(record: Record, truth: Truth) -> list[Step]:
    return [_read(truth, read) for read in record.reads]


def _read(truth: Truth, read: Read) -> Step:
    revision = 0 if read.found is None else revision_of(read.found)
    what = f"get of {read.key} at {read.version!r} that shows {revision or 'nothing'}"
    low = int(read.version or 0)

    if read.found is None:
        place = _where(truth, read.key, _absent, low)
    else:
        place = _within(truth.span(read.key, revision), low)
    return Step(what, read.began, read.ended, place, not read.version)


def _lists(record: Record) -> list[Step]:
    return [step for listing in record.listings if listing.pages for step in _list(listing)]


def _list(listing: Listing) -> list[Step]:
    first = listing.pages[0]
    what = f"list of {listing.namespace or 'all'} at {listing.version!r} {listing.match} that shows {first.revision}"
    steps = [Step(what, first.began, first.ended, _exactly(first.revision), not listing.version)]
    return steps


def _events(record: Record) -> list[Step]:
    return [
        Step(f"event of watch {watch.name}", time, time, _exactly(revision_of(obj)), held=False)
        for watch in record.watches
        for time, _, obj in watch.events
    ]
