"""Webhooks on loopback: what they may say, what happens when they say nothing, and where they are."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.api.auth_kit import HandClock, MemoryView, enter, exchange, refused, run, serving

from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision
from dashpot.runtime.api.auth.authn import AuthConfig, Authenticator
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.remote import Sender, WebhookConfig, WebhookConfigError, WebhookError, webhook_config
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.access import Access, Login

Object = dict[str, Any]


class Hook:
    """A webhook: what it was asked, and what it answers."""

    def __init__(self, status: Any = None, *, code: int = 200, slow: bool = False, raw: bytes | None = None) -> None:
        self.status = status
        self.code = code
        self.slow = slow
        self.raw = raw
        self.asked: list[Object] = []
        self.headers: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review)
        self.headers.append(request.headers.get("Authorization", ""))
        if self.slow:
            await asyncio.Event().wait()
        body = self.raw if self.raw is not None else msgspec.json.encode({**review, "status": self.status})
        return web.Response(status=self.code, body=body, content_type="application/json")


def with_token_hook(
    folder: Path,
    hook: Hook,
    test: Callable[[Authenticator, HandClock], Awaitable[None]],
    token: str = "",
    **config: Any,
) -> None:
    async def main() -> None:
        clock = HandClock()
        async with serving(hook.answer) as url:
            known = Authenticator(
                AuthConfig(webhook=WebhookConfig(url, Access(url, login=Login(token=token)), **config)),
                Pki.load_or_create(folder),
                MemoryView(),
                clock,
            )
            try:
                await test(known, clock)
            finally:
                await known.close()

    run(main)


ANN = {"username": "ann", "uid": "7", "groups": ["dev"], "extra": {"Scopes": ["read"]}}


def test_a_webhook_says_whose_a_token_is_and_is_asked_once_in_two_minutes(tmp_path: Path) -> None:
    hook = Hook({"authenticated": True, "user": ANN})

    async def test(known: Authenticator, clock: HandClock) -> None:
        wanted = User("ann", ("dev", "system:authenticated"), "7", {"scopes": ("read",)})
        assert await asyncio.gather(*(enter(known, "opaque") for _ in range(20))) == [wanted] * 20
        assert len(hook.asked) == 1, "asked at once twenty times, it was asked twenty times"
        clock.time += 119
        assert await enter(known, "opaque") == wanted
        assert len(hook.asked) == 1
        clock.time += 2
        assert await enter(known, "opaque") == wanted
        assert len(hook.asked) == 2

    with_token_hook(tmp_path, hook, test, token="t0k")
    assert hook.asked[0]["spec"] == {
        "token": "opaque",
        "audiences": ["https://kubernetes.default.svc.cluster.local"],
    }
    assert hook.headers == ["Bearer t0k"] * 2


@pytest.mark.parametrize(
    "hook",
    [
        Hook({"authenticated": False, "error": "unknown"}),
        Hook({"user": ANN}),
        Hook({"authenticated": "yes", "user": ANN}),
        Hook({"authenticated": True}),
        Hook({"authenticated": True, "user": {"username": ""}}),
        Hook({"authenticated": True, "user": ANN, "audiences": ["other"]}),
        Hook("text"),
        Hook({"authenticated": True, "user": ANN}, code=500),
        Hook({"authenticated": True, "user": ANN}, code=302),
        Hook(raw=b"not json"),
        Hook(raw=b"[" * 100_000),
        Hook(raw=b'{"kind":"SubjectAccessReview","status":{"authenticated":true,"user":{"username":"x"}}}'),
        Hook(raw=b" " * (2 << 20)),
    ],
)
def test_a_webhook_that_does_not_say_yes(tmp_path: Path, hook: Hook) -> None:
    async def test(known: Authenticator, clock: HandClock) -> None:
        assert await enter(known, "opaque") is None

    with_token_hook(tmp_path, hook, test)
    assert len(hook.asked) == 1


def test_a_webhook_that_does_not_answer_is_a_401_in_time(tmp_path: Path) -> None:
    async def test(known: Authenticator, clock: HandClock) -> None:
        start = time.monotonic()
        assert await enter(known, "opaque") is None
        assert time.monotonic() - start < 5
        assert known.attempts["error"] == 1

    with_token_hook(tmp_path, Hook(slow=True), test, timeout=0.05)


def test_a_webhook_that_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(Hook().answer) as url:
            pass
        known = Authenticator(
            AuthConfig(webhook=WebhookConfig(url)), Pki.load_or_create(tmp_path), MemoryView(), HandClock()
        )
        assert await enter(known, "opaque") is None
        assert "cannot be reached" in (await known.review("opaque")).error
        await known.close()

    run(main)


ASK = AuthzAttributes(
    User("eve", ("dev",)), "list", "apps", "v1", "deployments", "scale", "a", "", field_selector="metadata.name=x"
)


def with_access_hook(
    hook: Hook,
    test: Callable[[Authorizer, HandClock], Awaitable[None]],
    modes: tuple[str, ...] = ("Webhook",),
    **config: Any,
) -> None:
    async def main() -> None:
        clock = HandClock()
        async with serving(hook.answer) as url:
            judge = Authorizer(AuthzConfig(modes, WebhookConfig(url, **config)), MemoryView(), clock)
            try:
                await test(judge, clock)
            finally:
                await judge.close()

    run(main)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"allowed": True, "reason": "fine"}, Decision(True, "fine")),
        ({"allowed": False, "denied": True, "reason": "no"}, Decision(False, "no", denied=True)),
        ({"allowed": False}, Decision(False)),
        ({"allowed": False, "reason": "hm"}, Decision(False, "hm")),
        ({"allowed": False, "evaluationError": "broken"}, Decision(False, error="broken")),
    ],
)
def test_a_webhook_decides(status: Object, wanted: Decision) -> None:
    hook = Hook(status)

    async def test(judge: Authorizer, clock: HandClock) -> None:
        assert await judge.authorize(ASK) == wanted
        assert await judge.authorize(ASK) == wanted
        assert len(hook.asked) == 1

    with_access_hook(hook, test)
    assert hook.asked[0]["spec"] == {
        "user": "eve",
        "groups": ["dev"],
        "resourceAttributes": {
            "namespace": "a",
            "verb": "list",
            "group": "apps",
            "version": "v1",
            "resource": "deployments",
            "subresource": "scale",
            "fieldSelector": {"rawSelector": "metadata.name=x"},
        },
    }


def test_a_refusal_is_kept_for_less_time_than_a_permission() -> None:
    hook = Hook({"allowed": False})

    async def test(judge: Authorizer, clock: HandClock) -> None:
        assert not (await judge.authorize(ASK)).allow
        hook.status = {"allowed": True}
        clock.time += 31
        assert (await judge.authorize(ASK)).allow
        hook.status = {"allowed": False}
        clock.time += 119
        assert (await judge.authorize(ASK)).allow

    with_access_hook(hook, test)


def test_a_denial_ends_the_search_and_silence_goes_on() -> None:
    async def denied(judge: Authorizer, clock: HandClock) -> None:
        assert not (await judge.authorize(ASK)).allow

    async def silent(judge: Authorizer, clock: HandClock) -> None:
        assert (await judge.authorize(ASK)).allow

    with_access_hook(Hook({"allowed": False, "denied": True}), denied, ("Webhook", "AlwaysAllow"))
    with_access_hook(Hook({"allowed": False}), silent, ("Webhook", "AlwaysAllow"))


def test_a_webhook_that_fails_has_no_opinion_and_refusals_say_why() -> None:
    async def alone(judge: Authorizer, clock: HandClock) -> None:
        asked = exchange(User("eve"))
        error = await refused(judge.gate(asked))
        assert error.code == 500
        assert "did not answer in 0.05s" in error.message

    async def helped(judge: Authorizer, clock: HandClock) -> None:
        await judge.gate(exchange(User("eve")))

    with_access_hook(Hook(slow=True), alone, timeout=0.05)
    with_access_hook(Hook(slow=True), helped, ("Webhook", "AlwaysAllow"), timeout=0.05)


# -- where a webhook is -----------------------------------------------------------------------------------------


def kubeconfig(path: Path, cluster: Object, user: Object | None = None) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_bytes(msgspec.json.encode(document))
    return path


def test_a_webhook_over_tls_that_wants_a_certificate(tmp_path: Path) -> None:
    pki = Pki.load_or_create(tmp_path / "pki")
    admin = pki.admin()
    seen: list[bytes | None] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        seen.append(request.transport.get_extra_info("ssl_object").getpeercert(True))
        return web.Response()

    async def main() -> None:
        async with serving(answer, pki.server_context()) as url:
            cluster = {"server": url, "certificate-authority-data": base64.b64encode(pki.ca).decode()}
            data = {
                "client-certificate-data": base64.b64encode(admin.certificate).decode(),
                "client-key-data": base64.b64encode(admin.key).decode(),
            }
            files = {"client-certificate": "pki/admin.crt", "client-key": "pki/admin.key"}
            for user in (data, files):
                await Sender(webhook_config(kubeconfig(tmp_path / "hook", cluster, user)))({"kind": "EventList"})
            lax = webhook_config(kubeconfig(tmp_path / "hook", {"server": url, "insecure-skip-tls-verify": True}))
            await Sender(lax)({})
            with pytest.raises(WebhookError, match="cannot be reached"):
                await Sender(webhook_config(kubeconfig(tmp_path / "hook", {"server": url})))({})

    run(main)
    assert [bool(one) for one in seen] == [True, True, False]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is no YAML"),
        (b"- a", "is no kubeconfig"),
        (b"clusters: []", "no current-context is set"),
        (b'{"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"y"}', "there is no context 'y'"),
        (b'{"contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c"}]}', "server is no URL"),
    ],
)
def test_a_file_that_names_no_webhook(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "hook"
    path.write_bytes(content)
    with pytest.raises(WebhookConfigError, match=words):
        webhook_config(path)
    with pytest.raises(WebhookConfigError, match="there is no such file"):
        webhook_config(tmp_path / "gone")


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"server": "https://x", "certificate-authority-data": "!"}, "is no base64"),
        ({"server": "https://x", "certificate-authority-data": "eHg="}, "is no certificate in PEM"),
        ({"server": "https://x", "certificate-authority": "gone"}, "certificate-authority names .* cannot be read"),
    ],
)
def test_certificates_that_are_none(tmp_path: Path, cluster: Object, words: str) -> None:
    with pytest.raises(WebhookConfigError, match=words):
        webhook_config(kubeconfig(tmp_path / "hook", cluster))
