"""One look at a cluster: its objects, its /metrics, its checks, and what could not be seen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen

from dashpot.runtime.doctor.cluster import Cluster, page_at

Object = dict[str, Any]

KINDS: dict[str, str] = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "Service": "/api/v1/services",
    "ResourceQuota": "/api/v1/resourcequotas",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "Event": "/api/v1/events",
    "Deployment": "/apis/apps/v1/deployments",
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/endpointslices",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Lease": "/apis/coordination.k8s.io/v1/leases",
}
"""What is looked at, and where its list is."""
WAIT_S = 30.0
"""How long whoever has to act may take before what should have been done counts as undone."""
FROM = "from_page"
"""Label of samples that are not the API server's: the address of their page."""
PAGE = 500
PAGES_MAX = 200
"""Pages of a list that are read: 100 000 objects."""
_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Labels = tuple[tuple[str, str], ...]
Figures = Mapping[str, Mapping[Labels, float]]


@frozen
class Reading:
    """What was seen. `unseen` says of each thing that was refused, why."""

    at: float
    """Seconds since 1970."""
    objects: Mapping[str, Sequence[Object]]
    figures: Figures | None = None
    """The samples of /metrics by name and labels; None where it is refused."""
    failed: tuple[str, ...] = ()
    """Checks of /readyz that fail."""
    unseen: tuple[str, ...] = field(default=())
    written: Mapping[str, Sequence[Object]] = field(factory=dict)
    """Objects of resources that are not among KINDS, looked up since somebody writes them often: those written between
    the looks."""

    def of(self, kind: str) -> Sequence[Object]:
        """The objects of a kind; none where they could not be seen."""
        return self.objects.get(kind, ())

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """A metric's samples."""
        return [(dict(labels), value) for labels, value in ((self.figures or {}).get(name) or {}).items()]


async def look(cluster: Cluster, at: float, pages: Sequence[str] = ()) -> Reading:
    """Asks for everything; Unreachable if nobody answers. `pages`: addresses of controllers' own /metrics."""
    listed = await asyncio.gather(*(_list(cluster, kind, path) for kind, path in KINDS.items()))
    unseen = [why for _, _, why in listed if why]
    page = await cluster.text("/metrics")
    if page is None:
        unseen.append(
            "/metrics: refused: nothing can be said of the store, of webhooks under load, of clients, of controllers"
        )
    figures, silent = await _more(parse(page) if page is not None else None, pages)
    unseen += silent
    ready = await cluster.call("GET", "/readyz", query={"verbose": ""})
    text = str(ready.body.get("message") or "")
    failed = tuple(re.findall(r"^\[-\](\S+)", text, re.MULTILINE))
    if ready.code in (401, 403):
        unseen.append("/readyz: refused")
    elif ready.code >= 400 and not failed:
        failed = ("readyz",)
    return Reading(
        at,
        {kind: found for kind, found, why in listed if not why},
        figures,
        failed,
        tuple(unseen),
    )


async def _more(
    own: dict[str, dict[Labels, float]] | None, pages: Sequence[str]
) -> tuple[dict[str, dict[Labels, float]] | None, list[str]]:
    """The figures with those of other pages, whose samples carry a label that says where they are from."""
    silent = []
    found = own
    for address, text in zip(pages, await asyncio.gather(*map(page_at, pages)), strict=True):
        if text is None:
            silent.append(f"{address}: no page of metrics")
            continue
        found = {} if found is None else found
        for name, samples in parse(text).items():
            found.setdefault(name, {}).update(
                {tuple(sorted((*labels, (FROM, address)))): value for labels, value in samples.items()}
            )
    return found, silent


async def _list(cluster: Cluster, kind: str, path: str) -> tuple[str, list[Object], str]:
    found: list[Object] = []
    token = ""
    for _ in range(PAGES_MAX):
        reply = await cluster.call("GET", path, query={"limit": str(PAGE), **({"continue": token} if token else {})})
        if reply.code >= 400:
            return kind, [], f"{path.rpartition('/')[2]}: {reply.message or f'HTTP {reply.code}'}"
        found += [one for one in reply.body.get("items") or () if isinstance(one, dict)]
        token = str((reply.body.get("metadata") or {}).get("continue") or "")
        if not token:
            return kind, found, ""
    return kind, found, f"{path.rpartition('/')[2]}: more than {PAGE * PAGES_MAX}"


def parse(page: str) -> dict[str, dict[Labels, float]]:
    """The samples of a page in Prometheus' text; lines that are none are left out."""
    found: dict[str, dict[Labels, float]] = {}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        found.setdefault(match[1], {})[tuple(sorted(_LABEL.findall(match[2] or "")))] = value
    return found


def rates(before: Reading, after: Reading, name: str) -> list[tuple[dict[str, str], float]]:
    """By how much a counter grows in a second, of each series that does. A server that began anew counts from 0."""
    took = max(after.at - before.at, 1e-9)
    old = (before.figures or {}).get(name) or {}
    rows = []
    for labels, value in ((after.figures or {}).get(name) or {}).items():
        grown = value - old.get(labels, 0.0)
        if grown > 0:
            rows.append((dict(labels), grown / took))
    return rows


def changed(before: Reading, after: Reading, kinds: Iterable[str]) -> set[str]:
    """The uids of objects of these kinds that came, went or changed between two looks."""
    kinds = tuple(kinds)
    versions: list[dict[str, str]] = [
        {
            str(one["metadata"].get("uid")): str(one["metadata"].get("resourceVersion"))
            for kind in kinds
            for one in seen.of(kind)
        }
        for seen in (before, after)
    ]
    old, new = versions
    return {uid for uid in {*old, *new} if old.get(uid) != new.get(uid)}


def moment(text: Any) -> float | None:
    """Seconds since 1970 of a Time or MicroTime; None of what is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def named(obj: Object) -> str:
    """`NAMESPACE/NAME`, or `NAME`."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def condition(obj: Object, kind: str) -> Object:
    """A condition; empty if there is none of this type."""
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") == kind:
            found: Object = one
            return found
    return {}
