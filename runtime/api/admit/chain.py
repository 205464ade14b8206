"""The admission plugins one after another, timed; which of them see a write is found out once a kind of write.

Sources: k8s.io/apiserver pkg/admission/{chain,reinvocation,metrics}, release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import Attributes, Plugin

Observe = Callable[[str, str, str, bool, float], None]
"""`observe(plugin, operation, step, rejected, seconds)`; `step` is `admit` or `validate`, as Kubernetes labels them."""

PLANS_MAX = 4096
"""Kinds of writes remembered; beyond that (CRDs that come and go) all are forgotten and found out anew."""


@frozen
class _Step:
    """One plugin's part in one kind of write."""

    run: Callable[[Attributes], Awaitable[None]]
    plugin: str
    mark: str


@frozen
class _Plan:
    """The plugins that see one kind of write."""

    mutating: tuple[_Step, ...]
    validating: tuple[_Step, ...]


class Chain:
    """All admission of an API server, in order."""

    def __init__(self, plugins: Sequence[Plugin], observe: Observe | None = None) -> None:
        self.plugins = tuple(plugins)
        self._observe = observe
        self._plans: dict[tuple[str, Resource, str], _Plan] = {}

    async def mutate(self, attributes: Attributes) -> None:
        """Runs `mutate` of all plugins; once more, if one that comes late has changed the object."""
        steps = self._plan(attributes).mutating
        await self._run(steps, attributes, "admit")
        if attributes.again:
            attributes.round, attributes.again = 1, False
            await self._run(steps, attributes, "admit")

    async def validate(self, attributes: Attributes) -> None:
        """Runs `validate` of all plugins. Where one refuses, what others reserved is given back."""
        try:
            await self._run(self._plan(attributes).validating, attributes, "validate")
        except BaseException:
            await self.undo(attributes)
            raise

    async def undo(self, attributes: Attributes) -> None:
        """Gives back what was reserved for a write that failed after admission; the newest first, each once."""
        while attributes.undo:
            give_back: Callable[[], Awaitable[None]] = attributes.undo.pop()
            try:
                await give_back()
            except StatusError:
                # The object that was written to is gone or changed since: its controller counts anew.
                continue

    async def close(self) -> None:
        """Gives the plugins' connections back."""
        for plugin in self.plugins:
            await plugin.close()

    async def _run(self, steps: tuple[_Step, ...], attributes: Attributes, kind: str) -> None:
        observe, marks, operation = self._observe, attributes.exchange.marks, attributes.operation
        before = perf_counter()
        for step in steps:
            rejected = True
            try:
                await step.run(attributes)
                rejected = False
            finally:
                now = perf_counter()
                marks[step.mark] = marks.get(step.mark, 0.0) + now - before
                if observe is not None:
                    observe(step.plugin, operation, kind, rejected, now - before)
                before = now

    def _plan(self, attributes: Attributes) -> _Plan:
        key = (attributes.operation, attributes.resource, attributes.subresource)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            chosen = [plugin for plugin in self.plugins if plugin.handles(*key)]
            plan = self._plans[key] = _Plan(
                tuple(
                    _Step(p.mutate, p.name, f"admission/{p.name}/admit")
                    for p in chosen
                    if type(p).mutate is not Plugin.mutate
                ),
                tuple(
                    _Step(p.validate, p.name, f"admission/{p.name}/validate")
                    for p in chosen
                    if type(p).validate is not Plugin.validate
                ),
            )
        return plan
