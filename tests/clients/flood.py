"""One client that lists as fast as it can, over many connections at once, in a process of its own.

    python -m tests.clients.flood HOST PORT IDENTITY PATH CONNECTIONS

IDENTITY is a PEM file of a client certificate and its key. It prints a line when all connections are under way, lists
until stdin ends, and prints how often it got each code, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections import Counter


async def _answer(reader: asyncio.StreamReader) -> int:
    """The code of one answer, read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    code = int(head.split(b" ", 2)[1])
    if b"\r\ntransfer-encoding: chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    else:
        await reader.readexactly(int(head.partition(b"\r\ncontent-length: ")[2].split(b"\r\n", 1)[0]))
    return code


async def main(host: str, port: str, identity: str, path: str, connections: str) -> None:
    """Floods."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(identity)
    codes: Counter[int] = Counter()
    pairs = [await asyncio.open_connection(host, int(port), ssl=context) for _ in range(int(connections))]
    end = asyncio.Event()

    async def lists(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not end.is_set():
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            codes[await _answer(reader)] += 1

    tasks = [asyncio.create_task(lists(*pair)) for pair in pairs]
    print("under way", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    end.set()
    for task in tasks:
        await task
    print(json.dumps(codes))
    for _, writer in pairs:
        writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
