"""The chain: times, order, and what is asked how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import (
    FakeClock,
    FakeInternal,
    FakeView,
    pod,
    write,
)

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import CREATE, Attributes, Plugin
from dashpot.runtime.api.admit.chain import Chain
from dashpot.runtime.api.admit.standard import Options, standard
from dashpot.runtime.api.admit.tolerations import DefaultTolerationSeconds
from dashpot.runtime.api.catalog import Catalog

# --- Chain


def test_chain_times_and_tells() -> None:
    seen: list[tuple[str, str, str, bool]] = []

    class Refuses(Plugin):
        name = "Refuses"

        async def validate(self, attributes: Attributes) -> None:
            raise StatusError("Forbidden", "no")

    def observe(plugin: str, operation: str, step: str, rejected: bool, seconds: float) -> None:
        assert seconds >= 0
        seen.append((plugin, operation, step, rejected))

    attributes = write(pod())
    undone: list[int] = []

    async def undo(number: int) -> None:
        undone.append(number)

    async def main() -> None:
        attributes.undo += [lambda: undo(1), lambda: undo(2)]
        chain = Chain([DefaultTolerationSeconds(), Refuses()], observe)
        await chain.mutate(attributes)
        await chain.validate(attributes)

    with pytest.raises(StatusError):
        asyncio.run(main())
    assert seen == [("DefaultTolerationSeconds", CREATE, "admit", False), ("Refuses", CREATE, "validate", True)]
    assert set(attributes.exchange.marks) == {"admission/DefaultTolerationSeconds/admit", "admission/Refuses/validate"}
    assert undone == [2, 1]


def test_chain_asks_each_plugin_once_a_kind_of_write() -> None:
    asked: list[tuple[str, str]] = []

    class Curious(Plugin):
        name = "Curious"

        def handles(self, operation: str, resource: Any, subresource: str) -> bool:
            asked.append((operation, subresource))
            return True

    async def main() -> None:
        chain = Chain([Curious()])
        for subresource in ("", "", "status"):
            await chain.mutate(write(pod(), subresource=subresource))

    asyncio.run(main())
    assert asked == [(CREATE, ""), (CREATE, "status")]


def test_all_plugins_in_upstreams_order() -> None:
    view = FakeView()

    class Rights:
        async def authorize(self, attributes: Any) -> Any:
            raise AssertionError

        def decide(self, attributes: Any) -> Any:
            raise AssertionError

        async def check_escalation(self, attributes: Attributes) -> None:
            raise AssertionError

    def names(options: Options | None = None) -> list[str]:
        chain = standard(view, FakeInternal(view), FakeClock(), Catalog(), authorizer=Rights(), options=options)
        return [plugin.name for plugin in chain.plugins]

    assert names() == [
        "NamespaceLifecycle",
        "LimitRanger",
        "ServiceAccount",
        "NodeRestriction",
        "TaintNodesByCondition",
        "PodSecurity",
        "Priority",
        "DefaultTolerationSeconds",
        "DefaultStorageClass",
        "StorageObjectInUseProtection",
        "PersistentVolumeClaimResize",
        "RuntimeClass",
        "CertificateApproval",
        "DefaultIngressClass",
        "EscalationCheck",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "ResourceQuota",
    ]
    chosen = names(
        Options(enabled=frozenset({"OwnerReferencesPermissionEnforcement"}), disabled=frozenset({"PodSecurity"}))
    )
    assert "OwnerReferencesPermissionEnforcement" in chosen and "PodSecurity" not in chosen
