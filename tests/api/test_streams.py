"""What is asked of logs, exec and attach, and what is refused; slow readers, silent ones, and those who leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.node_kit import LocalNode, OneNode, running
from tests.api.serving import Serving, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import Request, Response
from dashpot.runtime.api.streams import LogOptions, RunError, StreamOptions, Streams, channels, logs, ports
from dashpot.runtime.api.streams.channels import terminal_size
from dashpot.runtime.api.streams.containers import check_log, chosen, host
from dashpot.runtime.api.streams.pipe import LIMIT, Pipe

Object = dict[str, Any]
PODS = "/api/v1/namespaces/n/pods"
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
}


async def _read() -> bytes:
    return b""


def _request(*query: tuple[str, str]) -> Request:
    return Request("GET", "/", query, {}, _read)


def _pod(state: Object | None = None, last: Object | None = None) -> Object:
    status = {**running("c"), "state": state or {}}
    if last is not None:
        status["lastState"] = last
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
        "status": {"containerStatuses": [status]},
    }


WRONG_LOGS = [
    (
        "tailLines=-1",
        422,
        'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
    ),
    ("limitBytes=0", 422, 'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0'),
    ("sinceSeconds=0", 422, 'PodLogOptions "p" is invalid: sinceSeconds: Invalid value: 0: must be greater than 0'),
    (
        "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
        422,
        'PodLogOptions "p" is invalid: : Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified',
    ),
    ("stream=Stdout", 422, 'PodLogOptions "p" is invalid: stream: Forbidden: may not be specified'),
    ("tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("tailLines=9223372036854775808", 400, 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
    ("sinceTime=yesterday", 400, 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday"'),
]


@pytest.mark.parametrize(("query", "code", "message"), WRONG_LOGS)
def test_wrong_log_options(query: str, code: int, message: str) -> None:
    """In upstream's words."""
    pairs = [(key, value) for key, _, value in (part.partition("=") for part in query.split("&"))]
    with pytest.raises(StatusError) as caught:
        logs.options(_request(*pairs), "p")
    assert caught.value.code == code
    assert caught.value.message.startswith(message)


def test_log_options() -> None:
    """All of them, and none."""
    assert logs.options(_request(), "p") == LogOptions()
    asked = (("follow", "true"), ("previous", "1"), ("timestamps", "true"), ("tailLines", "0"), ("limitBytes", "9"))
    found = logs.options(_request(*asked, ("sinceSeconds", "5")), "p")
    assert found == LogOptions(True, True, True, 5, None, 0, 9)


STATES: list[tuple[Object, Object | None, bool, str]] = [
    ({"running": {}}, None, False, ""),
    ({"terminated": {"containerID": "t://1"}}, None, False, ""),
    ({"terminated": {}}, None, False, 'container "c" in pod "p" is terminated'),
    ({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"containerID": "t://1"}}, False, ""),
    ({"waiting": {"reason": "ContainerCreating"}}, None, False, "is waiting to start: ContainerCreating"),
    ({"waiting": {"reason": "ErrImagePull"}}, None, False, "is waiting to start: image can't be pulled"),
    ({"waiting": {"reason": "ImagePullBackOff"}}, None, False, "is waiting to start: trying and failing to pull image"),
    ({}, None, False, "is waiting to start - no logs yet"),
    ({"running": {}}, None, True, 'previous terminated container "c" in pod "p" not found'),
    ({"running": {}}, {"terminated": {"containerID": "t://1"}}, True, ""),
]


@pytest.mark.parametrize(("state", "last", "previous", "message"), STATES)
def test_containers_without_log(state: Object, last: Object | None, previous: bool, message: str) -> None:
    """Which states have a log, and what is said of the others."""
    if not message:
        check_log(_pod(state, last), "c", previous)
        return
    with pytest.raises(StatusError) as caught:
        check_log(_pod(state, last), "c", previous)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_choice_of_container() -> None:
    """One alone needs no name; several are listed, initial ones first."""
    pod = _pod()
    assert (chosen(pod, ""), chosen(pod, "i")) == ("c", "i")
    for wanted, message in (("x", "container x is not valid for pod p"), ("", "choose one of: [i c d]")):
        pod["spec"]["containers"] = [{"name": "c"}, {"name": "d"}]
        with pytest.raises(StatusError, match=message.replace("[", r"\[")):
            chosen(pod, wanted)
    with pytest.raises(StatusError, match="pod p does not have a host assigned"):
        host(pod)


