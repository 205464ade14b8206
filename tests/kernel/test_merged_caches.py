"""Merged caches against an unbounded log: each run of the kernel is a run of the log, read in order and a little "
"at a time.

The reference keeps, for each kind, every version that the store ever had, and a cursor into that log. What it knows of
merging is the rule of docs/semantics.md and no code of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from attrs import define, field
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.kernel.probe import asked, spec

from dashpot.model.kernel.build import build
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.system import System

Version = dict[str, str]
"""Leaf → text of one version of an object; empty: not there."""

Keys = Callable[[Version, Version], set[str]]

STEPS = 80
IGNORED = ("generation", "incarnation", "creationTimestamp")


# ---------------------------------------------------------------------- the clauses, and what they say in Python
def to_of(*versions: Version) -> set[str]:
    return {v["spec.to"] for v in versions if v and v["spec.to"] != "null"}


def owner_of(*versions: Version) -> set[str]:
    return {v["owner"].removeprefix("Box ") for v in versions if v and v["owner"] != "null"}


def filtered(keys: Keys, test: Callable[[Version, Version], bool]) -> Keys:
    return lambda old, new: keys(old, new) if not (old and new) or test(old, new) else set()


@define
class Clause:
    """A way to watch notes.

    keys   names of boxes that a change owes; late: found at delivery, among the boxes that the cache shows then
    exact  no change may be merged: something looks at each version
    """

    text: str
    keys: Keys
    late: bool = False
    exact: bool = False


CLAUSES = [
    Clause("watches Note as n -> n.spec.to", to_of),
    Clause("watches Note as n -> n.spec.to new only", lambda old, new: to_of(new or old)),
    Clause("watches Note as n -> n.spec.to when n.spec.k == 1", filtered(to_of, lambda old, new: new["spec.k"] == "1")),
    Clause(
        "watches Note as n -> n.spec.to new only when n.spec.k != old.spec.k",
        filtered(lambda old, new: to_of(new or old), lambda old, new: new["spec.k"] != old["spec.k"]),
    ),
    Clause("owns Note", owner_of),
    Clause("owns Note as n when n.spec.k != old.spec.k", filtered(owner_of, lambda old, new: new["spec.k"] != old[
    "spec.k"])),
    Clause("watches Note as n -> Box", lambda old, new: {"a", "b"}, late=True),
    Clause("watches Note as n -> Box.filter(x, x.name == n.spec.to)", to_of, late=True, exact=True),
    Clause(
        "watches Note as n -> Box when n.spec.k == 1",
        filtered(lambda old, new: {"a", "b"}, lambda old, new: new["spec.k"] == "1"), late=True, exact=True,
    ),
    Clause(
        "watches Note as n -> n.spec.to; index seen: 0..1 = 0 on Note { add n { seen = 1 } }", to_of, exact=True,
    ),
]  # fmt: skip

FOR = [
    Clause("", lambda old, new: {(old or new)["name"]}),
    Clause(
        "as b when b.spec.n != old.spec.n",
        filtered(lambda old, new: {(old or new)["name"]}, lambda old, new: old["spec.n"] != new["spec.n"]),
    ),
]


def text(clause: Clause, own: Clause, lag: int) -> str:
    return f"""
