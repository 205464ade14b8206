"""A webhook in a process of its own that answers one request at a time: fast when idle, slow when busy.

    python -m tests.clients.busy_hook FOLDER SECONDS

It makes an authority in the folder, prints its port and its CA bundle as a line of JSON, and serves until stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.api.admit_kit import Authority, Object, webhook


async def main(folder: str, seconds: str) -> None:
    """Serves."""
    gate = asyncio.Lock()

    async def answer(request: Object) -> Object:
        async with gate:
            await asyncio.sleep(float(seconds))
        return {"allowed": True}

    authority = Authority(Path(folder))
    async with webhook(authority, answer) as port:
        print(json.dumps([port, authority.bundle]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
