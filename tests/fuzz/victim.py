"""The server that is attacked, and what attacks are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.clients.running import Running
from tests.fuzz.bystander import MIB, Bystander
from tests.fuzz.wire import Answer, Headers, Wire

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON, YAML = {"Content-Type": "application/json"}, {"Content-Type": "application/yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf"}
TOKEN = "a-token-that-nobody-may-read"
MANY = 100_000


class Victim:
    """The server of this module; `attack` is one request beside which another client lives."""

    def __init__(self, running: Running, audit: Path) -> None:
        self.running = running
        self.audit = audit
        self.pid = running.process.pid

    def wire(self) -> Wire:
        return Wire(self.running.kubeconfig, patience_s=20)

    def bystander(self, **limits: Any) -> Bystander:
        return Bystander(Wire(self.running.kubeconfig, patience_s=20), self.pid, **limits)

    def attack(self, method: str, path: str, body: bytes | None = None, headers: Headers | None = None) -> Answer:
        """One request; its answer must be a Status where it is a refusal, and must come in time."""
        with self.wire() as wire, self.bystander():
            answer = wire.ask(method, path, body, headers)
        assert answer.seconds < 5, f"took {answer.seconds:.1f} s"
        if answer.code >= 400:
            assert answer.json["code"] == answer.code and answer.json["message"], answer.body[:200]
            assert len(answer.body) < MIB, "a refusal as long as the attack"
        return answer
