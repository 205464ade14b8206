"""exec, logs and port-forward by the stream clients of Python: kubernetes and kr8s."""

from __future__ import annotations

import asyncio
import gc
import http.client
import os
from collections.abc import Iterator
from typing import Any

import kr8s.asyncio
import pytest
from aiohttp import web
from kubernetes import client, config, stream
from kubernetes.client.exceptions import ApiException
from tests.api.node_kit import Cluster

# the official client leaves its sockets to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server with a pod, and an HTTP server behind port 80 of it."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await request.read() or b"pf-ok")

    async def listen() -> web.AppRunner:
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.node.ports = {80: runner.addresses[0][1]}
        return runner

    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        made.do(made.pod("web"))
        runner = made.do(listen())
        yield made
        made.do(runner.cleanup())
        assert made.complaints == []


@pytest.fixture
def core(cluster: Cluster) -> Iterator[Any]:
    """The official client."""
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:  # type: ignore[no-untyped-call]
        yield client.CoreV1Api(api)
    gc.collect()


def _exec(core: Any, *command: str, **options: Any) -> Any:
    asked = {"stderr": True, "stdin": False, "stdout": True, "tty": False, **options}
    return stream.stream(core.connect_get_namespaced_pod_exec, "web", "default", command=list(command), **asked)


def test_kubernetes_exec(core: Any) -> None:
    """Both outputs, the exit code, input as text and as bytes, and its end."""
    assert _exec(core, "sh", "-c", "echo out; echo err >&2") in ("out\nerr\n", "err\nout\n")
    talk = _exec(core, "sh", "-c", "read a; echo got $a; exit 5", stdin=True, _preload_content=False)
    talk.write_stdin("grüße\n")
    talk.run_forever(timeout=30)
    assert talk.read_stdout() == "got grüße\n"
    assert talk.returncode == 5
    talk = _exec(core, "wc", "-c", stdin=True, _preload_content=False, binary=True)
    for _ in range(20):
        talk.write_stdin(os.urandom(100_000))
    talk.close_channel(0)
    talk.run_forever(timeout=30)
    assert talk.read_stdout() == b"2000000\n"
    assert talk.returncode == 0
    talk.close()


def test_kubernetes_refused(core: Any) -> None:
    """A handshake that is refused tells why."""
    with pytest.raises(ApiException, match=r"container x is not valid for pod web|400"):
        _exec(core, "true", container="x")


def test_kubernetes_logs(core: Any) -> None:
    """Whole, and line by line."""
    assert core.read_namespaced_pod_log("web", "default") == "started\ntwo\nthree\n"
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod_log("web", "default", tail_lines=-1)
    assert caught.value.status == 422
    assert 'PodLogOptions \\"web\\" is invalid: tailLines: Invalid value: -1: must be greater' in (
        caught.value.body or ""
    )


def test_kubernetes_port_forward(core: Any) -> None:
    """HTTP through a forwarded port; a port where nobody listens says so on its channel of errors."""
    forward = stream.portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="80")
    connection = http.client.HTTPConnection("127.0.0.1", 80)
    connection.sock = forward.socket(80)
    connection.request("POST", "/", body=b"x" * 1_000_000, headers={"Connection": "close"})
    assert connection.getresponse().read() == b"x" * 1_000_000
    connection.close()
    forward.close()
    forward = stream.portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="81")
    socket = forward.socket(81)
    socket.settimeout(30)
    assert socket.recv(1) == b""
    assert "error forwarding port 81 to pod web, uid " in forward.error(81)
    socket.close()


def test_kr8s(cluster: Cluster) -> None:
    """exec with version 4, logs, and port-forward without any subprotocol."""

    async def main() -> None:
        api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig))
        pod = await kr8s.asyncio.objects.Pod.get("web", namespace="default", api=api)
        done = await pod.exec(["sh", "-c", "echo out; echo err >&2; exit 4"], check=False)
        assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 4)
        assert [line async for line in pod.logs()] == ["started", "two", "three"]
        async with pod.portforward(80, local_port="auto") as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"pf-ok")
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())
