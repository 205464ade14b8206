"""Where a cluster is and how to be let in, as a kubeconfig or a pod's files say it. No secret is ever in a repr."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

Object = dict[str, Any]


class KubeconfigError(ValueError):
    """Something that cannot be used; the text names the file, the entry and the cure, and never a secret."""


@frozen
class Plugin:
    """A program that tells credentials (client.authentication.k8s.io). `mode` is Never, IfAvailable or Always: whether
    it may ask a person; `cluster` is what it is told of the cluster."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    mode: str = "IfAvailable"
    hint: str = ""
    cluster: Object | None = field(default=None, repr=False)
    where: str = ""
    """Which entry of which file, for messages."""


@frozen
class Login:
    """Credentials, of several kinds at once where a cluster wants that. `certificate` and `key` are PEM."""

    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Wins over `token`, and is read anew now and then."""
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    plugin: Plugin | None = None


NOBODY = Login()


@frozen
class Acting:
    """Whom to act as: the impersonation headers."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(factory=dict)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Impersonate-User and the rest; names in lower case."""
        from urllib.parse import quote

        rows: list[tuple[str, str]] = [("impersonate-user", self.user)] if self.user else []
        rows += [("impersonate-uid", self.uid)] if self.uid else []
        rows += [("impersonate-group", group) for group in self.groups]
        for name, values in self.extra.items():
            rows += [(f"impersonate-extra-{quote(name.lower(), safe='')}", value) for value in values]
        return tuple(rows)


@frozen
class Access:
    """One context: a cluster, a user and a namespace. `ca` is PEM (empty: the system's)."""

    server: str
    ca: bytes = field(default=b"", repr=False)
    verify: bool = True
    """False: any certificate of the server will do (insecure-skip-tls-verify)."""
    server_name: str = ""
    """The name in the server's certificate, where it is not that of the URL (tls-server-name)."""
    proxy: str = field(default="", repr=False)
    """A proxy's URL, perhaps with a password."""
    compression: bool = True
    namespace: str = "default"
    login: Login = NOBODY
    acting: Acting = Acting()
    context: str = ""
    """What the context is called."""
    where: str = ""
    """Which cluster of which file, for messages."""


def tls_context(access: Access, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext | None:
    """TLS to a server with a client certificate, None for plain HTTP; KubeconfigError for what is no PEM."""
    if not access.server.startswith("https://"):
        return None
    try:
        context = ssl.create_default_context(cadata=access.ca.decode("ascii") if access.ca else None)
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise KubeconfigError(
            f"{access.where}: certificate-authority is no certificate in PEM: "
            "take ca.crt of the cluster, base64 where it is certificate-authority-data"
        ) from None
    # clusters' CAs are older than the rules of RFC 5280 that newer Pythons insist on
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        # OpenSSL reads key pairs from files alone: one that only this user can read, for as long as that takes
        with tempfile.NamedTemporaryFile(prefix="dashpot-", suffix=".pem") as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                context.load_cert_chain(file.name, password=_no_password)
            except (ssl.SSLError, OSError, ValueError):
                raise KubeconfigError(
                    f"{access.where}: client-certificate and client-key of the user do not fit together or are no PEM "
                    "without a passphrase: fetch the kubeconfig anew"
                ) from None
    return context


def _no_password() -> str:
    """An encrypted key is refused; OpenSSL would ask on the terminal."""
    raise ValueError("encrypted")
