"""The acceptance suite of kubectl, where it is at hand: every check passes, in file order and shuffled; tier 1 against
an API server alone, tier 2 against the whole plane.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.running import TOOLS, Running
from tests.tree import ROOT

SUITE = ROOT.parent / "shared" / "cases" / "kubectl_suite.py"
needs_suite = pytest.mark.skipif(not SUITE.exists(), reason="the acceptance suite (kubectl_suite.py) is not here")


ALONE = "rbac,tokenauth,admission"
WHOLE = f"{ALONE},controllers,nodes,metrics"


def passes(running: Running, version: str, *options: str, tier: int = 1, have: str = ALONE) -> None:
    command = [sys.executable, str(SUITE), "--kubectl", str(TOOLS / f"kubectl-{version}"), "--kubeconfig"]
    command += [str(running.kubeconfig), "--tier", str(tier), "--have", have, "--slow", "3", "-v"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=900)
    print(done.stdout[-8000:], done.stderr[-4000:])
    assert done.returncode == 0 and ", 0 failed, 0 skipped" in done.stdout, done.stdout[-8000:]


@needs_suite
@pytest.mark.parametrize(("version", "options"), [("1.37", ()), ("1.32", ("--shuffle", "7"))])
def test_kubectl_sees_what_it_must(tools: Path, server: Running, version: str, options: tuple[str, ...]) -> None:
    passes(server, version, *options)


@needs_suite
@pytest.mark.soak
@pytest.mark.parametrize("version", ["1.37", "1.32"])
@pytest.mark.parametrize("options", [(), ("--shuffle", "1"), ("--shuffle", "2")])
def test_kubectl_sees_it_in_any_order(tools: Path, server: Running, version: str, options: tuple[str, ...]) -> None:
    passes(server, version, *options)


@needs_suite
@pytest.mark.parametrize(("version", "options"), [("1.37", ()), ("1.32", ("--shuffle", "5"))])
def test_kubectl_sees_controllers_and_nodes(
    tools: Path, tmp_path: Path, version: str, options: tuple[str, ...]
) -> None:
    with Running(tmp_path / "data", plane=True) as running:
        passes(running, version, *options, tier=2, have=WHOLE)
