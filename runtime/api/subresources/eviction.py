"""`pods/NAME/eviction`: a delete that a PodDisruptionBudget may refuse with 429.

The budget's `status.disruptionsAllowed` is taken down by compare-and-swap before the pod is deleted, so that two
evictions never share one disruption. Source: pkg/registry/core/pod/storage/eviction.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.model.objects import selector
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import body
from dashpot.runtime.api.admit.base import CREATE
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.verbs import deleting, options, writing
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]

_TRIES = 20
_DISRUPTED_LIMIT = 2000
"""Pods that one budget may hold as disrupted (upstream: MaxDisruptedPodSize)."""


async def evict(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """POST of an Eviction; 201 Success, or 429 TooManyRequests."""
    eviction = await body.read_aside(exchange, "policy", "v1", "Eviction")
    exchange.request_object = eviction
    name = exchange.info.name
    named = eviction["metadata"].get("name")
    if named and named != name:
        raise bad_request("name in URL does not match name in Eviction object")
    asked = options.read_delete_options(eviction.get("deleteOptions") or {}, options.dry_run(exchange.request))
    pod = (await endpoint.storage.get(exchange.info.namespace, name)).object
    write = writing.attributes(exchange, endpoint, CREATE, eviction, None, subresource="eviction", dry=asked.dry_run)
    await writing.admitted(site, exchange, endpoint, write)
    if not _free(pod):
        await _take(site, pod, asked.dry_run)
    await deleting.remove(site, exchange, endpoint, exchange.info.namespace, name, asked, admit=False)
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, msgspec.json.encode(answer))


def _free(pod: Object) -> bool:
    """Whether a pod may go without asking a budget: it has ended, never began, or is going already."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def covering(pod: Object, budgets: list[Object]) -> list[Object]:
    """The budgets whose selector chooses the pod. An empty selector chooses all, an absent one none."""
    labels = pod["metadata"].get("labels") or {}
    chosen = []
    for budget in budgets:
        wanted = (budget.get("spec") or {}).get("selector")
        if wanted is not None and selector.from_object(wanted).matches(labels):
            chosen.append(budget)
    return chosen


async def _take(site: Site, pod: Object, dry: bool) -> None:
    meta = pod["metadata"]
    await site.view.synced("policy", "poddisruptionbudgets")
    budgets = covering(pod, list(site.view.list("policy", "poddisruptionbudgets", meta["namespace"])))
    if len(budgets) > 1:
        raise StatusError(
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    if not budgets:
        return
    storage = site.storages("policy", "poddisruptionbudgets")
    await _reserve(site, storage, meta["namespace"], budgets[0]["metadata"]["name"], pod, dry)


async def _reserve(site: Site, storage: Storage, namespace: str, name: str, pod: Object, dry: bool) -> None:
    for attempt in range(_TRIES):
        current = await storage.get(namespace, name)
        budget = writing.private(current.raw)
        if not _ready(pod) and _unready_may_go(budget):
            return
        _charge(budget, pod["metadata"]["name"], rfc3339(site.clock.now()))
        if dry:
            return
        try:
            await storage.update(namespace, name, budget, expect=current.revision)
            return
        except StatusError as error:
            if attempt == _TRIES - 1 or not writing.is_conflict(error):
                raise


def _unready_may_go(budget: Object) -> bool:
    """KEP-3017: pods that are not ready go when the policy says so, or while the budget is healthy."""
    status = budget.get("status") or {}
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    return bool(desired > 0 and current >= desired)


def _charge(budget: Object, pod: str, now: str) -> None:
    """Takes one disruption from the budget, or refuses in the words that `kubectl drain` waits on."""
    meta = budget["metadata"]
    status = budget.setdefault("status", {})
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _too_many(
            meta["name"], f"The disruption budget {meta['name']} is still being processed by the server.", retry=10
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise StatusError("Forbidden", "pdb disruptions allowed is negative")
    disrupted = status.setdefault("disruptedPods", {})
    if len(disrupted) > _DISRUPTED_LIMIT:
        raise StatusError("Forbidden", "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _too_many(
            meta["name"],
            f"The disruption budget {meta['name']} needs {needs} healthy pods and has {has} currently",
        )
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod] = now


def _too_many(budget: str, why: str, retry: int = 0) -> StatusError:
    return StatusError(
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
        retry_after=retry,
    )
