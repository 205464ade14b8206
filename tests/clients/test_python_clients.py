"""Python's four clients, unmodified: kubernetes, kr8s, lightkube, and an operator of kopf."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.clients.running import Running

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.dashpot.example}
spec:
  group: dashpot.example
  scope: Namespaced
  names: {plural: gauges, singular: gauge, kind: Gauge}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {limit: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def script(server: Running, text: str) -> list[str]:
    """Runs a program in a process of its own (clients start threads and loops); the lines that it printed."""
    env = server.environment(server.data.parent / "home")
    command = [sys.executable, "-W", "ignore", "-c", dedent(text)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def test_kubernetes(server: Running) -> None:
    lines = script(
        server,
        """
        from kubernetes import client, config, dynamic, watch

        config.load_kube_config()
        core, apps = client.CoreV1Api(), client.AppsV1Api()
        core.create_namespace({"metadata": {"name": "kube"}})
        core.create_namespaced_config_map("kube", {"metadata": {"name": "a"}, "data": {"x": "1"}})
        print(core.patch_namespaced_config_map("a", "kube", {"data": {"y": "2"}}).data)
        print(core.patch_namespaced_config_map("a", "kube", [{"op": "remove", "path": "/data/x"}]).data)
        found = core.read_namespaced_config_map("a", "kube")
        found.data["z"] = "3"
        newer = core.replace_namespaced_config_map("a", "kube", found)
        print(newer.data)
        try:
            core.replace_namespaced_config_map("a", "kube", found)
        except client.ApiException as error:
            print(error.status, error.reason)
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        apps.create_namespaced_deployment("kube", {"metadata": {"name": "d"}, "spec": spec})
        scale = apps.read_namespaced_deployment_scale("d", "kube")
        scale.spec.replicas = 5
        apps.replace_namespaced_deployment_scale("d", "kube", scale)
        print(apps.read_namespaced_deployment("d", "kube").spec.replicas)
        changes = watch.Watch().stream(core.list_namespaced_config_map, "kube", timeout_seconds=1)
        print([(change["type"], change["object"].metadata.name) for change in changes])
        resources = dynamic.DynamicClient(client.ApiClient()).resources
        deployments = resources.get(api_version="apps/v1", kind="Deployment")
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "e"}, "spec": spec}
        print(deployments.server_side_apply(namespace="kube", field_manager="test", body=body).metadata.name)
        page = core.list_namespaced_config_map("kube", limit=1)
        print(len(page.items), page.metadata._continue)
        core.delete_namespaced_config_map("a", "kube")
        try:
            core.read_namespaced_config_map("a", "kube")
        except client.ApiException as error:
            print(error.status, error.reason)
        """,
    )
    assert lines == [
        "{'x': '1', 'y': '2'}",
        "{'y': '2'}",
        "{'y': '2', 'z': '3'}",
        "409 Conflict",
        "5",
        "[('ADDED', 'a')]",
        "e",
        "1 None",
        "404 Not Found",
    ]


def test_kr8s(server: Running) -> None:
    lines = script(
        server,
        """
        import kr8s
        from kr8s.objects import ConfigMap, Deployment, Namespace

        Namespace({"metadata": {"name": "kr8s"}}).create()
        one = ConfigMap({"metadata": {"name": "a", "namespace": "kr8s"}, "data": {"x": "1"}})
        one.create()
        one.patch({"data": {"y": "2"}})
        one.refresh()
        print(one.raw["data"])
        one.label({"colour": "red"})
        print([found.name for found in kr8s.get("configmaps", namespace="kr8s", label_selector="colour=red")])
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        web = Deployment({"metadata": {"name": "d", "namespace": "kr8s"}, "spec": spec})
        web.create()
        web.patch({"spec": {"replicas": 3}})
        print(Deployment.get("d", namespace="kr8s").replicas)
        print(sorted(found.name for found in kr8s.get("namespaces") if found.name.startswith("kube-")))
        one.delete()
        print(one.exists())
        print(kr8s.whoami())
        """,
    )
    assert lines == [
        "{'x': '1', 'y': '2'}",
        "['a']",
        "3",
        "['kube-node-lease', 'kube-public', 'kube-system']",
        "False",
        "kubernetes-admin",
    ]


def test_lightkube(server: Running) -> None:
    lines = script(
        server,
        """
        from lightkube import Client
        from lightkube.core.exceptions import ApiError
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap, Namespace
        from lightkube.types import PatchType

        client = Client(field_manager="lightkube", namespace="light")
        client.create(Namespace(metadata=ObjectMeta(name="light")))
        for name in "abc":
            client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="light"), data={"x": name}))
        print(client.patch(ConfigMap, "a", {"data": {"y": "2"}}, patch_type=PatchType.MERGE).data)
        print([found.metadata.name for found in client.list(ConfigMap, chunk_size=2)])
        applied = ConfigMap(metadata=ObjectMeta(name="a", namespace="light"), data={"z": "3"})
        print(client.apply(applied).data)
        for kind, found in client.watch(ConfigMap):
            print(kind, found.metadata.name)
            break
        client.delete(ConfigMap, "a")
        try:
            client.get(ConfigMap, "a")
        except ApiError as error:
            print(error.status.code, error.status.reason)
        """,
    )
    assert lines == [
        "{'x': 'a', 'y': '2'}",
        "['a', 'b', 'c']",
        "{'x': 'a', 'y': '2', 'z': '3'}",
        "ADDED a",
        "404 NotFound",
    ]


def test_kopf(tools: Path, server: Running) -> None:
    assert server.kubectl("apply", "-f", "-", input=CRD).returncode == 0
    env = {**server.environment(server.data.parent / "home"), "PYTHONUNBUFFERED": "1"}
    operator = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--quiet",
        "-n",
        "default",
        str(Path(__file__).parent / "operator.py"),
    ]
    with subprocess.Popen(operator, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as running:
        try:
            assert running.stdout is not None
            lines = iter(running.stdout)

            def until(wanted: str) -> None:
                """Reads on until a handler has spoken; pytest's own time limit ends a handler that never does."""
                for line in lines:
                    if line.strip() == wanted:
                        return
                pytest.fail(f"the operator ended before it said {wanted!r}")

            gauge = {"apiVersion": "dashpot.example/v1", "kind": "Gauge", "metadata": {"name": "g"}}
            created = server.kubectl("create", "-f", "-", input=f"{gauge | {'spec': {'limit': 1}}}".replace("'", '"'))
            assert created.returncode == 0, created.stderr
            until("created g")
            until("ticked g")
            server.kubectl("patch", "gauge", "g", "--type=merge", "-p", '{"spec":{"limit":2}}')
            until("updated:2 g")
            found = server.kubectl("get", "gauge", "g", "-o", "jsonpath={.status.created.limit} {.metadata.finalizers}")
            assert found.stdout == '1 ["kopf.zalando.org/KopfFinalizerMarker"]'
            assert server.kubectl("delete", "gauge", "g", "--timeout=20s").returncode == 0
            until("deleted g")
            assert "NotFound" in server.kubectl("get", "gauge", "g").stderr
        finally:
            running.terminate()
