"""The doctor beside `dashpot up` in a process of its own: workloads of every kind, a rollout, a run that is killed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from dashpot.runtime.client.http import HttpTransport
from dashpot.runtime.client.kubeconfig import load
from dashpot.runtime.client.rest import Client
from tests.clients.running import Running
from tests.controller.running import until

Object = dict[str, Any]
PLURALS = {
    "StorageClass": "storageclasses.storage.k8s.io",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers.autoscaling",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "Service": "services",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
WORKLOADS = yaml.safe_load_all((Path(__file__).parent / "workloads.yaml").read_text(encoding="utf-8"))
OPERATOR = """
resource ConfigMap "v1" { spec { n: Name? at "data.n" } }
controller Keeper for ConfigMap {
  reconcile c { if c.name == "kept" { update c.spec { n: "x" } if changed on Conflict { requeue } on NotFound { } } }
}
"""


async def doctor(at: Running, *words: str) -> tuple[int, Object]:
    """Its status and what it says."""
    command = [sys.executable, "-m", "dashpot", "doctor", "-o", "json", "--kubeconfig", str(at.kubeconfig), *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, json.loads(out)


async def well(at: Running) -> None:
    """It has nothing to say, and has seen everything."""
    status, said = await doctor(at, "--window", "2s")
    assert (status, said["first"], said["unseen"]) == (0, None, []), said


def beside(tmp_path: Path, test: Callable[[Running, Client], Awaitable[None]]) -> None:
    """Runs a test beside a plane of five nodes."""

    async def main(at: Running) -> None:
        transport = HttpTransport(load([at.kubeconfig]).access())
        try:
            await test(at, Client(transport, user_agent="tester"))
        finally:
            await transport.close()

    with Running(tmp_path / "data", "--nodes", "5", plane=True) as at:
        asyncio.run(main(at))


def test_a_plane_with_workloads_of_every_kind_is_well_at_every_time(tmp_path: Path) -> None:
    async def test(at: Running, client: Client) -> None:
        await well(at)
        for made in WORKLOADS:
            where = "" if made["kind"] == "StorageClass" else "default"
            await client.create(PLURALS[made["kind"]], made, where)
        await well(at)

        async def ready(plural: str, name: str, field: str, wanted: int) -> bool:
            found = (await client.get(plural, name, "default"))["status"]
            return bool(found.get(field, 0) >= wanted)

        async def all_ready() -> bool:
            return (
                await ready("deployments.apps", "web", "readyReplicas", 4)
                and await ready("statefulsets.apps", "db", "readyReplicas", 3)
                and await ready("daemonsets.apps", "agent", "numberReady", 5)
                and await ready("jobs.batch", "job", "succeeded", 2)
            )

        await until(all_ready)
        slow = {"spec": {"template": {"metadata": {"annotations": {"fake.dashpot.dev/ready-after": "5s"}}}}}
        for plural, name in (("deployments.apps", "web"), ("statefulsets.apps", "db"), ("daemonsets.apps", "agent")):
            await client.patch(plural, name, slow, "default")
        for _ in range(3):
            await well(at)

        async def rolled() -> bool:
            return (
                await ready("deployments.apps", "web", "updatedReplicas", 4)
                and await ready("statefulsets.apps", "db", "updatedReplicas", 3)
                and await ready("daemonsets.apps", "agent", "updatedNumberScheduled", 5)
                and await all_ready()
            )

        await until(rolled)
        await well(at)

    beside(tmp_path, test)


def test_a_run_that_is_killed_leaves_a_lease_that_nobody_renews(tmp_path: Path) -> None:
    async def test(at: Running, client: Client) -> None:
        (tmp_path / "keeper.loop").write_text(OPERATOR, encoding="utf-8")
        words = ["run", str(tmp_path / "keeper.loop"), "--kubeconfig", str(at.kubeconfig), "--leader-elect"]
        words += ["--metrics-port", "0"]
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "dashpot", *words, stderr=subprocess.PIPE)
        assert process.stderr is not None
        page = ""
        while not page:
            line = (await process.stderr.readline()).decode()
            assert line, "the run ended"
            page = line.rpartition("metrics at ")[2].strip() if "metrics at " in line else ""
        status, said = await doctor(at, "--window", "1s", "--metrics", page)
        assert (status, said["first"], said["unseen"]) == (0, None, [])
        process.kill()
        await process.wait()
        status, said = await doctor(at, "--window", "1s", "--metrics", page)
        assert said["unseen"] == [f"{page}: no page of metrics"] and status == 3

        async def told() -> bool:
            return bool((await doctor(at, "--window", "1s"))[1]["first"])

        await until(told)
        status, said = await doctor(at, "--window", "1s")
        assert status == 1 and said["first"].startswith("lease-paused: lease "), said

    beside(tmp_path, test)


def test_who_may_not_see_everything_is_told_what_is_not_seen(tmp_path: Path) -> None:
    async def test(at: Running, client: Client) -> None:
        await client.create("serviceaccounts", {"metadata": {"name": "viewer"}}, "default")
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}
        binding = {"metadata": {"name": "viewer"}, "roleRef": role, "subjects": [subject]}
        await client.create("clusterrolebindings.rbac.authorization.k8s.io", binding)
        made = await client.create("serviceaccounts", {"spec": {}}, "default", subresource="token", name="viewer")
        config = yaml.safe_load(at.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": made["status"]["token"]}
        other = tmp_path / "viewer"
        other.write_text(yaml.safe_dump(config), encoding="utf-8")
        os.chmod(other, 0o600)
        status, said = await doctor(at, "--window", "1s", "--kubeconfig", str(other))
        assert (status, said["first"], said["healthy"]) == (3, None, False)
        seen = "\n".join(said["unseen"])
        for part in ("nodes: ", "leases: ", "/metrics: refused", "admission webhooks: "):
            assert part in seen

    beside(tmp_path, test)
