"""Audit: who asked for what, when, and how it ended (audit.k8s.io/v1)."""

from __future__ import annotations

import random
from collections.abc import Callable

from dashpot.runtime.api.audit.policy import PolicyError, load, metadata_only
from dashpot.runtime.api.audit.sinks import LogFile, Webhook
from dashpot.runtime.api.audit.trail import Sink, Trail
from dashpot.runtime.api.auth.remote import Sender, WebhookConfigError, webhook_config
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.clock import Clock

__all__ = ["LogError", "PolicyError", "trail"]


class LogError(Exception):
    """The place of the audit log cannot be written."""


def trail(settings: Settings, clock: Clock, chance: random.Random, complain: Callable[[str], None]) -> Trail:
    """The trail that the settings ask for; PolicyError for a policy or a place that cannot be used."""
    policy = load(settings.audit_policy) if settings.audit_policy is not None else metadata_only()
    sinks: list[Sink] = []
    if settings.audit_log is not None:
        try:
            sinks.append(LogFile(settings.audit_log, settings.audit_log_limit, settings.audit_log_keep, complain))
        except OSError as error:
            raise LogError(f"audit log '{settings.audit_log}' cannot be written: {error.strerror}") from None
    if settings.audit_webhook is not None:
        try:
            sinks.append(Webhook(Sender(webhook_config(settings.audit_webhook)), complain))
        except WebhookConfigError as error:
            raise PolicyError(f"audit webhook: {error}") from None
    return Trail(policy, sinks, clock, chance)
