"""`dashpot up` in a process of its own where the machine does not let it: exit status 4, one clear message."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.clients.running import Running
from tests.histories.clients import LOST, Client, context_of
from tests.store.mounts import disk, fill, remount
from tests.store.servers import free_ports

from dashpot.runtime.store.rows import meta_sum

MAPS = "/api/v1/namespaces/default/configmaps"


def plain(told: str, *parts: str) -> None:
    """No traceback, no mistake of ours, few lines; and what must be in it."""
    for word in ("Traceback", "internal error", "mistake", 'File "'):
        assert word not in told, told
    assert told.startswith("dashpot: ") and len(told.splitlines()) <= 3, told
    for part in parts:
        assert part in told, told


def refused(data: Path, *options: str, parts: tuple[str, ...]) -> str:
    """A server that must not start; what it said."""
    words = [sys.executable, "-m", "dashpot", "up", "--api-only", "--data", str(data), "--port", "0", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (4, ""), (done.returncode, done.stdout, done.stderr)
    plain(done.stderr, *parts)
    return done.stderr


def begun(data: Path, *options: str) -> None:
    """A server has been there."""
    with Running(data, *options):
        pass


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(tmp_path / "data", "--port", port, parts=(f"127.0.0.1:{port}", "in use", "choose another --port"))
    begun(tmp_path / "data")


@pytest.mark.parametrize("left", [0, 24, 48])
def test_a_disk_that_is_full_at_the_start(tmp_path: Path, left: int) -> None:
    """Wherever it fills up: at the keys, at the store, at the first objects. With space again, it starts."""
    with disk(tmp_path / "disk", 4096) as place:
        full = fill(place, left)
        refused(place / "data", parts=(str(place / "data"), "pace left on"))
        full.unlink()
        begun(place / "data")


async def until_full(running: Running) -> list[str]:
    """Creates objects until nothing is created any more; those that were acknowledged."""
    client = Client(running.url, context_of(running.kubeconfig), timeout_s=10)
    made: list[str] = []
    try:
        for number in range(5000):
            name = f"m{number}"
            try:
                body = {"metadata": {"name": name}, "data": {"x": "x" * 20_000}}
                code, answer = await client.ask("POST", MAPS, body)
            except LOST:
                return made
            if code != 201:
                assert code == 500 and "space left on the disk" in answer["message"], answer
                return made
            made.append(name)
        raise AssertionError("the disk does not fill up")
    finally:
        await client.close()


def test_a_disk_that_fills_up_while_it_serves(tmp_path: Path) -> None:
    """The server ends; what it acknowledged is there when there is space again."""
    with disk(tmp_path / "disk", 6 * 1024) as place:
        data = tmp_path / "data"  # beside it is what the server says, which needs space too
        (place / "data").mkdir()
        data.symlink_to(place / "data")
        running = Running(data)
        running.wait()
        made = asyncio.run(until_full(running))
        assert running.process.wait(30) == 4 and len(made) > 10
        plain(running.errors(), "the store is lost", "no space left on the disk", str(data), "start again")
        running.stop()
        remount(place, "size=64m")
        with Running(data) as again:

            async def look() -> None:
                client = Client(again.url, context_of(again.kubeconfig))
                found = await client.done("GET", MAPS)
                assert {item["metadata"]["name"] for item in found["items"]} >= set(made)
                await client.close()

            asyncio.run(look())


@pytest.mark.parametrize("before", [False, True], ids=["empty", "with a store"])
def test_a_disk_that_is_read_only(tmp_path: Path, before: bool) -> None:
    with disk(tmp_path / "disk", 8 * 1024) as place:
        if before:
            begun(place / "data")
        remount(place, "ro")
        refused(place / "data", parts=(str(place / "data"), "ead-only"))
        if before:
            other = tmp_path / "kubeconfig"
            refused(place / "data", "--kubeconfig", str(other), parts=(str(place / "data"), "ead-only"))
            assert not other.exists()


@pytest.mark.parametrize("store", ["embedded", "memory", "etcd"])
def test_two_servers_on_one_directory(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    """The second one leaves everything alone, the first one's kubeconfig above all."""
    target = f"etcd://{request.getfixturevalue('etcd')}" if store == "etcd" else store
    data = tmp_path / "data"
    with Running(data, "--store", target) as first:
        before = first.kubeconfig.read_bytes()
        told = refused(data, "--store", target, parts=(f"'{data}' is in use by process {first.process.pid}",))
        assert "--kubeconfig" in told
        own = tmp_path / "own"
        if store == "embedded":
            refused(data, "--kubeconfig", str(own), parts=(f"'{data / 'store'}' is in use by process",))
            assert not own.exists()
        else:
            second = Running(data, "--store", target, "--kubeconfig", str(own))
            second.wait()
            assert second.stop() == 0 and own.exists()
        assert first.kubeconfig.read_bytes() == before
    begun(data, "--store", target)


