"""The command: what it prints of a diagnosis, and its exit status; once against a real server in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashpot.cli import doctor
from dashpot.cli import main as dashpot
from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.diagnosis import Diagnosis
from dashpot.runtime.doctor.unsettled import Unsettled

CAUSE = Cause("disk-full", "node n", "it runs out of disk", "free some")
STUCK = Unsettled("Pod", "d/p", "kubelet", "its containers to start", "Failed: no image")
KUBECONFIG = (
    "{current-context: a, contexts: [{name: a, context: {cluster: b}}], "
    "clusters: [{name: b, cluster: {server: 'http://127.0.0.1:1'}}]}"
)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "k"
    path.write_text(KUBECONFIG)
    return str(path)


SICK = """\
disk-full: node n: it runs out of disk
  fix: free some
not-settled: Pod d/p: kubelet waits for its containers to start
  last error: Failed: no image
not observed: pods: no
"""


@pytest.mark.parametrize(
    ("found", "words", "status", "text"),
    [
        (Diagnosis(), [], 0, ""),
        (Diagnosis(), ["-v"], 0, "healthy: every loop makes progress\n"),
        (Diagnosis(unseen=("pods: no",)), ["-v"], 3, "not observed: pods: no\n"),
        (Diagnosis((CAUSE,), (STUCK,), ("pods: no",)), [], 1, SICK),
        (Diagnosis((), (STUCK,)), [], 1, "\n".join(SICK.splitlines()[2:4]) + "\n"),
    ],
)
def test_what_is_printed(
    found: Diagnosis,
    words: list[str],
    status: int,
    text: str,
    kubeconfig: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def given(*_: Any) -> Diagnosis:
        return found

    monkeypatch.setattr(doctor, "_diagnose", given)
    assert dashpot(["doctor", "--kubeconfig", kubeconfig, *words]) == status
    assert capsys.readouterr().out == text
    assert dashpot(["doctor", "--kubeconfig", kubeconfig, "-o", "json"]) == status
    shown = json.loads(capsys.readouterr().out)
    assert shown["healthy"] == (status == 0) and shown["first"] == (found.first or None)
    assert len(shown["causes"]) == len(found.causes) and shown["unseen"] == list(found.unseen)


def test_nobody_answers(kubeconfig: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dashpot(["doctor", "--kubeconfig", kubeconfig]) == 4
    assert "Traceback" not in capsys.readouterr().err


def test_a_fresh_server_is_healthy(tmp_path: Path) -> None:
    up = [sys.executable, "-m", "dashpot", "up", "--api-only", "--store", "memory", "--port", "0", "--"]
    words = [*up, sys.executable, "-m", "dashpot", "doctor", "-v", "--window", "200ms"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "healthy: every loop makes progress\n"), done.stderr
