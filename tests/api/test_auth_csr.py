"""CertificateSigningRequests: who may approve, what is signed, and for whom."""

from __future__ import annotations

import base64
import copy
import ipaddress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.api.auth_kit import HandClock, MemoryView, bind, refused, role, rule, run, write

from dashpot.runtime.api.admit.base import UPDATE, Attributes
from dashpot.runtime.api.auth.authn import certificate_user
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.csr import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    CertificateApproval,
    SignerRefusal,
    approved,
    sign,
    validate,
)
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
NOW = 1_800_000_000.0
KEY = ec.generate_private_key(ec.SECP256R1())
NODE_NAMES = ("n1.example.com", "10.0.0.7")
CLIENT_USAGES = ("digital signature", "client auth")
SERVER_USAGES = ("digital signature", "key encipherment", "server auth")


def pem_request(common: str = "ann", groups: tuple[str, ...] = (), names: tuple[Any, ...] = ()) -> str:
    """spec.request: base64 of PEM."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(made).decode()


def csr(
    signer: str = CLIENT,
    request: str | None = None,
    usages: tuple[str, ...] = CLIENT_USAGES,
    conditions: tuple[str, ...] = ("Approved",),
    **spec: Any,
) -> Object:
    return {
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {"signerName": signer, "request": request or pem_request(), "usages": list(usages), **spec},
        "status": {"conditions": [{"type": one, "status": "True"} for one in conditions]},
    }


DNS, IP = x509.DNSName("n1.example.com"), x509.IPAddress(ipaddress.ip_address("10.0.0.7"))
NODE = pem_request("system:node:n1", ("system:nodes",))
SERVING = pem_request("system:node:n1", ("system:nodes",), (DNS, IP))


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki.load_or_create(tmp_path)


def test_a_client_certificate_is_signed(pki: Pki) -> None:
    pem = sign(csr(request=pem_request("ann", ("dev",))), pki, NOW)
    made = x509.load_pem_x509_certificate(pem)
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(pki.ca))
    assert made.public_key() == KEY.public_key()
    purposes = list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert purposes == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert made.not_valid_after_utc == datetime.fromtimestamp(NOW + 365 * 24 * 3600, UTC)
    user, _ = certificate_user(made.public_bytes(serialization.Encoding.DER))
    assert user is not None and (user.name, user.groups) == ("ann", ("dev", "system:authenticated"))


@pytest.mark.parametrize(("asked", "given"), [(600, 600), (10**9, 365 * 24 * 3600), (None, 365 * 24 * 3600)])
def test_how_long_a_certificate_lasts(pki: Pki, asked: int | None, given: int) -> None:
    made = x509.load_pem_x509_certificate(sign(csr(expirationSeconds=asked), pki, NOW))
    assert made.not_valid_after_utc.timestamp() == NOW + given


def test_a_kubelets_certificates(pki: Pki) -> None:
    client = x509.load_pem_x509_certificate(sign(csr(KUBELET_CLIENT, NODE), pki, NOW))
    user, _ = certificate_user(client.public_bytes(serialization.Encoding.DER))
    assert user is not None and user.name == "system:node:n1" and "system:nodes" in user.groups
    serving = x509.load_pem_x509_certificate(sign(csr(KUBELET_SERVING, SERVING, SERVER_USAGES), pki, NOW))
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} == set(NODE_NAMES)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (csr(conditions=()), "not approved"),
        (csr(conditions=("Approved", "Denied")), "not approved"),
        (csr("example.com/x"), "there is no signer"),
        (csr(usages=("server auth",)), "usages must be client auth"),
        (csr(usages=("client auth", "cert sign")), "usages must be client auth"),
        (csr(KUBELET_SERVING, SERVING, CLIENT_USAGES), "usages must be server auth"),
        (csr(request="bm9uc2Vuc2U="), "PEM block type"),
        (csr(KUBELET_CLIENT), "organization is not system:nodes"),
        (csr(KUBELET_CLIENT, pem_request("ann", ("system:nodes",))), "does not begin with system:node:"),
        (csr(KUBELET_CLIENT, pem_request("system:node:n1", ("system:nodes", "system:masters"))), "organization"),
        (csr(KUBELET_CLIENT, SERVING), "subjectAltNames are not allowed"),
        (csr(KUBELET_SERVING, NODE, SERVER_USAGES), "at least one DNS or IP"),
        (
            csr(
                KUBELET_SERVING,
                pem_request("system:node:n1", ("system:nodes",), (DNS, x509.RFC822Name("a@b.c"))),
                SERVER_USAGES,
            ),
            "only DNS and IP",
        ),
    ],
)
def test_what_signers_do_not_sign(pki: Pki, request_: Object, words: str) -> None:
    with pytest.raises(SignerRefusal, match=words):
        sign(request_, pki, NOW)


def test_approved_is_a_condition_that_holds() -> None:
    assert approved(csr())
    assert not approved(csr(conditions=("Denied",)))
    assert not approved({**csr(), "status": {"conditions": [{"type": "Approved", "status": "False"}]}})


BOB, APPROVER, DOMAIN, SIGNER = (User(name) for name in ("bob", "approver", "domain", "signer"))
JUDGE = Authorizer(
    AuthzConfig(),
    MemoryView(
        [
            role("one", rule("approve", "certificates.k8s.io", "signers", CLIENT)),
            role("all", rule("approve", "certificates.k8s.io", "signers", "kubernetes.io/*")),
            role("sign", rule("sign", "certificates.k8s.io", "signers", CLIENT)),
            bind("one", "ClusterRole/one", "User/approver"),
            bind("all", "ClusterRole/all", "User/domain"),
            bind("sign", "ClusterRole/sign", "User/signer"),
        ]
    ),
    HandClock(),
)
PLUGIN = CertificateApproval(JUDGE.authorize)


def on(user: User, new: Object, old: Object | None = None, subresource: str = "") -> Attributes:
    operation = "CREATE" if old is None else UPDATE
    return write(
        user,
        "certificatesigningrequests",
        new,
        old,
        group="certificates.k8s.io",
        operation=operation,
        subresource=subresource,
    )


PENDING = csr(conditions=())
SIGNED = {**csr(), "status": {**csr()["status"], "certificate": "x"}}


@pytest.mark.parametrize(
    "attributes",
    [
        on(APPROVER, csr(), PENDING, "approval"),
        on(DOMAIN, csr(), PENDING, "approval"),
        on(SIGNER, SIGNED, csr(), "status"),
        on(BOB, csr(), csr(), "status"),
        on(BOB, csr()),
        on(BOB, csr(), csr()),
        on(BOB, csr(KUBELET_CLIENT, pem_request("x", ("system:masters",)))),
    ],
)
def test_who_may(attributes: Attributes) -> None:
    assert PLUGIN.handles(attributes.operation, attributes.resource, attributes.subresource)
    run(lambda: PLUGIN.validate(attributes))


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        (on(BOB, csr(), PENDING, "approval"), f'user not permitted to approve requests with signerName "{CLIENT}"'),
        (on(SIGNER, csr(), PENDING, "approval"), "user not permitted to approve"),
        (on(APPROVER, SIGNED, csr(), "status"), f'user not permitted to sign requests with signerName "{CLIENT}"'),
        (on(APPROVER, csr(KUBELET_CLIENT), csr(KUBELET_CLIENT), "approval"), "user not permitted to approve"),
        (on(DOMAIN, csr("x.io/y"), csr("x.io/y"), "approval"), "user not permitted to approve"),
        (
            on(BOB, csr(request=pem_request("x", ("system:masters",)))),
            "signer with system:masters group is not allowed",
        ),
    ],
)
def test_who_may_not(attributes: Attributes, words: str) -> None:
    error = run(lambda: refused(PLUGIN.validate(attributes)))
    assert error.code == 403
    assert words in error.message


def test_the_sender_is_noted_by_the_server_alone() -> None:
    new = csr(username="root", groups=["system:masters"], uid="0", extra={"a": ["b"]})
    attributes = on(User("bob", ("dev",), "7"), new)
    run(lambda: PLUGIN.mutate(attributes))
    spec = new["spec"]
    assert (spec["username"], spec["groups"], spec["uid"], "extra" in spec) == ("bob", ["dev"], "7", False)
    assert new["status"] == {}, "approved by its sender"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"request": ""}, ["spec.request"]),
        ({"request": "!!!"}, ["spec.request"]),
        ({"request": base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\nxx").decode()}, ["spec.request"]),
        ({"request": "A" * 100_000}, ["spec.request"]),
        ({"usages": []}, ["spec.usages"]),
        ({"usages": ["client auth", "client auth"]}, ["spec.usages[1]"]),
        ({"signerName": ""}, ["spec.signerName"]),
        ({"signerName": "nodomain"}, ["spec.signerName"]),
        ({"signerName": "a.b/c/d"}, ["spec.signerName"]),
        ({"expirationSeconds": 599}, ["spec.expirationSeconds"]),
        ({}, []),
    ],
)
def test_what_is_wrong_with_a_request(spec: Object, told: list[str]) -> None:
    made = csr()
    made["spec"].update(spec)
    assert [cause.field for cause in validate(made)] == told


def updated(new: Object, old: Object, subresource: str) -> Object:
    attributes = on(User("bob"), copy.deepcopy(new), old, subresource)
    run(lambda: PLUGIN.mutate(attributes))
    assert attributes.object is not None
    return attributes.object


def test_nobody_approves_his_own_request_by_another_door() -> None:
    before = copy.deepcopy(PENDING)
    for door in ("", "status"):
        assert not approved(updated(csr(), PENDING, door)), f"approved through /{door}"
    through = updated(csr(), PENDING, "approval")
    assert approved(through)
    assert through["status"]["conditions"][0]["lastUpdateTime"]
    assert before == PENDING, "the stored object was changed"


def test_each_door_changes_its_own_part_alone() -> None:
    for door in ("", "status", "approval"):
        assert updated(csr("x.io/other"), PENDING, door)["spec"] == PENDING["spec"]
    assert "certificate" not in updated(SIGNED, csr(), "")["status"]
    assert "certificate" not in updated(SIGNED, csr(), "approval")["status"]
    assert updated(SIGNED, csr(), "status")["status"]["certificate"] == "x"
    failed = csr(conditions=("Failed",))
    assert [c["type"] for c in updated(csr(), failed, "approval")["status"]["conditions"]] == ["Approved", "Failed"]
    assert [c["type"] for c in updated(failed, csr(), "status")["status"]["conditions"]] == ["Approved", "Failed"]
    assert updated(PENDING, PENDING, "approval")["status"] == {}


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        (csr(conditions=("Approved", "Denied")), PENDING, "Approved and Denied conditions are mutually exclusive"),
        (csr(conditions=("Denied", "Approved")), csr(conditions=("Denied",)), "mutually exclusive"),
        (csr(conditions=("Approved", "Approved")), PENDING, 'status.conditions[1].type: Duplicate value: "Approved"'),
        (PENDING, csr(), 'updates may not remove a condition of type "Approved"'),
    ],
)
def test_conditions_that_make_no_sense(new: Object, old: Object, words: str) -> None:
    error = run(lambda: refused(PLUGIN.validate(on(APPROVER, new, old, "approval"))))
    assert error.code == 422
    assert words in error.message


def test_a_request_that_is_none_is_not_stored() -> None:
    error = run(lambda: refused(PLUGIN.validate(on(BOB, csr(request="eA==")))))
    assert error.message == (
        'CertificateSigningRequest.certificates.k8s.io "c" is invalid: spec.request: Invalid value: "eA==": '
        "PEM block type must be CERTIFICATE REQUEST"
    )
