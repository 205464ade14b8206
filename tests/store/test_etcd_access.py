"""An etcd that wants TLS, certificates and a password."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.conftest import tool
from tests.store.servers import Server, connected

from dashpot.runtime.store.base import Event, Put, StoreError
from dashpot.runtime.store.etcd import EtcdStore
from dashpot.runtime.store.open import open_store


def certificates(folder: Path) -> None:
    """ca.crt, and one certificate (both.crt, both.key) for server and client."""
    now = datetime.datetime.now(datetime.UTC)
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    authority = ec.generate_private_key(ec.SECP256R1())

    def made(name: x509.Name, key: ec.EllipticCurvePrivateKey, ca: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if not ca:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        return builder.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM)

    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "ca.crt").write_bytes(made(issuer, authority, True))
    leaf = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    (folder / "both.crt").write_bytes(made(leaf, key, False))
    (folder / "both.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))


@pytest.fixture
def locked(etcd_program: str, tmp_path: Path) -> Iterator[Server]:
    """An etcd that is open to our certificates only."""
    certificates(tmp_path)
    more = [f"--cert-file={tmp_path}/both.crt", f"--key-file={tmp_path}/both.key"]
    more += ["--client-cert-auth", f"--trusted-ca-file={tmp_path}/ca.crt"]
    server = Server(etcd_program, tmp_path / "etcd", scheme="https", more=more)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_certificates(locked: Server, tmp_path: Path) -> None:
    async def main() -> None:
        paths = {"ca": f"{tmp_path}/ca.crt", "cert": f"{tmp_path}/both.crt", "key": f"{tmp_path}/both.key"}
        query = "&".join(f"{name}={path}" for name, path in paths.items())
        store = await connected([locked.endpoint], options=paths)
        done = await store.put(Put("/tls", b"x"))
        assert done.ok
        await store.close()
        for wrong in (f"ca={tmp_path}/ca.crt&timeout=1", "timeout=1"):
            with pytest.raises(StoreError):
                await open_store(f"etcd://{locked.endpoint}?{wrong}")
        other = await open_store(f"etcd://{locked.endpoint}?{query}")
        assert await other.get("/tls") is not None
        await other.close()

    asyncio.run(main())


def test_progress_notes(etcd: str) -> None:
    """This etcd is too old to be trusted with them under load; here it is quiet."""

    async def main() -> None:
        store = await connected([etcd])
        done = await store.put(Put("/progress", b""))
        assert not store.watch("/progress", done.revision).ask_progress()
        store.trusted = True
        watch = store.watch("/elsewhere/", done.revision - 1)
        assert watch.ask_progress() and watch.progress == done.revision - 1
        batches = aiter(watch)
        assert await anext(batches) == () and watch.progress >= done.revision
        later = await store.put(Put("/progress", b""))
        assert watch.ask_progress()
        while watch.progress < later.revision:
            assert await anext(batches) == ()
        await watch.close()
        assert not watch.ask_progress()
        await store.close()

    asyncio.run(main())


def test_a_password(etcd_program: str, tmp_path: Path) -> None:
    control = tool("etcdctl")
    server = Server(etcd_program, tmp_path / "etcd")
    server.start()

    def ask(*words: str) -> None:
        environment = {**os.environ, "ETCDCTL_API": "3"}
        subprocess.run(
            [control, f"--endpoints={server.endpoint}", *words], env=environment, check=True, capture_output=True
        )

    async def main() -> None:
        await (await connected([server.endpoint])).close()
        ask("user", "add", "root:right")
        ask("user", "grant-role", "root", "root")
        ask("auth", "enable")
        (tmp_path / "right").write_text("right\n")
        (tmp_path / "wrong").write_text("wrong\n")
        store = await open_store(f"etcd://{server.endpoint}?user=root&password-file={tmp_path}/right")
        assert isinstance(store, EtcdStore)
        done = await store.put(Put("/a", b"1"))
        found: list[Event] = []
        async for batch in store.watch("/a", done.revision - 1):
            found += batch
            break
        assert found[0].value == b"1"
        assert (await store.status()).keys == 1
        store._link._token = "ended"  # as it does after some minutes without use; the next call asks for a new one
        assert (await store.put(Put("/a", b"2"))).ok
        await store.close()
        with pytest.raises(StoreError, match="authentication failed"):
            await open_store(f"etcd://{server.endpoint}?user=root&password-file={tmp_path}/wrong")
        with pytest.raises(StoreError, match="user name is empty"):
            await open_store(f"etcd://{server.endpoint}")

    try:
        asyncio.run(main())
    finally:
        server.stop()
