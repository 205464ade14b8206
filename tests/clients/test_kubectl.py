"""What kubectl sees, area by area: the checks of `cases/`, with the newest kubectl and an old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.checks import Bench, areas, load
from tests.clients.running import Running


def _passes(server: Running, version: str, area: str, folder: Path, *, soak: bool) -> None:
    checks = [check for check in load(area) if version == "1.37" or "new" not in check.words]
    if not soak:  # the core, and of the rest a third with the newest kubectl: a minute each on two cores
        some = {check.name for check in checks[::3]} if version == "1.37" else set()
        checks = [
            check for check in checks if "soak" not in check.words and ("old" in check.words or check.name in some)
        ]
    reports = Bench(server, version, folder).run_all(checks)
    assert not reports, f"{len(reports)} of {len(checks)} checks failed\n" + "\n\n".join(reports)


@pytest.mark.parametrize("area", areas())
@pytest.mark.parametrize("version", ["1.37", "1.32"])
def test_kubectl(tools: Path, server: Running, tmp_path: Path, version: str, area: str) -> None:
    _passes(server, version, area, tmp_path, soak=False)


@pytest.mark.soak
@pytest.mark.parametrize("area", areas())
@pytest.mark.parametrize("version", ["1.37", "1.32"])
def test_kubectl_sees_all_of_it(tools: Path, server: Running, tmp_path: Path, version: str, area: str) -> None:
    _passes(server, version, area, tmp_path, soak=True)


def test_names_are_unique_and_fit() -> None:
    names = [check.name for area in areas() for check in load(area)]
    assert len(names) == len(set(names)) and all(len(name) <= 40 for name in names)
