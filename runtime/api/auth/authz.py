"""The authorizers one after another: the first that allows or denies decides, silence of all is a refusal.

Source: k8s.io/apiserver pkg/authorization/union, pkg/endpoints/filters/authorization.go and
pkg/authorization/authorizerfactory, release 1.34.
"""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import field, frozen

from dashpot.model.objects.status import StatusError, internal
from dashpot.runtime.api.admit.base import Attributes
from dashpot.runtime.api.auth.attributes import (
    ALLOWED,
    MASTERS,
    NO_OPINION,
    AuthzAttributes,
    Decision,
    attributes_of,
    node_of,
    refusal,
)
from dashpot.runtime.api.auth.escalation import Escalation
from dashpot.runtime.api.auth.node import NodeAuthorizer
from dashpot.runtime.api.auth.rbac import GROUP, KINDS, Rbac
from dashpot.runtime.api.auth.remote import WebhookConfig
from dashpot.runtime.api.auth.webhook import AccessWebhook
from dashpot.runtime.api.exchange import Exchange, User
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock
from dashpot.runtime.store.base import StoreError

Object = dict[str, Any]

DECISION = "authorization.k8s.io/decision"
REASON = "authorization.k8s.io/reason"
MODES = ("Node", "RBAC", "AlwaysAllow", "AlwaysDeny", "Webhook")
_DENIED = Decision(False, "Everything is forbidden.")


@frozen
class AuthzConfig:
    """Which modes there are, in order, and where the webhook is (only for the mode Webhook)."""

    modes: tuple[str, ...] = ("Node", "RBAC")
    webhook: WebhookConfig | None = None
    always_allowed: frozenset[str] = field(default=frozenset(("/healthz", "/readyz", "/livez")))
    """Paths that need no permission (upstream: --authorization-always-allow-paths)."""

    def __attrs_post_init__(self) -> None:
        for mode in self.modes:
            if mode not in MODES:
                raise ValueError(f"unknown authorization mode {mode!r}: one of {', '.join(MODES)}")
        if "Webhook" in self.modes and self.webhook is None:
            raise ValueError("the authorization mode Webhook needs a webhook")


@frozen
class Rules:
    """All that a user may do in a namespace, as far as it can be told (SelfSubjectRulesReview)."""

    resource: list[Object]
    non_resource: list[Object]
    incomplete: bool
    error: str


