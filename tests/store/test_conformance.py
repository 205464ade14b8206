"""One state machine for all stores: memory, embedded, etcd, the model's kernel, and the rules written down plainly."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.store.conftest import QUICK
from tests.store.kernel import Kernel, outcome
from tests.store.oracle import Oracle
from tests.store.servers import connected

from dashpot.runtime.store.base import (
    Compacted,
    Delete,
    Entry,
    Event,
    FutureRevision,
    NoLease,
    Put,
    Range,
    Store,
    Watch,
    Written,
)
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.memory import MemoryStore

T = TypeVar("T")
NAMES = ["a", "a/b", "a/b/c", "ab", "b", "é", "z\U0001f600"]
KEYS = st.sampled_from([f"k/{name}" for name in NAMES])
PREFIXES = st.sampled_from(["", "k/", "k/a", "k/a/", "k/é", "boxes/", "nothing/"])
VALUES = [b"", b"1", b"two", b"\0\xff", b"x" * 9000]
MOMENTS = st.integers(-3, 60)
EXAMPLES = count()


@define(eq=False)
class Mirror:
    """A store whose revisions and leases have other numbers than the oracle's."""

    name: str
    store: Store
    real: dict[int, int]
    leases: dict[int, int] = field(factory=lambda: {0: 0})

    def told(self, entry: Entry | None) -> Entry | None:
        """An entry in the oracle's numbers."""
        if entry is None:
            return None
        lease = {real: number for number, real in self.leases.items()}[entry.lease]
        return evolve(entry, created=self.back(entry.created), modified=self.back(entry.modified), lease=lease)

    def back(self, revision: int) -> int:
        return {real: number for number, real in self.real.items()}.get(revision, -revision)

    def at(self, revision: int | None) -> int:
        """A revision in the store's numbers; what lies in the future stays there."""
        if not revision:
            return 0
        last = max(self.real)
        return self.real[revision] if revision <= last else self.real[last] + revision - last

    def event(self, event: Event) -> Event:
        lease = {real: number for number, real in self.leases.items()}[event.lease]
        return evolve(
            event,
            revision=self.back(event.revision),
            created=self.back(event.created),
            previous=self.told(event.previous),
            lease=lease,
        )


