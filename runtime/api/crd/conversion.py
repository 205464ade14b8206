"""From one version of a custom resource to another: by a new apiVersion alone, or by the definition's webhook.

Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{nop,webhook}_converter.go, release 1.34.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Protocol

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.tally import tally

Object = dict[str, Any]

_REQUESTS = tally("apiserver_conversion_webhook_request_total")
_TIMES = tally("apiserver_conversion_webhook_duration_seconds")
_CRD_TIMES = tally("apiserver_crd_conversion_webhook_duration_seconds")
_OLD_TIMES = tally("apiserver_crd_webhook_conversion_duration_seconds")
"""The same under the name that it had until 1.27."""


class Caller(Protocol):
    """Calls a webhook."""

    async def call(self, client_config: Object, review: Object) -> Object:
        """Sends a review, answers the one that came back; raises StatusError where there is none."""
        ...


async def convert(definition: Object, objects: Sequence[Object], version: str, caller: Caller | None) -> list[Object]:
    """The objects in another version, in order; those that already are in it are the same objects.

    `version` is the name alone (`v1`); `caller` may be None for a definition without a webhook. StatusError 500, in
    upstream's words, where the webhook fails or answers something else.
    """
    wanted = f"{definition['spec']['group']}/{version}"
    foreign = [obj for obj in objects if obj.get("apiVersion") != wanted]
    if not foreign:
        return list(objects)
    conversion: Object = definition["spec"].get("conversion") or {}
    if conversion.get("strategy", "None") != "Webhook":
        return [obj if obj.get("apiVersion") == wanted else {**obj, "apiVersion": wanted} for obj in objects]
    if caller is None:
        raise _failure(definition, "no webhook can be called")
    converted = iter(await _timed(definition, foreign, wanted, caller))
    return [obj if obj.get("apiVersion") == wanted else next(converted) for obj in objects]


async def _timed(definition: Object, objects: list[Object], wanted: str, caller: Caller) -> list[Object]:
    """Asks and counts; of a failure, how far it came."""
    began, reached, told = perf_counter(), ["call_failure"], "failure"
    try:
        found = await _asked(definition, objects, wanted, caller, reached)
        told = "success"
        return found
    finally:
        took = perf_counter() - began
        about = (told, "" if told == "success" else f"conversion_webhook_{reached[0]}")
        _REQUESTS.cell(*about).value += 1
        _TIMES.hist(*about).observe(took)
        name = f"{definition['spec']['names']['plural']}.{definition['spec']['group']}"
        versions = (str(objects[0].get("apiVersion", "")).rpartition("/")[2], wanted.rpartition("/")[2])
        for family in (_CRD_TIMES, _OLD_TIMES):
            family.hist(name, *versions, "true" if told == "success" else "false").observe(took)


async def _asked(
    definition: Object, objects: list[Object], wanted: str, caller: Caller, reached: list[str]
) -> list[Object]:
    webhook: Object = definition["spec"]["conversion"].get("webhook") or {}
    uid = str(uuid.uuid4())
    review: Object = {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
    }
    answer = await caller.call(webhook.get("clientConfig") or {}, review)
    reached[0] = "malformed_response_failure"
    response = answer.get("response")
    if not isinstance(response, dict):
        raise _failure(definition, "invalid response: no response in the ConversionReview")
    if response.get("uid") != uid:
        told = f'invalid response: expected response.uid "{uid}", got "{response.get("uid", "")}"'
        raise _failure(definition, told)
    result: Object = response.get("result") or {}
    if result.get("status") != "Success":
        raise _failure(definition, result.get("message") or "conversion failed")
    found = response.get("convertedObjects") or []
    reached[0] = "partial_response_failure" if found else "no_objects_returned"
    if len(found) != len(objects):
        raise _failure(definition, f"webhook returned {len(found)} objects, expected {len(objects)}")
    reached[0] = "invalid_converted_object_failure"
    return [_checked(definition, old, new, wanted) for old, new in zip(objects, found, strict=True)]


def _checked(definition: Object, old: Object, new: Any, wanted: str) -> Object:
    """One converted object: of the right version and kind, its metadata unchanged but for labels and annotations."""
    if not isinstance(new, dict) or new.get("apiVersion") != wanted:
        told = new.get("apiVersion", "") if isinstance(new, dict) else ""
        raise _failure(
            definition, f"returned invalid converted object: invalid groupVersion (expected {wanted}, received {told})"
        )
    if new.get("kind") != old.get("kind"):
        told = f"invalid kind (expected {old.get('kind')}, received {new.get('kind')})"
        raise _failure(definition, f"returned invalid converted object: {told}")
    before, after = old.get("metadata") or {}, new.get("metadata")
    if not isinstance(after, dict):
        raise _failure(definition, "returned invalid metadata of type nil in input object")
    for name in ("name", "namespace", "uid"):
        if before.get(name) != after.get(name):
            raise _failure(definition, f"returned invalid converted object: must have the same {name}")
    changed = {name: after[name] for name in ("labels", "annotations") if name in after}
    kept = {name: value for name, value in before.items() if name not in ("labels", "annotations")}
    return {**new, "metadata": {**kept, **changed}}


def _failure(definition: Object, why: str) -> StatusError:
    spec = definition["spec"]
    return StatusError(
        "InternalError", f"conversion webhook for {spec['group']}, Kind={spec['names']['kind']} failed: {why}"
    )
