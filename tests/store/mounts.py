"""Small file systems in memory, for disks that are full or read-only. They need root, and the right to mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "dashpot-test-disk"
"""How they are told from others in /proc/mounts."""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True)


def sweep() -> None:
    """Takes away what a run that was killed has left."""
    for line in Path("/proc/mounts").read_text().splitlines():
        device, place = line.split()[:2]
        if device == NAME:
            _run("umount", "--lazy", place.encode().decode("unicode_escape"))


@contextmanager
def disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of so many KiB, mounted at a folder that is made; skips the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    sweep()
    place.mkdir(parents=True)
    done = _run("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0755", NAME, str(place))
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        _run("umount", "--lazy", str(place))


def remount(place: Path, option: str) -> None:
    """Changes it: `ro`, `rw`, `size=64m`."""
    done = _run("mount", "-o", f"remount,{option}", str(place))
    assert done.returncode == 0, done.stderr


def fill(place: Path, leave_kilobytes: int = 0) -> Path:
    """A file that takes all the space but so much."""
    path = place / "full"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - leave_kilobytes * 1024, 0))
    return path
