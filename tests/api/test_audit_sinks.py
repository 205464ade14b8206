"""Where audit events go: a file that rotates and survives a full disk, a webhook that is slow, wrong or away."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dashpot.runtime.api import audit
from dashpot.runtime.api.audit.policy import PolicyError
from dashpot.runtime.api.audit.sinks import LogFile, Webhook
from dashpot.runtime.api.auth.remote import Sender, webhook_config
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.clock import SystemClock

Object = dict[str, Any]


def event(number: int, size: int = 20) -> bytes:
    return msgspec.json.encode({"n": number, "x": "y" * size})


def numbers(path: Path) -> list[int]:
    """The events of a file; each line is one."""
    return [msgspec.json.decode(line)["n"] for line in path.read_bytes().splitlines()]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


# -- the file -----------------------------------------------------------------------------------------------------


def test_lines_of_one_turn_are_written_together(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "audit.log"
        file = LogFile(path, 1 << 20, 3, pytest.fail)
        for number in range(5):
            file.write(event(number))
        assert path.read_bytes() == b""
        await turn()
        assert numbers(path) == [0, 1, 2, 3, 4]
        file.write(event(5))
        await file.close()
        assert numbers(path) == [0, 1, 2, 3, 4, 5]
        assert path.stat().st_mode & 0o777 == 0o600

    asyncio.run(main())


def test_a_file_is_continued_and_rotated(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "audit.log"
        for start in (0, 10):  # the server was started again in between
            file = LogFile(path, 150, 2, pytest.fail)
            for number in range(start, start + 10):
                file.write(event(number))
                await turn()
            await file.close()
        found = [numbers(tmp_path / name) for name in ("audit.log.2", "audit.log.1", "audit.log")]
        assert [n for part in found for n in part] == list(range(20))[-sum(map(len, found)) :]
        assert all((tmp_path / name).stat().st_size <= 150 for name in os.listdir(tmp_path))
        assert sorted(os.listdir(tmp_path)) == ["audit.log", "audit.log.1", "audit.log.2"]

    asyncio.run(main())


def test_without_old_files_the_log_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "audit.log"
        file = LogFile(path, 100, 0, pytest.fail)
        for number in range(10):
            file.write(event(number))
            await turn()
        await file.close()
        assert os.listdir(tmp_path) == ["audit.log"]
        assert numbers(path)[-1] == 9 and path.stat().st_size <= 100

    asyncio.run(main())


class FullDisk:
    """`os.write` on a disk with so many bytes left."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._write = os.write

    def __call__(self, file: int, data: Any) -> int:
        if not self.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(file, bytes(data)[: self.left])
        self.left -= written
        return written


def test_a_full_disk_loses_events_says_so_once_and_leaves_no_torn_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        told: list[str] = []
        path = tmp_path / "audit.log"
        file = LogFile(path, 1 << 20, 2, told.append)
        disk = FullDisk(len(event(0)) + 11)  # the second line does not fit
        monkeypatch.setattr(os, "write", disk)
        for number in range(5):
            file.write(event(number))
            await turn()
        assert numbers(path) == [0]
        assert file.dropped == 4 and len(told) == 1
        assert "events are lost: No space left on device" in told[0]
        disk.left = 1 << 20  # somebody made room
        file.write(event(5))
        await turn()
        assert numbers(path) == [0, 5]
        disk.left = 0
        file.write(event(6))
        await turn()
        assert len(told) == 2, "told again after it was well in between"
        await file.close()

    asyncio.run(main())


def test_a_rotation_that_fails_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        told: list[str] = []
        file = LogFile(tmp_path / "audit.log", 60, 2, told.append)
        file.write(event(0))
        await turn()
        real = os.open

        def refused(path: Any, *rest: Any) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) if "audit" in str(path) else OSError

        monkeypatch.setattr(os, "open", refused)
        file.write(event(1))
        await turn()
        assert len(told) == 1 and file.dropped == 1
        monkeypatch.setattr(os, "open", real)
        file.write(event(2))
        await turn()
        await file.close()
        assert numbers(tmp_path / "audit.log") == [2]

    asyncio.run(main())


# -- the webhook --------------------------------------------------------------------------------------------------