class Authorizer:
    """Decides what a user may do."""

    def __init__(self, config: AuthzConfig, view: View, clock: Clock) -> None:
        self.config = config
        self.rbac = Rbac(view)
        self._view = view
        self._node = NodeAuthorizer(view)
        self._webhook = AccessWebhook(config.webhook, clock) if config.webhook is not None else None
        self._escalation = Escalation(self.rbac, self.authorize)
        self._catching_up = asyncio.Lock()
        self._begun = 0
        self._done = 0

    async def gate(self, exchange: Exchange) -> None:
        """Passes the exchange or raises 403; notes the decision for the audit log."""
        info = exchange.info
        if not info.resource_request and info.path in self.config.always_allowed:
            exchange.annotations[DECISION], exchange.annotations[REASON] = "allow", ""
            return
        attributes = attributes_of(exchange)
        decision = await self.authorize(attributes)
        if not decision.allow and await self._caught_up():
            decision = await self.authorize(attributes)
        notes = exchange.annotations
        if decision.allow:
            notes[DECISION], notes[REASON] = "allow", decision.reason
            return
        if decision.error:
            notes[REASON] = "internal error"
            raise internal(decision.error)
        notes[DECISION], notes[REASON] = "forbid", decision.reason
        raise refusal(attributes, decision.reason)

    async def authorize(self, attributes: AuthzAttributes) -> Decision:
        """The decision of all modes together; `reason` joins what those without an opinion had to say."""
        if MASTERS in attributes.user.groups:
            return ALLOWED
        reasons: list[str] = []
        errors: list[str] = []
        for mode in self.config.modes:
            if mode == "Webhook":
                assert self._webhook is not None
                decision = await self._webhook.decide(attributes)
            else:
                decision = self._ask(mode, attributes)
            if decision.allow or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
            if decision.error:
                errors.append(decision.error)
        if not reasons and not errors:
            return NO_OPINION
        return Decision(False, "\n".join(reasons), error="; ".join(errors))

    def decide(self, attributes: AuthzAttributes) -> Decision:
        """As `authorize`, at once: a webhook is not asked and has no opinion (for CEL's `authorizer`)."""
        if MASTERS in attributes.user.groups:
            return ALLOWED
        reasons: list[str] = []
        for mode in self.config.modes:
            decision = self._ask(mode, attributes) if mode != "Webhook" else NO_OPINION
            if decision.allow or decision.denied:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(False, "\n".join(reasons)) if reasons else NO_OPINION

    async def check_escalation(self, attributes: Attributes) -> None:
        """Passes writes of RBAC kinds that grant no more than the writer holds, and all others; 403 otherwise.

        Asks nothing where RBAC is off: then roles grant nothing.
        """
        if "RBAC" not in self.config.modes or not self._escalation.handles(attributes):
            return
        try:
            await self._escalation.check(attributes)
        except StatusError as error:
            if error.code not in (403, 404) or not await self._caught_up():
                raise
            await self._escalation.check(attributes)

    def rules(self, user: User, namespace: str) -> Rules:
        """What the modes can tell of a user's rights in a namespace."""
        if MASTERS in user.groups:
            everything: Object = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            return Rules([everything], [{"verbs": ["*"], "nonResourceURLs": ["*"]}], False, "")
        resource: list[Object] = []
        paths: list[Object] = []
        incomplete, errors = False, []
        for mode in self.config.modes:
            if mode == "RBAC":
                found, missing_roles = self.rbac.rules_for(user, namespace)
                resource.extend(_resource_rule(rule.source) for rule in found if rule.resources)
                paths.extend(_path_rule(rule.source) for rule in found if rule.urls)
                errors.extend(missing_roles)
            elif mode == "AlwaysAllow":
                resource.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
                paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
            elif mode == "Webhook" or (mode == "Node" and node_of(user) is not None):
                incomplete = True
                errors.append(f"{mode.lower()} authorizer does not support user rule resolution")
        return Rules(resource, paths, incomplete, ", ".join(errors))

    async def close(self) -> None:
        """Closes the connections to the webhook."""
        if self._webhook is not None:
            await self._webhook.close()

    def _ask(self, mode: str, attributes: AuthzAttributes) -> Decision:
        if mode == "RBAC":
            return self.rbac.decide(attributes)
        if mode == "Node":
            return self._node.decide(attributes)
        return ALLOWED if mode == "AlwaysAllow" else _DENIED

    async def _caught_up(self) -> bool:
        """Waits until the view has all roles and bindings written so far; whether there was something new.

        Asked before a refusal only: who has just been granted a right may use it at once.
        """
        if "RBAC" not in self.config.modes:
            return False
        before = [self._view.version(GROUP, plural) for plural in KINDS]
        # A round that begins from now on will do; a thousand refusals at once share two rounds.
        wanted = self._begun + 1
        async with self._catching_up:
            if self._done < wanted:
                self._begun += 1
                try:
                    await asyncio.gather(*(self._view.fresh(GROUP, plural, "", "") for plural in KINDS))
                except (StatusError, StoreError):
                    return False  # the store cannot be asked: what was known decides
                self._done = self._begun
        return before != [self._view.version(GROUP, plural) for plural in KINDS]


def _resource_rule(source: Object) -> Object:
    return {key: source[key] for key in ("verbs", "apiGroups", "resources", "resourceNames") if source.get(key)}


def _path_rule(source: Object) -> Object:
    return {key: source[key] for key in ("verbs", "nonResourceURLs") if source.get(key)}
