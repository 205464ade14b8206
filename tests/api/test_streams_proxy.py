"""Proxies to pods, services and nodes: what arrives there, what comes back, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from tests.api.node_kit import Cluster

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import Request
from dashpot.runtime.api.streams import proxy, targets
from dashpot.runtime.api.streams.proxy import outgoing, relocated
from dashpot.runtime.api.streams.targets import Named, Target, allowed, named

# a client's TLS connection may outlive the loop of its test, which ends at once
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


async def _hello(request: web.Request) -> web.StreamResponse:
    """Tells what has arrived."""
    body = await request.read()
    told = {
        "method": request.method,
        "path": request.raw_path,
        "body": len(body),
        "headers": {name.lower(): value for name, value in request.headers.items()},
    }
    answer = web.json_response(told, headers={"Keep-Alive": "x", "Connection": "X-Hop", "X-Hop": "1"})
    answer.headers.add("Set-Cookie", "a=1")
    answer.headers.add("Set-Cookie", "b=2")
    answer.content_type = "application/json"
    answer.charset = "utf-8"
    return answer


async def _moved(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(request.query["to"])


async def _stream(request: web.Request) -> web.StreamResponse:
    """Sends back each piece as it comes."""
    answer = web.StreamResponse()
    await answer.prepare(request)
    async for piece in request.content.iter_any():
        await answer.write(piece)
    return answer


async def _cut(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return answer


async def _socket(request: web.Request) -> web.StreamResponse:
    talk = web.WebSocketResponse(protocols=("chat",))
    await talk.prepare(request)
    async for message in talk:
        if message.type == aiohttp.WSMsgType.TEXT:
            await talk.send_str(message.data.upper())
        else:
            await talk.send_bytes(message.data)
    return talk


def _application() -> web.Application:
    application = web.Application(client_max_size=1 << 26)
    application.router.add_get("/moved", _moved)
    application.router.add_route("*", "/stream", _stream)
    application.router.add_get("/cut", _cut)
    application.router.add_get("/socket", _socket)
    application.router.add_route("*", "/{tail:.*}", _hello)
    return application


SLICE = {
    "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4",
    "ports": [{"name": "http", "port": 8080}],
    "endpoints": [
        {"addresses": ["10.1.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.1.0.9"], "conditions": {"ready": False}},
    ],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server whose pods' address 10.1.0.1:8080 is an HTTP server of this machine."""

    async def dial(host: str, port: int) -> socket.socket:
        if (host, port) != ("10.1.0.1", 8080):
            raise ConnectionRefusedError(111, "Connection refused")
        return await proxy.connect(*runner.addresses[0][:2])

    async def begin() -> web.AppRunner:
        made = web.AppRunner(_application())
        await made.setup()
        await web.TCPSite(made, "127.0.0.1", 0).start()
        call = cluster.server.local.call
        ports = [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "other", "port": 81}]
        for name in ("web", "empty"):
            await call("POST", SERVICES, {"metadata": {"name": name}, "spec": {"ports": ports}})
        await call("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", SLICE)
        cluster.server.streaming.proxy.dial = dial
        return made

    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.do(cluster.pod("web", podIP="10.1.0.1", podIPs=[{"ip": "10.1.0.1"}]))
        cluster.do(cluster.pod("local", podIP="127.0.0.1", podIPs=[{"ip": "127.0.0.1"}]))
        runner = cluster.do(begin())
        yield cluster
        cluster.do(runner.cleanup())
        gc.collect()
        assert cluster.complaints == []


@asynccontextmanager
async def _session(cluster: Cluster, folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """The administrator's."""
    import base64

    known = yaml.safe_load(cluster.kubeconfig.read_text())
    user, server = known["users"][0]["user"], known["clusters"][0]["cluster"]
    for name in ("client-certificate", "client-key"):
        (folder / name).write_bytes(base64.b64decode(user[f"{name}-data"]))
    context = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
    context.load_cert_chain(folder / "client-certificate", folder / "client-key")
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server["server"], connector=connector) as session:
        yield session


