"""A process that writes from many tasks and says what was acknowledged, until it is killed.

`python crashing.py DIRECTORY SEED`: a line `KEY REVISION VALUE` on the standard output for each acknowledged write.
"""

from __future__ import annotations

import asyncio
import os
import sys
from itertools import count
from pathlib import Path
from random import Random

from dashpot.runtime.store.base import Delete, Put
from dashpot.runtime.store.embedded import EmbeddedStore


async def write(store: EmbeddedStore, name: str, random: Random) -> None:
    for number in count(1):
        if name == "w0" and number % 30 == 0:
            await store.compact(max(store.newest - 200, 1))
        key = f"/{name}/{random.randrange(5)}"
        value = f"{random.getrandbits(64):016x}" * random.choice((1, 60, 400))
        if random.random() < 0.8:
            done = await store.put(Put(key, value.encode()))
        else:
            value = "-"
            done = await store.delete(Delete(key))
        if done.ok:
            os.write(1, f"{key} {done.revision} {value[:16]}\n".encode())


async def main(folder: str, seed: int) -> None:
    store = await EmbeddedStore.open(Path(folder))
    os.write(1, f"open {store.newest}\n".encode())
    writers = [write(store, f"w{n}", Random(seed * 100 + n)) for n in range(20)]
    await asyncio.gather(*writers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
