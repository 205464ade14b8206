"""Webhooks that say who a token belongs to (TokenReview) and what a user may do (SubjectAccessReview).

Source: k8s.io/apiserver plugin/pkg/authenticator/token/webhook and plugin/pkg/authorizer/webhook, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from time import perf_counter
from typing import Any, Generic, TypeVar

from attrs import frozen

from dashpot.runtime.api.auth.attributes import NO_OPINION, AuthzAttributes, Decision
from dashpot.runtime.api.auth.remote import Caller, WebhookConfig, WebhookError
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.tally import tally
from dashpot.runtime.clock import Clock

Object = dict[str, Any]

_REMEMBERED = 4_096
_NAME = "default"
"""The authorization webhook in the metrics; there is but one."""

T = TypeVar("T")


class Remembered(Generic[T]):
    """Answers by question, each for its time; the same question asked twice at once is asked once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[Hashable, tuple[float, T]] = {}
        self._asked: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, T]], keep: Callable[[T], float]) -> T:
        """The answer; `keep` says for how many seconds it holds. A failure is not remembered."""
        known = self._answers.get(key)
        if known is not None and known[0] > self._clock.now():
            return known[1]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._forget(key, done))
        answer = await asyncio.shield(task)
        if len(self._answers) >= _REMEMBERED:
            self._answers.clear()
        self._answers[key] = (self._clock.now() + keep(answer), answer)
        return answer

    def _forget(self, key: Hashable, done: asyncio.Task[T]) -> None:
        del self._asked[key]
        if not done.cancelled():
            done.exception()  # looked at here, should all who asked have gone away


@frozen
class Reviewed:
    """What a TokenReview found out: the user (None: not authenticated) and the audiences that the token is for."""

    user: User | None
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenWebhook:
    """Asks a webhook who a token belongs to."""

    def __init__(self, config: WebhookConfig, clock: Clock) -> None:
        self._config = config
        self._caller = Caller(config)
        self._known: Remembered[Reviewed] = Remembered(clock)
        self._asked = 0

    async def review(self, token: str, audiences: tuple[str, ...] = ()) -> Reviewed:
        """The answer of the webhook, remembered; WebhookError if there is none."""
        began, asked = perf_counter(), self._asked
        try:
            return await self._known.get(
                (token, audiences), lambda: self._fetch(token, audiences), lambda _: self._config.remember
            )
        finally:
            status = "hit" if asked == self._asked else "miss"
            tally("authentication_token_cache_request_total").cell(status).value += 1
            tally("authentication_token_cache_request_duration_seconds").hist(status).observe(perf_counter() - began)

    async def close(self) -> None:
        """Closes the connections."""
        await self._caller.close()

    async def _fetch(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        self._asked += 1
        active = tally("authentication_token_cache_active_fetch_count").cell("in_flight")
        status = "error"
        active.value += 1
        try:
            found = await self._ask(token, audiences)
            status = "ok"
            return found
        finally:
            active.value -= 1
            tally("authentication_token_cache_fetch_total").cell(status).value += 1

    async def _ask(self, token: str, audiences: tuple[str, ...]) -> Reviewed:
        spec: Object = {"token": token}
        if audiences:
            spec["audiences"] = list(audiences)
        answer = await self._caller.post(
            {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        )
        status = answer["status"]
        user = user_of(status.get("user")) if status.get("authenticated") is True else None
        return Reviewed(user, tuple(map(str, status.get("audiences") or ())), str(status.get("error") or ""))


def user_of(info: Any) -> User | None:
    """A user from UserInfo as JSON; None if it names nobody."""
    if not isinstance(info, dict) or not isinstance(info.get("username"), str) or not info["username"]:
        return None
    extra = info.get("extra") if isinstance(info.get("extra"), dict) else {}
    return User(
        info["username"],
        tuple(map(str, info.get("groups") or ())),
        str(info.get("uid") or ""),
        {str(key).lower(): tuple(map(str, values or ())) for key, values in (extra or {}).items()},
    )


def user_info(user: User) -> Object:
    """UserInfo as JSON."""
    found: Object = {"username": user.name}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = list(user.groups)
    if user.extra:
        found["extra"] = {key: list(values) for key, values in user.extra.items()}
    return found


class AccessWebhook:
    """Asks a webhook what a user may do. Without an answer it has no opinion, and says why."""

    def __init__(self, config: WebhookConfig, clock: Clock) -> None:
        self._config = config
        self._caller = Caller(config)
        self._known: Remembered[Decision] = Remembered(clock)

    async def decide(self, attributes: AuthzAttributes) -> Decision:
        """Allowed, denied or no opinion."""
        user = attributes.user
        key = (
            (user.name, user.groups, user.uid, tuple(sorted(user.extra.items()))),
            (attributes.verb, attributes.group, attributes.version, attributes.resource, attributes.subresource),
            (attributes.namespace, attributes.name, attributes.path, attributes.resource_request),
            attributes.field_selector,
        )
        try:
            return await self._known.get(key, lambda: self._counted(attributes), self._keep)
        except WebhookError as error:
            return Decision(False, error=str(error))

    async def close(self) -> None:
        """Closes the connections."""
        await self._caller.close()

    def _keep(self, decision: Decision) -> float:
        return self._config.remember if decision.allow else self._config.remember_refusals

    async def _counted(self, attributes: AuthzAttributes) -> Decision:
        began, about = perf_counter(), (_NAME, "error")
        try:
            found = await self._ask(attributes)
            about = (_NAME, "success")
            return found
        except WebhookError as error:
            if isinstance(error.__context__, TimeoutError):
                about = (_NAME, "timeout")
            tally("apiserver_authorization_webhook_evaluations_fail_open_total").cell(*about).value += 1
            raise
        finally:
            tally("apiserver_authorization_webhook_evaluations_total").cell(*about).value += 1
            tally("apiserver_authorization_webhook_duration_seconds").hist(*about).observe(perf_counter() - began)

    async def _ask(self, attributes: AuthzAttributes) -> Decision:
        answer = await self._caller.post(
            {
                "kind": "SubjectAccessReview",
                "apiVersion": "authorization.k8s.io/v1",
                "spec": access_spec(attributes),
            }
        )
        status = answer["status"]
        reason = str(status.get("reason") or "")
        allowed, denied = status.get("allowed") is True, status.get("denied") is True
        if allowed and denied:
            raise WebhookError(f"webhook {self._config.url} both allowed and denied")
        error = str(status.get("evaluationError") or "")
        if not (allowed or denied or reason or error):
            return NO_OPINION
        return Decision(allowed, reason, denied, error)


def access_spec(attributes: AuthzAttributes) -> Object:
    """SubjectAccessReviewSpec: the user and what it wants, empty fields left out."""
    user = attributes.user
    spec: Object = {"user": user.name}
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if not attributes.resource_request:
        spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
        return spec
    wanted: Object = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.group,
        "version": attributes.version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    if attributes.field_selector:
        wanted["fieldSelector"] = {"rawSelector": attributes.field_selector}
    spec["resourceAttributes"] = {key: value for key, value in wanted.items() if value}
    return spec
