"""What the stores cost by themselves: durable puts, lists, opening. CPU is that of this process.

    python bench/store.py [--rows 20000] [--case NAME]

200 writers at once create keys while 70 watches look on, as many as an API server has. The exit status is 1 where the
embedded store makes fewer than 2,000 durable puts of 1 kB a CPU second.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dashpot.runtime.store.base import Put, Store, StoreError
from dashpot.runtime.store.open import open_store

IN_FLIGHT = 200
WATCHES = 70
LIMIT = 2000


class Timer:
    """Seconds of CPU and of the clock since it was made."""

    def __init__(self) -> None:
        self.cpu, self.clock = time.process_time(), time.perf_counter()

    def stop(self) -> tuple[float, float]:
        return time.process_time() - self.cpu, time.perf_counter() - self.clock


async def puts(store: Store, rows: int, size: int) -> float:
    """Creates so many keys; a line, and how many a CPU second."""
    seen = 0

    async def watch(prefix: str, after: int) -> None:
        nonlocal seen
        async for batch in store.watch(prefix, after):
            seen += len(batch)

    after = await store.revision()
    watches = [asyncio.create_task(watch(f"/registry/r{n}/", after)) for n in range(WATCHES)]
    numbers = iter(range(rows))
    value = bytes(range(256)) * (size // 256 + 1)
    waited: list[float] = []

    async def write() -> None:
        for number in numbers:
            begun = time.perf_counter()
            done = await store.put(Put(f"/registry/r{number % WATCHES}/{size}/{number}", value[:size], 0))
            assert done.ok
            waited.append(time.perf_counter() - begun)

    timer = Timer()
    await asyncio.gather(*[write() for _ in range(IN_FLIGHT)])
    cpu, clock = timer.stop()
    while seen < rows:
        await asyncio.sleep(0.01)
    for task in watches:
        task.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    waited.sort()
    print(
        f"  puts of {size:>5} B  {rows / cpu:>9,.0f} a CPU s  {rows / clock:>9,.0f} a s"
        f"  p50 {waited[rows // 2] * 1e3:.1f} ms  p99 {waited[rows * 99 // 100] * 1e3:.1f} ms"
    )
    return rows / cpu


async def lists(store: Store) -> None:
    """Reads everything, and a page."""
    for what, limit in (("everything", 0), ("a page", 500)):
        timer = Timer()
        found = await store.range("/registry/", limit=limit)
        cpu, _ = timer.stop()
        print(f"  list of {what} ({len(found.entries):,} keys)  {cpu * 1e3:.1f} ms CPU")


async def memory(rows: int, folder: Path) -> bool:
    """The store in memory."""
    store = await open_store("memory")
    await puts(store, rows, 1000)
    await lists(store)
    await store.close()
    return True


async def embedded(rows: int, folder: Path) -> bool:
    """The store in a directory."""
    store = await open_store("embedded", data=folder)
    fast = await puts(store, rows, 1000)
    await puts(store, rows // 2, 4700)
    await lists(store)
    await store.close()
    timer = Timer()
    store = await open_store("embedded", data=folder)
    cpu, _ = timer.stop()
    print(f"  open, every row checked ({rows + rows // 2:,} rows)  {cpu * 1e3:.0f} ms CPU")
    await lists(store)
    await store.close()
    return fast >= LIMIT


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A running etcd."""
    words = ["etcd", "--data-dir", str(folder / "etcd")]
    for name, port in (("client", 32379), ("peer", 32380)):
        words += [f"--listen-{name}-urls=http://127.0.0.1:{port}"]
    words += ["--advertise-client-urls=http://127.0.0.1:32379", "--initial-advertise-peer-urls=http://127.0.0.1:32380"]
    words += ["--initial-cluster=default=http://127.0.0.1:32380"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield "etcd://127.0.0.1:32379"
    finally:
        process.kill()
        process.wait()


async def etcd(rows: int, folder: Path) -> bool:
    """The client's share of an etcd."""
    if shutil.which("etcd") is None:
        print("  etcd is not installed")
        return True
    with server(folder) as target:
        store = None
        while store is None:
            try:
                store = await open_store(target)
            except StoreError:
                await asyncio.sleep(0.1)
        await puts(store, rows, 1000)
        await lists(store)
        await store.close()
    return True


CASES: dict[str, Callable[[int, Path], Coroutine[Any, Any, bool]]] = {
    "memory": memory,
    "embedded": embedded,
    "etcd": etcd,
}


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--case", choices=CASES)
    args = parser.parse_args()
    held = True
    for name in [args.case] if args.case else CASES:
        print(name)
        with tempfile.TemporaryDirectory() as folder:
            held &= asyncio.run(CASES[name](args.rows, Path(folder)))
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
