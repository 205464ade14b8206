"""The controllers of requests for certificates, run from their spec."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from dashpot.model.extern import certificates as rules
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.auth.authn import certificate_user
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client
from dashpot.runtime.plane.signing import signing
from tests.client.serving import on_server
from tests.controller.running import library, managed, until
from tests.library.certificate_kit import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SERVER_USAGES,
    Asked,
    Object,
    issued,
    node,
)

CSR = "certificatesigningrequests"
ACTORS = ["RequestApprover", "RequestSigner", "RequestCleaner"]
ASKING = "system:node-bootstrapper"
HOUR = 3600.0


@frozen
class World:
    """A server, and the administrator's client of it."""

    server: ApiServer
    client: Client

    def as_user(self, name: str, *groups: str) -> Client:
        """Somebody else's client."""
        return Client(InProcess(self.server.local, User(name, (*groups, "system:authenticated"))))

    async def request(self, name: str) -> Object:
        """A request as it is now."""
        return await self.client.get(CSR, name)

    async def approve(self, name: str, kind: str = "Approved") -> None:
        """What `kubectl certificate approve` (or deny) does."""
        found = await self.request(name)
        condition = {"type": kind, "status": "True", "reason": "Tested", "message": "by hand"}
        found["status"] = {**(found.get("status") or {}), "conditions": [condition]}
        await self.client.update(CSR, found, subresource="approval")

    async def settles(self, name: str, test: Callable[[Object], object], seconds: float = 60.0) -> Object:
        """Waits until a request is so."""

        async def asked() -> bool:
            return bool(test(await self.request(name)))

        await until(asked, seconds)
        return await self.request(name)

    async def allow(self, subresource: str, *groups: str) -> None:
        """Lets groups ask for certificates of nodes."""
        role = f"system:certificates.k8s.io:certificatesigningrequests:{subresource}"
        subjects = [{"kind": "Group", "name": group, "apiGroup": "rbac.authorization.k8s.io"} for group in groups]
        ref = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": f"test-{subresource}"}, "roleRef": ref, "subjects": subjects}
        await self.client.create("clusterrolebindings", binding)
        asking = {"metadata": {"name": "test-asking"}, "roleRef": {**ref, "name": ASKING}, "subjects": subjects}
        await self.client.create("clusterrolebindings", asking)


def run(test: Callable[[World], Awaitable[None]], *, sign: bool = True) -> None:
    """Runs a test; `sign`: with the key of the server's authority."""

    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        given = {"kubernetes.certificates.certificate": signing(server.pki)} if sign else None
        async with managed(library("certificates"), client, *ACTORS, complaints=complaints, externs=given):
            await test(World(server, client))
        assert complaints == []

    on_server(main)


def conditions(request: Object) -> dict[str, Object]:
    return {c["type"]: c for c in (request.get("status") or {}).get("conditions") or ()}


def has_certificate(request: Object) -> bool:
    return bool((request.get("status") or {}).get("certificate"))


def test_what_an_administrator_approves_is_signed() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, Asked.of("ann", ("dev",)).object("ann", expirationSeconds=7200))
        await asyncio.sleep(30)
        assert not (await world.request("ann")).get("status")
        await world.approve("ann")
        found = await world.settles("ann", has_certificate)
        made = issued(found)
        made.verify_directly_issued_by(x509.load_pem_x509_certificate(world.server.pki.ca))
        assert list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
            ExtendedKeyUsageOID.CLIENT_AUTH
        ]
        assert made.not_valid_after_utc.timestamp() - world.server.clock.now() == pytest.approx(7200, abs=60)
        assert list(conditions(found)) == ["Approved"] and conditions(found)["Approved"]["reason"] == "Tested"

    run(test)


@pytest.mark.parametrize(
    ("subresource", "user", "message"),
    [
        ("nodeclient", "system:bootstrap:abc", "Auto approving kubelet client certificate after SubjectAccessReview."),
        (
            "selfnodeclient",
            "system:node:n1",
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ),
    ],
)
def test_a_node_gets_its_certificate_by_itself(subresource: str, user: str, message: str) -> None:
    async def test(world: World) -> None:
        await world.allow(subresource, "test:nodes")
        asked = node("n1").object("n1", KUBELET_CLIENT)
        await world.as_user(user, "test:nodes").create(CSR, asked)
        found = await world.settles("n1", has_certificate)
        condition = conditions(found)["Approved"]
        assert (condition["status"], condition["reason"]) == ("True", "AutoApproved")
        assert condition["message"] == message
        assert condition["lastUpdateTime"] and condition["lastTransitionTime"]
        who, _ = certificate_user(issued(found).public_bytes(serialization.Encoding.DER))
        assert who is not None and who.name == "system:node:n1" and "system:nodes" in who.groups

    run(test)


def test_a_node_that_may_not_ask_waits_until_it_may() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, node("n1").object("n1", KUBELET_CLIENT))
        client = world.as_user("system:bootstrap:abc", "test:nodes")
        with pytest.raises(StatusError):
            await client.create(CSR, node("n2").object("n2", KUBELET_CLIENT))
        await world.allow("selfnodeclient", "test:nodes")
        await client.create(CSR, node("n2").object("n2", KUBELET_CLIENT))
        await asyncio.sleep(300)
        # a bootstrap token is not the node itself: that takes the other permission
        assert not conditions(await world.request("n2"))
        subjects = [{"kind": "Group", "name": "test:nodes", "apiGroup": "rbac.authorization.k8s.io"}]
        role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
        ref = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        await world.client.create(
            "clusterrolebindings", {"metadata": {"name": "later"}, "roleRef": ref, "subjects": subjects}
        )
        await world.settles("n2", has_certificate, 1100)

    run(test)