class Collector:
    """A webhook on a port of its own. `answers` are its next status codes; 200 after them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.answers: list[int] = []
        self.calls = 0
        self._runner: web.ServerRunner | None = None

    async def start(self) -> str:
        runner = self._runner = web.ServerRunner(web.Server(self._serve))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}/audit"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        self.calls += 1
        code = self.answers.pop(0) if self.answers else 200
        body = msgspec.json.decode(await request.read())
        if code == 200:
            assert (body["kind"], body["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
            self.batches.append([item["n"] for item in body["items"]])
        return web.Response(status=code)


def collecting(folder: Path, test: Callable[[Collector, Callable[..., Webhook], list[str]], Any]) -> None:
    """Runs a test with a webhook and a maker of sinks that post to it."""

    async def main() -> None:
        collector, told = Collector(), list[str]()
        url = await collector.start()
        config = folder / "hook.yaml"
        config.write_text(
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
        )

        def made(**more: Any) -> Webhook:
            return Webhook(Sender(webhook_config(config)), told.append, **{"wait_s": 60.0, "backoff_s": 0.0, **more})

        try:
            await test(collector, made, told)
        finally:
            await collector.stop()

    asyncio.run(main())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_full_batch_is_sent_at_once_and_the_rest_at_the_end(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        sink = made(batch=4)
        for number in range(4):
            sink.write(event(number))
        await until(lambda: collector.batches)
        assert collector.batches == [[0, 1, 2, 3]]
        sink.write(event(4))
        await turn()
        assert len(collector.batches) == 1
        await sink.close()
        assert collector.batches == [[0, 1, 2, 3], [4]]
        assert (sink.dropped, told) == (0, [])

    collecting(tmp_path, test)


def test_a_batch_that_is_not_full_is_sent_after_a_while(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        sink = made(wait_s=0.01)
        sink.write(event(0))
        await until(lambda: collector.batches)
        await sink.close()
        assert collector.batches == [[0]]

    collecting(tmp_path, test)


def test_failures_are_tried_again(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        collector.answers = [500, 503]
        sink = made(batch=2)
        sink.write(event(0))
        sink.write(event(1))
        await until(lambda: collector.batches)
        await sink.close()
        assert (collector.calls, collector.batches, sink.dropped, told) == (3, [[0, 1]], 0, [])

    collecting(tmp_path, test)


def test_what_cannot_be_sent_is_counted_and_told_once(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        collector.answers = [500] * 8
        sink = made(batch=1, tries=4)
        sink.write(event(0))
        sink.write(event(1))
        sink.write(event(2))
        await until(lambda: collector.batches)
        await sink.close()
        assert (collector.batches, sink.dropped) == ([[2]], 2)
        assert len(told) == 1 and "1 events are lost" in told[0] and "answered 500" in told[0]

    collecting(tmp_path, test)


def test_a_full_buffer_drops_the_newest(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        sink = made(batch=100, buffer=3)
        for number in range(5):
            sink.write(event(number))
        assert sink.dropped == 2
        await sink.close()
        assert collector.batches == [[0, 1, 2]]

    collecting(tmp_path, test)


def test_a_webhook_that_is_away_does_not_hold_the_server_up(tmp_path: Path) -> None:
    async def test(collector: Collector, made: Callable[..., Webhook], told: list[str]) -> None:
        collector.answers = [500] * 10
        sink = made(batch=1, backoff_s=3600.0)
        sink.write(event(0))
        await until(lambda: collector.calls)
        async with asyncio.timeout(5):
            await sink.close()
        assert sink.dropped == 1

    collecting(tmp_path, test)


@pytest.mark.parametrize(
    ("setting", "content", "text"),
    [
        ("audit_log", None, "audit log '.*' cannot be written: Is a directory"),
        ("audit_webhook", "server: x", "audit webhook: .*"),
        ("audit_policy", "rules: []", "expected"),
    ],
)
def test_a_place_that_cannot_be_used_is_told_at_the_start(
    tmp_path: Path, setting: str, content: str | None, text: str
) -> None:
    path = tmp_path / "x"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    settings: Any = {setting: path}
    with pytest.raises(audit.LogError if content is None else PolicyError, match=text):
        audit.trail(Settings(**settings), SystemClock(), random.Random(1), pytest.fail)
