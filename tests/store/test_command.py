"""`dashpot store` beside a server, and with etcd. What a reader sees of it stands in tests/cli/store.md."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.store.servers import connected

from dashpot import cli
from dashpot.cli.problem import HOLDS, OUTSIDE, WRONG
from dashpot.runtime.store.base import Put
from dashpot.runtime.store.embedded import EmbeddedStore

Answer = tuple[int, str, str]


async def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Answer:
    """The command in a thread of its own, as it would be in a process of its own."""
    status = await asyncio.to_thread(cli.main, ["store", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_beside_a_running_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        store = await EmbeddedStore.open(tmp_path / "store")
        await store.grant(100)
        for number in range(20):
            await store.put(Put(f"/a/{number % 7}", b"x"))
        data = ("--data", str(tmp_path))
        status, out, _ = await answer(capsys, "status", *data, "-o", "json")
        found = json.loads(out)
        assert status == HOLDS and (found["revision"], found["keys"], found["leases"]) == (21, 7, 1)
        assert (await answer(capsys, "verify", *data))[:2] == (HOLDS, "sound: 20 rows, up to revision 21\n")
        assert (await answer(capsys, "snapshot", str(tmp_path / "s"), *data))[0] == HOLDS
        for action in ("compact", "defrag", "disarm"):
            status, out, err = await answer(capsys, action, *data)
            assert (status, out) == (OUTSIDE, "") and f"is in use by process {os.getpid()}" in err
            assert "while the server runs" in err
        assert (await store.put(Put("/b", b""))).ok, "the server was not disturbed"
        await store.close()
        assert (await answer(capsys, "compact", *data))[0] == HOLDS

    asyncio.run(main())


def test_etcd(etcd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        store = await connected([etcd])
        done = await store.put(Put("/command", b"x"))
        target = ("--store", f"etcd://{etcd}")
        status, out, _ = await answer(capsys, "status", *target, "-o", "json")
        assert status == HOLDS and json.loads(out)["revision"] == done.revision
        status, out, _ = await answer(capsys, "compact", *target)
        assert (status, await store.compacted()) == (HOLDS, done.revision) and "reads are possible" in out
        assert (await answer(capsys, "compact", *target, "--revision", "999999999"))[0] == WRONG
        for action in ("defrag", "disarm"):
            assert (await answer(capsys, action, *target))[0] == HOLDS
        status, out, _ = await answer(capsys, "snapshot", str(tmp_path / "etcd.snap"), *target)
        assert status == HOLDS and (tmp_path / "etcd.snap").stat().st_size > 10_000
        assert (await answer(capsys, "restore", "x", *target))[0] == WRONG
        await store.close()

    asyncio.run(main())
