"""`dashpot run` with the example operator, as its user runs it: a kubeconfig, TLS, kubectl."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.running import Running
from tests.tree import ROOT

SPEC = ROOT / "examples" / "18-site-operator" / "site.loop"
PATIENCE_S = 60.0
Object = dict[str, Any]


class Operator:
    """One `dashpot run`; what it says is in a file."""

    def __init__(self, server: Running, *options: str, folder: Path, kubeconfig: Path | None = None) -> None:
        self.told = folder / f"operator-{time.monotonic_ns()}"
        env = server.environment(server.data.parent / "home") | {"PYTHONUNBUFFERED": "1"}
        if kubeconfig is not None:
            env["KUBECONFIG"] = str(kubeconfig)
        with self.told.open("w") as file:
            command = [sys.executable, "-m", "dashpot", "run", str(SPEC), *options]
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=env)

    def text(self) -> str:
        """What it said so far."""
        return self.told.read_text()

    def says(self, words: str) -> None:
        """Waits until it says something."""

        def said() -> bool:
            assert self.process.poll() is None or words in self.text(), self.text()
            return words in self.text()

        until(said)

    def stop(self) -> int:
        """SIGTERM, and its status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(30)


def until(test: Callable[[], bool]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE_S
    while not test():
        assert time.monotonic() < end, "it did not come to pass in time"
        time.sleep(0.05)


@contextmanager
def operating(server: Running, *options: str, folder: Path) -> Iterator[Operator]:
    """An operator that runs, and ends well."""
    operator = Operator(server, *options, folder=folder)
    try:
        operator.says("running SiteOperator")
        yield operator
        assert operator.stop() == 0, operator.text()
    finally:
        operator.stop()


def ended(server: Running, *options: str, folder: Path, kubeconfig: Path | None = None) -> tuple[int, str]:
    """Status and words of an operator that ends by itself."""
    operator = Operator(server, *options, folder=folder, kubeconfig=kubeconfig)
    try:
        return operator.process.wait(PATIENCE_S), operator.text()
    finally:
        operator.kill()


def got(server: Running, *words: str) -> Object:
    """An object, by `kubectl get -o json`; empty where there is none."""
    done = server.kubectl("get", *words, "-o", "json", "--ignore-not-found")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else {}


def apply(server: Running, *objects: Object) -> None:
    """kubectl apply."""
    done = server.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert done.returncode == 0, done.stderr


def site(name: str, page: str, replicas: int) -> Object:
    spec = {"page": page, "image": "example.com/web:1", "replicas": replicas}
    return {"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec}


def definition() -> Object:
    """What `dashpot crd` prints."""
    command = [sys.executable, "-m", "dashpot", "crd", str(SPEC)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: Object = yaml.safe_load(done.stdout)
    return found


@pytest.fixture(scope="module")
def served(tools: Path, server: Running) -> Running:
    """A server that has the definition."""
    apply(server, definition())
    done = server.kubectl("wait", "--for=condition=Established", "crd/sites.web.example.com", "--timeout=30s")
    assert done.returncode == 0, done.stderr
    return server


def test_without_the_definition_it_says_which_kind_is_missing(tools: Path, tmp_path: Path) -> None:
    with Running(tmp_path / "bare") as bare:
        status, text = ended(bare, folder=tmp_path)
    assert status == 4
    assert "Site" in text and "web.example.com/v1" in text
    assert "dashpot crd" in text and "kubectl apply -f -" in text
    assert "Traceback" not in text


def test_it_follows_the_spec_and_survives_kills(served: Running, tmp_path: Path) -> None:
    def shown() -> tuple[Any, Any, Any]:
        page = got(served, "configmap", "shop").get("data", {}).get("index")
        pods = got(served, "replicaset", "shop").get("spec", {}).get("replicas")
        return page, pods, got(served, "site", "shop").get("status", {}).get("observedGeneration")

    for turn in range(1, 4):
        operator = Operator(served, "--no-lease", folder=tmp_path)
        operator.says("running SiteOperator")
        apply(served, site("shop", f"page {turn}", turn))
        operator.kill()
    with operating(served, "--no-lease", folder=tmp_path):
        until(lambda: shown() == ("page 3", 3, got(served, "site", "shop")["metadata"]["generation"]))
        pods = got(served, "replicaset", "shop")
        assert pods["metadata"]["ownerReferences"][0]["kind"] == "Site"
        container = pods["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == "example.com/web:1"
        patch = '{"status":{"replicas":3,"readyReplicas":2}}'
        done = served.kubectl("patch", "replicaset", "shop", "--subresource=status", "--type=merge", "-p", patch)
        assert done.returncode == 0, done.stderr
        until(lambda: got(served, "site", "shop")["status"]["ready"] == 2)


def test_dry_run_writes_nothing(served: Running, tmp_path: Path) -> None:
    apply(served, site("dry", "p", 1))
    before = got(served, "configmaps,replicasets,leases,events,sites", "-A")
    operator = Operator(served, "--dry-run", folder=tmp_path)
    try:
        operator.says("create ReplicaSet default/dry")
        operator.says("create ConfigMap default/dry")
    finally:
        assert operator.stop() == 0
    assert f"{SPEC}:" in operator.text()
    after = got(served, "configmaps,replicasets,leases,events,sites", "-A")
    assert [o["metadata"] for o in before["items"]] == [o["metadata"] for o in after["items"]]


def test_a_second_run_says_who_runs_already(served: Running, tmp_path: Path) -> None:
    with operating(served, folder=tmp_path):
        status, text = ended(served, folder=tmp_path)
    assert status == 4
    assert "another run of these controllers is active" in text and "lease default/dashpot-site" in text
    assert "--leader-elect" in text


def test_the_second_of_two_takes_over(served: Running, tmp_path: Path) -> None:
    first = Operator(served, "--leader-elect", folder=tmp_path)
    second = None
    try:
        first.says("running SiteOperator")
        second = Operator(served, "--leader-elect", folder=tmp_path)
        second.says("waiting for it")
        assert first.stop() == 0
        second.says("running SiteOperator")
        assert second.stop() == 0
    finally:
        first.kill()
        if second is not None:
            second.kill()


RIGHTS = [
    {"apiGroups": ["web.example.com"], "resources": ["sites"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["web.example.com"], "resources": ["sites/status"], "verbs": ["update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update"]},
    {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get", "list", "watch", "create", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
]


@pytest.mark.parametrize(
    ("group", "verb", "words"),
    [
        ("web.example.com", "watch", "watch sites.web.example.com"),
        ("apps", "create", "create replicasets.apps"),
        ("coordination.k8s.io", "update", "update leases.coordination.k8s.io"),
    ],
)
def test_a_missing_right_is_named(served: Running, tmp_path: Path, group: str, verb: str, words: str) -> None:
    rules = [r | {"verbs": [v for v in r["verbs"] if v != verb or group not in r["apiGroups"]]} for r in RIGHTS]
    name = f"site-{verb}"
    done = served.kubectl("create", "serviceaccount", name)
    assert done.returncode == 0, done.stderr
    rbac = "rbac.authorization.k8s.io"
    apply(
        served,
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        },
    )
    token = served.kubectl("create", "token", name).stdout.strip()
    config = yaml.safe_load(served.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(0o600)
    kubeconfig.write_text(yaml.safe_dump(config))
    status, text = ended(served, folder=tmp_path, kubeconfig=kubeconfig)
    assert status == 4
    assert words in text, text
    assert "Traceback" not in text
