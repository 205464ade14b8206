"""A broken promise is found: servers with a fault on purpose, and whether the verdict says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.histories.clients import run
from tests.histories.judge import judged
from tests.histories.kit import observed, served

from dashpot.runtime.api import lists
from dashpot.runtime.api.cache import Cache
from dashpot.runtime.api.fanout import Feed
from dashpot.runtime.api.storage import Storage

Plant = Callable[[pytest.MonkeyPatch], None]


def faults_of(folder: Path, rules: str = "", within: float = 0.3) -> list[str]:
    """What the verdict finds at a server; `rules` are those of a file of faults."""

    async def main() -> list[str]:
        settings: dict[str, Any] = {}
        if rules:
            settings["faults"] = folder / "faults.yaml"
            settings["faults"].write_text(f"seed: 3\nrules:\n{rules}")
        async with served(folder / "data", **settings) as (server, context):
            return judged(await observed([(server.url, context)], 5, 0.5, within=within))

    return run(main())


def found(faults: list[str], text: str) -> bool:
    return any(text in fault for fault in faults)


def test_allowed(tmp_path: Path) -> None:
    """Watches that are late, cut off and overtake each other, and old states for those who take any, break nothing."""
    rules = """
  - {resource: configmaps, chance: 0.05, delay: [0.001, 0.01]}
  - {resource: configmaps, chance: 0.02, disconnect: true}
  - {resource: configmaps, reorder: between, window: 0.02}
"""
    assert faults_of(tmp_path, rules, within=20) == []


def test_dropped(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, "  - {resource: configmaps, chance: 0.01, drop: true}\n")
    assert found(faults, "comes where")


def test_reordered(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, "  - {resource: configmaps, chance: 0.3, reorder: within}\n")
    assert found(faults, "comes where")


def test_stale(tmp_path: Path) -> None:
    """Reads that promised not to be older than N."""
    faults = faults_of(tmp_path, "  - {on: read, resource: configmaps, stale: 50}\n")
    assert found(faults, "is not what was asked for") or found(faults, "does not show revision")


def no_compare(patch: pytest.MonkeyPatch) -> None:
    real = Storage._put

    async def put(self: Storage, key: str, value: bytes, expect: int, ttl_s: float) -> Any:
        await asyncio.sleep(0.005 if expect else 0)
        return await real(self, key, value, None if expect else 0, ttl_s)  # type: ignore[arg-type]

    patch.setattr(Storage, "_put", put)


def pages_of_now(patch: pytest.MonkeyPatch) -> None:
    real = lists._at

    async def at(asked: Any, storage: Any, prefix: str, start: str, revision: int) -> Any:
        return await real(asked, storage, prefix, start, 0 if asked.token else revision)

    patch.setattr(lists, "_at", at)


def forgetful_consistency(patch: pytest.MonkeyPatch) -> None:
    """Reads of the newest do not wait for the cache, and the cache is late."""

    async def consistent(self: Cache) -> bool:
        return await self.ready()

    patch.setattr(Cache, "consistent", consistent)
    apply = Cache._apply

    def late(self: Cache, batch: Any) -> None:
        if self.keys.prefix == "/registry/configmaps/":
            asyncio.get_running_loop().call_later(0.05, apply, self, batch)
        else:
            apply(self, batch)

    patch.setattr(Cache, "_apply", late)
    patch.setattr(Cache, "reached", _reached)


async def _reached(self: Cache, revision: int, patience_s: float) -> bool:
    return True


def twice(patch: pytest.MonkeyPatch) -> None:
    real = Feed.take

    def take(self: Feed, position: int, end: int) -> tuple[bytes, int, int]:
        lines, at, number = real(self, position, end)
        return (lines * 2 if number == 1 and position % 7 == 0 else lines), at, number

    patch.setattr(Feed, "take", take)


def wrong_kind(patch: pytest.MonkeyPatch) -> None:
    """An object that begins to match a selector is MODIFIED."""
    real = Feed.event

    def event(self: Feed, change: Any) -> Any:
        told = real(self, change)
        return (b"MODIFIED", told[1]) if told and told[0] == b"ADDED" and change.previous is not None else told

    patch.setattr(Feed, "event", event)


@pytest.mark.parametrize(
    ("plant", "text"),
    [
        (no_compare, "asked for over"),
        (pages_of_now, "a page of revision"),
        (forgetful_consistency, "is not the state of its revision"),
        (twice, "comes where"),
        (wrong_kind, "should"),
    ],
)
def test_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, text: str) -> None:
    plant(monkeypatch)
    faults = faults_of(tmp_path)
    assert found(faults, text), faults[:5]
