"""One write past webhooks, for tests of admission."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.admit_kit import (
    CONFIGMAPS,
    Answer,
    Authority,
    FakeView,
    Object,
    configmap,
    configuration,
    webhook,
    write,
)

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import Attributes, Plugin
from dashpot.runtime.api.admit.calling import Caller
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.admit.dialler import ViewDialler
from dashpot.runtime.api.admit.hooks import Hooks
from dashpot.runtime.api.admit.invoke import Invoker
from dashpot.runtime.api.admit.mutating import MutatingAdmissionWebhook
from dashpot.runtime.api.admit.scene import scene_of
from dashpot.runtime.api.admit.validating import ValidatingAdmissionWebhook


class Metrics:
    """What is counted."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def duration(self, webhook: str, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        self.seen.append(("duration", webhook, kind, operation, rejected))

    def request(self, webhook: str, kind: str, operation: str, code: int, rejected: bool) -> None:
        self.seen.append(("request", webhook, kind, operation, code, rejected))

    def rejection(self, webhook: str, kind: str, operation: str, error_type: str, code: int) -> None:
        self.seen.append(("rejection", webhook, kind, operation, error_type, code))

    def policy(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        self.seen.append(("policy", policy, binding, error_type, action))

    def failed_open(self, webhook: str, kind: str) -> None:
        self.seen.append(("failed_open", webhook, kind))


def chain(view: FakeView, *plugins: Plugin, metrics: Metrics | None = None, faults: Any = None) -> Chain:
    def invoker() -> Invoker:
        return Invoker(Caller(ViewDialler(view), faults), lambda w, r: scene_of(w, r, None), metrics)

    mutating = MutatingAdmissionWebhook(Hooks(view, "mutatingwebhookconfigurations", None), invoker())
    validating = ValidatingAdmissionWebhook(Hooks(view, "validatingwebhookconfigurations", None), invoker())
    return Chain([*plugins, mutating, validating])


async def admit(built: Chain, attributes: Attributes) -> Attributes:
    try:
        await built.mutate(attributes)
        await built.validate(attributes)
    finally:
        await built.close()
    return attributes


def run(
    authority: Authority,
    kind: str,
    answer: Answer,
    attributes: Attributes | None = None,
    metrics: Metrics | None = None,
    faults: Any = None,
    **hook: Any,
) -> Attributes:
    """One write of a ConfigMap past one webhook."""

    async def main() -> Attributes:
        async with webhook(authority, answer) as port:
            view = FakeView(configuration(kind, authority, port, **hook))
            built = chain(view, metrics=metrics, faults=faults)
            return await admit(built, attributes or write(configmap(), CONFIGMAPS))

    return asyncio.run(main())


def always(response: Any) -> Answer:
    async def answer(request: Object) -> Any:
        return response

    return answer


def refused(call: Callable[[], Any]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value
