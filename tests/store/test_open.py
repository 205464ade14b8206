"""Targets, overrides, snapshots and the parts of etcd that no server here can show."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from tests.store.servers import free_ports

from dashpot.runtime.api.failing import failure
from dashpot.runtime.store import etcd_messages as m
from dashpot.runtime.store.base import (
    Compacted,
    Corrupt,
    Delete,
    FutureRevision,
    NoLease,
    NoSpace,
    Put,
    StoreError,
    TooLarge,
    Unavailable,
)
from dashpot.runtime.store.directory import Directory
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.etcd import trusts
from dashpot.runtime.store.etcd_link import access_from, told_of
from dashpot.runtime.store.etcd_watch import event_of
from dashpot.runtime.store.memory import MemoryStore
from dashpot.runtime.store.open import Target, open_store, open_stores, parse_override, parse_target
from dashpot.runtime.store.snapshot import peek, restore, save, verify


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("memory", Target("memory")),
        ("embedded", Target("embedded")),
        ("embedded:/var/x", Target("embedded", "/var/x")),
        ("etcd://a", Target("etcd", endpoints=("a:2379",))),
        ("etcd://a:1,[::1]:2", Target("etcd", endpoints=("a:1", "[::1]:2"))),
        ("etcd://a:1?ca=c.crt&timeout=3", Target("etcd", "", ("a:1",), {"ca": "c.crt", "timeout": "3"})),
        ("etcds://a:1", Target("etcd", "", ("a:1",), {"ca": ""})),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text", ["", "sqlite", "etcd://", "etcd://a:b", "etcd://a:99999", "etcd://a/x", "etcd://a?x", "etcd://a?cat=1"]
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(StoreError):
        parse_target(text)


def test_overrides(tmp_path: Path) -> None:
    async def main() -> None:
        wanted = dict([parse_override("events=memory"), parse_override("example.com/boxes=memory")])
        assert wanted == {"/registry/events/": "memory", "/registry/example.com/boxes/": "memory"}
        stores = await open_stores("embedded", wanted, data=tmp_path)
        assert isinstance(stores.of("/registry/pods/a/b"), EmbeddedStore)
        assert isinstance(stores.of("/registry/events/"), MemoryStore)
        assert stores.of("/registry/example.com/boxes/x") is stores.of("/registry/events/a")
        assert len(stores.all()) == 2
        await stores.close()
        with pytest.raises(StoreError, match="needs a directory"):
            await open_stores("memory", {"/registry/events/": "embedded"})
        with pytest.raises(StoreError, match="needs a directory"):
            await open_store("embedded")

    asyncio.run(main())
    for text in ("events", "=memory", "events=nothing"):
        with pytest.raises(StoreError):
            parse_override(text)


def test_a_snapshot_while_writing_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path / "data")
        lease = await store.grant(1000)
        for number in range(200):
            await store.put(Put(f"/k/{number % 20}", b"%d" % number, lease=lease if number % 3 == 0 else 0))
        await store.delete(Delete("/k/3"))
        await store.compact(100)
        before = await store.range("/")
        writing = asyncio.create_task(write(store))
        await store.snapshot(tmp_path / "snap")
        await writing
        assert peek(Directory(tmp_path / "data")).revision == await store.revision()
        assert verify(Directory(tmp_path / "data")).findings == ()
        with pytest.raises(StoreError, match="there already"):
            await store.snapshot(tmp_path / "snap")
        await store.close()
        loaded = restore(tmp_path / "snap", Directory(tmp_path / "copy"))
        again = await EmbeddedStore.open(tmp_path / "copy")
        assert again.cluster != store.cluster and loaded.newest == await again.revision() >= before.revision
        assert await again.range("/", revision=before.revision) == before
        assert (await again.status()).leases == 1
        assert (await again.put(Put("/new", b"", 0))).revision == loaded.newest + 1
        await again.close()

    async def write(store: EmbeddedStore) -> None:
        for number in range(100):
            await store.put(Put(f"/w/{number}", bytes(3000)))

    asyncio.run(main())


def test_a_restore_that_is_bumped_forgets_the_past(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path / "data")
        for number in range(30):
            await store.put(Put(f"/k/{number % 4}", b"%d" % number))
        state = await store.range("/")
        await store.close()
        save(Directory(tmp_path / "data"), tmp_path / "snap")
        restore(tmp_path / "snap", Directory(tmp_path / "copy"), bump=1000)
        again = await EmbeddedStore.open(tmp_path / "copy")
        assert await again.revision() == state.revision + 1000 == again.compacted
        assert (await again.range("/")).entries == state.entries
        for after in (state.revision, state.revision + 999):
            with pytest.raises(Compacted):
                async for _ in again.watch("/", after):
                    pass
        done = await again.put(Put("/k/0", b"new"))
        assert done.revision == state.revision + 1001
        await again.close()
        again = await EmbeddedStore.open(tmp_path / "copy")
        entry = await again.get("/k/0")
        assert entry is not None and entry.modified == done.revision and entry.created == state.entries[0].created
        assert verify(Directory(tmp_path / "copy")).rows == 5, "what the past left was swept"
        await again.close()

    asyncio.run(main())


def test_compaction_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path)
        for number in range(50):
            await store.put(Put("/a", b"%d" % number))
        await store._persist_meta("compacted", 40)
        await store.close()
        assert verify(Directory(tmp_path)).rows == 50
        store = await EmbeddedStore.open(tmp_path)
        assert store.compacted == 40
        await store.close()
        store = await EmbeddedStore.open(tmp_path)
        await store.compact(45)
        await store.close()
        report = verify(Directory(tmp_path))
        assert report.findings == () and report.rows == 7 and report.revision == 51

    asyncio.run(main())


@pytest.mark.parametrize(
    ("version", "trusted"),
    [("3.4.23", False), ("3.4.30", False), ("3.4.31", True), ("3.5.12", False), ("3.5.13", True), ("3.5.21", True),
     ("3.6.0", True), ("4.0.0", True), ("3.3.99", False), ("", False), ("3.6.0-rc.1", True)],
)  # fmt: skip
def test_which_etcd_is_trusted(version: str, trusted: bool) -> None:
    assert trusts(version) == trusted


@pytest.mark.parametrize(
    ("code", "details", "kind", "maybe"),
    [
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", Compacted, None),
        ("OUT_OF_RANGE", "etcdserver: mvcc: required revision is a future revision", FutureRevision, None),
        ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", NoSpace, None),
        ("INVALID_ARGUMENT", "etcdserver: request is too large", TooLarge, None),
        ("NOT_FOUND", "etcdserver: requested lease not found", NoLease, None),
        ("DATA_LOSS", "etcdserver: corrupt cluster", Corrupt, None),
        ("UNAVAILABLE", "etcdserver: request timed out", Unavailable, True),
        ("UNAVAILABLE", "etcdserver: leader changed", Unavailable, True),
        ("UNAVAILABLE", "Socket closed", Unavailable, True),
        ("UNAVAILABLE", "etcdserver: no leader", Unavailable, False),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: …", Unavailable, False),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", Unavailable, True),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", Unavailable, False),
        ("PERMISSION_DENIED", "etcdserver: permission denied", StoreError, None),
    ],
)
def test_what_etcd_answers(code: str, details: str, kind: type[StoreError], maybe: bool | None) -> None:
    told = told_of(grpc.StatusCode[code], details, "a:1", True)
    assert type(told) is kind
    if isinstance(told, Unavailable):
        assert told.maybe is maybe
        assert told_of(grpc.StatusCode[code], details, "a:1", False).maybe is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "details", "client"),
    [
        ("UNAVAILABLE", "etcdserver: leader changed", "etcdserver: leader changed"),
        ("UNAVAILABLE", "etcdserver: request timed out", "etcdserver: request timed out"),
        ("UNAVAILABLE", "etcdserver: no leader", "etcdserver: no leader"),
        ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", "etcdserver: too many requests"),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", "etcdserver: request timed out"),
        ("UNAVAILABLE", "failed to connect to all addresses; last error: …", "etcdserver: request timed out"),
        ("CANCELLED", "", "etcdserver: request timed out"),
    ],
)
def test_what_clients_are_told_of_a_lost_etcd(code: str, details: str, client: str) -> None:
    """Kubernetes' clients know these texts; where etcd is, is for whoever runs the server."""
    told = told_of(grpc.StatusCode[code], details, "a:1", True)
    assert "a:1" in str(told)
    status = failure(told)
    assert (status.code, status.reason, status.message) == (500, "", client)


