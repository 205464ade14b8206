"""One server for all tests of a module, and the programs that CI fetches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.running import TOOLS, Running


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of kubectl-1.37, kubectl-1.32 and helm-4."""
    if not (TOOLS / "helm-4").exists():
        if os.environ.get("CI"):
            pytest.fail("the clients are missing, and CI must have them (see .ci/setup clients)")
        pytest.skip("kubectl and helm are not here (`make setup` fetches them)")
    return TOOLS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running server with the embedded store."""
    with Running(tmp_path_factory.mktemp("cluster") / "data") as running:
        yield running
