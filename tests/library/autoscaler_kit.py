"""What the live tests of autoscalers share: a plane on virtual time, workloads that use what their pods say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from dashpot.runtime.client.rest import Client
from tests.controller.running import until
from tests.library.workload_kit import APP
from tests.plane.kit import World

Object = dict[str, Any]
HPAS = "horizontalpodautoscalers.autoscaling"
WORKLOADS = ["replicaset-controller", "deployment-controller"]
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def deployment(replicas: int, name: str = "web", request: str = "100m", **told: str) -> Object:
    """A Deployment whose pods ask for some processor; `told`: what they use, without the prefix of annotations."""
    resources = {"requests": {"cpu": request}} if request else {}
    annotations = {f"fake.dashpot.dev/{key}": value for key, value in told.items()}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": APP},
            "template": {
                "metadata": {"labels": APP, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "example.com/x:1", "resources": resources}]},
            },
        },
    }


def autoscaler(least: int, most: int, *metrics: Object, name: str = "web", **spec: Any) -> Object:
    """A HorizontalPodAutoscaler of the Deployment `web`."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": list(metrics), **spec}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": made}


async def within(test: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Waits until something is so; looks each second."""
    async with asyncio.timeout(seconds):
        while not await test():
            await asyncio.sleep(1)


@frozen
class Scaled:
    """A Deployment `web` and its autoscaler, in the namespace `default` of a plane."""

    world: World

    @property
    def client(self) -> Client:
        """A client of its API."""
        return self.world.client

    async def make(self, workload: Object, hpa: Object | None = None) -> None:
        """Creates them; the autoscaler once the pods are ready."""
        await self.client.create("deployments.apps", workload, "default")
        wanted = workload["spec"]["replicas"]
        await until(lambda: self.ready(wanted))
        if hpa is not None:
            await self.client.create(HPAS, hpa, "default")

    async def replicas(self) -> int:
        """What the Deployment is to have."""
        found = await self.client.get("deployments.apps", "web", "default")
        return int(found["spec"]["replicas"])

    async def ready(self, count: int) -> bool:
        """Whether so many pods are ready, and no more are wanted."""
        found = await self.client.get("deployments.apps", "web", "default")
        status = found.get("status") or {}
        return bool(status.get("readyReplicas", 0) == count == found["spec"]["replicas"])

    async def use(self, **told: str) -> None:
        """Has every pod use so much from now on."""
        told = {f"fake.dashpot.dev/{key}": value for key, value in told.items()}
        for pod in (await self.client.list("pods", "default")).items:
            change = {"metadata": {"annotations": told}}
            await self.client.patch("pods", pod["metadata"]["name"], change, "default")

    async def hpa(self, name: str = "web") -> Object:
        """The autoscaler."""
        return await self.client.get(HPAS, name, "default")

    async def condition(self, type_: str) -> Object:
        """One of its conditions; empty where there is none."""
        rows = ((await self.hpa()).get("status") or {}).get("conditions") or ()
        return next((c for c in rows if c["type"] == type_), {})

    async def becomes(self, count: int, seconds: float = 60.0) -> None:
        """Waits until the Deployment is to have so many replicas."""

        async def there() -> bool:
            return await self.replicas() == count

        await within(there, seconds)

    async def stays(self, count: int, seconds: float) -> None:
        """Looks each second whether it keeps that size."""
        for _ in range(int(seconds)):
            assert await self.replicas() == count
            await asyncio.sleep(1)
