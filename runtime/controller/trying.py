"""A caller that writes nothing: it tells what would be written, and answers as if it had been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model.objects.mergepatch import merge
from dashpot.runtime.controller.calls import Answer, Caller
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest

Object = dict[str, Any]


class Trying:
    """Reads go through to `caller`; each write, and each event, is told once."""

    def __init__(self, caller: Caller, tell: Callable[[ApiRequest, str], None]) -> None:
        self._caller = caller
        self._tell = tell
        self._told: set[tuple[Any, ...]] = set()

    async def perform(self, request: ApiRequest) -> Answer:
        """Reads, or tells; ApiError of reads."""
        if not request.writes:
            return await self._caller.perform(request)
        fields = changed(request)
        row = (request.verb, request.kind, request.namespace, request.name, fields, request.node)
        if row not in self._told:
            self._told.add(row)
            self._tell(request, fields)
        return _answer(request)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """Nothing: events are writes too."""


def _answer(request: ApiRequest) -> Answer:
    """The object as it would be, as far as that can be told without a server."""
    target = request.target
    if request.verb in ("delete", "evict"):
        return None
    if request.verb == "patch" and request.patch == "merge" and target is not None:
        return Obj(request.view, merge(target.json, request.body))
    if request.verb in ("update", "create") and isinstance(request.body, dict):
        meta = dict(request.body.get("metadata") or {})
        meta.setdefault("name", f"{meta.get('generateName') or ''}xxxxx")
        if request.namespace:
            meta.setdefault("namespace", request.namespace)
        return Obj(request.view, {**request.body, "metadata": meta})
    return target


def changed(request: ApiRequest) -> str:
    """The fields that a write sends; of an update those that differ from what the pass holds. JSON."""
    body = request.body
    if request.verb == "update" and request.target is not None and isinstance(body, dict):
        body = _differences(request.target.json, body)
    elif request.verb == "create" and isinstance(body, dict):
        body = {k: v for k, v in body.items() if k not in ("apiVersion", "kind")}
    return "" if body is None else msgspec.json.encode(body).decode()


def _differences(old: Any, new: Object) -> Object:
    found: Object = {}
    for name, value in new.items():
        before = old.get(name) if isinstance(old, dict) else None
        if value == before:
            continue
        found[name] = _differences(before, value) if isinstance(value, dict) and isinstance(before, dict) else value
    return found
