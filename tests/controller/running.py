"""A manager against an in-process API server on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from dashpot.grammar.load import load
from dashpot.model.program import Program
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.loop import virtual_clock
from tests.tree import ROOT

T = TypeVar("T")
Object = dict[str, Any]


def library(name: str) -> Program:
    """A module of the library as the main file."""
    return load(ROOT / "model" / "kubernetes" / f"{name.rpartition('.')[2]}.loop")


@asynccontextmanager
async def managed(program: Program, client: Client, *names: str, **options: Any) -> AsyncIterator[Manager]:
    """A manager that has started."""
    complaints: list[str] = options.pop("complaints", [])
    options.setdefault("chance", random.Random(1))
    manager = Manager(program, client, clock=virtual_clock(), complain=complaints.append, **options)
    try:
        await manager.start(list(names) or None)
        yield manager
    finally:
        await manager.stop()


async def until(test: Callable[[], Awaitable[bool]], seconds: float = 300.0) -> None:
    """Waits, in virtual time, until something is so."""
    async with asyncio.timeout(seconds):
        while not await test():
            await asyncio.sleep(0.05)
