"""What the scheduler does about the claims of a pod: it refuses, narrows the nodes down, and chooses for claims that
wait for their first consumer.

Sources: kube-scheduler's VolumeBinding plugin and pkg/scheduler/framework/plugins/volumebinding/binder.go, v1.34. The
volumes of a node are not counted, and nothing is reserved between two pods of one cycle but by the API's own versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import field, frozen

from dashpot.model.extern import volumes as rules
from dashpot.model.placement.match import node_selector
from dashpot.model.placement.plugin import SKIP, Plain
from dashpot.model.placement.shape import OK, Code, NodeView, Pod, Status
from dashpot.model.placement.snapshot import Snapshot
from dashpot.runtime.client.informer import Handler, Informer, Tombstone
from dashpot.runtime.client.rest import Client

Object = dict[str, Any]

SELECTED = "volume.kubernetes.io/selected-node"
COMPLETE = "pv.kubernetes.io/bind-completed"
CHOSEN = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PATIENCE_S = 600.0
"""How long a binding may take (VolumeBindingArgs.bindTimeoutSeconds)."""

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
MISSING_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


Told = Callable[[str, Object | None, Object | None], None]
KINDS = {
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses.storage.k8s.io",
}


class BindingFailed(Exception):
    """The claims of a pod could not be bound for the node that was chosen; the text says why."""


@frozen(eq=False)
class Kept:
    """An object as the rules of volumes take it."""

    json: Object


@frozen(eq=False)
class Plan:
    """What the claims of a pod ask of the choice of a node.

    refusal  why no node will do, or ""
    bound    volumes that the pod's claims have; None for one that is not there
    open     claims that wait for the choice
    """

    refusal: str = ""
    bound: tuple[Object | None, ...] = ()
    open: tuple[Object, ...] = ()
    matches: Callable[[Object, Object, set[str]], Object | None] = field(default=lambda claim, node, taken: None)
    """The static volume that a claim may take on a node; none of those whose names are taken."""
    provisions: Callable[[Object], bool] = field(default=lambda claim: False)
    """Whether a volume can be made for a claim."""

    def admits(self, node: NodeView) -> Status:
        """Whether the pod's volumes can be had on a node."""
        for volume in self.bound:
            if volume is None:
                return Status(Code.UNRESOLVABLE, (MISSING_VOLUME,), "VolumeBinding")
            if not reaches(volume, node.object):
                return Status(Code.UNRESOLVABLE, (ELSEWHERE,), "VolumeBinding")
        if any(volume is None and not self.provisions(claim) for claim, volume in self.choice(node)):
            return Status(Code.UNRESOLVABLE, (NO_VOLUME,), "VolumeBinding")
        return OK

    def choice(self, node: NodeView) -> list[tuple[Object, Object | None]]:
        """For each open claim the static volume that it takes on a node; None: one has to be made."""
        taken: set[str] = set()
        found: list[tuple[Object, Object | None]] = []
        for claim in self.open:
            volume = self.matches(claim, node.object, taken)
            if volume is not None:
                taken.add(volume["metadata"]["name"])
            found.append((claim, volume))
        return found


NOTHING = Plan()


def reaches(volume: Object, node: Object) -> bool:
    """Whether a volume can be had on a node."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    return required is None or node_selector(required, node)


class VolumeBinding(Plain):
    """The filter of that name (S32, S33) over the claims that the scheduler sees."""

    name = "VolumeBinding"

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    def prepare(self, pod: Pod, cluster: Snapshot) -> Any:
        """The plan of the pod's claims; a refusal where no node will do."""
        plan = self._volumes.plan(pod.object)
        if plan is NOTHING:
            return SKIP
        return Status(Code.UNRESOLVABLE, (plan.refusal,), self.name) if plan.refusal else plan

    def admits(self, pod: Pod, node: NodeView, state: Plan) -> Status:
        """Whether the pod's volumes can be had on a node."""
        return state.admits(node)


