"""`…/scale`: autoscaling/v1 Scale over any object that has a number of replicas somewhere.

Built-in kinds keep theirs under .spec.replicas and .status.replicas; a CRD names its paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from attrs import frozen

from dashpot.model.objects import jsonpatch, mergepatch, selector
from dashpot.model.objects.schema import decode_json
from dashpot.model.objects.status import StatusError, bad_request, internal, invalid, invalid_value
from dashpot.runtime.api import body, forms
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.site import Endpoint, Site
from dashpot.runtime.api.stored import Stored
from dashpot.runtime.api.verbs import options, patching, updating
from dashpot.runtime.api.verbs.writing import Lens

Object = dict[str, Any]
Path = Sequence[str]


@frozen
class ScalePaths:
    """Where an object keeps its replicas; `selector` leads to a string or to a LabelSelector."""

    spec: Path = ("spec", "replicas")
    status: Path = ("status", "replicas")
    selector: Path = ("spec", "selector")

    @staticmethod
    def of(declared: Object) -> ScalePaths:
        """From a CRD's `subresources.scale`."""
        return ScalePaths(
            _path(declared["specReplicasPath"]),
            _path(declared["statusReplicasPath"]),
            _path(declared.get("labelSelectorPath", "")),
        )


def _path(text: str) -> Path:
    return tuple(part for part in text.split(".") if part)


def _at(obj: Object, path: Path) -> Any:
    found: Any = obj
    for part in path:
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    # JSON has one kind of number: a schema's integer may have been written 2.0
    return int(found) if isinstance(found, float) and found.is_integer() else found


def scale_of(obj: Object, paths: ScalePaths) -> Object:
    """The Scale of an object; 500 where a custom resource holds no number where its definition says so."""
    meta = obj["metadata"]
    for side, path in (("spec", paths.spec), ("status", paths.status)):
        number = _at(obj, path)
        if number is not None and (type(number) is not int or number < 0):
            raise internal(f"the {side} replicas field is not a non-negative integer")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, paths.status) or 0}
    chosen = _at(obj, paths.selector) if paths.selector else None
    if isinstance(chosen, dict):
        plain = "matchLabels" not in chosen and "matchExpressions" not in chosen
        chosen = str(selector.from_object({"matchLabels": chosen} if plain else chosen))
    if chosen:
        status["selector"] = chosen
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: meta[field] for field in kept if field in meta},
        "spec": {"replicas": _at(obj, paths.spec) or 0},
        "status": status,
    }


def scaled(obj: Object, scale: Object, paths: ScalePaths, *, keep: bool = False) -> Object:
    """The object with the replicas of a Scale; 422 for a number that cannot be. `keep`: its version stays as it is."""
    spec = scale.get("spec")
    # a protobuf body leaves a zero out
    replicas = (spec if isinstance(spec, dict) else {}).get("replicas", 0)
    name = obj["metadata"]["name"]
    other = (scale.get("metadata") or {}).get("name")
    if other and other != name:
        raise bad_request(f"the name of the object ({other}) does not match the name on the URL ({name})")
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request("Scale: spec.replicas must be a whole number")
    if not 0 <= replicas < 2**31:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", name, [cause])
    at = obj
    for part in paths.spec[:-1]:
        inner = at.get(part)
        if not isinstance(inner, dict):
            inner = at[part] = {}
        at = inner
    at[paths.spec[-1]] = replicas
    if keep:
        return obj
    named = (scale.get("metadata") or {}).get("resourceVersion")
    obj["metadata"].pop("resourceVersion", None)
    if named:
        obj["metadata"]["resourceVersion"] = named
    return obj


async def serve(site: Site, exchange: Exchange, endpoint: Endpoint, paths: ScalePaths) -> Response:
    """GET, PUT, PATCH."""
    method = exchange.request.method
    if method == "GET":
        namespace = exchange.info.namespace if endpoint.resource.namespaced else ""
        stored = await endpoint.storage.get(namespace, exchange.info.name)
        return _render(exchange, stored.object, paths)
    if method == "PUT":
        wanted, _ = await body.raw_object(exchange)
        change = _put(wanted, paths)
    elif method == "PATCH":
        change = await _patch(exchange, paths)
    else:
        raise StatusError("MethodNotAllowed", "the server does not allow this method on the requested resource")
    request = exchange.request
    lens = Lens(lambda obj: scale_of(obj, paths), lambda obj, scale: scaled(obj, scale, paths, keep=True))
    dry = options.dry_run(request, "UpdateOptions")
    manner = updating.Manner("scale", dry, options.manager(request), lens)
    changed = await updating.modified(site, exchange, endpoint, change, manner)
    return _render(exchange, changed.object if isinstance(changed, Stored) else changed, paths)


def _render(exchange: Exchange, obj: Object, paths: ScalePaths) -> Response:
    return forms.render_plain(exchange, scale_of(obj, paths), 200)


def _checked(scale: Any) -> Object:
    if not isinstance(scale, dict) or scale.get("kind", "Scale") != "Scale":
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    return body.aside(scale, "autoscaling", "v1", "Scale")


def _put(wanted: Object, paths: ScalePaths) -> updating.Change:
    scale = _checked(wanted)
    return lambda old, _: scaled(old, scale, paths)


async def _patch(exchange: Exchange, paths: ScalePaths) -> updating.Change:
    media = body.media_type(exchange)
    data = await exchange.request.read()
    if media == patching.APPLY:
        patch: Any = await body.read_yaml(data)
    elif media in (patching.JSON_PATCH, patching.MERGE, patching.STRATEGIC):
        patch = decode_json(data, [])
    else:
        raise StatusError("UnsupportedMediaType", "the body of the request was in an unknown format")

    def change(old: Object, _: Stored) -> Object:
        scale = scale_of(old, paths)
        version = scale["metadata"].get("resourceVersion")
        if media == patching.JSON_PATCH:
            if not isinstance(patch, list):
                raise bad_request("a JSON patch is a list of operations")
            new = jsonpatch.apply(scale, patch)
        else:
            if not isinstance(patch, dict):
                raise bad_request("a merge patch is an object")
            new = mergepatch.merge(scale, patch)
        new = _checked(msgspec.to_builtins(new))
        if new["metadata"].get("resourceVersion") == version:
            new["metadata"].pop("resourceVersion", None)
        return scaled(old, new, paths)

    return change
