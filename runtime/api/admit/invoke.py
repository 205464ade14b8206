"""One call to one webhook: conditions, dry run, review, failure policy, warnings, annotations, figures.

Sources: k8s.io/apiserver pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go and pkg/admission/metrics,
release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Protocol

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, internal
from dashpot.runtime.api.admit.base import Attributes, Object
from dashpot.runtime.api.admit.calling import Caller, CallError
from dashpot.runtime.api.admit.conditions import ConditionError, Scene
from dashpot.runtime.api.admit.hooks import Hook
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.admit.review import ReviewError, Verdict, decode, encode, request_of

FAILED_OPEN = {
    "admit": "failed-open.mutation.webhook.admission.k8s.io",
    "validating": "failed-open.validating.webhook.admission.k8s.io",
}
WARNING_MAX = 256
WARNINGS_MAX = 4096
"""Characters of one warning and of all of a webhook that reach the client (upstream cuts for small HTTP clients)."""


class HookMetrics(Protocol):
    """What Kubernetes counts of webhooks and policies; `kind` is `admit` or `validating`."""

    def duration(self, webhook: str, kind: str, operation: str, rejected: bool, seconds: float) -> None:
        """apiserver_admission_webhook_admission_duration_seconds."""
        ...

    def request(self, webhook: str, kind: str, operation: str, code: int, rejected: bool) -> None:
        """apiserver_admission_webhook_request_total."""
        ...

    def rejection(self, webhook: str, kind: str, operation: str, error_type: str, code: int) -> None:
        """apiserver_admission_webhook_rejection_count; `error_type` is calling_webhook_error,
        apiserver_internal_error or no_error."""
        ...

    def failed_open(self, webhook: str, kind: str) -> None:
        """apiserver_admission_webhook_fail_open_count."""
        ...

    def policy(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        """apiserver_validating_admission_policy_check_total and _duration_seconds; `error_type` is no_error,
        compile_error or invalid_error, `action` allow, deny, warn or audit."""
        ...


class Invoker:
    """Asks one webhook."""

    def __init__(
        self,
        caller: Caller,
        scene: Callable[[Attributes, Object], Awaitable[Scene] | Scene],
        metrics: HookMetrics | None = None,
    ) -> None:
        self._caller, self._scene, self._metrics = caller, scene, metrics

    async def close(self) -> None:
        """Closes the connections."""
        await self._caller.close()

    async def call(
        self,
        hook: Hook,
        target: Resource,
        attributes: Attributes,
        new: Object | None,
        old: Object | None,
        kind: str,
        place: str,
    ) -> Verdict | None:
        """The answer; None where it is not asked, or did not answer and need not; StatusError where it must."""
        request = request_of(attributes, target, new, old)
        if not await self._conditions_hold(hook, attributes, kind, request, new, old):
            return None
        if attributes.dry_run:
            hook.check_dry_run()
        began = perf_counter()
        try:
            verdict = await self._ask(hook, request, new, old, mutating=kind == "admit")
        except CallError as error:
            seconds = perf_counter() - began
            self._count_failure(hook, attributes, kind, error, seconds)
            if not hook.fail_open:
                raise internal(f'failed calling webhook "{hook.name}": {error}') from error
            attributes.exchange.annotations[f"{FAILED_OPEN[kind]}/{place}"] = hook.name
            return None
        self._count(hook, attributes, kind, verdict, perf_counter() - began)
        self._tell(hook, attributes, verdict)
        return verdict

    async def _conditions_hold(
        self, hook: Hook, attributes: Attributes, kind: str, request: Object, new: Object | None, old: Object | None
    ) -> bool:
        if hook.conditions is None:
            return True
        scene = self._scene(attributes, request)
        if isinstance(scene, Awaitable):
            scene = await scene
        try:
            about = (hook.name, "webhook", kind, attributes.operation)
            return hook.conditions.hold(scene.showing(new, old), about, fail_open=hook.fail_open)
        except ConditionError as error:
            raise refuse(attributes, str(error)) from error

    async def _ask(
        self, hook: Hook, request: Object, new: Object | None, old: Object | None, *, mutating: bool
    ) -> Verdict:
        version = hook.review_version
        if not version:
            raise CallError("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
        uid, body = encode(request, new, old, version)
        answer = await self._caller.post(hook.configuration, hook.name, hook.client_config, hook.timeout_s, body)
        try:
            return decode(answer, uid, version, mutating=mutating)
        except ReviewError as error:
            raise CallError(f"received invalid webhook response: {error}", 200) from error

    def _count_failure(self, hook: Hook, attributes: Attributes, kind: str, error: CallError, seconds: float) -> None:
        if self._metrics is None:
            return
        rejected = not hook.fail_open
        self._metrics.duration(hook.name, kind, attributes.operation, rejected, seconds)
        self._metrics.request(hook.name, kind, attributes.operation, error.code, rejected)
        if rejected:
            self._metrics.rejection(hook.name, kind, attributes.operation, "calling_webhook_error", error.code)
        else:
            self._metrics.failed_open(hook.name, kind)

    def _count(self, hook: Hook, attributes: Attributes, kind: str, verdict: Verdict, seconds: float) -> None:
        if self._metrics is None:
            return
        rejected = not verdict.allowed
        self._metrics.duration(hook.name, kind, attributes.operation, rejected, seconds)
        code = verdict.status.get("code")
        code = code if isinstance(code, int) else (400 if rejected else 200)
        self._metrics.request(hook.name, kind, attributes.operation, code, rejected)
        if rejected:
            self._metrics.rejection(hook.name, kind, attributes.operation, "no_error", code)

    @staticmethod
    def _tell(hook: Hook, attributes: Attributes, verdict: Verdict) -> None:
        room = WARNINGS_MAX
        for warning in verdict.warnings:
            # What no header can hold is left out.
            cut = "".join(sign for sign in warning[:WARNING_MAX] if sign.isprintable())
            room -= len(cut)
            if room < 0:
                break
            attributes.exchange.warn(cut)
        for key, value in verdict.annotations.items():
            attributes.exchange.annotations[f"{hook.name}/{key}"] = value


def refused_by_server(error: StatusError) -> bool:
    """Whether a failure is the API server's own, not the webhook's word."""
    return error.reason == "InternalError"
