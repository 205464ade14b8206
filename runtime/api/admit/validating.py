"""ValidatingAdmissionWebhook: webhooks that may only refuse, all at once.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go, release 1.34.
"""

from __future__ import annotations

import asyncio

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import Attributes, Plugin
from dashpot.runtime.api.admit.hooks import Hook, Hooks, shown_as
from dashpot.runtime.api.admit.invoke import Invoker
from dashpot.runtime.api.admit.matching import Catalog
from dashpot.runtime.api.admit.review import denied


class ValidatingAdmissionWebhook(Plugin):
    """Calls all webhooks that want the write at the same time; the first in order that refuses is told."""

    name = "ValidatingAdmissionWebhook"

    def __init__(self, hooks: Hooks, invoker: Invoker, catalog: Catalog | None = None) -> None:
        self._hooks, self._invoker, self._catalog = hooks, invoker, catalog

    async def validate(self, attributes: Attributes) -> None:
        """Refuses if one refuses, or cannot be asked and must be."""
        candidates = self._hooks.candidates(attributes)
        if not candidates:
            return
        wanted = [
            (order, hook, target)
            for order, (hook, target) in enumerate(candidates)
            if await self._hooks.wants(hook, attributes)
        ]
        if len(wanted) == 1:
            await self._call(*wanted[0], attributes)
            return
        results = await asyncio.gather(*(self._call(*one, attributes) for one in wanted), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def close(self) -> None:
        """Closes the connections."""
        await self._invoker.close()

    async def _call(self, order: int, hook: Hook, target: Resource, attributes: Attributes) -> None:
        new, old = await shown_as(attributes, target, self._catalog)
        verdict = await self._invoker.call(hook, target, attributes, new, old, "validating", f"round_0_index_{order}")
        if verdict is not None and not verdict.allowed:
            raise denied(hook.name, verdict.status)
