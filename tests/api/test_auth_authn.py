"""Who asks: certificates, static tokens, nobody; the keys and certificates behind it; acting as somebody else."""

from __future__ import annotations

import asyncio
import base64
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from multidict import CIMultiDict
from tests.api.auth_kit import HandClock, MemoryView, bind, exchange, request, role, rule, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.authn import AuthConfig, Authenticator, bearer, certificate_user
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.certificates import SERVER_NAMES, Pki, PkiError
from dashpot.runtime.api.auth.impersonate import Impersonation
from dashpot.runtime.api.auth.kubeconfig import write_kubeconfig
from dashpot.runtime.api.auth.tokenfile import TokenFileError, read_tokens
from dashpot.runtime.api.exchange import ANONYMOUS, LOOPBACK, Exchange, User

Object = dict[str, Any]


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki.load_or_create(tmp_path / "pki")


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def enter(pki: Pki, config: AuthConfig | None = None, **more: Any) -> User | None:
    """Who is let in; None for 401."""
    clock = more.pop("clock", None) or HandClock(0)
    asked = exchange(**more)
    try:
        run(lambda: Authenticator(config or AuthConfig(), pki, MemoryView(), clock).gate(asked))
    except StatusError as error:
        assert error.code == 401
        return None
    return asked.user


def test_a_certificate_names_user_and_groups(pki: Pki) -> None:
    made = pki.client("ann", ("dev", "ops"))
    user = enter(pki, certificate=der(made.certificate))
    assert user is not None
    assert (user.name, user.groups) == ("ann", ("dev", "ops", "system:authenticated"))
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    admin = enter(pki, certificate=der(pki.admin().certificate))
    assert admin is not None and "system:masters" in admin.groups


def test_a_certificate_ends(pki: Pki) -> None:
    made = der(pki.client("ann", seconds=600).certificate)
    _, until = certificate_user(made)
    assert enter(pki, certificate=made, clock=HandClock(until - 1)) is not None
    assert enter(pki, certificate=made, clock=HandClock(until)) is None


def test_a_bad_certificate_is_nobody_even_where_nobody_may_come(pki: Pki) -> None:
    assert enter(pki, AuthConfig(anonymous=True), certificate=b"nonsense") is None
    assert certificate_user(b"nonsense")[0] is None


STATIC = {"s3cret": User("static", ("g",))}


@pytest.mark.parametrize(
    ("headers", "anonymous", "name"),
    [
        ({}, False, None),
        ({}, True, "system:anonymous"),
        ({"authorization": "Bearer s3cret"}, False, "static"),
        ({"authorization": "bearer   s3cret"}, False, "static"),
        ({"authorization": "Bearer wrong"}, False, None),
        ({"authorization": "Bearer wrong"}, True, None),
        ({"authorization": "Bearer "}, True, "system:anonymous"),
        ({"authorization": "Basic czNjcmV0"}, True, "system:anonymous"),
        ({"authorization": "Basic czNjcmV0"}, False, None),
        (
            {"sec-websocket-protocol": "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.czNjcmV0"},
            False,
            "static",
        ),
        ({"sec-websocket-protocol": "base64url.bearer.authorization.k8s.io.!!"}, True, None),
        ({"sec-websocket-protocol": "v4.channel.k8s.io"}, True, "system:anonymous"),
    ],
)
def test_a_bearer_token(pki: Pki, headers: Mapping[str, str], anonymous: bool, name: str | None) -> None:
    user = enter(pki, AuthConfig(anonymous, STATIC), headers=headers)
    assert (user and user.name) == name


def test_the_first_method_that_says_yes_wins(pki: Pki) -> None:
    made = der(pki.client("ann").certificate)
    user = enter(pki, AuthConfig(tokens=STATIC), certificate=made, headers={"authorization": "Bearer s3cret"})
    assert user is not None and user.name == "ann"
    user = enter(pki, AuthConfig(tokens=STATIC), certificate=b"bad", headers={"authorization": "Bearer s3cret"})
    assert user is not None and user.name == "static"


def test_the_in_process_transport_says_who_asks(pki: Pki) -> None:
    assert enter(pki, user_given=LOOPBACK, headers={"authorization": "Bearer wrong"}) == LOOPBACK


def test_static_users_are_authenticated_but_nobody_is_not(pki: Pki) -> None:
    user = enter(pki, AuthConfig(tokens=STATIC), headers={"authorization": "Bearer s3cret"})
    assert user is not None and user.groups == ("g", "system:authenticated")
    assert enter(pki, AuthConfig(anonymous=True)) == ANONYMOUS