def test_requests(cluster: Cluster, tmp_path: Path) -> None:
    """All verbs, paths as they were written, bodies, and headers without who asks."""

    async def main() -> None:
        async with _session(cluster, tmp_path) as session:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                headers = {"X-Mine": "1", "Impersonate-User": "boss", "Impersonate-Group": "system:masters"}
                headers |= {"X-Remote-User": "x", "Authorization": "Bearer none"}
                body = b"" if method == "GET" else b"x" * 500_000
                path = f"{PODS}/web:8080/proxy/a%2Fb//c/?q=1&q=%26"
                async with session.request(method, path, data=body, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    told = await answer.json()
                assert (told["method"], told["body"]) == (method, len(body))
                assert told["path"] == "/a%2Fb/c/?q=1&q=%26"
                sent = told["headers"]
                assert sent["x-mine"] == "1"
                assert not {"impersonate-user", "impersonate-group", "x-remote-user", "authorization"} & set(sent)
                assert sent["x-forwarded-uri"] == f"{PODS}/web:8080/proxy/a%2Fb//c/"
                assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2"]
                assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
                assert not {"Keep-Alive", "X-Hop"} & set(answer.headers)
            async with session.head(f"{PODS}/web:8080/proxy/x") as answer:
                assert answer.status == 200

    asyncio.run(main())


def test_redirects(cluster: Cluster, tmp_path: Path) -> None:
    """To the page itself, and where the target sends us."""

    async def main() -> None:
        async with _session(cluster, tmp_path) as session:
            base = f"{PODS}/web:8080/proxy"
            cases = {
                base: f"{base}/",
                f"{base}?a=b": f"{base}/?a=b",
                f"{base}/moved?to=/x/y?q=1": f"{base}/x/y?q=1",
                f"{base}/moved?to=http://10.1.0.1:8080/x": f"{base}/x",
                f"{base}/moved?to=https://example.com/x": "https://example.com/x",
                f"{base}/moved?to=next": "next",
            }
            for path, expected in cases.items():
                async with session.get(path, allow_redirects=False) as answer:
                    assert answer.headers["Location"] == expected

    asyncio.run(main())


def test_streaming(cluster: Cluster, tmp_path: Path) -> None:
    """Pieces go through as they come, both ways at once; a target that breaks off is seen to."""

    async def main() -> None:
        first = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b"one"
            await first.wait()
            for _ in range(100):
                yield b"x" * 50_000

        async with _session(cluster, tmp_path) as session:
            with pytest.raises(aiohttp.ClientError):
                async with session.get(f"{PODS}/web:8080/proxy/cut") as answer:
                    await answer.read()
            async with session.post(f"{PODS}/web:8080/proxy/stream", data=body()) as answer:
                assert await answer.content.readexactly(3) == b"one"
                first.set()
                assert len(await answer.read()) == 5_000_000

    asyncio.run(main())


def test_websocket(cluster: Cluster, tmp_path: Path) -> None:
    """Text stays text, bytes stay bytes, and the subprotocol is the target's."""

    async def main() -> None:
        async with _session(cluster, tmp_path) as session:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(f"{PODS}/web:8080/proxy/x")
            assert caught.value.status >= 400
            path = f"{SERVICES}/web:http/proxy/socket"
            async with session.ws_connect(path, protocols=("nope", "chat")) as talk:
                assert talk.protocol == "chat"
                await talk.send_str("grüße")
                assert (await talk.receive()).data == "GRÜSSE"
                await talk.send_bytes(b"\x00" * 1_000_000)
                assert (await talk.receive()).data == b"\x00" * 1_000_000

    asyncio.run(main())


CASES = [
    (f"{SERVICES}/web:80/proxy/x", 200, ""),
    (f"{SERVICES}/http:web:80/proxy/x", 200, ""),
    (f"{SERVICES}/web:http/proxy/x", 200, ""),
    (f"{SERVICES}/web:82/proxy/x", 503, 'no service port 82 found for service "web"'),
    (f"{SERVICES}/web:81/proxy/x", 503, 'no endpoints available for service "web"'),
    (f"{SERVICES}/empty:80/proxy/x", 503, 'no endpoints available for service "empty"'),
    (f"{SERVICES}/none:80/proxy/x", 404, 'services "none" not found'),
    (f"{SERVICES}/ftp:web:80/proxy/x", 400, 'invalid service request "ftp:web:80"'),
    (f"{PODS}/local/proxy/x", 400, "address not allowed"),
    (f"{PODS}/none/proxy/x", 404, 'pods "none" not found'),
    (f"{PODS}/a:b:c:d/proxy/x", 400, 'invalid pod request "a:b:c:d"'),
    (f"{PODS}/web:81/proxy/x", 503, "error trying to reach service: dial tcp 10.1.0.1:81: connect: connection refused"),
    (f"{PODS}/web:http/proxy/x", 503, "error trying to reach service: dial tcp: address 10.1.0.1:http: invalid port"),
    ("/api/v1/nodes/n1/proxy/metrics", 200, ""),
    ("/api/v1/nodes/n2/proxy/metrics", 500, 'error dialing backend: node "n2": no kubelet has registered'),
    ("/api/v1/nodes/none/proxy/metrics", 404, 'nodes "none" not found'),
]


@pytest.mark.parametrize(("path", "code", "message"), CASES)
def test_targets(cluster: Cluster, path: str, code: int, message: str) -> None:
    """Which names lead where, and what is said of those that lead nowhere."""

    async def main() -> tuple[int, bytes]:
        answer = await cluster.server.local.request("GET", path)
        if answer.chunks is None:
            return answer.code, answer.body
        return answer.code, b"".join([piece async for piece in answer.chunks])

    found, body = cluster.do(main())
    assert found == code, body
    assert message.replace('"', '\\"').encode() in body


def test_names() -> None:
    """The three forms of a name."""
    assert named("web", "pods") == Named("http", "web", "")
    assert named("web:http", "pods") == Named("http", "web", "http")
    assert named("https:web:", "pods") == Named("https", "web", "")
    for wrong in ("", ":80", "ftp:web:1", "a:b:c:d"):
        with pytest.raises(StatusError):
            named(wrong, "pods")


def test_addresses() -> None:
    """Nobody is let through to this machine by way of a pod's status."""
    refused = ("127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "::", "", "x", "10.0.0.1 ")
    assert not any(map(allowed, refused))
    assert allowed("10.0.0.1") and allowed("fd00::1")


def test_first_port() -> None:
    """Without a port: the first that a container names."""
    containers = [{}, {"ports": [{"containerPort": 7}]}]
    pod: dict[str, Any] = {"spec": {"containers": containers}, "status": {"podIP": "10.0.0.1"}}
    assert targets.of_pod(pod, named("web", "pods")) == Target("http", "10.0.0.1", 7)
    pod["spec"] = {}
    assert targets.of_pod(pod, named("https:web:", "pods")).port == 443


def test_locations() -> None:
    """Prefixes are put before paths once."""
    target = Target("http", "10.0.0.1", 80)
    before = "/api/v1/namespaces/n/pods/web/proxy"
    assert relocated(before + "/x", target, before) == before + "/x"
    assert relocated("//10.0.0.1:80/x#y", target, before) == before + "/x#y"
    assert relocated("http://[", target, before) == "http://["


def test_hop_by_hop() -> None:
    """What `Connection` names stays here."""

    async def read() -> bytes:
        return b""

    headers = {"connection": "close, X-Secret", "x-secret": "1", "te": "trailers", "x-mine": "2", "authorization": "b"}
    request = Request("GET", "/p", (), headers, read, remote="192.0.2.1")
    found = outgoing(request, Target("http", "10.0.0.1", 80))
    assert {name.lower() for name in found} == {
        "x-mine", "host", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-uri", "x-forwarded-for",
    }  # fmt: skip
