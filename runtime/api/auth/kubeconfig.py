"""The kubeconfig that is written for the administrator of a new cluster."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec

from dashpot.runtime.api.auth.certificates import PkiError, write_private

HEADER = "# Written by dashpot; made anew at every start.\n"


def write_kubeconfig(
    path: Path, server: str, ca: bytes, cert: bytes = b"", key: bytes = b"", *, token: str = "", name: str = "dashpot"
) -> None:
    """Writes a kubeconfig (mode 0600) with one cluster, user and context; `ca`, `cert` and `key` are PEM.

    A file that is there already and was not written by this function is not touched: PkiError.
    """
    try:
        known = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        known = HEADER
    except OSError as error:
        raise PkiError(f"cannot read {path}: {error.strerror or error}") from None
    if known.strip() and not known.startswith(HEADER):
        raise PkiError(f"{path} is somebody else's kubeconfig and stays as it is: choose another file")
    write_private(path, kubeconfig(server, ca, cert, key, token=token, name=name).encode())


def kubeconfig(
    server: str, ca: bytes, cert: bytes = b"", key: bytes = b"", *, token: str = "", name: str = "dashpot"
) -> str:
    """The text of a kubeconfig."""

    def told(value: str) -> str:
        return msgspec.json.encode(value).decode()

    user = ""
    if cert:
        user += f"    client-certificate-data: {base64.b64encode(cert).decode()}\n"
        user += f"    client-key-data: {base64.b64encode(key).decode()}\n"
    if token:
        user += f"    token: {told(token)}\n"
    user = f"\n{user}" if user else " {}\n"
    return (
        f"{HEADER}apiVersion: v1\nkind: Config\nclusters:\n- name: {told(name)}\n  cluster:\n"
        f"    server: {told(server)}\n    certificate-authority-data: {base64.b64encode(ca).decode()}\n"
        f"users:\n- name: {told(name)}\n  user:{user}"
        f"contexts:\n- name: {told(name)}\n  context:\n    cluster: {told(name)}\n    user: {told(name)}\n"
        f"current-context: {told(name)}\n"
    )