def test_the_file_of_tokens(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text('# token,user,uid,groups\n\nabc,ann,1,"dev,ops"\nxyz, bob, 2\n', encoding="utf-8")
    assert read_tokens(path) == {"abc": User("ann", ("dev", "ops"), "1"), "xyz": User("bob", (), "2")}
    user = enter(pki, AuthConfig(token_file=path), headers={"authorization": "Bearer abc"})
    assert user is not None and user.uid == "1"


@pytest.mark.parametrize(("text", "words"), [("a,b\n", ":1: a line has at least"), (",x,1", ":1: token and user")])
def test_a_file_of_tokens_that_is_none(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TokenFileError, match=words):
        read_tokens(path)
    with pytest.raises(TokenFileError, match="cannot read"):
        read_tokens(tmp_path / "gone")


def test_a_token_is_not_looked_for_in_endless_protocols() -> None:
    long = "base64url.bearer.authorization.k8s.io." + "a" * 100_000
    assert bearer(request({"sec-websocket-protocol": long})) is None


# -- keys and certificates --------------------------------------------------------------------------------------


def test_keys_are_kept_and_are_the_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    first = Pki.load_or_create(folder)
    server, admin, kid = first.server(["10.0.0.1", "api.example.com"]), first.admin(), first.signing.kid
    again = Pki.load_or_create(folder)
    assert (again.ca, again.server(), again.admin(), again.signing.kid) == (first.ca, server, admin, kid)
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_server_certificate_is_made_anew_for_new_names_or_another_authority(pki: Pki, tmp_path: Path) -> None:
    first = pki.server()
    names = x509.load_pem_x509_certificate(first.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    told = {str(name.value) for name in names.value}
    assert told == set(SERVER_NAMES)
    assert pki.server(["extra.example.com"]) != first
    (pki.folder / "server.crt").write_bytes(Pki.load_or_create(tmp_path / "other").server().certificate)
    assert pki.server() != first


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ca.key", None, "has ca.crt but no ca.key"),
        ("ca.crt", None, "has ca.key but no ca.crt"),
        ("ca.key", b"x", "ca.key is damaged"),
        ("ca.crt", b"x", "ca.crt is damaged"),
        ("sa.key", b"x", "sa.key is damaged"),
        ("ca.key", "sa.key", "do not belong together"),
    ],
)
def test_damaged_keys_are_told(tmp_path: Path, name: str, content: Any, words: str) -> None:
    Pki.load_or_create(tmp_path)
    path = tmp_path / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes((tmp_path / content).read_bytes() if isinstance(content, str) else content)
    with pytest.raises(PkiError, match=words):
        Pki.load_or_create(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(PkiError, match="cannot make"):
        Pki.load_or_create(tmp_path / "file" / "pki")


def test_names_too_long_for_a_certificate(pki: Pki) -> None:
    with pytest.raises(PkiError, match="1 to 64 characters"):
        pki.client("x" * 65)
    with pytest.raises(PkiError, match="neither an address nor a host name"):
        pki.server(["bücher.example.com"])


async def _shake(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes | None:
    """The client certificate that a server sees on a TLS connection over loopback."""
    seen: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls = writer.get_extra_info("ssl_object")
        writer.write(b"x")
        seen.set_result(tls.getpeercert(True))
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        await reader.readexactly(1)
        writer.close()
        await writer.wait_closed()
        return await seen


def test_tls_with_and_without_a_client_certificate(pki: Pki, tmp_path: Path) -> None:
    server = pki.server_context()
    admin = pki.admin()
    found = run(lambda: _shake(server, pki.client_context("admin")))
    assert found == der(admin.certificate)
    assert run(lambda: _shake(server, pki.client_context())) is None
    foreign = Pki.load_or_create(tmp_path / "foreign")
    foreign.admin()
    strange = pki.client_context()
    strange.load_cert_chain(foreign.folder / "admin.crt", foreign.folder / "admin.key")
    with pytest.raises((ssl.SSLError, asyncio.IncompleteReadError, ConnectionError)):
        run(lambda: _shake(server, strange))


def test_a_kubeconfig(pki: Pki, tmp_path: Path) -> None:
    path, admin = tmp_path / "kube" / "config", pki.admin()
    write_kubeconfig(path, "https://127.0.0.1:6443", pki.ca, admin.certificate, admin.key)
    write_kubeconfig(path, "https://[::1]:6443", pki.ca, admin.certificate, admin.key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert found["clusters"][0]["cluster"]["server"] == "https://[::1]:6443"
    assert base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"]) == pki.ca
    assert base64.b64decode(found["users"][0]["user"]["client-key-data"]) == admin.key
    assert found["current-context"] == found["contexts"][0]["name"] == "dashpot"
    write_kubeconfig(path, "https://x", pki.ca, token='t"oken')
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["users"][0]["user"] == {"token": 't"oken'}


def test_somebody_elses_kubeconfig_is_not_touched(pki: Pki, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    with pytest.raises(PkiError, match="somebody else's kubeconfig"):
        write_kubeconfig(path, "https://x", pki.ca)
    assert path.read_text(encoding="utf-8").startswith("apiVersion")


# -- acting as somebody else ------------------------------------------------------------------------------------

IMPERSONATOR = Impersonation(
    Authorizer(
        AuthzConfig(),
        MemoryView(
            [
                role(
                    "jane", rule("impersonate", "core", "users", "jane"), rule("impersonate", "core", "groups", "dev")
                ),
                role("robots", rule("impersonate", "core", "serviceaccounts"), namespace="a"),
                role("scopes", rule("impersonate", "authentication.k8s.io", "userextras/scopes uids", "read 7")),
                bind("jane", "ClusterRole/jane", "User/bob"),
                bind("robots", "Role/robots", "User/bob", namespace="a"),
                bind("scopes", "ClusterRole/scopes", "User/bob"),
            ]
        ),
        HandClock(),
    )
)
BOB = User("bob", ("system:authenticated",), extra={"authentication.kubernetes.io/credential-id": ("X",)})
ROOT = User("root", ("system:masters", "system:authenticated"))


def act(user: User, *headers: tuple[str, str]) -> Exchange:
    asked = exchange(user, headers=CIMultiDict(headers))
    run(lambda: IMPERSONATOR.gate(asked))
    return asked


@pytest.mark.parametrize(
    ("user", "headers", "wanted"),
    [
        (BOB, [("Impersonate-User", "jane")], User("jane", ("system:authenticated",))),
        (
            BOB,
            [("Impersonate-User", "jane"), ("Impersonate-Group", "dev")],
            User("jane", ("dev", "system:authenticated")),
        ),
        (
            BOB,
            [("Impersonate-User", "system:serviceaccount:a:robot")],
            User(
                "system:serviceaccount:a:robot",
                ("system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"),
            ),
        ),
        (
            BOB,
            [("Impersonate-User", "jane"), ("Impersonate-Uid", "7"), ("Impersonate-Extra-Scopes", "read")],
            User("jane", ("system:authenticated",), "7", {"scopes": ("read",)}),
        ),
        (
            ROOT,
            [("impersonate-user", "x"), ("Impersonate-Group", "a"), ("impersonate-group", "b,c")],
            User("x", ("a", "b,c", "system:authenticated")),
        ),
        (
            ROOT,
            [
                ("Impersonate-User", "x"),
                ("Impersonate-Extra-Acme.com%2FTeam", "1"),
                ("Impersonate-Extra-acme.com%2fteam", "2"),
            ],
            User("x", ("system:authenticated",), "", {"acme.com/team": ("1", "2")}),
        ),
        (ROOT, [("Impersonate-User", "system:anonymous")], User("system:anonymous", ("system:unauthenticated",))),
        (
            ROOT,
            [("Impersonate-User", "x"), ("Impersonate-Group", "system:unauthenticated")],
            User("x", ("system:unauthenticated",)),
        ),
    ],
)
def test_acting_as_somebody_else(user: User, headers: list[tuple[str, str]], wanted: User) -> None:
    found = act(user, *headers)
    assert found.user == wanted
    assert found.impersonator == user


def test_without_headers_everybody_is_himself() -> None:
    found = act(BOB, ("User-Agent", "x"))
    assert (found.user, found.impersonator) == (BOB, None)


@pytest.mark.parametrize(
    ("headers", "code", "message"),
    [
        (
            [("Impersonate-User", "root")],
            403,
            'users "root" is forbidden: User "bob" cannot impersonate resource "users" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "jane"), ("Impersonate-Group", "system:masters")],
            403,
            'groups "system:masters" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "jane"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "system:masters")],
            403,
            'groups "system:masters" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" '
            "at the cluster scope",
        ),
        (
            [("Impersonate-User", "system:serviceaccount:b:robot")],
            403,
            'serviceaccounts "robot" is forbidden: User "bob" cannot impersonate resource "serviceaccounts" in API '
            'group "" in the namespace "b"',
        ),
        (
            [("Impersonate-User", "jane"), ("Impersonate-Extra-Scopes", "write")],
            403,
            'userextras.authentication.k8s.io "write" is forbidden: User "bob" cannot impersonate resource '
            '"userextras/scopes" in API group "authentication.k8s.io" at the cluster scope',
        ),
        (
            [("Impersonate-User", "jane"), ("Impersonate-Uid", "8")],
            403,
            'uids.authentication.k8s.io "8" is forbidden: User "bob" cannot impersonate resource "uids" in API group '
            '"authentication.k8s.io" at the cluster scope',
        ),
        ([("Impersonate-Group", "dev")], 400, "requested groups, a uid or extra values without impersonating a user"),
        ([("Impersonate-User", "")], 400, "Impersonate-User names nobody"),
    ],
)
def test_who_may_not_act_as_somebody_else(headers: list[tuple[str, str]], code: int, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        act(BOB, *headers)
    assert (caught.value.code, caught.value.message) == (code, message)
