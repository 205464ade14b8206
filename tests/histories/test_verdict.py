"""The verdict on small histories made by hand: each broken promise is told, and the same history without it is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from tests.histories.judge import judged
from tests.histories.record import (
    CONFLICT,
    DONE,
    EXISTS,
    MISSING,
    UNKNOWN,
    Listing,
    Page,
    Read,
    Record,
    Watching,
    Write,
)

Object = dict[str, Any]


def thing(name: str, revision: int, token: str, uid: str = "", label: str = "") -> Object:
    meta: Object = {"namespace": "a", "name": name, "resourceVersion": str(revision), "uid": uid or f"u-{name}"}
    meta["creationTimestamp"] = "2026-01-01T00:00:00Z"
    meta["labels"] = {"s": label} if label else {}
    return {"metadata": meta, "data": {"w": token}}


def wrote(verb: str, now: Object, began: float, ended: float, **more: Any) -> Write:
    sent = {"data": now["data"], "labels": now["metadata"]["labels"]}
    key = f"a/{now['metadata']['name']}"
    made = Write(verb, key, began, now["data"]["w"], sent, ended=ended, outcome=DONE, answer=now)
    return evolve(made, **more)


def page(revision: int, *items: Object, began: float = 6.1, remaining: int | None = None) -> Page:
    return Page(began, began + 0.1, revision, list(items), remaining, remaining is not None)


def gone(name: str, began: float, ended: float, uid: str = "") -> Write:
    answer = {"details": {"uid": uid or f"u-{name}"}}
    return Write("delete", f"a/{name}", began, ended=ended, outcome=DONE, answer=answer)


def watch(version: str, *events: tuple[str, Object], label: str = "", initial: bool = False) -> Watching:
    at = [(100.0 + n, kind, obj) for n, (kind, obj) in enumerate(events)]
    return Watching("a", label, version, initial, bool(initial), 99.0, at, None, "w")


ONE, TWO = thing("n", 10, "t1", label="x"), thing("n", 12, "t2")
OTHER = thing("m", 11, "t3")
GONE = thing("n", 14, "t2")
EVENTS = (("ADDED", ONE), ("ADDED", OTHER), ("MODIFIED", TWO), ("DELETED", GONE))


def base() -> Record:
    """n is made (10), m is made (11), n is changed (12) and deleted (14); one request after the other."""
    record = Record()
    record.writes = [
        wrote("create", ONE, 1, 2),
        wrote("create", OTHER, 3, 4),
        wrote("update", TWO, 5, 6, expect=10),
        gone("n", 7, 8),
    ]
    record.watches = [watch("9", *EVENTS)]
    return record


def listing(version: str, match: str, *pages: Page, limit: int = 0, label: str = "") -> Listing:
    return Listing("a", label, version, match, limit, list(pages))


SOUND: list[Callable[[Record], Any]] = [
    lambda r: r.reads.append(Read("a/n", "", 2.5, 2.6, ONE)),
    lambda r: r.reads.append(Read("a/n", "", 5.5, 9, ONE)),
    lambda r: r.reads.append(Read("a/n", "", 5.5, 9, None)),
    lambda r: r.reads.append(Read("a/n", "0", 9, 9.5, ONE)),
    lambda r: r.reads.append(Read("a/n", "11", 9, 9.5, ONE)),
    lambda r: r.reads.append(Read("a/none", "", 9, 9.5, None)),
    lambda r: r.listings.append(listing("", "", page(12, OTHER, TWO))),
    lambda r: r.listings.append(listing("10", "Exact", page(10, ONE, began=9))),
    lambda r: r.listings.append(listing("", "", page(13, OTHER, remaining=1), page(13, TWO, began=9), limit=1)),
    lambda r: r.writes.append(Write("create", "a/n", 5, ended=6, outcome=EXISTS, token="x")),
    lambda r: r.writes.append(Write("update", "a/n", 9, ended=9.5, outcome=MISSING, token="x")),
    lambda r: r.writes.append(Write("update", "a/n", 5, ended=9, outcome=CONFLICT, expect=10, token="x")),
    lambda r: r.writes.append(Write("update", "a/n", 5, outcome=UNKNOWN, token="x")),
    lambda r: r.watches.append(watch("9", ("ADDED", ONE), ("DELETED", thing("n", 12, "t1", label="x")), label="x")),
    lambda r: r.watches.append(watch("", *EVENTS[:2])),
    lambda r: r.watches.append(watch("0", ("ADDED", OTHER), ("ADDED", TWO), ("DELETED", GONE))),
    lambda r: r.watches.append(watch("10", *EVENTS[1:])),
    lambda r: r.watches.append(watch("12", ("DELETED", GONE))),
]


@pytest.mark.parametrize("change", SOUND)
def test_sound(change: Callable[[Record], Any]) -> None:
    record = base()
    change(record)
    assert judged(record) == []


def swap_times(record: Record) -> None:
    record.writes[1].began, record.writes[1].ended = 0.1, 0.2


BROKEN: list[tuple[str, Callable[[Record], Any]]] = [
    ("does not show revision 12", lambda r: r.reads.append(Read("a/n", "", 6.5, 6.6, ONE))),
    ("does not show revision 14", lambda r: r.reads.append(Read("a/n", "", 8.5, 8.6, TWO))),
    ("known before it began", lambda r: r.reads.append(Read("a/n", "", 2.5, 2.6, None))),
    ("does not show revision", lambda r: r.reads.append(Read("a/n", "12", 9, 9.6, ONE))),
    ("create of a/n", swap_times),
    (  # monotonic: two reads, the later one older, while the write is under way
        "does not show revision 12",
        lambda r: r.reads.extend([Read("a/n", "", 5.1, 5.2, TWO), Read("a/n", "", 5.3, 5.4, ONE)]),
    ),
    ("written by nobody", lambda r: r.reads.append(Read("a/k", "", 9, 9.6, thing("k", 15, "t9")))),
    ("is not the same", lambda r: r.reads.append(Read("a/n", "", 2.5, 2.6, thing("n", 10, "t8")))),
    ("comes twice", lambda r: r.reads.append(Read("a/k", "", 9, 9.6, thing("k", 10, "t1")))),
    ("is not the state", lambda r: r.listings.append(listing("", "", page(12, TWO)))),
    ("is not the state", lambda r: r.listings.append(listing("", "", page(12, TWO, OTHER)))),
    ("does not show revision 12", lambda r: r.listings.append(listing("", "", page(11, OTHER, ONE)))),
    ("not what was asked", lambda r: r.listings.append(listing("10", "Exact", page(11, OTHER, ONE, began=9)))),
    (
        "a page of revision 14",
        lambda r: r.listings.append(
            listing("", "", page(13, OTHER, remaining=1), page(14, TWO, began=9), limit=1)
        ),
    ),
    ("told to remain", lambda r: r.listings.append(listing("", "", page(12, OTHER, remaining=2), limit=1))),
    ("asked for over 9", lambda r: setattr(r.writes[2], "expect", 9)),
    ("is not in the history", lambda r: r.writes.append(gone("m", 9, 9.5))),
    ("were acknowledged", lambda r: r.writes.append(gone("n", 9, 9.5))),
    ("nobody asked for the delete", lambda r: r.writes.pop()),
    ("known before it began", lambda r: r.writes.append(Write("create", "a/n", 0.1, ended=0.2, outcome=EXISTS))),
    ("before it began", lambda r: r.writes.append(Write("update", "a/n", 3, ended=4, outcome=CONFLICT, expect=10))),
    ("comes where", lambda r: r.watches.append(watch("9", EVENTS[0], *EVENTS[2:]))),
    ("comes after 10", lambda r: r.watches.append(watch("9", EVENTS[0], EVENTS[0]))),
    ("comes where", lambda r: r.watches.append(watch("9", ("MODIFIED", ONE)))),
    ("comes where", lambda r: r.watches.append(watch("9", ("ADDED", ONE), ("MODIFIED", TWO), label="x"))),
    ("shows", lambda r: r.watches.append(watch("12", ("DELETED", thing("n", 14, "t1"))))),
    ("the state of no revision", lambda r: r.watches.append(watch("0", ("ADDED", TWO), ("ADDED", OTHER)))),
    ("comes after 14", lambda r: r.watches.append(watch("14", ("DELETED", GONE)))),
    (
        "comes before the event 12",
        lambda r: r.watches.append(watch("11", ("BOOKMARK", thing("n", 12, "")), ("MODIFIED", TWO))),
    ),
    ("uid", lambda r: (r.writes.append(wrote("create", thing("k", 16, "t7", uid="u-m"), 9, 10)))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "change"), BROKEN)
def test_broken(text: str, change: Callable[[Record], Any]) -> None:
    record = base()
    change(record)
    faults = judged(record)
    assert any(text in fault for fault in faults), faults


def test_what_was_seen_is_stored() -> None:
    told = [(10, "a/n", ONE), (11, "a/m", OTHER), (12, "a/n", TWO)]
    assert judged(base(), [*told, (14, "a/n", None)]) == []
    assert any("14 of a/n was seen, and is not stored" in fault for fault in judged(base(), told))


def test_unknown_write_may_have_been_done() -> None:
    record = base()
    record.writes[2] = evolve(record.writes[2], outcome=UNKNOWN, ended=math.inf, answer={})
    assert judged(record) == []
