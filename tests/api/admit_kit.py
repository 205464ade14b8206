"""What tests of admission need: a view over plain dictionaries, writes, and local TLS webhooks."""

from __future__ import annotations

import asyncio
import base64
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.api.views import DictView

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import CREATE, Attributes, Plugin
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.exchange import Exchange, Info, Request, User

Object = dict[str, Any]
NOW = 1_800_000_000.0


def resource(group: str, plural: str, version: str = "v1") -> Resource:
    """A built-in resource."""
    found = builtin().find(group, version, plural)
    assert found is not None, (group, version, plural)
    return found


PODS, CONFIGMAPS = resource("", "pods"), resource("", "configmaps")
NAMESPACES, CLAIMS = resource("", "namespaces"), resource("", "persistentvolumeclaims")


class FakeClock:
    """A day that does not move."""

    def now(self) -> float:
        """Seconds since 1970."""
        return NOW


class FakeView(DictView):
    """A view with the namespace `n`; `hidden` objects are seen by `fresh` alone."""

    def __init__(self, *objects: Object) -> None:
        super().__init__()
        self.hidden: dict[tuple[str, str, str, str], Object] = {}
        self.put("", "namespaces", named("n", labels={"kubernetes.io/metadata.name": "n"}))
        for one in objects:
            self.put(*kind(one), one)

    def put(self, group: str, plural: str, one: Object) -> None:
        """Adds or replaces."""
        metadata = one["metadata"]
        self.versions[group, plural] += 1
        metadata.setdefault("resourceVersion", str(self.versions[group, plural]))
        self.objects[group, plural][metadata.get("namespace", ""), metadata["name"]] = one

    async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, hidden or not."""
        return self.hidden.get((group, plural, namespace, name)) or self.get(group, plural, namespace, name)


class FakeInternal:
    """Writes of a quota's status into the view, by compare-and-set."""

    def __init__(self, view: FakeView) -> None:
        self.view = view
        self.calls: list[str] = []
        self.before: Callable[[], None] | None = None

    async def call(self, method: str, path: str, body: Object | None = None, **_: Any) -> Object:
        """PUT /api/v1/namespaces/NS/resourcequotas/NAME/status."""
        assert method == "PUT" and body is not None
        self.calls.append(path)
        if self.before is not None:
            before, self.before = self.before, None
            before()
        *_rest, namespace, plural, name, _status = path.split("/")
        old = self.view.get("", plural, namespace, name)
        if old is None:
            raise StatusError("NotFound", f'resourcequotas "{name}" not found')
        if old["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise StatusError("Conflict", "the object has been modified")
        new = {**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}}
        self.view.put("", plural, new)
        return new


def named(name: str, namespace: str = "", **metadata: Any) -> Object:
    """Metadata of an object."""
    found = {"name": name, **metadata}
    if namespace:
        found["namespace"] = namespace
    return {"metadata": found}


def kind(one: Object) -> tuple[str, str]:
    """Group and plural of an object that says its apiVersion and kind."""
    group, _, version = one["apiVersion"].rpartition("/")
    found = builtin().by_kind(group, version, one["kind"])
    assert found is not None
    return found.group, found.plural


def write(
    one: Object | None,
    of: Resource = PODS,
    operation: str = CREATE,
    *,
    old: Object | None = None,
    subresource: str = "",
    user: User | None = None,
    dry_run: bool = False,
    namespace: str | None = None,
) -> Attributes:
    """One write, as the server would hand it to admission."""
    user = user or User("u", ("system:authenticated",))

    async def read() -> bytes:
        return b""

    exchange = Exchange(Request("POST", "/", (), {}, read), Info(True, "/", operation.lower()), NOW, user)
    metadata = ((one or old or {}).get("metadata")) or {}
    inside = (metadata.get("namespace") or "n") if of.namespaced else ""
    return Attributes(
        operation,
        of,
        subresource,
        inside if namespace is None else namespace,
        metadata.get("name", ""),
        one,
        old,
        user,
        exchange,
        dry_run,
    )


def pod(*containers: Object, **spec: Any) -> Object:
    """A pod `web` in namespace `n`."""
    listed = list(containers) or [{"name": "c", "image": "i"}]
    return {"apiVersion": "v1", "kind": "Pod", **named("web", "n"), "spec": {"containers": listed, **spec}}


def configmap(**data: str) -> Object:
    """A ConfigMap `cm` in namespace `n`."""
    return {"apiVersion": "v1", "kind": "ConfigMap", **named("cm", "n"), "data": data}


class Authority:
    """A CA of its own and a server certificate for 127.0.0.1, localhost and one service name."""

    def __init__(self, folder: Path, service: str = "hook.n.svc") -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhooks")])
        start = datetime.datetime(2020, 1, 1)
        end = datetime.datetime(2120, 1, 1)
        builder = x509.CertificateBuilder().issuer_name(name).not_valid_before(start).not_valid_after(end)
        ca = (
            builder.subject_name(name)
            .public_key(self.key.public_key())
            .serial_number(1)
            .add_extension(x509.BasicConstraints(True, None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        leaf_key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.DNSName(service)]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        leaf = (
            builder.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, service)]))
            .public_key(leaf_key.public_key())
            .serial_number(2)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        pem = ca.public_bytes(serialization.Encoding.PEM)
        self.bundle = base64.b64encode(pem).decode()
        file = folder / "server.pem"
        private = leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file.write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(file)


Answer = Callable[[Object], Awaitable[Any]]
"""From the request of a review to its response: a dict (the uid is added), bytes, or a web.Response."""


@asynccontextmanager
async def webhook(authority: Authority, answer: Answer, port: int = 0) -> AsyncIterator[int]:
    """A webhook on loopback; the value is its port."""

    async def handle(request: web.Request) -> web.StreamResponse:
        review = msgspec.json.decode(await request.read())
        found = await answer(review["request"])
        if isinstance(found, web.StreamResponse):
            return found
        if isinstance(found, dict):
            response = {"uid": review["request"]["uid"], **found}
            body = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
            found = msgspec.json.encode(body)
        return web.Response(body=found, content_type="application/json")

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=authority.context, reuse_address=True)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def configuration(kind_: str, authority: Authority, port: int, **hook: Any) -> Object:
    """A webhook configuration `conf` with one webhook `hook.example.com` for ConfigMaps."""
    source = {
        "name": "hook.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/do", "caBundle": authority.bundle},
        "rules": [
            {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "scope": "*"}
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {},
        "objectSelector": {},
        **hook,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind_}WebhookConfiguration",
        **named("conf"),
        "webhooks": [source],
    }


def patch(*operations: Object) -> Object:
    """A response that changes the object."""
    encoded = base64.b64encode(msgspec.json.encode(list(operations))).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def admit(plugin: Plugin, attributes: Attributes) -> Object:
    """The object after the plugin."""

    async def main() -> None:
        chain = Chain([plugin])
        await chain.mutate(attributes)
        await chain.validate(attributes)

    asyncio.run(main())
    return attributes.object or {}


def refusal(plugin: Plugin, attributes: Attributes) -> tuple[int, str]:
    """Code and message of the refusal."""
    with pytest.raises(StatusError) as caught:
        admit(plugin, attributes)
    return caught.value.code, caught.value.message


def of(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Object:
    """An object of a kind."""
    return {"apiVersion": api_version, "kind": kind, **named(name, namespace), **rest}
