"""What exists in every cluster: system namespaces, roles and bindings, priority classes, the API's own service."""

from __future__ import annotations

import asyncio
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import flow_bootstrap
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.internal import Internal

Object = dict[str, Any]

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_CLASSES = (("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000))


MAKING_S = 130.0
"""How long another server may take to make the Service: a little longer than its address is kept for it."""
AGAIN_S = 0.2


async def ensure(internal: Internal, catalog: Catalog, *, address: str) -> None:
    """Makes what is missing; what is there stays as its owner left it. `address` is the API's own in the services."""
    await asyncio.gather(*(_ensure(internal, catalog, _namespace(name)) for name in NAMESPACES))
    objects = [*bootstrap_objects(), *flow_bootstrap.objects(), *(_class(name, value) for name, value in _CLASSES)]
    await asyncio.gather(*(_ensure(internal, catalog, obj) for obj in objects))
    await ensure_service(internal, catalog, address)


async def ensure_service(internal: Internal, catalog: Catalog, address: str) -> None:
    """The Service `kubernetes`, if it is missing.

    Of several servers that start at once on one store, one makes it; the address is taken before the Service can be
    seen, so that the others wait for it. Should that one die in between, the address is free after two minutes.
    """
    ends = asyncio.get_running_loop().time() + MAKING_S
    while True:
        try:
            await _ensure(internal, catalog, _service(address))
            return
        except StatusError as error:
            if "already allocated" not in error.message or asyncio.get_running_loop().time() >= ends:
                raise
        await asyncio.sleep(AGAIN_S)


async def renumber_service(internal: Internal, catalog: Catalog, address: str) -> str:
    """Makes the Service `kubernetes` anew where it has another address than `address`: the network was changed, and a
    ClusterIP cannot be. The address that it had, or ""."""
    place = "/api/v1/namespaces/default/services/kubernetes"
    try:
        found = await internal.call("GET", place)
    except StatusError as error:
        if error.reason != "NotFound":
            raise
        return ""
    had = str(found["spec"].get("clusterIP", ""))
    if had == address:
        return ""
    await internal.call("DELETE", place)
    await ensure_service(internal, catalog, address)
    return had


async def _ensure(internal: Internal, catalog: Catalog, obj: Object) -> None:
    group, _, version = obj["apiVersion"].rpartition("/")
    resource = catalog.by_kind(group, version, obj["kind"])
    assert resource is not None, obj["kind"]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    namespace = obj["metadata"].get("namespace")
    place = f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
    try:
        await internal.call("GET", f"{place}/{obj['metadata']['name']}", query={"resourceVersion": "0"})
        return
    except StatusError as error:
        if error.reason != "NotFound":
            raise
    try:
        await internal.call("POST", place, obj)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": "Used for system critical pods.",
    }


def _service(address: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": address,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