def test_an_event_without_its_past_is_refused() -> None:
    kv, event = m.message("KeyValue"), m.message("Event")
    assert event_of(event(kv=kv(key=b"/a", create_revision=4, mod_revision=4, value=b"x"))).value == b"x"
    for late in (
        event(type=m.DELETE, kv=kv(key=b"/a", mod_revision=9)),
        event(kv=kv(key=b"/a", create_revision=4, mod_revision=9, value=b"x")),
    ):
        with pytest.raises(Compacted):
            event_of(late)


def test_etcd_options(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("secret\n")
    access = access_from({"user": "root", "password-file": str(tmp_path / "pw"), "timeout": "2.5"})
    assert (access.user, access.password, access.timeout, access.credentials) == ("root", "secret", 2.5, None)
    with pytest.raises(StoreError, match="cannot read"):
        access_from({"ca": str(tmp_path / "nothing")})
    for timeout in ("soon", "0", "1e9"):
        with pytest.raises(StoreError, match="no time-out"):
            access_from({"timeout": timeout})


def test_nobody_there() -> None:
    (port,) = free_ports(1)

    async def main() -> None:
        with pytest.raises(Unavailable, match=f"etcd at 127.0.0.1:{port} does not answer"):
            await open_store(f"etcd://127.0.0.1:{port}?timeout=2")

    asyncio.run(main())
