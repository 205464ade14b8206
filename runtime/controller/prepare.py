"""Calls of an automaton to closures that make the request of the moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dashpot.model.automaton import Call
from dashpot.model.expr import Expr
from dashpot.runtime.controller import writes
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.lookups import equated
from dashpot.runtime.controller.manifold import Manifold, referred
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.paths import Entry, PathError, put
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.terms import Term, Terms
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import View

Object = dict[str, Any]
Prepare = Callable[[Frame], ApiRequest]
PROPAGATION = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}

APPROVALS = tuple(("status", "conditions", Entry("type", kind)) for kind in ("Approved", "Denied"))
"""What only approvers of a request write."""


def preparation(call: Call, index: int, terms: Terms) -> Prepare:
    """What makes the requests of a call; evaluating it may be Undefined."""
    view = terms.views[call.kind]
    match call.verb:
        case "get":
            found = _get(call, index, view, terms)
        case "list":
            found = _list(call, index, view, terms)
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


def subresource(view: View, fields: Sequence[writes.Field]) -> str:
    """The subresource that a write of some fields goes to: the one that the kind is a view of, `status`, or, where only
    what lies at spec.finalizers is written and the kind has it, `finalize`, or, likewise, `approval` for the conditions
    Approved and Denied."""
    if view.part:
        return view.part
    if fields and all(field.slot.path[:3] in APPROVALS for field in fields):
        if view.resource.subresource("approval") is not None:
            return "approval"
    if writes.statusward(view, fields):
        return "status"
    finalizers = fields and all(field.slot.path[:2] == ("spec", "finalizers") for field in fields)
    return "finalize" if finalizers and view.resource.subresource("finalize") is not None else ""


def _space(view: View, frame: Frame) -> str:
    return frame.namespace if view.namespaced else ""


def _get(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    assert call.name is not None
    name = terms.term(call.name)
    if isinstance(view, Manifold):
        return _get_referred(call, index, view, name)

    def get(frame: Frame) -> ApiRequest:
        wanted = name(frame)
        if isinstance(wanted, Obj):
            wanted = wanted.name
        if not wanted:
            raise Undefined(f"`get live {view.kind}` of no name", call.span)
        return ApiRequest("get", view, _space(view, frame), wanted, node=index, span=call.span)

    return get


def _get_referred(call: Call, index: int, view: Manifold, name: Term) -> Prepare:
    """A get of what a reference says, of whatever kind."""

    def get(frame: Frame) -> ApiRequest:
        wanted = referred(name(frame), frame.namespace)
        return ApiRequest(
            "get", view, wanted.namespace, wanted.name, view.part, reference=wanted, node=index, span=call.span
        )

    return get


def _list(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    """A list; one that wants a single namespace, or a single name, asks for that."""
    within = named = None
    if call.where is not None and call.var is not None:
        within, named = (_text(equated(call.where, call.var, path), terms) for path in ("namespace", "name"))

    def listed(frame: Frame) -> ApiRequest:
        space = (within and within(frame)) or _space(view, frame)
        name = (named and named(frame)) or ""
        return ApiRequest("list", view, space, name, node=index, span=call.span)

    return listed


def _text(x: Expr | None, terms: Terms) -> Callable[[Frame], str] | None:
    """What computes a name, that of an object too."""
    if x is None:
        return None
    term = terms.term(x)

    def text(frame: Frame) -> str:
        value = term(frame)
        return value.name if isinstance(value, Obj) else value or ""

    return text


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
    if isinstance(view, Manifold) and not view.part:
        return _as_patch(call, index, target, fields)
    side = subresource(view, fields)

    def update(frame: Frame) -> ApiRequest:
        obj = target(frame)
        json = writes.changed(obj, [field.written(frame) for field in fields], frame.now())
        if call.force:
            json = put(json, ("metadata", "resourceVersion"), None)
        return ApiRequest(
            "update",
            obj.view,
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


def _as_patch(call: Call, index: int, target: Callable[[Frame], Obj], fields: Sequence[writes.Field]) -> Prepare:
    """An update of what is known by its metadata alone: a patch of what changes, with the version."""

    def update(frame: Frame) -> ApiRequest:
        obj = target(frame)
        body = writes.merge_patch(obj, [field.written(frame) for field in fields], frame.now())
        body = put(body, ("metadata", "uid"), obj.uid)
        if not call.force:
            body = put(body, ("metadata", "resourceVersion"), obj.version)
        return ApiRequest(
            "patch", obj.view, obj.namespace, obj.name, "", body, "merge", target=obj, node=index, span=call.span
        )

    return update


def _patch(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    target = target_of(call, terms)
    ops = list(zip((op.op for op in call.ops), writes.fields_of(call.ops, view, terms), strict=True))
    fields = writes.fields_of(call.fields, view, terms)
    side = subresource(view, [*fields, *(field for _, field in ops)])
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
            "patch", obj.view, obj.namespace, obj.name, side, body, call.dialect or "merge",
            target=obj, node=index, span=call.span,
        )  # fmt: skip

    return patch


def _apply(call: Call, index: int, view: View, terms: Terms) -> Prepare:
    target = target_of(call, terms)
    fields = writes.fields_of(call.fields, view, terms)
    side = subresource(view, fields)

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
            call.verb, obj.view, obj.namespace, obj.name, body=node.name if isinstance(node, Obj) else node,
            uid=uid, version=version, propagation=propagation, grace=grace, target=obj, node=index, span=call.span,
        )  # fmt: skip

    return short
