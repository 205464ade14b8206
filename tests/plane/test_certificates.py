"""`kubectl certificate approve` on a server with TLS: what comes out of it opens the server."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import msgspec
import pytest

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.rest import Client
from dashpot.runtime.plane.plane import Plane
from tests.clients.running import TOOLS
from tests.controller.running import until
from tests.library.certificate_kit import Asked, Object

KUBECTL = TOOLS / "kubectl-1.37"
PATIENCE_S = 30.0


async def kubectl(config: Path, *words: str, feed: bytes = b"") -> tuple[int, str]:
    """The status of kubectl, and all that it said."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL), "--kubeconfig", str(config), *words, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate(feed)
    return process.returncode or 0, said.decode()


async def certificate(client: Client, name: str) -> bytes:
    """The certificate of a request, once it is there."""

    async def made() -> str:
        found = await client.get("certificatesigningrequests", name)
        return str((found.get("status") or {}).get("certificate") or "")

    async def there() -> bool:
        return bool(await made())

    await until(there, PATIENCE_S)
    return base64.b64decode(await made())


def kubeconfig(server: ApiServer, folder: Path, asked: Asked, made: bytes) -> Path:
    """A kubeconfig of who has the key."""
    data = {"certificate-authority": server.pki.ca, "client-certificate": made, "client-key": asked.key}
    text = {name: base64.b64encode(value).decode() for name, value in data.items()}
    config: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server.url, "certificate-authority-data": text["certificate-authority"]},
            }
        ],
        "users": [
            {
                "name": "u",
                "user": {"client-certificate-data": text["client-certificate"], "client-key-data": text["client-key"]},
            }
        ],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "ann.kubeconfig"
    path.write_bytes(msgspec.json.encode(config))
    return path


def test_an_approved_certificate_authenticates(tmp_path: Path) -> None:
    if not KUBECTL.exists():
        pytest.skip("kubectl is not here (`make setup` fetches it)")

    async def main() -> None:
        complaints: list[str] = []
        server = await ApiServer.start(Settings(store="memory", port=0), complain=complaints.append)
        plane = Plane(
            server,
            nodes=0,
            controllers=[
                "certificatesigningrequest-signing-controller",
                "certificatesigningrequest-approving-controller",
            ],
            complain=complaints.append,
        )
        try:
            await plane.start()
            admin = tmp_path / "admin.kubeconfig"
            server.write_kubeconfig(admin)
            asked = Asked.of("ann", ("dev",))
            manifest = msgspec.json.encode(asked.object("ann"))
            assert await kubectl(admin, "create", "-f", "-", feed=manifest) == (
                0,
                "certificatesigningrequest.certificates.k8s.io/ann created\n",
            )
            _, rows = await kubectl(admin, "get", "csr", "ann", "--no-headers")
            assert rows.split()[-1] == "Pending"
            status, said = await kubectl(admin, "certificate", "approve", "ann")
            assert (status, said) == (0, "certificatesigningrequest.certificates.k8s.io/ann approved\n")
            made = await certificate(plane.clients["kube-controller-manager"], "ann")
            _, rows = await kubectl(admin, "get", "csr", "ann", "--no-headers")
            assert rows.split()[-1] == "Approved,Issued"
            mine = kubeconfig(server, tmp_path, asked, made)
            status, said = await kubectl(mine, "auth", "whoami", "-o", "json")
            assert status == 0, said
            who = msgspec.json.decode(said)["status"]["userInfo"]
            assert who["username"] == "ann" and who["groups"] == ["dev", "system:authenticated"]
            status, said = await kubectl(mine, "get", "secrets")
            assert status == 1 and 'User "ann" cannot list resource "secrets"' in said
        finally:
            await plane.stop()
            await server.stop()
        assert complaints == []

    asyncio.run(main())