resource Box {{ spec {{ n: 0..1 }} }}
resource Note {{ spec {{ to: Name?; k: 0..1 }} }}
controller C for Box {own.text} {{
  {clause.text}
  reconcile b {{
    let notes = list cached Note
    if notes.exists(x, x.spec.k == 1 && x.spec.to == b.name) && notes.exists(x, x.owner == b) &&
        b.spec.n == 1 {{ return }}
  }}
}}
environment U {{
  action turn(b: Box) {{ patch b.spec {{ n: any 0..1 }} }}
  action remove(b: Box) {{ delete b }}
  action again() {{ let who = any ["a", "b"]; create Box {{ name: who, spec.n: 1 }} on AlreadyExists {{ }} }}
  action put() {{
    let where = any ["x", "y"]
    create Note {{ name: where, spec.k: any 0..1, spec.to: any ["a", "b", "nobody"] }} on AlreadyExists {{ }}
  }}
  action own(b: Box) {{ create Note {{ name: any ["x", "y"], owner: b }} on AlreadyExists {{ }} }}
  action flip(n: Note) {{ patch n.spec {{ k: 1 - n.spec.k }} }}
  action move(n: Note) {{ patch n.spec {{ to: n.spec.to == "a" ? "b" : "a" }} }}
  action drop(n: Note) {{ delete n }}
}}
check c {{ run C, U; scope {{ Box: 2; Note: 2; lag: {lag} }}; faults {{ }}; given Box a {{ }}; given Box b {{ }} }}
"""


# ---------------------------------------------------------------------- the reference
@define
class Batch:
    """Neighbouring changes of one key that will be shown at once: log entries up to `upto`."""

    slot: int
    upto: int
    owed: set[str]


@define
class Feed:
    """One kind as one cache reads it: the log of all changes, the store after each, and how far the cache is."""

    clause: Clause
    lag: int
    log: list[tuple[int, Version, Version]] = field(factory=list)
    stores: list[list[Version]] = field(factory=list)
    waiting: list[Batch] = field(factory=list)
    at: int = 0

    @property
    def shown(self) -> list[Version]:
        return self.stores[self.at]

    def write(self, slot: int, old: Version, new: Version) -> Batch | None:
        """Log a change; the batch that a full list hands over with it, if any."""
        self.log.append((slot, old, new))
        after = list(self.stores[-1])
        after[slot] = new
        self.stores.append(after)
        owed = set() if self.clause.late else self.clause.keys(old, new)
        merges = not self.clause.exact and not (self.clause.late and not new)
        if merges and self.waiting and self.waiting[-1].slot == slot:
            last = self.waiting[-1]
            last.upto, last.owed = len(self.log), last.owed | owed
            return None
        due = self.waiting.pop(0) if len(self.waiting) == self.lag else None
        self.waiting.append(Batch(slot, len(self.log), owed))
        return due

    def take(self, batch: Batch) -> list[tuple[int, Version, Version]]:
        """Show a batch: the log entries that the cache passes over with it."""
        passed = self.log[self.at : batch.upto]
        assert passed and all(slot == batch.slot for slot, _, _ in passed)
        self.at = batch.upto
        return passed


class Reader:
    """The cells of a state by what they hold."""

    def __init__(self, system: System, backend: Backend) -> None:
        self.system = system
        self.backend = backend
        self.cells = {
            (c.area, c.kind, c.slot, c.path): c for c in system.cells if c.area in ("store", "cache", "queue")
        }
        self.names = {"Box": ("a", "b"), "Note": ("x", "y")}
        self.count = {c.kind: c for c in system.cells if c.area == "pending" and c.path == "count"}

    def rows(self, state: int, area: str, kind: str) -> list[Version]:
        values = self.backend.unpack(state)
        out: list[Version] = []
        for slot, name in enumerate(self.names[kind]):
            row = {
                path: c.text(values[c.index])
                for (a, k, s, path), c in self.cells.items()
                if (a, k, s) == (area, kind, slot) and not path.endswith(IGNORED)
            }
            row["name"] = name
            out.append(row if row["present"] == "1" else {})
        return out

    def dirty(self, state: int) -> set[str]:
        values = self.backend.unpack(state)
        return {
            self.names["Box"][slot]
            for (area, _, slot, path), c in self.cells.items()
            if area == "queue" and path == "dirty" and values[c.index]
        }

    def waiting(self, state: int, kind: str) -> int:
        return self.backend.unpack(state)[self.count[kind].index]


@cache
def reader_of(source: str) -> Reader:
    program = spec(source)
    system = build(program, asked(program))
    return Reader(system, compile_system(system))


def walk(clause: Clause, own: Clause, lag: int, random: Random) -> None:
    """A random run of the kernel beside the reference, compared after each step."""
    reader = reader_of(text(clause, own, lag))
    system, backend = reader.system, reader.backend
    feeds = {"Box": Feed(own, lag), "Note": Feed(clause, lag)}
    state = backend.initial
    for kind, feed in feeds.items():
        feed.stores.append(reader.rows(state, "store", kind))
    dirty = reader.dirty(state)
    assert dirty == {"a", "b"}

    def show(feed: Feed, batch: Batch) -> None:
        passed = feed.take(batch)
        found = batch.owed
        if feed.clause.late:
            boxes = {row["name"] for row in feeds["Box"].shown if row}
            found = set().union(*[feed.clause.keys(old, new) for _, old, new in passed]) & boxes
        else:
            # Nothing that any change owed is lost by merging.
            assert set().union(*[feed.clause.keys(old, new) for _, old, new in passed]) == batch.owed
        dirty.update(found & {"a", "b"})

    for _ in range(STEPS):
        flat = backend.successors(state)
        options = list(zip(flat[::2], flat[1::2], strict=True))
        by_users = [o for o in options if system.updates[o[0]].label.actor == "U"]
        others = [o for o in options if system.updates[o[0]].label.actor != "U"]
        index, after = random.choice(by_users if by_users and (not others or random.random() < 0.6) else others)
        label = system.updates[index].label
        for kind, feed in feeds.items():
            before, now = feed.stores[-1], reader.rows(after, "store", kind)
            for slot, (old, new) in enumerate(zip(before, now, strict=True)):
                if old != new:
                    due = feed.write(slot, old, new)
                    if due is not None:
                        show(feed, due)
        if label.verb == "deliver":
            feed = feeds[label.fairness[2]]
            show(feed, feed.waiting.pop(0))
        elif label.actor == "C":
            dirty.discard(label.object.removeprefix("Box "))
        for kind, feed in feeds.items():
            assert reader.rows(after, "cache", kind) == feed.shown, (kind, label)
            assert reader.waiting(after, kind) == len(feed.waiting), (kind, label)
        assert reader.dirty(after) == dirty, label
        state = after


@settings(max_examples=40, phases=[Phase.generate])
@given(st.sampled_from(CLAUSES), st.sampled_from(FOR), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_run_of_a_merged_cache_is_a_run_of_the_log(clause: Clause, own: Clause, lag: int, random: Random) -> None:
    walk(clause, own, lag, random)
