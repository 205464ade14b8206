"""AdmissionReview: what a webhook is asked, and what its answer may be.

Sources: k8s.io/api/admission/v1; k8s.io/apiserver pkg/admission/plugin/webhook/request, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import field, frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import CONNECT, CREATE, DELETE, Attributes, Object
from dashpot.runtime.api.admit.matching import asked
from dashpot.runtime.api.exchange import User

GROUP = "admission.k8s.io"
ENCODER = msgspec.json.Encoder()
OPTIONS = {CREATE: "CreateOptions", DELETE: "DeleteOptions"}
NULL = msgspec.Raw(b"null")


class ReviewError(Exception):
    """An answer that no webhook may give; the text follows `received invalid webhook response: `."""


@frozen
class Verdict:
    """What a webhook said."""

    allowed: bool
    status: Object = field(factory=dict)
    patch: list[Object] = field(factory=list)
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(factory=dict)


def user_info(user: User) -> Object:
    """The user as authentication.k8s.io/v1 UserInfo."""
    found: Object = {"username": user.name}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = list(user.groups)
    if user.extra:
        found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return found


def kind_of(resource: Resource, subresource: str, one: Object | None) -> Object:
    """The kind of what is written: a subresource may have its own, which the object tells."""
    group, version, kind = resource.group, resource.version, resource.kind
    if subresource:
        sub = resource.subresource(subresource)
        if sub is not None:
            group, version, kind = sub.group, sub.version, sub.kind
        if one is not None and isinstance(one.get("apiVersion"), str) and isinstance(one.get("kind"), str):
            prefix, _, version = one["apiVersion"].rpartition("/")
            group, kind = prefix, one["kind"]
    return {"group": group, "version": version, "kind": kind}


def resource_of(resource: Resource) -> Object:
    """A GroupVersionResource."""
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def options_of(attributes: Attributes) -> Object | None:
    """The options of the write with their kind; none for CONNECT, whose options are the object."""
    if attributes.operation == CONNECT:
        return attributes.options or None
    kind = OPTIONS.get(attributes.operation)
    if kind is None:
        kind = "PatchOptions" if attributes.exchange.info.verb == "patch" else "UpdateOptions"
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **attributes.options}


def request_of(attributes: Attributes, target: Resource, new: Object | None, old: Object | None) -> Object:
    """AdmissionRequest without uid and with decoded objects: what CEL sees as `request`."""
    resource, sub = asked(attributes), attributes.subresource
    request: Object = {
        "kind": kind_of(target, sub, new),
        "resource": resource_of(target),
        "requestKind": kind_of(resource, sub, attributes.object),
        "requestResource": resource_of(resource),
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "dryRun": attributes.dry_run,
    }
    if sub:
        request["subResource"] = request["requestSubResource"] = sub
    if attributes.name:
        request["name"] = attributes.name
    namespace = attributes.name if resource.plural == "namespaces" and not resource.group else attributes.namespace
    if namespace:
        request["namespace"] = namespace
    options = options_of(attributes)
    if options is not None:
        request["options"] = options
    return request


def encode(request: Object, new: Object | None, old: Object | None, version: str) -> tuple[str, bytes]:
    """The uid of a question, and the question as bytes."""
    uid = str(uuid.uuid4())
    body = {
        "kind": "AdmissionReview",
        "apiVersion": f"{GROUP}/{version}",
        "request": {
            "uid": uid,
            **request,
            "object": NULL if new is None else msgspec.Raw(ENCODER.encode(new)),
            "oldObject": NULL if old is None else msgspec.Raw(ENCODER.encode(old)),
        },
    }
    return uid, ENCODER.encode(body)


def decode(body: bytes, uid: str, version: str, *, mutating: bool) -> Verdict:
    """The answer, checked: kind, uid, and that only mutating webhooks patch."""
    try:
        review = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReviewError(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise ReviewError("couldn't get version/kind; json parse error: not an object")
    _check_kind(review, version)
    response = review.get("response")
    if not isinstance(response, dict):
        raise ReviewError("webhook response was absent")
    if response.get("uid") != uid:
        raise ReviewError(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    patch = _patch(response, mutating=mutating)
    status = response.get("status")
    return Verdict(
        response.get("allowed") is True,
        status if isinstance(status, dict) else {},
        patch,
        tuple(str(w) for w in _list(response.get("warnings"))),
        {str(k): str(v) for k, v in _mapping(response.get("auditAnnotations")).items()},
    )


def _check_kind(review: Object, version: str) -> None:
    wanted = f"{GROUP}/{version}, Kind=AdmissionReview"
    got = f"{review.get('apiVersion') or ''}, Kind={review.get('kind') or ''}"
    if got != wanted:
        raise ReviewError(f"expected webhook response of {wanted}, got {got}")


def _patch(response: Object, *, mutating: bool) -> list[Object]:
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutating:
        if patch:
            raise ReviewError("validating webhook may not return response.patch")
        if kind is not None:
            raise ReviewError("validating webhook may not return response.patchType")
        return []
    if not patch:
        return []
    if kind is None:
        raise ReviewError("webhook returned response.patch but not response.patchType")
    if kind != "JSONPatch":
        raise ReviewError(f'webhook returned invalid response.patchType of "{kind}"')
    try:
        operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, TypeError, ValueError, msgspec.DecodeError, RecursionError) as error:
        raise ReviewError(f"response.patch is no JSON patch in base64: {error}") from error
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        raise ReviewError("response.patch is no JSON patch: not a list of operations")
    return operations


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def denied(webhook: str, status: Object) -> StatusError:
    """The refusal of a webhook: its own code, reason and message, with its name in front."""
    code = status.get("code")
    code = code if isinstance(code, int) and 400 <= code < 600 else 400
    message, reason = status.get("message"), status.get("reason")
    told = f'admission webhook "{webhook}" denied the request'
    if message:
        told = f"{told}: {message}"
    elif reason:
        told = f"{told}: {reason}"
    else:
        told = f"{told} without explanation"
    details = status.get("details")
    return StatusError(str(reason or ""), told, code=code, details=dict(details) if isinstance(details, dict) else None)
