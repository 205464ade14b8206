"""What people see of a whole plane through kubectl, new and old: the checks of `cases/plane/`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.checks import Bench, areas, load
from tests.clients.running import Running

OPTIONS = ("--nodes", "5", "--set", "hpa.PERIOD=2s")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A running plane of five nodes with the embedded store."""
    with Running(tmp_path_factory.mktemp("plane") / "data", *OPTIONS, plane=True) as running:
        yield running


def passes(plane: Running, version: str, area: str, folder: Path, *words: str) -> None:
    checks = [check for check in load(area) if not words or check.words & set(words)]
    reports = Bench(plane, version, folder, plane=True).run_all(checks)
    assert not reports, f"{len(reports)} of {len(checks)} checks failed\n" + "\n\n".join(reports)


@pytest.mark.parametrize("area", areas("plane"))
def test_kubectl_sees_what_kubernetes_documents(tools: Path, plane: Running, tmp_path: Path, area: str) -> None:
    passes(plane, "1.37", area, tmp_path, "old")


@pytest.mark.soak
@pytest.mark.parametrize("area", areas("plane"))
@pytest.mark.parametrize("version", ["1.37", "1.32"])
def test_kubectl_sees_all_of_it(tools: Path, plane: Running, tmp_path: Path, version: str, area: str) -> None:
    passes(plane, version, area, tmp_path)
