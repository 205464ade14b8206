"""The client over real connections, against `dashpot up` in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from attrs import evolve

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.access import NOBODY, Access, Acting, Login, Plugin
from dashpot.runtime.client.http import HttpTransport, connect
from dashpot.runtime.client.informer import Informer
from dashpot.runtime.client.kubeconfig import load
from dashpot.runtime.client.transport import NoCredentials, TransportError
from tests.client.serving import config_map
from tests.clients.running import Running

PLUGIN = """\
import json, os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
runs = folder / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
(folder / "info").write_text(json.dumps(info))
if (folder / "fail").exists():
    sys.exit(3)
status = json.loads((folder / "status").read_text())
print(json.dumps({"kind": "ExecCredential", "apiVersion": info["apiVersion"], "status": status}))
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("client")
    (folder / "tokens").write_text("good-token,jane,7,system:masters\nnext-token,joe,8,system:masters\n")
    with Running(folder / "data", "--store", "memory", "--token-file", str(folder / "tokens")) as server:
        yield server


@pytest.fixture(scope="module")
def access(running: Running) -> Access:
    return load([running.kubeconfig]).access()


def test_objects_watches_and_informers(access: Access) -> None:
    async def main() -> None:
        client = connect(access)
        await client.create("cm", config_map("http", x="1"))
        informer = Informer(client, "configmaps", "default")
        informer.start()
        async with asyncio.timeout(20):
            await informer.synced()
            await client.patch("cm", "http", {"data": {"x": "ä%2F"}})
            async with client.watch("cm", "default", version=informer.version) as events:
                await anext(events)
            while (informer.lister.get("http", "default") or {}).get("data") != {"x": "ä%2F"}:
                await asyncio.sleep(0.01)
        await informer.stop()
        found = await client.list("cm", labels="a in (b, c),d!=e", fields="metadata.name=http")
        assert found.items == []
        assert (await client.raw("GET", "/livez")) == b"ok"
        with pytest.raises(StatusError, match='configmaps "none" not found'):
            await client.get("cm", "none")
        await client.close()

    asyncio.run(main())


def test_idle_streams_are_probed(access: Access) -> None:
    async def main() -> None:
        client = connect(access)
        async with client.watch("cm"):
            transport = client.transport
            assert isinstance(transport, HttpTransport) and transport._session is not None
            connector = transport._session.connector
            assert connector is not None
            sockets = [
                protocol.transport.get_extra_info("socket") for protocol in connector._acquired if protocol.transport
            ]
            assert [one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for one in sockets] == [1]
        await client.close()

    asyncio.run(main())


def test_a_watch_that_is_left_leaves_no_connection(access: Access, running: Running) -> None:
    """Also where the server does not answer the farewell of TLS any more."""

    async def main() -> None:
        client = connect(access)
        async with client.watch("cm"):
            running.process.send_signal(signal.SIGSTOP)
        await client.close()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            asyncio.run(main())
            for _ in range(3):  # cycles within cycles
                gc.collect()
        finally:
            running.process.send_signal(signal.SIGCONT)
    assert [str(one.message) for one in told] == []


