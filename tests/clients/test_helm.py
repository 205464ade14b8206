"""helm 4, unmodified: install, upgrade, rollback, uninstall of a chart of our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.clients.running import Running

CHART = {
    "Chart.yaml": "apiVersion: v2\nname: web\nversion: 0.1.0\nappVersion: '1'\n",
    "values.yaml": "replicas: 1\ncolour: red\n",
    "templates/web.yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}, labels: {app: web}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/web:{{ .Chart.AppVersion }}", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-colour}
data: {colour: {{ .Values.colour }}}
""",
}


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    for name, text in CHART.items():
        path = tmp_path / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "web"


def test_install_upgrade_rollback(tools: Path, server: Running, chart: Path, tmp_path: Path) -> None:
    def helm(*words: str) -> str:
        env = server.environment(tmp_path / "home")
        done = subprocess.run([tools / "helm-4", *words], capture_output=True, text=True, env=env, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shown() -> str:
        replicas = server.kubectl("get", "deploy", "shop", "-o", "jsonpath={.spec.replicas}").stdout
        return f"{replicas} {server.kubectl('get', 'cm', 'shop-colour', '-o', 'jsonpath={.data.colour}').stdout}"

    helm("install", "shop", str(chart))
    assert shown() == "1 red"
    helm("upgrade", "shop", str(chart), "--set", "replicas=3,colour=blue")
    assert shown() == "3 blue"
    helm("rollback", "shop", "1")
    assert shown() == "1 red"
    rows = msgspec.json.decode(helm("history", "shop", "-o", "json"))
    assert [row["status"] for row in rows] == ["superseded", "superseded", "deployed"]
    assert "REVISION: 3" in helm("status", "shop")
    helm("uninstall", "shop")
    assert "NotFound" in server.kubectl("get", "deploy,svc,cm", "shop").stderr
