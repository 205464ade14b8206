"""Calls of an automaton to closures that make the request of the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.automaton import Call
from dashpot.runtime.controller import writes
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.paths import PathError, put
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.terms import Term, Terms
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import View

Object = dict[str, Any]
Prepare = Callable[[Frame], ApiRequest]
PROPAGATION = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}


def preparation(call: Call, index: int, terms: Terms) -> Prepare:
    """What makes the requests of a call; evaluating it may be Undefined."""
    view = terms.views[call.kind]
    match call.verb:
        case "get":
            found = _get(call, index, view, terms)
        case "list":
            found = _list(call, index, view)
        case "create":
            found = _create(call, index, view, terms)
        case "update":
            found = _update(call, index, view, terms)
        case "patch":
            found = _patch(call, index, view, terms)
        case "apply":
            found = _apply(call, index, view, terms)
        case _:
            found = _short(call, index, view, terms)

    def prepared(frame: Frame) -> ApiRequest:
        try:
            return found(frame)
        except PathError as problem:
            raise Undefined(str(problem), call.span) from None

    return prepared


def target_of(call: Call, terms: Terms) -> Callable[[Frame], Obj]:
    """The object that a call is done to."""
    assert call.target is not None
    target, verb = terms.term(call.target), call.verb

    def found(frame: Frame) -> Obj:
        obj = target(frame)
        if not isinstance(obj, Obj):
            raise Undefined(f"`{verb}` of null", call.span)
        return obj

    return found


def _space(view: View, frame: Frame) -> str:
    return frame.namespace if view.namespaced else ""


def _get(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    assert call.name is not None
    name = terms.term(call.name)

    def get(frame: Frame) -> ApiRequest:
        wanted = name(frame)
        if isinstance(wanted, Obj):
            wanted = wanted.name
        if not wanted:
            raise Undefined(f"`get live {view.kind}` of no name", call.span)
        return ApiRequest("get", view, _space(view, frame), wanted, node=index, span=call.span)

    return get


def _list(call: Call, index: int, view: View) -> Prepare:
    return lambda frame: ApiRequest("list", view, _space(view, frame), "", node=index, span=call.span)


def _create(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    fields = writes.fields_of(call.fields, view, terms)

    def create(frame: Frame) -> ApiRequest:
        json = writes.made(view, [field.written(frame) for field in fields], frame.now())
        meta = json["metadata"]
        space = str(meta.get("namespace") or _space(view, frame))
        if not view.namespaced:
            space = ""
            meta.pop("namespace", None)
        elif space:
            meta["namespace"] = space
        return ApiRequest("create", view, space, "", body=json, node=index, span=call.span)

    return create


def _update(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    target = target_of(call, terms)
    fields = writes.fields_of(call.fields, view, terms)
    side = "status" if writes.statusward(view, fields) else ""

    def update(frame: Frame) -> ApiRequest:
        obj = target(frame)
        json = writes.changed(obj, [field.written(frame) for field in fields], frame.now())
        if call.force:
            json = put(json, ("metadata", "resourceVersion"), None)
        return ApiRequest(
            "update",
            view,
            obj.namespace,
            obj.name,
            side,
            json,
            force=call.force,
            target=obj,
            node=index,
            span=call.span,
        )

    return update


def _patch(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    target = target_of(call, terms)
    ops = list(zip((op.op for op in call.ops), writes.fields_of(call.ops, view, terms), strict=True))
    fields = writes.fields_of(call.fields, view, terms)
    side = "status" if writes.statusward(view, [*fields, *(field for _, field in ops)]) else ""
    shape = writes.strategic_patch if call.dialect == "strategic" else writes.merge_patch

    def patch(frame: Frame) -> ApiRequest:
        obj = target(frame)
        if call.dialect == "json":
            body: Any = writes.json_patch(obj, ops, frame)
        else:
            body = shape(obj, [field.written(frame) for field in fields], frame.now())
            if call.guard == "unchanged":
                body = put(body, ("metadata", "resourceVersion"), obj.version)
                body = put(body, ("metadata", "uid"), obj.uid)
            elif call.guard == "same":
                body = put(body, ("metadata", "uid"), obj.uid)
        return ApiRequest(
            "patch", view, obj.namespace, obj.name, side, body, call.dialect or "merge",
            target=obj, node=index, span=call.span,
        )  # fmt: skip

    return patch


def _apply(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    target = target_of(call, terms)
    fields = writes.fields_of(call.fields, view, terms)
    side = "status" if writes.statusward(view, fields) else ""

    def apply(frame: Frame) -> ApiRequest:
        obj = target(frame)
        json = writes.made(view, [field.written(frame) for field in fields], frame.now())
        meta = {**json["metadata"], "name": obj.name}
        if obj.namespace:
            meta["namespace"] = obj.namespace
        json = {**json, "metadata": meta}
        return ApiRequest(
            "apply", view, obj.namespace, obj.name, side, json, force=call.force, target=obj, node=index, span=call.span
        )

    return apply


def _short(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    """delete, evict, bind."""
    target = target_of(call, terms)
    to: Term | None = terms.term(call.to) if call.to is not None else None
    propagation = PROPAGATION.get(call.how, "")
    grace = 0 if call.how == "now" else None

    def short(frame: Frame) -> ApiRequest:
        obj = target(frame)
        uid = obj.uid if call.guard in ("same", "unchanged") else ""
        version = obj.version if call.guard == "unchanged" else ""
        node = to(frame) if to is not None else None
        return ApiRequest(
            call.verb, view, obj.namespace, obj.name, body=node.name if isinstance(node, Obj) else node,
            uid=uid, version=version, propagation=propagation, grace=grace, target=obj, node=index, span=call.span,
        )  # fmt: skip

    return short
