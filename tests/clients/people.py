"""Clients of a running server who are not its administrator: real certificates, real tokens, one request at a time."""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.runtime.api.auth.certificates import Pki
from tests.clients.running import Running
from tests.fuzz.wire import Answer, Wire

Object = dict[str, Any]
JSON = ("Content-Type", "application/json")
MERGE = ("Content-Type", "application/merge-patch+json")
GROUPS = {
    "apps": "apps/v1",
    "rbac": "rbac.authorization.k8s.io/v1",
    "authz": "authorization.k8s.io/v1",
    "authn": "authentication.k8s.io/v1",
    "certs": "certificates.k8s.io/v1",
    "leases": "coordination.k8s.io/v1",
    "hooks": "admissionregistration.k8s.io/v1",
    "storage": "storage.k8s.io/v1",
    "example": "example.com/v1",
}


def path(text: str) -> str:
    """`a:pods/p` is in namespace a, `-:nodes` in none, `rbac/a:roles` of another group; a path is left as it is."""
    if text.startswith("/"):
        return text
    place, _, rest = text.partition(":")
    group, _, namespace = place.rpartition("/")
    root = f"/apis/{GROUPS[group]}" if group else "/api/v1"
    return f"{root}/{rest}" if namespace == "-" else f"{root}/namespaces/{namespace}/{rest}"


class People:
    """Connections by name: `certify` and `bear` make somebody known, `ask` asks as him."""

    def __init__(self, running: Running) -> None:
        self.kubeconfig = running.kubeconfig
        self._pki = Pki.load_or_create(running.data / "pki")
        self._wires: dict[str, Wire] = {}
        self._headers: dict[str, list[tuple[str, str]]] = {}
        self._join("root", None)
        self._join("nobody", b"")

    def __enter__(self) -> People:
        return self

    def __exit__(self, *_: object) -> None:
        for wire in self._wires.values():
            wire.drop()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        return self._wires["root"].address

    def certify(self, name: str, user: str, *groups: str) -> None:
        """A certificate of the cluster's own authority."""
        pair = self._pki.client(user, groups)
        self._join(name, pair.certificate + pair.key)

    def bear(self, name: str, token: str) -> None:
        """A bearer token, and no certificate."""
        self._join(name, b"", ("Authorization", f"Bearer {token}"))

    def _join(self, name: str, identity: bytes | None, *headers: tuple[str, str]) -> None:
        self._wires[name] = Wire(self.kubeconfig, patience_s=20, identity=identity)
        self._headers[name] = list(headers)

    def ask(self, who: str, method: str, where: str, body: Object | None = None) -> Answer:
        """One request. `who` may go on as somebody else: `ann>bob+group+group`."""
        name, _, other = who.partition(">")
        headers = [*self._headers[name]]
        user, *groups = other.split("+")
        if other:
            headers += [("Impersonate-User", user)] if user else []
            headers += [("Impersonate-Group", group) for group in groups]
        raw = None
        if body is not None:
            headers.append(MERGE if method == "PATCH" else JSON)
            raw = msgspec.json.encode(body)
        return self._wires[name].ask(method, path(where), raw, headers)

    def make(self, where: str, *objects: Object) -> None:
        """Objects that the administrator makes, and that must be made."""
        for one in objects:
            answer = self.ask("root", "POST", where, one)
            assert answer.code == 201, (where, one, answer.message)