def test_the_lock_goes_with_the_process(tmp_path: Path) -> None:
    running = Running(tmp_path / "data", "--store", "memory")
    running.wait()
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    running.stop()
    begun(tmp_path / "data", "--store", "memory")


def test_a_newer_data_directory(tmp_path: Path) -> None:
    begun(tmp_path / "data")
    with sqlite3.connect(tmp_path / "data" / "store" / "store.db") as connection:
        connection.execute("UPDATE meta SET value = 2, sum = ? WHERE name = 'schema'", (meta_sum("schema", 2),))
    connection.close()
    refused(tmp_path / "data", parts=("was written by a newer dashpot", str(tmp_path / "data" / "store")))


@pytest.mark.parametrize(
    ("name", "folder"),
    [("store/store.db", True), ("store/lock", True), ("lock", True), ("store", False), ("pki", False),
     ("store/acknowledged", True), ("pki/ca.crt", True), ("pki/sa.key", True), ("kubeconfig", True)],
)  # fmt: skip
def test_what_lies_in_the_place_of_a_file(tmp_path: Path, name: str, folder: bool) -> None:
    path = tmp_path / "data" / name
    if folder:
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True)
        path.write_text("mine")
    refused(tmp_path / "data", parts=(str(tmp_path / "data"),))
    assert path.is_dir() if folder else path.read_text() == "mine"


def test_foreign_content_is_named_and_kept(tmp_path: Path) -> None:
    begun(tmp_path / "data")
    for name in ("store/store.db", "pki/ca.crt", "pki/ca.key", "pki/sa.key", "kubeconfig"):
        path = tmp_path / "data" / name
        before = path.read_bytes()
        path.write_bytes(b"somebody else's\n" * 500)
        refused(tmp_path / "data", parts=(str(path),))
        assert path.read_bytes() == b"somebody else's\n" * 500
        path.write_bytes(before)
    begun(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
@pytest.mark.parametrize("name", ["store/store.db", "pki/ca.key", "kubeconfig"])
def test_files_that_may_not_be_read(tmp_path: Path, name: str) -> None:
    begun(tmp_path / "data")
    (tmp_path / "data" / name).chmod(0)
    refused(tmp_path / "data", parts=(str(tmp_path / "data"),))


@pytest.mark.parametrize("place", ["a file/kubeconfig", "a folder", "/proc/nowhere/kubeconfig"])
def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "a file").write_text("")
    (tmp_path / "a folder").mkdir()
    path = tmp_path / place
    refused(tmp_path / "data", "--kubeconfig", str(path), parts=(str(path),))


@pytest.mark.parametrize("answers", [False, True], ids=["nobody", "somebody else"])
def test_an_etcd_that_is_none(tmp_path: Path, answers: bool) -> None:
    with socket.socket() as taken:
        port = free_ports(1)[0]
        if answers:
            taken.bind(("127.0.0.1", port))
            taken.listen()
        target = f"etcd://127.0.0.1:{port}?timeout=2"
        told = refused(tmp_path / "data", "--store", target, parts=(f"etcd at 127.0.0.1:{port} does not answer",))
    assert "0x" not in told