def test_acting_as_somebody_else(access: Access) -> None:
    async def main() -> None:
        acting = Acting("jane", groups=("g", "system:authenticated"), extra={"scopes": ("a",)})
        client = connect(evolve(access, acting=acting))
        review = await client.create(
            "selfsubjectreviews", {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        )
        info = review["status"]["userInfo"]
        assert (info["username"], info["groups"], info["extra"]) == (
            "jane",
            ["g", "system:authenticated"],
            {"scopes": ["a"]},
        )
        with pytest.raises(StatusError, match='User "jane" cannot list resource "secrets"'):
            await client.list("secrets")
        await client.close()

    asyncio.run(main())


async def _name(access: Access) -> str:
    client = connect(access)
    try:
        body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
        return str((await client.create("selfsubjectreviews", body))["status"]["userInfo"]["username"])
    finally:
        await client.close()


def test_token_files_are_read_again_after_a_refusal(access: Access, tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "token"
        path.write_text("old-token\n")
        client = connect(evolve(access, login=Login(token_file=path)))
        with pytest.raises(StatusError, match="Unauthorized"):
            await client.list("cm")
        path.write_text("good-token\n")
        await client.list("cm")
        path.unlink()
        await client.list("cm")
        await client.close()

    asyncio.run(main())


def _plugin(folder: Path, status: str, **more: object) -> Plugin:
    script = folder / "plugin.py"
    script.write_text(PLUGIN)
    (folder / "status").write_text(status)
    return Plugin(sys.executable, (str(script), str(folder)), where="config: user 'u'", mode="Never", **more)  # type: ignore[arg-type]


def test_plugins_run_once_until_they_expire_or_are_refused(access: Access, tmp_path: Path) -> None:
    async def main() -> None:
        plugin = _plugin(tmp_path, '{"token": "good-token"}', cluster={"server": "s"})
        client = connect(evolve(access, login=Login(plugin=plugin)))
        await asyncio.gather(*(client.list("cm") for _ in range(5)))
        assert (tmp_path / "runs").read_text() == "x"
        assert '"spec": {"interactive": false, "cluster": {"server": "s"}}' in (tmp_path / "info").read_text()
        await client.close()
        # one that has expired when it comes is run for each request
        (tmp_path / "status").write_text('{"token": "next-token", "expirationTimestamp": "2020-01-01T00:00:00Z"}')
        assert await _name(evolve(access, login=Login(plugin=plugin))) == "joe"
        assert len((tmp_path / "runs").read_text()) > 2
        # refused: run once more, and then it is the server's answer that counts
        (tmp_path / "runs").write_text("")
        (tmp_path / "status").write_text('{"token": "wrong"}')
        client = connect(evolve(access, login=Login(plugin=plugin)))
        with pytest.raises(StatusError, match="Unauthorized"):
            await client.raw("GET", "/api")
        assert (tmp_path / "runs").read_text() == "xx"
        (tmp_path / "status").write_text('{"token": "good-token"}')
        await client.raw("GET", "/api")
        await client.close()

    asyncio.run(main())


def test_plugins_may_tell_certificates(access: Access, tmp_path: Path) -> None:
    status = {"clientCertificateData": access.login.certificate.decode(), "clientKeyData": access.login.key.decode()}
    plugin = _plugin(tmp_path, msgspec.json.encode(status).decode())
    name = asyncio.run(_name(evolve(access, login=Login(plugin=plugin))))
    assert name == asyncio.run(_name(access))


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("{}", "told neither token nor clientCertificateData"),
        ('{"clientCertificateData": "x"}', "told only one of"),
        ('{"token": "s3cr3t", "expirationTimestamp": "soon"}', "an expirationTimestamp that is no time"),
        ('{"token": 5}', "told credentials that are no strings"),
        ("fail", "failed with exit code 3"),
    ],
)
def test_plugins_that_fail(access: Access, tmp_path: Path, status: str, told: str) -> None:
    plugin = _plugin(tmp_path, status)
    if status == "fail":
        (tmp_path / "fail").touch()
    with pytest.raises(NoCredentials) as caught:
        asyncio.run(_name(evolve(access, login=Login(plugin=plugin))))
    assert told in str(caught.value) and "config: user 'u'" in str(caught.value) and "s3cr3t" not in str(caught.value)
    assert (tmp_path / "runs").read_text() == "x"


def test_plugins_that_are_not_there(access: Access) -> None:
    plugin = Plugin("no-such-plugin", hint="get it at example.com", where="config: user 'u'")
    with pytest.raises(NoCredentials, match=r"no-such-plugin is not installed: put it on the PATH\nget it at example"):
        asyncio.run(_name(evolve(access, login=Login(plugin=plugin))))
    always = evolve(plugin, command=sys.executable, mode="Always")
    with pytest.raises(NoCredentials, match="needs a terminal"):
        asyncio.run(_name(evolve(access, login=Login(plugin=always))))


def test_what_cannot_be_reached(access: Access) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match="cannot be reached"):
        asyncio.run(_name(Access(f"http://127.0.0.1:{port}")))
    with pytest.raises(TransportError, match="the server's certificate is refused"):
        asyncio.run(_name(evolve(access, ca=b"")))
    with pytest.raises(TransportError, match="the server's certificate is refused"):
        asyncio.run(_name(evolve(access, server_name="elsewhere")))
    assert asyncio.run(_name(evolve(access, server_name="kubernetes.default.svc")))
    assert asyncio.run(_name(evolve(access, ca=b"", verify=False)))
    with pytest.raises(StatusError, match="Unauthorized"):
        asyncio.run(_name(evolve(access, login=NOBODY)))


def test_proxies(access: Access) -> None:
    """CONNECT through a proxy that notes what it is asked."""

    async def main() -> list[bytes]:
        asked: list[bytes] = []
        tasks: list[asyncio.Task[None]] = []

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while part := await reader.read(65536):
                    writer.write(part)
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.close()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.append(head)
            host, _, port = head.split()[1].decode().rpartition(":")
            there = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            tasks.append(asyncio.create_task(pump(reader, there[1])))
            await pump(there[0], writer)

        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        await _name(evolve(access, proxy=f"http://me:pw@127.0.0.1:{port}"))
        await asyncio.gather(*tasks)
        proxy.close()
        return asked

    asked = asyncio.run(main())
    assert asked and asked[0].startswith(b"CONNECT ") and b"Proxy-Authorization: Basic" in asked[0]
