"""The binding cycle (S23): volumes first, then the pod; and what is done where the answer is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from dashpot.model.objects.status import StatusError
from dashpot.model.placement.shape import NodeView
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.scheduler.volumes import BindingFailed, Plan, Volumes

Object = dict[str, Any]


@frozen
class Result:
    """How it ended: bound, the pod `gone`, or an `error`."""

    gone: bool = False
    error: str = ""


class Binder:
    """Binds pods. `bound` counts them."""

    def __init__(self, client: Client, volumes: Volumes, complain: Callable[[str], None]) -> None:
        self._client, self._volumes, self._complain = client, volumes, complain
        self.bound = 0

    async def bind(self, pod: Object, node: NodeView, plan: Plan) -> Result:
        """Binds a pod, and before it the claims that wait for their first consumer."""
        if plan.open:
            try:
                await self._volumes.bind(plan, node)
            except (BindingFailed, StatusError, TransportError) as error:
                return Result(error=f'running PreBind plugin "VolumeBinding": binding volumes: {error}')
        result = await self._bind(pod, node.name)
        self.bound += not (result.gone or result.error)
        return result

    async def _bind(self, pod: Object, node: str) -> Result:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create("pods", binding, meta["namespace"], subresource="binding", name=meta["name"])
        except StatusError as error:
            if error.reason == "NotFound":
                return Result(gone=True)
            if error.reason not in ("Conflict", "Timeout", "ServerTimeout", "InternalError"):
                return self._failed(pod, node, error)
            return await self._unsure(pod, node, error)
        except TransportError as error:
            return await self._unsure(pod, node, error)
        return Result()

    async def _unsure(self, pod: Object, node: str, error: Exception) -> Result:
        """The answer was lost, or says that somebody was first: the pod itself tells where it stands."""
        meta = pod["metadata"]
        try:
            now = await self._client.get("pods", meta["name"], meta["namespace"])
        except StatusError as problem:
            return Result(gone=True) if problem.reason == "NotFound" else self._failed(pod, node, error)
        except TransportError:
            return self._failed(pod, node, error)
        if now["metadata"]["uid"] != meta["uid"]:
            return Result(gone=True)
        if (now.get("spec") or {}).get("nodeName") == node:
            return Result()
        return self._failed(pod, node, error)

    def _failed(self, pod: Object, node: str, error: Exception) -> Result:
        meta = pod["metadata"]
        self._complain(f"binding {meta['namespace']}/{meta['name']} to {node}: {error}")
        return Result(error=f"binding rejected: {error}")
