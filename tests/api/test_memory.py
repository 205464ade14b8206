"""Large blocks that are freed go back to the machine, also after others of their size were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from dashpot.runtime.memory import return_large_blocks

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024

assert return_large_blocks()
first = [bytes(bytearray(1_500_000)) for _ in range(4)]
del first
before = resident()
blocks, small = [], []
for _ in range(100):
    blocks.append(b"x" * 800_000)
    small.append([bytearray(2_000) for _ in range(50)])
made = resident() - before
del blocks
print(made, made - (resident() - before))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells what is resident")
def test_large_blocks_go_back() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    made, gone = map(int, told.stdout.split())
    assert made > 80_000_000 and gone > 75_000_000
