"""`pods/NAME/binding`: puts a pod on a node, once, and says so in the condition PodScheduled.

Source: pkg/registry/core/pod/storage/storage.go (BindingREST), release 1.34.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dashpot.model.objects.status import bad_request, conflict, invalid, not_supported, required
from dashpot.runtime.api import body
from dashpot.runtime.api.admit.base import CREATE
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.api.verbs import options, updating, writing
from dashpot.runtime.clock import rfc3339

Object = dict[str, Any]


async def bind(site: Site, exchange: Exchange, endpoint: Endpoint) -> Response:
    """POST of a Binding; 201."""
    binding = await body.read_aside(exchange, "", "v1", "Binding")
    meta = binding["metadata"]
    name = exchange.info.name or meta.get("name", "")
    if meta.get("name", "") not in ("", name):
        raise bad_request("name in URL does not match name in Binding object")
    exchange.request_object = binding
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        raise invalid("", "Binding", name, [not_supported("target.kind", target["kind"], ["Node", "<empty>"])])
    node = target.get("name")
    if not isinstance(node, str) or not node:
        raise invalid("", "Binding", name, [required("target.name")])
    now = rfc3339(site.clock.now())

    def change(pod: Object, stored: Stored) -> Object:
        _may_bind(pod, meta, endpoint, name)
        pod["spec"]["nodeName"] = node
        for field in ("annotations", "labels"):
            if meta.get(field):
                pod["metadata"].setdefault(field, {}).update(meta[field])
        status = pod.setdefault("status", {})
        kept = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        status["conditions"] = [*kept, condition]
        pod["metadata"].pop("resourceVersion", None)
        if meta.get("resourceVersion"):
            pod["metadata"]["resourceVersion"] = meta["resourceVersion"]
        return pod

    dry = options.dry_run(exchange.request)
    write = writing.attributes(exchange, endpoint, CREATE, binding, None, subresource="binding", dry=dry)
    await writing.admitted(site, exchange, endpoint, write)
    manner = updating.Manner("binding", dry, options.manager(exchange.request), admit=False)
    await updating.modified(site, exchange, endpoint, change, manner)
    answer = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(201, msgspec.json.encode(answer))


def _may_bind(pod: Object, binding: Object, endpoint: Endpoint, name: str) -> None:
    subject = endpoint.resource.subject
    meta = pod["metadata"]
    uid = binding.get("uid")
    if uid and uid != meta["uid"]:
        raise conflict(
            subject, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
        )
    if "deletionTimestamp" in meta:
        raise conflict(subject, name, f"pod {name} is being deleted, cannot be assigned to a host")
    assigned = pod["spec"].get("nodeName")
    if assigned:
        raise conflict(subject, name, f'pod {name} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(subject, name, f"pod {name} has non-empty .spec.schedulingGates")