REFUSED = [
    ("GET", "web/exec?command=true&stdout=1", {}, "unable to upgrade: missing upgrade headers in request"),
    ("POST", "web/exec?command=true&stdout=1", {"connection": "Upgrade", "upgrade": "SPDY/3.1"}, "unable to upgrade"),
    ("GET", "web/exec?command=true&stdout=1", {**UPGRADE, "sec-websocket-protocol": "v9"}, "subprotocols v9 is served"),
    ("GET", "web/exec?command=true&stdout=1", {**UPGRADE, "sec-websocket-version": "8"}, "are not complete"),
    ("GET", "web/exec?stdout=1", UPGRADE, "you must specify at least one command for the container"),
    ("GET", "web/exec?command=true", UPGRADE, "you must specify at least 1 of stdin, stdout, stderr"),
    ("GET", "web/exec?command=true&stderr=1&tty=1", UPGRADE, "you must specify at least 1 of stdin, stdout, stderr"),
    ("GET", "web/exec?command=true&stdout=1&container=x", UPGRADE, "container x is not valid for pod web"),
    ("GET", "web/attach?stdout=1", {}, "unable to upgrade"),
    ("GET", "web/portforward", UPGRADE, 'query parameter "port" is required'),
    ("GET", "web/portforward?ports=x", UPGRADE, 'unable to parse "x" as a port'),
    ("GET", "web/portforward?ports=0", UPGRADE, 'port "0" must be > 0'),
    ("POST", "web/portforward", {"connection": "Upgrade", "upgrade": "SPDY/3.1"}, "unable to upgrade"),
]