@pytest.mark.parametrize(
    ("asked", "signer", "usages"),
    [
        (node("n1"), CLIENT, ["digital signature", "client auth"]),
        (Asked.of("n1", ("system:nodes",)), KUBELET_CLIENT, ["digital signature", "client auth"]),
        (Asked.of("system:node:n1", ("system:nodes", "dev")), KUBELET_CLIENT, ["digital signature", "client auth"]),
        (node("n1", ("n1.example.com",)), KUBELET_CLIENT, ["digital signature", "client auth"]),
        (node("n1"), KUBELET_CLIENT, ["client auth"]),
        (node("n1"), KUBELET_CLIENT, ["digital signature", "client auth", "server auth"]),
        (node("n1", ("n1.example.com",)), KUBELET_SERVING, SERVER_USAGES),
    ],
    ids=["signer", "name", "groups", "names", "few-usages", "many-usages", "serving"],
)
def test_only_what_kubelets_ask_for_is_approved(asked: Asked, signer: str, usages: list[str]) -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, asked.object("n1", signer, usages))
        await asyncio.sleep(60)
        assert not conditions(await world.request("n1"))

    run(test)


def test_an_administrator_is_a_node_if_he_says_so() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, node("n1").object("n1", KUBELET_CLIENT))
        await world.settles("n1", has_certificate)

    run(test)


def test_the_certificate_of_a_kubelets_server() -> None:
    async def test(world: World) -> None:
        asked = node("n1", ("n1.example.com",)).object("n1", KUBELET_SERVING, SERVER_USAGES)
        await world.client.create(CSR, asked)
        await world.approve("n1")
        made = issued(await world.settles("n1", has_certificate))
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["n1.example.com"]

    run(test)


def test_a_request_that_its_signer_refuses_fails() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, Asked.of("ann").object("ann", KUBELET_CLIENT))
        await world.approve("ann")
        found = await world.settles("ann", lambda request: "Failed" in conditions(request))
        failed = conditions(found)["Failed"]
        assert (failed["status"], failed["reason"]) == ("True", "SignerValidationFailure")
        assert failed["message"] == "subject organization is not system:nodes"
        assert set(conditions(found)) == {"Approved", "Failed"} and not has_certificate(found)

    run(test)


def test_a_signer_of_somebody_else_is_left_alone() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, Asked.of("ann").object("ann", "example.com/signer"))
        await world.approve("ann")
        await asyncio.sleep(60)
        found = await world.request("ann")
        assert set(conditions(found)) == {"Approved"} and not has_certificate(found)

    run(test)


def test_what_is_denied_is_not_signed() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, Asked.of("ann").object("ann"))
        await world.approve("ann", "Denied")
        await asyncio.sleep(60)
        assert not has_certificate(await world.request("ann"))

    run(test)


def test_without_a_key_nothing_is_signed() -> None:
    async def test(world: World) -> None:
        await world.client.create(CSR, Asked.of("ann").object("ann"))
        await world.approve("ann")
        await asyncio.sleep(60)
        found = await world.request("ann")
        assert set(conditions(found)) == {"Approved"} and not has_certificate(found)

    run(test, sign=False)


@pytest.mark.parametrize(
    ("verdict", "spec", "hours"),
    [
        (None, {}, 24),
        ("Approved", {}, 1),
        ("Denied", {}, 1),
        ("Approved", {"signer": "example.com/signer"}, 24),
        ("Approved", {"signer": KUBELET_CLIENT}, 1),
        ("Approved", {"expirationSeconds": 1200}, 1 / 3),
    ],
    ids=["pending", "issued", "denied", "unsigned", "failed", "expired"],
)
def test_requests_go_when_they_are_old(verdict: str | None, spec: Object, hours: float) -> None:
    async def test(world: World) -> None:
        signer = spec.pop("signer", CLIENT)
        await world.client.create(CSR, Asked.of("ann").object("ann", signer, **spec))
        begun = world.server.clock.now()
        if verdict is not None:
            await world.approve("ann", verdict)

        async def gone() -> bool:
            return not (await world.client.list(CSR)).items

        await asyncio.sleep(hours * HOUR - 5)
        assert not await gone()
        await until(gone, 60)
        assert world.server.clock.now() - begun == pytest.approx(hours * HOUR, abs=10)

    run(test)


# ---------------------------------------------------------------- what is only computed
@frozen
class Kept:
    json: Object


def test_what_a_request_says() -> None:
    ours = Kept(node("n1").object("n1", KUBELET_CLIENT, username="system:node:n1", groups=["a"], uid=""))
    assert rules.of_node(ours) and rules.of_itself(ours) and rules.refusal(ours) == ""
    assert rules.asker(ours) == {"user": "system:node:n1", "groups": ["a"]}
    other = Kept(node("n1").object("n1", KUBELET_CLIENT, username="system:bootstrap:x"))
    assert rules.of_node(other) and not rules.of_itself(other)
    assert rules.refusal(Kept({"spec": {"signerName": CLIENT, "request": "!"}})).startswith("PEM block type")
    assert rules.expired(Kept({"status": {"certificate": "!"}}), 0) is False
    assert rules.remaining(ours, None, 5000, 2000) == 3000 and rules.remaining(ours, 1000, 5000, 9000) == 1000
    assert rules.certificate(ours, 0) is None
