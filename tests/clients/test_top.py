"""`kubectl top`, `autoscale` and `describe hpa` against a plane, with the newest kubectl and an old one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.rest import Client
from dashpot.runtime.plane.plane import Plane
from tests.clients.running import TOOLS
from tests.controller.running import until
from tests.library.autoscaler_kit import WORKLOADS, deployment
from tests.plane.kit import ACCOUNT, pod

Kubectl = Callable[..., Awaitable[str]]
ACTORS = [*WORKLOADS, "horizontal-pod-autoscaler-controller"]


def rows(text: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text.splitlines()]


def planned(folder: Path, version: str, test: Callable[[Client, Kubectl], Awaitable[None]]) -> None:
    """Runs a test against a plane that listens, with a kubectl of its own."""

    async def kubectl(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            str(TOOLS / f"kubectl-{version}"), *words, "--kubeconfig", str(folder / "config"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={"HOME": str(folder)},
        )  # fmt: skip
        out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return out.decode()

    async def main() -> None:
        server = await ApiServer.start(Settings(data=folder / "data", store="memory", port=0))
        server.write_kubeconfig(folder / "config")
        plane = Plane(server, nodes=1, controllers=ACTORS, constants={"PERIOD": 1000})
        try:
            client = plane.clients["kubelet"]
            await client.create("serviceaccounts", ACCOUNT, "default")
            await plane.start()
            await client.patch("nodes", "node-0", {"spec": {"taints": None}})
            await test(client, kubectl)
        finally:
            await plane.stop()
            await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("version", ["1.37", "1.32"])
def test_top(tools: Path, tmp_path: Path, version: str) -> None:
    async def test(client: Client, kubectl: Kubectl) -> None:
        await client.create("pods", pod("p0", {"cpu": "250m", "memory": "10Mi"}), "default")

        async def runs() -> bool:
            return bool((await client.get("pods", "p0", "default"))["status"].get("phase") == "Running")

        await until(runs, 30)
        head = ["NAME", "CPU(cores)", "MEMORY(bytes)"]
        assert rows(await kubectl("top", "pods")) == [head, ["p0", "250m", "10Mi"]]
        one = await kubectl("top", "pod", "p0", "--containers", "--no-headers")
        assert rows(one) == [["p0", "c", "250m", "10Mi"]]
        head = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"]
        assert rows(await kubectl("top", "nodes")) == [head, ["node-0", "270m", "3%", "138Mi", "0%"]]
        listed = rows(await kubectl("api-resources", "--no-headers"))
        groups = {row[0]: row[-3] for row in listed if "metrics.k8s.io" in row[-3]}
        assert groups == {"nodes": "metrics.k8s.io/v1beta1", "pods": "metrics.k8s.io/v1beta1"}

    planned(tmp_path, version, test)


def test_autoscale(tools: Path, tmp_path: Path) -> None:
    async def test(client: Client, kubectl: Kubectl) -> None:
        await client.create("deployments.apps", deployment(2, cpu="50m"), "default")

        async def ready() -> bool:
            found = await client.get("deployments.apps", "web", "default")
            return bool((found.get("status") or {}).get("readyReplicas") == 2)

        await until(ready, 30)
        await kubectl("autoscale", "deployment", "web", "--min=1", "--max=5", "--cpu-percent=50")

        async def measured() -> bool:
            found = await client.get("horizontalpodautoscalers.autoscaling", "web", "default")
            metrics = (found.get("status") or {}).get("currentMetrics") or [{}]
            return bool(metrics[0].get("type") == "Resource")  # the pods have been ready for a window of 10 s

        await until(measured, 40)
        (row,) = rows(await kubectl("get", "hpa", "--no-headers"))
        assert row[:7] == ["web", "Deployment/web", "cpu:", "50%/50%", "1", "5", "2"]
        told = await kubectl("describe", "hpa", "web")
        for text in ("AbleToScale", "ScalingActive", "ValidMetricFound", "DesiredWithinRange", "50% (50m) / 50%"):
            assert text in told

    planned(tmp_path, "1.37", test)
