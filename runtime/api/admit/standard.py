"""The admission of an API server: all plugins in upstream's order.

Source: kubernetes pkg/kubeapiserver/options/plugins.go, release 1.34. What is on by default upstream is on here;
OwnerReferencesPermissionEnforcement is not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from attrs import frozen

from dashpot.runtime.api.admit.account import ServiceAccount
from dashpot.runtime.api.admit.base import Attributes, Plugin
from dashpot.runtime.api.admit.callables import EscalationCheck, OwnerReferencesPermissionEnforcement
from dashpot.runtime.api.admit.calling import Caller, HookFaults
from dashpot.runtime.api.admit.chain import Chain, Observe
from dashpot.runtime.api.admit.classes import DefaultIngressClass, DefaultStorageClass
from dashpot.runtime.api.admit.dialler import Dialler, ViewDialler
from dashpot.runtime.api.admit.hooks import Hooks
from dashpot.runtime.api.admit.invoke import HookMetrics, Invoker
from dashpot.runtime.api.admit.limits import LimitRanger
from dashpot.runtime.api.admit.mutating import Defaulter, MutatingAdmissionWebhook
from dashpot.runtime.api.admit.namespaces import NamespaceLifecycle
from dashpot.runtime.api.admit.nodetaint import TaintNodesByCondition
from dashpot.runtime.api.admit.podsecurity import PodSecurity
from dashpot.runtime.api.admit.policies import Policies
from dashpot.runtime.api.admit.policy import Body, ValidatingAdmissionPolicy
from dashpot.runtime.api.admit.policy_mutating import MutatingAdmissionPolicy, MutatingBody
from dashpot.runtime.api.admit.priority import Priority
from dashpot.runtime.api.admit.quota import ResourceQuota
from dashpot.runtime.api.admit.runtimeclass import RuntimeClass
from dashpot.runtime.api.admit.scene import scene_of
from dashpot.runtime.api.admit.storage import PersistentVolumeClaimResize, StorageObjectInUseProtection
from dashpot.runtime.api.admit.tolerations import DefaultTolerationSeconds
from dashpot.runtime.api.admit.validating import ValidatingAdmissionWebhook
from dashpot.runtime.api.admit.versions import CustomConverter, ServedVersions
from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock

OPTIONAL = frozenset({"OwnerReferencesPermissionEnforcement"})
"""Plugins that run only where `enabled` names them."""


class Rights(Protocol):
    """What admission asks of authorization."""

    async def authorize(self, attributes: AuthzAttributes) -> Decision:
        """Whether a user may do something."""
        ...

    def decide(self, attributes: AuthzAttributes) -> Decision:
        """The same, at once."""
        ...

    async def check_escalation(self, attributes: Attributes) -> None:
        """Refuses writes that grant more than the writer holds."""
        ...


@frozen(kw_only=True)
class Options:
    """What may be given to admission beside the server's own state; each may be left out."""

    observe: Observe | None = None
    metrics: HookMetrics | None = None
    dialler: Dialler | None = None
    faults: HookFaults | None = None
    defaulter: Defaulter | None = None
    """Defaults after a webhook's patch."""
    converter: CustomConverter | None = None
    chance: random.Random | None = None
    """Chance behind generated names; a seeded one makes runs repeat."""
    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    """Names of plugins."""


def standard(
    view: View,
    internal: Internal,
    clock: Clock,
    catalog: Catalog,
    *,
    authorizer: Rights,
    options: Options | None = None,
) -> Chain:
    """All plugins, wired."""
    options = options or Options()
    plugins = [
        plugin
        for plugin in _plugins(view, internal, clock, catalog, authorizer, options)
        if plugin.name not in options.disabled and (plugin.name not in OPTIONAL or plugin.name in options.enabled)
    ]
    return Chain(plugins, options.observe)


def _plugins(
    view: View, internal: Internal, clock: Clock, catalog: Catalog, rights: Rights, options: Options
) -> Iterator[Plugin]:
    # Authorization imports admission's contracts: it is asked for its plugins only when both are loaded.
    from dashpot.runtime.api.auth.csr import CertificateApproval
    from dashpot.runtime.api.auth.restriction import NodeRestriction

    served = ServedVersions(catalog, options.converter)

    def owner(api_version: str, kind: str) -> tuple[str, str] | None:
        found = served.by_kind(api_version, kind)
        return None if found is None else (found.group, found.plural)

    yield NamespaceLifecycle(view)
    yield LimitRanger(view)
    yield ServiceAccount(view, clock, options.chance)
    yield NodeRestriction(view, rights.decide)
    yield TaintNodesByCondition()
    yield PodSecurity(view)
    yield Priority(view)
    yield DefaultTolerationSeconds()
    yield DefaultStorageClass(view)
    yield StorageObjectInUseProtection()
    yield OwnerReferencesPermissionEnforcement(rights.authorize, owner)
    yield PersistentVolumeClaimResize(view)
    yield RuntimeClass(view)
    yield CertificateApproval(rights.authorize, clock)
    yield DefaultIngressClass(view)
    yield EscalationCheck(rights.check_escalation)
    yield from _extensible(view, served, rights, options)
    yield ResourceQuota(view, internal)


def _extensible(view: View, served: ServedVersions, rights: Rights, options: Options) -> Iterator[Plugin]:
    """The plugins whose rules are objects: webhooks and policies."""
    dialler = options.dialler or ViewDialler(view)

    def invoker() -> Invoker:
        caller = Caller(dialler, options.faults)
        return Invoker(caller, lambda write, request: scene_of(write, request, rights.decide), options.metrics)

    plurals = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
    changes = Policies(view, plurals, MutatingBody.of, served, served.by_kind)
    yield MutatingAdmissionPolicy(view, changes, rights.decide, served.structure, served, options.defaulter)
    mutating = Hooks(view, "mutatingwebhookconfigurations", served)
    yield MutatingAdmissionWebhook(mutating, invoker(), served, options.defaulter)
    plurals = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    policies = Policies(view, plurals, Body.of, served, served.by_kind)
    yield ValidatingAdmissionPolicy(view, policies, rights.decide, served, options.metrics)
    yield ValidatingAdmissionWebhook(Hooks(view, "validatingwebhookconfigurations", served), invoker(), served)
