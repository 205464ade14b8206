"""What the tests of the store share: an etcd server, where one is installed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import tool
from tests.store.servers import Server, connected

from dashpot.runtime.store.base import Store
from dashpot.runtime.store.embedded import EmbeddedStore
from dashpot.runtime.store.memory import MemoryStore


@pytest.fixture(scope="session")
def etcd_program() -> str:
    """The path of etcd."""
    return tool("etcd")


QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""A folder in memory, for stores whose durability is not what is tested."""


@contextmanager
def running(program: str, *words: str) -> Iterator[str]:
    """The endpoint of a running etcd with one member; in memory where that is possible, since nothing is cut here."""
    with tempfile.TemporaryDirectory(dir=QUICK) as folder:
        server = Server(program, Path(folder), more=words)
        server.start()
        try:
            yield server.endpoint
        finally:
            server.stop()


@pytest.fixture(scope="session")
def etcd(etcd_program: str) -> Iterator[str]:
    """The endpoint of an etcd."""
    with running(etcd_program) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def small_etcd(etcd_program: str) -> Iterator[str]:
    """The endpoint of an etcd with a quota of 4 MiB."""
    with running(etcd_program, f"--quota-backend-bytes={4 << 20}") as endpoint:
        yield endpoint


Opener = Callable[..., Coroutine[Any, Any, Store]]


@pytest.fixture(params=["memory", "embedded", "etcd"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens a store of each kind; with `small=True` one whose quota is 4 MiB."""

    async def open_(small: bool = False) -> Store:
        quota = 4 << 20 if small else 2 << 30
        if request.param == "memory":
            return MemoryStore(quota)
        if request.param == "embedded":
            return await EmbeddedStore.open(tmp_path / "data", quota=quota, cache=100_000)
        return await connected([endpoints[small]], quota=quota)

    endpoints: dict[bool, str] = {}
    if request.param == "etcd":
        endpoints = {False: request.getfixturevalue("etcd"), True: request.getfixturevalue("small_etcd")}
    return open_