class Volumes:
    """Claims, volumes and classes as the scheduler sees them. `told` hears of each change: kind, before, after."""

    def __init__(self, client: Client, told: Told, *, complain: Callable[[str], None]) -> None:
        self._client = client
        self._heard = told
        self._changed = asyncio.Event()
        self._closed = False
        self._claims, self._volumes, self._classes = (
            Informer(client, one, complain=complain) for one in KINDS.values()
        )
        for kind, informer in zip(KINDS, self._informers, strict=True):
            informer.add_handler(self._handler(kind))

    @property
    def _informers(self) -> tuple[Informer, ...]:
        return self._claims, self._volumes, self._classes

    async def start(self) -> None:
        """Follows the cluster; ready when all is known."""
        for informer in self._informers:
            informer.start()
        for informer in self._informers:
            await informer.synced()

    async def stop(self) -> None:
        """Ends, and with it every wait for a binding; idempotent."""
        self._closed = True
        self._changed.set()
        await asyncio.gather(*(informer.stop() for informer in self._informers))

    def _handler(self, kind: str) -> Handler:
        return Handler(
            added=lambda new: self._told(kind, None, new),
            updated=lambda old, new: self._told(kind, old, new),
            deleted=lambda old: self._told(kind, old.object if isinstance(old, Tombstone) else old, None),
        )

    def _told(self, kind: str, old: Object | None, new: Object | None) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._heard(kind, old, new)

    # -- choosing -----------------------------------------------------------------------------------------------

    def plan(self, pod: Object) -> Plan:
        """What the claims of a pod ask for."""
        names = rules.claims_of(Kept(pod))
        if not names:
            return NOTHING
        bound: list[Object | None] = []
        waiting: list[Object] = []
        space = pod["metadata"]["namespace"]
        for name in names:
            claim = self._claim(space, name)
            if claim is None:
                return Plan(f'persistentvolumeclaim "{name}" not found')
            if (claim.get("status") or {}).get("phase") == "Lost":
                volume = claim["spec"].get("volumeName", "")
                return Plan(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
            if claim["metadata"].get("deletionTimestamp"):
                return Plan(f'persistentvolumeclaim "{name}" is being deleted')
            if _complete(claim):
                bound.append(self._volumes.indexer.get(claim["spec"]["volumeName"]))
            elif self._delayed(claim) and not claim["spec"].get("volumeName"):
                waiting.append(claim)
            else:
                return Plan(UNBOUND)
        return Plan("", tuple(bound), tuple(waiting), self._match, self._provisions)

    def _claim(self, namespace: str, name: str) -> Object | None:
        return self._claims.indexer.get(f"{namespace}/{name}")

    def _class(self, claim: Object) -> Object:
        name = claim["spec"].get("storageClassName")
        return (self._classes.indexer.get(name) if name else None) or {}

    def _delayed(self, claim: Object) -> bool:
        return bool(self._class(claim).get("volumeBindingMode") == "WaitForFirstConsumer")

    def _provisions(self, claim: Object) -> bool:
        return str(self._class(claim).get("provisioner") or NO_PROVISIONER) != NO_PROVISIONER

    def _match(self, claim: Object, node: Object, taken: set[str]) -> Object | None:
        """The smallest of the free volumes that a claim may take on a node; one that is meant for it goes first."""
        free = [v for v in self._free(claim) if v["metadata"]["name"] not in taken]
        meant = [v for v in free if v["spec"].get("claimRef")]
        rows = [v for v in meant or free if reaches(v, node)]
        return min(rows, key=lambda v: (rules.size_of(Kept(v)), v["metadata"]["name"]), default=None)

    def _free(self, claim: Object) -> Iterator[Object]:
        kept, meta = Kept(claim), claim["metadata"]
        for volume in self._volumes.indexer:
            ref = volume["spec"].get("claimRef") or {}
            mine = (ref.get("namespace"), ref.get("name")) == (meta["namespace"], meta["name"])
            mine = mine and ref.get("uid") in (None, "", meta["uid"])
            available = (volume.get("status") or {}).get("phase") == "Available"
            one = Kept(volume)
            if (mine if ref else available) and not rules.mismatch(one, kept) and rules.fits(one, kept):
                yield volume

    # -- binding ------------------------------------------------------------------------------------------------

    async def bind(self, plan: Plan, node: NodeView) -> None:
        """Gives each open claim a volume of the node, or has one made there, and waits until all are bound.

        BindingFailed, StatusError, TransportError. A volume that somebody else took meanwhile is a Conflict.
        """
        for claim, volume in plan.choice(node):
            if volume is not None:
                await self._give(volume, claim)
            else:
                await self._select(claim, node.name)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._settled(plan.open, node)
        except TimeoutError:
            raise BindingFailed("context deadline exceeded") from None

    async def _give(self, volume: Object, claim: Object) -> None:
        meta = claim["metadata"]
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        }
        if (volume["spec"].get("claimRef") or {}).get("uid") == meta["uid"]:
            return
        marked = {} if volume["spec"].get("claimRef") else {"annotations": {CHOSEN: "yes"}}
        change = {
            "metadata": {"resourceVersion": volume["metadata"]["resourceVersion"], **marked},
            "spec": {"claimRef": ref},
        }
        await self._client.patch("persistentvolumes", volume["metadata"]["name"], change)

    async def _select(self, claim: Object, node: str) -> None:
        meta = claim["metadata"]
        if (meta.get("annotations") or {}).get(SELECTED) == node:
            return
        change = {"metadata": {"resourceVersion": meta["resourceVersion"], "annotations": {SELECTED: node}}}
        await self._client.patch("persistentvolumeclaims", meta["name"], change, meta["namespace"])

    async def _settled(self, claims: Iterable[Object], node: NodeView) -> None:
        for claim in claims:
            while True:
                if self._closed:
                    raise BindingFailed("the scheduler stops")
                changed = self._changed
                now = self._claim(claim["metadata"]["namespace"], claim["metadata"]["name"])
                if now is None or now["metadata"]["uid"] != claim["metadata"]["uid"]:
                    raise BindingFailed(f'persistentvolumeclaim "{claim["metadata"]["name"]}" not found')
                volume = self._volumes.indexer.get(now["spec"].get("volumeName") or "")
                if _complete(now) and volume is not None:
                    if not reaches(volume, node.object):
                        raise BindingFailed(f"{ELSEWHERE}: {volume['metadata']['name']}")
                    break
                await changed.wait()


def _complete(claim: Object) -> bool:
    return bool(claim["spec"].get("volumeName")) and COMPLETE in (claim["metadata"].get("annotations") or {})
