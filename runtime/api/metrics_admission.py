"""What is counted of admission: plugins, webhooks, policies.

Source: k8s.io/apiserver pkg/admission/metrics, pkg/admission/plugin/policy/validating/metrics, release 1.34.
"""

from __future__ import annotations

from dashpot.runtime.api.metrics_cells import Hist, Registry


class Admission:
    """Told by the chain (`observe`) and by the callers of webhooks."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._plugins: dict[tuple[str, str, str, bool], Hist] = {}
        self._hooks: dict[tuple[str, str, str, bool], Hist] = {}

    def observe(self, plugin: str, operation: str, step: str, rejected: bool, seconds: float) -> None:
        """One plugin was asked."""
        key = (plugin, operation, step, rejected)
        hist = self._plugins.get(key)
        if hist is None:
            labels = (plugin, step, operation, _told(rejected))
            hist = self._registry["apiserver_admission_controller_admission_duration_seconds"].hist(*labels)
            old = self._registry["apiserver_admission_controller_admission_latencies_seconds"]
            old.hists.setdefault(labels, hist)
            self._plugins[key] = hist
        hist.observe(seconds)

    def duration(self, webhook: str, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        """One webhook was asked."""
        labels = (webhook, kind, operation, _told(rejected))
        self._registry["apiserver_admission_webhook_admission_duration_seconds"].hist(*labels).observe(seconds)
        self._registry["apiserver_admission_webhook_admission_latencies_seconds"].hist(*labels).observe(seconds)

    def request(self, webhook: str, kind: str, operation: str, code: int, rejected: bool) -> None:
        """One answer of a webhook."""
        labels = (webhook, kind, operation, _told(rejected), _code(code))
        self._registry["apiserver_admission_webhook_request_total"].cell(*labels).inc()

    def rejection(self, webhook: str, kind: str, operation: str, error_type: str, code: int) -> None:
        """A write was refused by or because of a webhook."""
        labels = (webhook, kind, operation, error_type, _code(code))
        self._registry["apiserver_admission_webhook_rejection_count"].cell(*labels).inc()

    def failed_open(self, webhook: str, kind: str) -> None:
        """A webhook failed and need not answer."""
        self._registry["apiserver_admission_webhook_fail_open_count"].cell(webhook, kind).inc()

    def policy(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        """A rule of a validating policy was evaluated; `error_type` is no_error, compile_error, invalid_error,
        cost_exceeded or policy_definition_error, `action` allow, deny, warn or audit."""
        labels = (policy, binding, error_type, action)
        self._registry["apiserver_validating_admission_policy_check_total"].cell(*labels).inc()
        name = "apiserver_validating_admission_policy_check_duration_seconds"
        self._registry[name].hist(*labels).observe(seconds)


def _told(rejected: bool) -> str:
    return "true" if rejected else "false"


def _code(code: int) -> str:
    """Codes above 600 are told as 600: a webhook must not fill the memory."""
    return str(min(code, 600))
