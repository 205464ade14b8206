"""APIServices of the group versions that this server answers itself, as upstream's aggregator registers them.

Source: k8s.io/kube-aggregator pkg/controllers/autoregister and cmd/kube-apiserver (apiVersionPriorities), release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.internal import Internal

Object = dict[str, Any]

ROOT = "/apis/apiregistration.k8s.io/v1/apiservices"
_PRIORITIES: dict[tuple[str, str], tuple[int, int]] = {
    ("", "v1"): (18000, 1),
    ("apps", "v1"): (17800, 15),
    ("events.k8s.io", "v1"): (17750, 15),
    ("authentication.k8s.io", "v1"): (17700, 15),
    ("authorization.k8s.io", "v1"): (17600, 15),
    ("autoscaling", "v1"): (17500, 15),
    ("autoscaling", "v2"): (17500, 30),
    ("batch", "v1"): (17400, 15),
    ("certificates.k8s.io", "v1"): (17300, 15),
    ("networking.k8s.io", "v1"): (17200, 15),
    ("policy", "v1"): (17100, 15),
    ("rbac.authorization.k8s.io", "v1"): (17000, 15),
    ("storage.k8s.io", "v1"): (16800, 15),
    ("apiextensions.k8s.io", "v1"): (16700, 15),
    ("admissionregistration.k8s.io", "v1"): (16700, 15),
    ("scheduling.k8s.io", "v1"): (16600, 15),
    ("coordination.k8s.io", "v1"): (16500, 15),
    ("node.k8s.io", "v1"): (16300, 15),
    ("discovery.k8s.io", "v1"): (16200, 15),
    ("flowcontrol.apiserver.k8s.io", "v1"): (16100, 21),
    ("resource.k8s.io", "v1"): (15900, 20),
}
"""Group and version to groupPriorityMinimum and versionPriority."""


async def register(internal: Internal, catalog: Catalog, now: str) -> None:
    """Makes those that are missing, and says that they are available."""
    try:
        known = {item["metadata"]["name"] for item in (await internal.call("GET", ROOT)).get("items") or ()}
    except StatusError as error:
        if error.reason != "NotFound":
            raise
        return
    for (group, version), priorities in _PRIORITIES.items():
        if f"{version}.{group}" not in known and any(True for _ in catalog.of(group, version)):
            await _make(internal, group, version, priorities, now)


async def announce(internal: Internal, group: str, version: str, now: str) -> None:
    """The same for a group that a part beside the server answers (metrics); one that is there stays as it is."""
    try:
        await internal.call("GET", f"{ROOT}/{version}.{group}")
    except StatusError as error:
        if error.reason != "NotFound":
            raise
        await _make(internal, group, version, (100, 100), now)


async def _make(internal: Internal, group: str, version: str, priorities: tuple[int, int], now: str) -> None:
    name = f"{version}.{group}"
    spec: Object = {"version": version, "groupPriorityMinimum": priorities[0], "versionPriority": priorities[1]}
    if group:
        spec["group"] = group
    labels = {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    obj: Object = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    told = {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
        "lastTransitionTime": now,
    }
    try:
        made = await internal.call("POST", ROOT, obj)
        await internal.call("PUT", f"{ROOT}/{name}/status", {**made, "status": {"conditions": [told]}})
    except StatusError as error:
        if error.reason not in ("AlreadyExists", "Conflict", "NotFound"):
            raise
