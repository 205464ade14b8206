"""A server as its users start it: `dashpot up` in a process of its own, on a free port of loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.tree import ROOT

TOOLS = ROOT / ".dashpot" / "tools"
START_S = 60.0


class Running:
    """One `dashpot up --api-only`, or with `plane` the whole plane. A context manager; leaving it stops the server
    and expects a clean end."""

    def __init__(self, data: Path, *options: str, env: dict[str, str] | None = None, plane: bool = False) -> None:
        self.data = data
        self.kubeconfig = data / "kubeconfig"
        self.url = ""
        command = [sys.executable, "-m", "dashpot", "up", "--data", str(data), "--port", "0"]
        command += [*options] if plane else ["--api-only", *options]
        self._errors = (data.parent / f"{data.name}.errors").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )

    def __enter__(self) -> Running:
        self.wait()
        return self

    def wait(self) -> None:
        """Waits until it says where it listens; an AssertionError with what it said where it does not."""
        assert self.process.stdout is not None
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                if line.startswith("API server at "):
                    self.url = line.split()[3]
                if line.startswith("kubectl "):
                    return
        finally:
            timer.cancel()
        raise AssertionError(f"the server did not start (status {self.process.wait()}): {self.errors()}")

    def errors(self) -> str:
        """What it wrote to stderr."""
        self._errors.flush()
        return Path(self._errors.name).read_text(encoding="utf-8")

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()
        return status

    def __exit__(self, *_: object) -> None:
        status = self.stop()
        if _[0] is None:
            assert status == 0, f"the server ended with {status}: {Path(self._errors.name).read_text()}"

    def environment(self, home: Path) -> dict[str, str]:
        """The environment of a client: this cluster, and caches of its own."""
        home.mkdir(exist_ok=True)
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home)}

    def kubectl(self, *words: str, version: str = "1.37", **options: Any) -> subprocess.CompletedProcess[str]:
        """One kubectl command; its output is text."""
        program = str(TOOLS / f"kubectl-{version}")
        env = self.environment(self.data.parent / "home")
        return subprocess.run([program, *words], capture_output=True, text=True, env=env, timeout=60, **options)
