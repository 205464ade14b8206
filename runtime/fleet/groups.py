"""A provider of simulated nodes: as many machines as the size of each NodeGroup says.

    groups = Groups(client, fleet); groups.start(); …; await groups.stop()

It is to `kubernetes.autoscaler` what a cloud is: it makes nodes of the group's template, and when there are too many it
takes those that are marked as going, else the youngest. What it took has no Node object any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dashpot.model.extern.autoscaler import DOOMED, GROUP, template
from dashpot.model.objects.quantity import parse
from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.informer import Handler, Informer
from dashpot.runtime.client.queue import WorkQueue, work
from dashpot.runtime.client.rest import Client
from dashpot.runtime.client.transport import TransportError
from dashpot.runtime.fleet.fleet import Fleet
from dashpot.runtime.fleet.nodes import Shape

Object = dict[str, Any]

RESOURCE = "nodegroups.autoscaling.dashpot.dev"
RETRY_S = 10.0
OWN = ("cpu", "memory", "pods")
"""Amounts that every shape has."""


def shape_of(group: Object) -> Shape:
    """What the nodes of a group have; ValueError."""
    made = template(group)
    amounts = {name: str(parse(str(amount))) for name, amount in made["status"]["capacity"].items()}
    return Shape(
        amounts["cpu"],
        amounts["memory"],
        parse(amounts["pods"]).value,
        {key: value for key, value in made["metadata"]["labels"].items() if key != "kubernetes.io/hostname"},
        tuple(made["spec"]["taints"]),
        {name: amount for name, amount in amounts.items() if name not in OWN},
    )


class Groups:
    """The provider of all groups. What it made before is found again by the label of its nodes."""

    def __init__(self, client: Client, fleet: Fleet, *, complain: Callable[[str], None] = lambda text: None) -> None:
        self._client = client
        self._fleet = fleet
        self._complain = complain
        self._groups = Informer(client, RESOURCE, complain=complain)
        self._groups.add_handler(Handler(added=self._seen, updated=lambda _, new: self._seen(new), deleted=self._seen))
        self._queue: WorkQueue[str] = WorkQueue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to make and to take nodes."""
        self._groups.start()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(work(self._queue, self._sync, workers=1), name="node groups")

    async def stop(self) -> None:
        """Ends; the machines stay. Idempotent."""
        self._queue.shut_down()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._groups.stop()

    def _seen(self, group: Any) -> None:
        last = getattr(group, "object", group)
        self._queue.add(last["metadata"]["name"])

    async def _sync(self, name: str) -> None:
        group = self._groups.lister.get(name)
        try:
            await self._settle(name, group)
        except (StatusError, TransportError, ValueError) as error:
            self._complain(f"node group {name}: {error}")
            self._queue.add_after(name, RETRY_S)

    async def _settle(self, name: str, group: Object | None) -> None:
        """Makes or takes nodes until there are as many as the size says; none of a group that is gone."""
        nodes = (await self._client.list("nodes", labels=f"{GROUP}={name}")).items
        there = {node["metadata"]["name"]: node for node in nodes}
        size = 0 if group is None else int((group.get("spec") or {}).get("size") or 0)
        if group is not None:
            shape = shape_of(group)
            for machine in there:
                await self._fleet.add(machine, shape)
            step = 0
            while len(there) < size:
                machine = f"{name}-{step}"
                if machine not in there and machine not in self._fleet.nodes:
                    await self._fleet.add(machine, shape)
                    there[machine] = {}
                step += 1
        for machine in _last_first(there)[: max(0, len(there) - size)]:
            await self._fleet.remove(machine)
            try:
                await self._client.delete("nodes", machine)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise


def _last_first(nodes: dict[str, Object]) -> list[str]:
    """Names in the order in which nodes go: those that are marked, then the youngest."""

    def order(name: str) -> tuple[bool, str, str]:
        node = nodes[name]
        doomed = any(t.get("key") == DOOMED for t in (node.get("spec") or {}).get("taints") or ())
        return doomed, str((node.get("metadata") or {}).get("creationTimestamp") or ""), name

    return sorted(nodes, key=order, reverse=True)
