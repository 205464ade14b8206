"""What an examination has to know of a cluster before it starts: webhooks, kinds, namespaces, services."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve, frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.hooks import compile_hook
from dashpot.runtime.doctor.cluster import Cluster, Reply, Unreachable
from dashpot.runtime.doctor.dangers import Setting
from dashpot.runtime.doctor.samples import Surroundings

Object = dict[str, Any]
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
KINDS = (("Mutating", "mutatingwebhookconfigurations"), ("Validating", "validatingwebhookconfigurations"))
EXISTING_KINDS_MAX = 20
"""Kinds of which objects are looked up for a webhook that new objects do not reach."""


class Refused(Exception):
    """The cluster does not let this user see what has to be seen; the text is the server's."""


@frozen
class Survey:
    """The webhooks of a cluster and what is around them."""

    settings: Sequence[Setting]
    around: Surroundings
    services: Mapping[str, bool]


async def survey(cluster: Cluster) -> Survey:
    """Asks for everything; Refused or Unreachable."""
    settings: list[Setting] = []
    for kind, plural in KINDS:
        listed = sorted(await items(cluster, f"{REGISTRATION}/{plural}"), key=lambda one: str(one["metadata"]["name"]))
        for one in listed:
            for index, source in enumerate(one.get("webhooks") or ()):
                settings.append(Setting(kind, compile_hook(one["metadata"]["name"], index, source), source))
    namespaces = {
        one["metadata"]["name"]: one["metadata"].get("labels") or {}
        for one in await items(cluster, "/api/v1/namespaces")
        if (one.get("status") or {}).get("phase") != "Terminating"
    }
    around = Surroundings(await _resources(cluster), namespaces, {})
    return Survey(settings, around, await _services(cluster, settings))


async def items(cluster: Cluster, path: str, limit: int = 0) -> list[Object]:
    """The objects of a list."""
    reply = await cluster.call("GET", path, query={"limit": str(limit)} if limit else None)
    _check(reply)
    return [one for one in reply.body.get("items") or () if isinstance(one, dict)]


def _check(reply: Reply) -> None:
    if reply.code >= 400:
        raise Refused(reply.message or f"HTTP {reply.code}")


async def _resources(cluster: Cluster) -> list[Resource]:
    """Everything served, in the preferred version of its group."""
    reply = await cluster.call("GET", "/apis")
    _check(reply)
    versions = [("", "v1")]
    for group in reply.body.get("groups") or ():
        versions.append((group["name"], (group.get("preferredVersion") or group["versions"][0])["version"]))
    found = await asyncio.gather(*(_of_version(cluster, group, version) for group, version in versions))
    return [resource for resources in found for resource in resources]


async def listed(cluster: Cluster, plural: str) -> list[Object]:
    """The objects of every served resource of that name; those that may not be listed are left out. Unreachable."""
    try:
        resources = [one for one in await _resources(cluster) if one.plural == plural and "list" in one.verbs]
    except Refused:
        return []
    found: list[Object] = []
    for one in resources:
        where = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
        with suppress(Refused):
            found += await items(cluster, f"{where}/{plural}")
    return found


async def _of_version(cluster: Cluster, group: str, version: str) -> list[Resource]:
    reply = await cluster.call("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    if reply.code >= 400:
        # An aggregated API whose server is down: what it serves cannot be written anyway.
        return []
    return [
        Resource(
            group,
            version,
            row["kind"],
            row["name"],
            row.get("singularName") or "",
            bool(row.get("namespaced")),
            tuple(row.get("verbs") or ()),
            storage_group=group,
            storage_version=version,
        )
        for row in reply.body.get("resources") or ()
        if "/" not in row["name"]
    ]


async def _services(cluster: Cluster, settings: Iterable[Setting]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for setting in settings:
        service = (setting.source.get("clientConfig") or {}).get("service")
        if not service:
            continue
        namespace, name = service.get("namespace"), service.get("name")
        key = f"{namespace}/{name}"
        if key in found:
            continue
        reply = await cluster.call("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
        if reply.code < 400:
            found[key] = (reply.body.get("spec") or {}).get("type") == "ExternalName" or await _answers(
                cluster, str(namespace), str(name)
            )
    return found


async def _answers(cluster: Cluster, namespace: str, name: str) -> bool:
    reply = await cluster.call(
        "GET",
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        query={"labelSelector": f"kubernetes.io/service-name={name}"},
    )
    for one in reply.body.get("items") or ():
        for endpoint in one.get("endpoints") or ():
            if endpoint.get("addresses") and (endpoint.get("conditions") or {}).get("ready") is not False:
                return True
    return False


async def with_existing(cluster: Cluster, setting: Setting, around: Surroundings) -> Surroundings:
    """The surroundings with some objects of the kinds that a webhook is about."""
    found = dict(around.existing)
    asked = 0
    for resource in around.resources:
        key = (resource.group, resource.plural)
        meant = any(
            rule.matches(operation, resource, "") for rule in setting.hook.rules for operation in ("UPDATE", "DELETE")
        ) or any(rule.matches("CREATE", resource, "") for rule in setting.hook.rules)
        if not meant or key in found or "list" not in resource.verbs or asked >= EXISTING_KINDS_MAX:
            continue
        asked += 1
        root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        try:
            found[key] = await items(cluster, f"{root}/{resource.plural}", limit=5)
        except (Refused, Unreachable):
            found[key] = []
    return evolve(around, existing=found)
