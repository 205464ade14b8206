"""The specs of Kubernetes' own controllers: each has checks of its own, and they come out as they say."""

from __future__ import annotations

import functools
import re

import pytest

import dashpot
from dashpot.model.program import Program
from tests.tree import ROOT

LIBRARY = ROOT / "model" / "kubernetes"
MODULES = sorted(p.stem for p in LIBRARY.glob("*.loop"))
WITHOUT_CHECKS = {"core", "hands"}

CPU_S = 30.0


@functools.cache
def program(module: str) -> Program:
    return dashpot.load(LIBRARY / f"{module}.loop")


def checks() -> list[tuple[str, str]]:
    return [(m, c.name) for m in MODULES for c in program(m).checks if c.module == program(m).main]


def test_first_part_is_there() -> None:
    assert {"core", "replicaset", "deployment", "kubelet", "gc", "pdb", "node", "quota", "scheduler"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_module_documents_its_scope(module: str) -> None:
    head = re.match(r"(//.*\n)+", (LIBRARY / f"{module}.loop").read_text())
    assert head is not None
    assert head.group().startswith(f"// kubernetes/{module}.loop: ")
    assert "Modelled:" in head.group() and "Left out:" in head.group()


@pytest.mark.parametrize("module", MODULES)
def test_page_lists_what_the_module_declares(module: str) -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    text = (LIBRARY / f"{module}.loop").read_text("utf-8")
    names = re.findall(r"^(?:resource|controller|process|admission|environment) (\w+)", text, re.MULTILINE)
    row = re.search(rf"^\| `kubernetes\.{module}` .*", page, re.MULTILINE)
    assert names and row is not None
    assert all(f"`{name}`" in row.group() for name in names)


@pytest.mark.parametrize("module", [m for m in MODULES if m not in WITHOUT_CHECKS])
def test_module_has_a_check_of_what_holds(module: str) -> None:
    mine = [c for c in program(module).checks if c.module == program(module).main]
    assert any(e.names and not e.violation for c in mine for e in c.expects)


@pytest.mark.parametrize(("module", "check"), checks())
def test_check_comes_out_as_it_says(module: str, check: str) -> None:
    report = dashpot.check(program(module), check)
    assert report.status == 0, [r for r in report.results if r.as_said is not True]
    assert report.complete
    assert report.cpu_s < CPU_S


def test_small_replicaset_is_small() -> None:
    report = dashpot.check(program("replicaset"), "small")
    assert report.status == 0
    assert report.states < 20_000
