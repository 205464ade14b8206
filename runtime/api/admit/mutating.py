"""MutatingAdmissionWebhook: webhooks that may change the object, one after another.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec
from attrs import define, field

from dashpot.model.objects import jsonpatch
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, bad_request, internal
from dashpot.runtime.api.admit.base import DELETE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.hooks import Hook, Hooks, shown_as
from dashpot.runtime.api.admit.invoke import Invoker
from dashpot.runtime.api.admit.matching import Catalog
from dashpot.runtime.api.admit.review import ENCODER, Verdict, denied

Defaulter = Callable[[Object, Resource], Any]
"""Sets the defaults of a kind, in place."""

SUFFIX = "mutation.webhook.admission.k8s.io"


@define
class _Memory:
    """What one request's webhooks have to know of each other, over both rounds."""

    called: set[tuple[str, int]] = field(factory=set)
    """Webhooks with IfNeeded that were called and have seen all changes since."""
    due: set[tuple[str, int]] = field(factory=set)
    """Webhooks to be called again: something changed after them."""
    output: bytes = b""
    """The object as the last webhook left it."""

    def require_called(self) -> None:
        """Something changed: all that were called must look again."""
        self.due |= self.called
        self.called = set()


class MutatingAdmissionWebhook(Plugin):
    """Calls the webhooks by name of configuration, then in their order there; each sees what those before did."""

    name = "MutatingAdmissionWebhook"

    def __init__(
        self, hooks: Hooks, invoker: Invoker, catalog: Catalog | None = None, defaulter: Defaulter | None = None
    ) -> None:
        self._hooks, self._invoker, self._catalog, self._defaulter = hooks, invoker, catalog, defaulter

    async def mutate(self, attributes: Attributes) -> None:
        """Calls every webhook that wants the write. In the second round those that may look again, and have to."""
        candidates = self._hooks.candidates(attributes)
        if not candidates:
            return
        memory: _Memory = attributes.notes.setdefault(self.name, _Memory())
        again = attributes.round > 0
        if again and memory.output != ENCODER.encode(attributes.object):
            memory.require_called()
        for order, (hook, target) in enumerate(candidates):
            if again and hook.key not in memory.due:
                continue
            if not await self._hooks.wants(hook, attributes):
                continue
            memory.due.discard(hook.key)
            if await self._call(hook, target, order, attributes):
                memory.require_called()
                attributes.again = not again
            if hook.if_needed:
                memory.called.add(hook.key)
        memory.output = ENCODER.encode(attributes.object)

    async def close(self) -> None:
        """Closes the connections."""
        await self._invoker.close()

    async def _call(self, hook: Hook, target: Resource, order: int, attributes: Attributes) -> bool:
        """Whether the webhook changed the object."""
        new, old = await shown_as(attributes, target, self._catalog)
        place = f"round_{attributes.round}_index_{order}"
        began = perf_counter()
        verdict = await self._invoker.call(hook, target, attributes, new, old, "admit", place)
        if verdict is None:
            return False
        changed = await self._apply(hook, target, verdict, new, attributes)
        attributes.exchange.marks[f"webhook/{hook.name}/{place}"] = perf_counter() - began
        told = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
        annotations = attributes.exchange.annotations
        annotations[f"{SUFFIX}/{place}"] = msgspec.json.encode(told).decode()
        if changed:
            told = {"configuration": hook.configuration, "webhook": hook.name, "patch": verdict.patch}
            told["patchType"] = "JSONPatch"
            annotations[f"patch.webhook.admission.k8s.io/{place}"] = msgspec.json.encode(told).decode()
        if not verdict.allowed:
            raise denied(hook.name, verdict.status)
        return changed

    async def _apply(
        self, hook: Hook, target: Resource, verdict: Verdict, new: Object | None, attributes: Attributes
    ) -> bool:
        """Applies the patch of a webhook that allows; a bad one leaves nothing half done."""
        if not verdict.allowed or not verdict.patch:
            return False
        if new is None or attributes.operation == DELETE:
            raise internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        before = ENCODER.encode(new)
        try:
            patched = jsonpatch.apply(new, verdict.patch)
        except (StatusError, RecursionError) as error:
            raise internal(f'admission webhook "{hook.name}" sent a patch that does not apply: {error}') from error
        _check_identity(hook, new, patched)
        if self._defaulter is not None and not attributes.subresource:
            self._defaulter(patched, target)
        if target is not attributes.resource and self._catalog is not None and not attributes.subresource:
            patched = await self._catalog.convert(patched, target, attributes.resource)
        changed = ENCODER.encode(patched) != before
        attributes.object = patched
        return changed


def _check_identity(hook: Hook, before: Object, after: Object) -> None:
    """What an object is and where it is, is not for webhooks to change: it would be stored in the wrong place."""
    metadata = after.get("metadata")
    if not isinstance(metadata, dict) or any(before.get(key) != after.get(key) for key in ("apiVersion", "kind")):
        raise internal(f'admission webhook "{hook.name}" made another kind of object')
    if metadata.get("namespace") != before["metadata"].get("namespace"):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