class Stores(RuleBasedStateMachine):
    """Each rule does the same to all, and compares what they answer."""

    etcd: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="stores", dir=QUICK))
        self.data = self.folder / "data"
        self.root = f"/{os.getpid()}/{next(EXAMPLES)}/"
        self.oracle = Oracle()
        self.kernel = Kernel()
        self.copies: dict[str, dict[str, Entry]] = {}
        self.leases: dict[int, str] = {}
        self.last_lease = 0
        self.watches: list[tuple[str, int, list[tuple[Mirror, Watch]]]] = []
        self.mirrors = self.do(self.open())
        for name, value in self.kernel.boxes().items():
            self.write(Put(f"{self.root}boxes/{name}", value, 0))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        async def limited() -> T:
            async with asyncio.timeout(20):
                return await work

        return self.runner.run(limited())

    async def open(self) -> list[Mirror]:
        stores: list[tuple[str, Store]] = [
            ("memory", MemoryStore()),
            ("embedded", await EmbeddedStore.open(self.data, cache=4000)),
        ]
        if self.etcd:
            stores.append(("etcd", await connected([self.etcd])))
        return [Mirror(name, store, {1: await store.revision()}) for name, store in stores]

    def teardown(self) -> None:
        async def close() -> None:
            for mirror in self.mirrors:
                await mirror.store.close()

        for watch in self.watches:
            self.do(self.read(*watch))
        self.do(close())
        self.runner.close()
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------------ writes
    def write(self, write: Put | Delete) -> Written:
        """The same write to all; `expect` and `lease` in the oracle's numbers."""
        wanted = self.oracle.put(write) if isinstance(write, Put) else self.oracle.delete(write)
        for mirror in self.mirrors:
            expect = None if write.expect is None else mirror.at(write.expect)
            if isinstance(write, Put):
                real: Put | Delete = evolve(write, expect=expect, lease=mirror.leases[write.lease])
            else:
                real = evolve(write, expect=expect)
            done = self.do(mirror.store.put(real) if isinstance(real, Put) else mirror.store.delete(real))
            if wanted.ok:
                mirror.real[wanted.revision] = done.revision
            told = Written(done.ok, mirror.back(done.revision), mirror.told(done.current), mirror.told(done.previous))
            # What stood in the way of a delete that expects nothing is always nothing.
            assert told == wanted, mirror.name
        for lease, key in list(self.leases.items()):
            if wanted.ok and key == write.key and (isinstance(write, Delete) or write.lease != lease):
                self.leases[lease] = ""
        return wanted

    def expected(self, key: str, how: int) -> int | None:
        """None, 0, the right revision, or another one."""
        current = self.oracle.state().get(key)
        right = current.modified if current else 0
        return [None, 0, right, max(right - 1, 1), self.oracle.revision][how]

    @rule(name=KEYS, value=st.integers(0, 4), how=st.integers(0, 4), lease=st.integers(0, 3))
    def put(self, name: str, value: int, how: int, lease: int) -> None:
        key = self.root + name
        free = [number for number, held in self.leases.items() if held in ("", key)]
        number = free[lease % len(free)] if lease and free else 0
        expect = self.expected(key, how)
        if self.write(Put(key, VALUES[value], expect, number)).ok and number:
            self.leases[number] = key

    @rule(name=KEYS, how=st.integers(0, 4))
    def delete(self, name: str, how: int) -> None:
        key = self.root + name
        self.write(Delete(key, self.expected(key, how)))

    @rule(data=st.data())
    def call(self, data: st.DataObject) -> None:
        """A client of the model's kernel makes a call, and a client of the stores makes the same."""
        label, after = data.draw(st.sampled_from(self.kernel.steps()))
        name = next(n for n in "bc" if f"any = {n}" in label.detail or label.object == f"Box {n}")
        key = f"{self.root}boxes/{name}"
        mine = self.copies.setdefault(label.actor, {})
        if label.verb == "get":
            found = self.oracle.state().get(key)
            assert (found is not None) == (label.object == f"Box {name}")
            if found is not None:
                mine[name] = found
        elif "nothing to change" in label.detail:
            current = self.oracle.state().get(key)
            assert current is not None and current.modified == mine[name].modified, "the kernel takes it for current"
        else:
            value = self.kernel.boxes(after).get(name, b"-")
            if label.verb == "create":
                done = self.write(Put(key, value, 0))
                answer = "ok" if done.ok else "AlreadyExists"
            else:
                expect = mine[name].modified
                done = self.write(Put(key, value, expect) if label.verb == "update" else Delete(key, expect))
                answer = "ok" if done.ok else "Conflict" if done.current else "NotFound"
            assert answer == outcome(label), label
        self.kernel.state = after

    # ------------------------------------------------------------------ reads
    def moment(self, moment: int) -> int:
        """A revision: 0 (now), one that was, or (below 0) one of the future."""
        return self.oracle.revision - moment if moment < 0 else moment % (self.oracle.revision + 1)

    def refused(self, revision: int) -> type[Exception] | None:
        if revision > self.oracle.revision:
            return FutureRevision
        return Compacted if 0 < revision < self.oracle.compacted else None

    @rule(name=KEYS, moment=MOMENTS)
    def get(self, name: str, moment: int) -> None:
        revision = self.moment(moment)
        for mirror in self.mirrors:
            work = mirror.store.get(self.root + name, mirror.at(revision))
            if error := self.refused(revision):
                with pytest.raises(error):
                    self.do(work)
            else:
                assert mirror.told(self.do(work)) == self.oracle.state(revision).get(self.root + name), mirror.name

    @rule(prefix=PREFIXES, start=st.none() | KEYS, limit=st.integers(0, 4), moment=MOMENTS)
    def range(self, prefix: str, start: str | None, limit: int, moment: int) -> None:
        revision = self.moment(moment)
        begin = self.root + start if start else ""
        for mirror in self.mirrors:
            work = mirror.store.range(self.root + prefix, start=begin, limit=limit, revision=mirror.at(revision))
            if error := self.refused(revision):
                with pytest.raises(error) as caught:
                    self.do(work)
                if isinstance(caught.value, Compacted):
                    assert mirror.back(caught.value.compacted) == self.oracle.compacted, mirror.name
            else:
                found = self.do(work)
                entries = [mirror.told(entry) for entry in found.entries]
                told = Range([e for e in entries if e], mirror.back(found.revision), found.more, found.remaining)
                assert told == self.oracle.range(self.root + prefix, begin, limit, revision), mirror.name

    @invariant()
    def same(self) -> None:
        state = self.oracle.state()
        assert self.kernel.boxes() == {
            key.rpartition("/")[2]: entry.value for key, entry in state.items() if key.startswith(self.root + "boxes/")
        }
        for mirror in self.mirrors:
            assert self.do(mirror.store.count(self.root)) == len(state), mirror.name
            assert mirror.back(self.do(mirror.store.revision())) == self.oracle.revision, mirror.name

    # ------------------------------------------------------------------ watches
    @rule(prefix=PREFIXES, moment=MOMENTS)
    def watch(self, prefix: str, moment: int) -> None:
        after = self.moment(moment) or self.oracle.revision
        opened = [(m, m.store.watch(self.root + prefix, m.at(after))) for m in self.mirrors]
        if max(after, 1) < self.oracle.compacted:
            for mirror, watch in opened:
                with pytest.raises(Compacted) as caught:
                    self.do(first(watch))
                assert mirror.back(caught.value.compacted) == self.oracle.compacted, mirror.name
        elif len(self.watches) < 4 and not self.oracle.events(self.root + prefix, after):
            self.watches.append((prefix, after, opened))
        else:
            self.do(self.read(prefix, after, opened))

    @precondition(lambda self: self.watches)
    @rule(number=st.integers(0, 3))
    def look(self, number: int) -> None:
        """A watch that is open since a while has told of everything."""
        watch = self.watches.pop(number % len(self.watches))
        if watch[1] >= self.oracle.compacted:
            self.do(self.read(*watch))

    async def read(self, prefix: str, after: int, opened: list[tuple[Mirror, Watch]]) -> None:
        wanted = self.oracle.events(self.root + prefix, after)
        for mirror, watch in opened:
            if after < self.oracle.compacted:
                await watch.close()  # a reader that is this slow may have lost its place
                continue
            found: list[Event] = []
            noted = watch.ask_progress()
            if wanted or noted:
                async for batch in watch:
                    found += batch
                    if len(found) >= len(wanted) and (not batch or not noted):
                        break
            assert [mirror.event(event) for event in found] == wanted, mirror.name
            if noted:
                assert watch.progress >= mirror.at(self.oracle.revision), mirror.name

    # ------------------------------------------------------------------ leases, compaction, restart
    @rule()
    def grant(self) -> None:
        self.last_lease += 1
        self.leases[self.last_lease] = ""
        for mirror in self.mirrors:
            mirror.leases[self.last_lease] = self.do(mirror.store.grant(1000))
            assert self.do(mirror.store.keep_alive(mirror.leases[self.last_lease])) == 1000

    @precondition(lambda self: self.leases)
    @rule(number=st.integers(0, 5))
    def revoke(self, number: int) -> None:
        lease = sorted(self.leases)[number % len(self.leases)]
        key = self.leases.pop(lease)
        if key:
            assert self.oracle.delete(Delete(key)).ok
        for mirror in self.mirrors:
            self.do(mirror.store.revoke(mirror.leases[lease]))
            if key:
                mirror.real[self.oracle.revision] = self.do(mirror.store.revision())
            for work in (
                mirror.store.keep_alive(mirror.leases[lease]),
                mirror.store.put(Put(self.root + "k/a", b"", None, mirror.leases[lease])),
            ):
                with pytest.raises(NoLease):
                    self.do(work)

    @rule(moment=st.integers(0, 60), clean=st.booleans())
    def compact(self, moment: int, clean: bool) -> None:
        revision = self.oracle.revision - moment % self.oracle.revision
        self.oracle.compacted = max(self.oracle.compacted, revision)
        for mirror in self.mirrors:
            with pytest.raises(FutureRevision):
                self.do(mirror.store.compact(mirror.at(self.oracle.revision + 5)))
            self.do(mirror.store.compact(mirror.at(revision)))
            if clean:
                self.do(mirror.store.defragment())
            assert mirror.back(self.do(mirror.store.status()).compacted) == self.oracle.compacted, mirror.name

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        """Only one of them can: in order, or from what its files are at this moment."""
        (mirror,) = [m for m in self.mirrors if m.name == "embedded"]
        files = self.data
        if crash:
            self.data = self.folder / f"data{next(EXAMPLES)}"
            shutil.copytree(files, self.data)
        self.do(mirror.store.close())
        mirror.store = self.do(EmbeddedStore.open(self.data, cache=4000))
        for number, (prefix, after, opened) in enumerate(self.watches):
            self.watches[number] = (prefix, after, [pair for pair in opened if pair[0] is not mirror])


async def first(watch: Watch) -> Sequence[Event]:
    """The first batch that is no progress note."""
    async for batch in watch:
        if batch:
            return batch
    return ()


def run(examples: int, steps: int) -> None:
    """Lets the machine loose. A failure is told as it was found: to shorten it takes minutes."""
    run_state_machine_as_test(
        Stores,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )


def test_stores_agree(etcd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stores, "etcd", etcd)
    run(8, 40)


def test_stores_agree_without_etcd() -> None:
    run(40, 50)


@pytest.mark.soak
def test_stores_agree_for_long(etcd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stores, "etcd", etcd)
    run(150, 80)