def _served(test: Callable[[Serving, LocalNode], Awaitable[None]]) -> None:
    async def main(serving: Serving) -> None:
        node = LocalNode()
        serving.server.nodes = OneNode(node)
        spec = {"containers": [{"name": "c", "image": "example.com/x:1"}], "nodeName": "n1"}
        pod = await serving.done("POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
        pod["status"]["containerStatuses"] = [running("c")]
        await serving.done("PUT", f"{PODS}/web/status", pod)
        await test(serving, node)

    run(main)


def test_refused() -> None:
    """400 for what cannot become a stream, with the reason."""

    async def test(serving: Serving, _: LocalNode) -> None:
        for method, path, headers, message in REFUSED:
            code, answer = await serving.told(method, f"{PODS}/{path}", headers=headers)
            assert (code, answer["kind"]) == (400, "Status"), path
            assert message in answer["message"], path

    _served(test)


class Talk:
    """A Duplex whose client is the test. `slow` makes it read nothing until it is set."""

    def __init__(self, protocol: str = channels.V5) -> None:
        self.protocol = protocol
        self.to_server: asyncio.Queue[bytes | str | None] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> bytes | str | None:
        return await self.to_server.get()

    async def send(self, message: bytes | str) -> None:
        await self.reads.wait()
        assert isinstance(message, bytes)
        self.sent.append(message)

    async def close(self, code: int = 1000) -> None:
        return

    def channel(self, number: int) -> bytes:
        """All that was sent on one."""
        return b"".join(message[1:] for message in self.sent if message[0] == number)


ALL = StreamOptions(stdin=True, stdout=True, stderr=True)


async def _status(code: int | Exception, protocol: str) -> bytes:
    async def command(streams: Streams) -> int:
        if isinstance(code, Exception):
            raise code
        return code

    talk = Talk(protocol)
    await channels.converse(talk, ALL, command)
    return talk.channel(channels.ERROR)


def test_statuses() -> None:
    """The last word: an object since version 4, a text or nothing before."""

    async def main() -> None:
        assert msgspec.json.decode(await _status(0, channels.V4)) == {"metadata": {}, "status": "Success"}
        found = msgspec.json.decode(await _status(7, channels.V5))
        assert (found["reason"], found["details"]["causes"]) == (
            "NonZeroExitCode",
            [{"reason": "ExitCode", "message": "7"}],
        )
        found = msgspec.json.decode(await _status(RunError("no"), channels.V5))
        assert (found["status"], found["message"]) == ("Failure", "Internal error occurred: no")
        found = msgspec.json.decode(await _status(StatusError("NotFound", "gone"), channels.V5))
        assert (found["code"], found["message"]) == (404, "gone")
        assert await _status(0, "") == b""
        assert await _status(7, "") == b"command terminated with non-zero exit code: exit status 7"

    asyncio.run(main())


def test_input() -> None:
    """Text and bytes are input alike; version 5 ends it; what belongs to no channel is dropped."""

    async def main() -> None:
        got: list[bytes] = []

        async def command(streams: Streams) -> int:
            while data := await streams.read():
                got.append(data)
            assert await streams.resized() == (80, 24)
            return 0

        talk = Talk()
        for message in (b"", b"\x00a", "\x00ü", b"\x09x", b"\x04junk", b"\x04{}", b'\x04{"Width":80,"Height":24}'):
            talk.to_server.put_nowait(message)
        talk.to_server.put_nowait(b"\xff\x00")
        await channels.converse(talk, ALL, command)
        assert b"".join(got) == "aü".encode()

    asyncio.run(main())


def test_slow_command() -> None:
    """Input waits where it comes from: a command that reads nothing costs one pipe of memory."""

    async def main() -> None:
        go = asyncio.Event()
        total = 0

        async def command(streams: Streams) -> int:
            nonlocal total
            await go.wait()
            while data := await streams.read():
                assert len(data) <= LIMIT + 65_536
                total += len(data)
            return 0

        class Flood(Talk):
            left = 10_000_000

            async def receive(self) -> bytes | str | None:
                if not self.left:
                    return await super().receive()
                self.left -= 50_000
                return b"\x00" + bytes(50_000)

        flood = Flood()
        flood.to_server.put_nowait(b"\xff\x00")
        task = asyncio.ensure_future(channels.converse(flood, ALL, command))
        for _ in range(100):
            await asyncio.sleep(0)
        assert flood.left >= 10_000_000 - LIMIT - 100_000
        go.set()
        await asyncio.wait_for(task, 20)
        assert total == 10_000_000

    asyncio.run(main())


def test_slow_reader() -> None:
    """Output waits for the client."""

    async def main() -> None:
        written = 0

        async def command(streams: Streams) -> int:
            nonlocal written
            for _ in range(100):
                await streams.out(bytes(channels.PIECE))
                written += 1
            return 0

        talk = Talk()
        talk.reads.clear()
        task = asyncio.ensure_future(channels.converse(talk, ALL, command))
        for _ in range(100):
            await asyncio.sleep(0)
        assert written == 0
        talk.reads.set()
        await asyncio.wait_for(task, 20)
        assert len(talk.channel(channels.STDOUT)) == 100 * channels.PIECE

    asyncio.run(main())


@pytest.mark.parametrize("leaves", [True, False])
def test_end_of_client(leaves: bool) -> None:
    """A client that leaves, or is silent for too long, ends its command."""

    async def main() -> None:
        ended = asyncio.Event()

        async def command(streams: Streams) -> int:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return 0

        talk = Talk()
        if leaves:
            talk.to_server.put_nowait(None)
        await asyncio.wait_for(channels.converse(talk, ALL, command, 30 if leaves else 0.01), 20)
        assert ended.is_set()
        assert talk.channel(channels.ERROR) == b""

    asyncio.run(main())


def test_silent_log() -> None:
    """A log that says nothing looks for its reader, and is closed when the reader leaves."""

    async def test(serving: Serving, node: LocalNode) -> None:
        response: Response = await serving.ask("GET", f"{PODS}/web/log?follow=true&tailLines=0")
        assert (response.code, response.content_type) == (200, "text/plain")
        assert response.chunks is not None
        pieces = logs.limited(await node.logs({**_pod({"running": {}})}, "c", LogOptions(follow=True)), None, 0.001)
        seen = [await anext(pieces) for _ in range(5)]
        assert b"".join(seen) == b"started\ntwo\nthree\n"
        assert seen[-1] == b""
        await pieces.aclose()  # type: ignore[attr-defined]
        assert node.closed == 1

    _served(test)


@given(st.lists(st.binary(max_size=9)), st.integers(1, 40))
def test_limit(parts: list[bytes], limit: int) -> None:
    """No more than so many bytes, wherever the pieces end."""

    async def pieces() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    async def main() -> bytes:
        return b"".join([piece async for piece in logs.limited(pieces(), limit)])

    assert asyncio.run(main()) == b"".join(parts)[:limit]


def test_broken_log() -> None:
    """A log that breaks off ends there, without a mistake of ours."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a"
        raise OSError("disk")

    async def main() -> bytes:
        return b"".join([piece async for piece in logs.limited(pieces(), None)])

    assert asyncio.run(main()) == b"a"


def test_pipe() -> None:
    """Bytes in order, a writer that waits, an end that is read after the rest, a reader that leaves."""

    async def main() -> None:
        pipe, data = Pipe(1000), os.urandom(100_000)

        async def fill() -> None:
            for at in range(0, len(data), 700):
                assert await pipe.write(data[at : at + 700])
            pipe.end()

        task = asyncio.ensure_future(fill())
        got = b""
        while piece := await pipe.read():
            assert len(piece) < 1700
            got += piece
        assert got == data
        await task
        assert await pipe.read() == b""
        assert not await pipe.write(b"late")
        full = Pipe(1)
        assert await full.write(b"x")
        waiting = asyncio.ensure_future(full.write(b"y"))
        await asyncio.sleep(0)
        full.abandon()
        assert not await waiting

    asyncio.run(main())


@given(st.binary(max_size=60))
def test_sizes(data: bytes) -> None:
    """Any bytes are a size or none."""
    terminal_size(data)
    assert terminal_size(b'{"Width":1,"Height":65535}') == (1, 65535)
    for wrong in (b'{"Width":0,"Height":1}', b'{"Width":"1","Height":1}', b"[]", b'{"Width":1e3,"Height":70000}'):
        assert terminal_size(wrong) is None


def test_ports() -> None:
    """Both ways to name several."""
    assert ports.wanted(_request(("ports", "80"), ("ports", "81,82"))) == [80, 81, 82]
    for wrong in ("", "65536", "-1", "8 0", "٣", ",".join(["1"] * 101)):
        with pytest.raises(StatusError):
            ports.wanted(_request(("ports", wrong)))
