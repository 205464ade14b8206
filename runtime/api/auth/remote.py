"""A webhook far away: where it is, as a kubeconfig file says it (the cluster is the webhook, the user is this server),
and how objects are posted to it.

Source: kube-apiserver --authentication-token-webhook-config-file, --authorization-webhook-config-file and
--audit-webhook-config-file, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from attrs import frozen

from dashpot.runtime.client.access import Access, KubeconfigError, tls_context
from dashpot.runtime.client.http import HttpTransport
from dashpot.runtime.client.kubeconfig import load
from dashpot.runtime.client.transport import Call, TransportError

Object = dict[str, Any]

ANSWER_LIMIT = 1 << 20
"""Bytes of an answer that are read."""
CONNECTIONS = 64


class WebhookConfigError(ValueError):
    """A webhook's file that cannot be read or understood; the text names the file and what is wrong."""


@frozen
class WebhookConfig:
    """Where a webhook is and how it is called. Times in seconds; without `access` nothing but the URL is known."""

    url: str
    access: Access | None = None
    timeout: float = 10.0
    remember: float = 120.0
    """How long answers about tokens are kept, and permissions that were given."""
    remember_refusals: float = 30.0
    """How long refused permissions are kept."""


def webhook_config(path: Path) -> WebhookConfig:
    """Reads a kubeconfig; its current context (or its only one) counts. WebhookConfigError."""
    try:
        found = load([path], needed=True)
        context = found.current or (next(iter(found.contexts)) if len(found.contexts) == 1 else "")
        access = found.access(context)
        tls_context(access, access.login.certificate, access.login.key)
    except KubeconfigError as error:
        raise WebhookConfigError(str(error)) from None
    return WebhookConfig(access.server, access)


class WebhookError(Exception):
    """The webhook did not answer, or not in a way that can be understood; the text is for a log and a person."""


class Caller:
    """Posts objects to one webhook over kept connections."""

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config
        self._transport = HttpTransport(config.access or Access(config.url), connections=CONNECTIONS)

    async def post(self, review: Object) -> Object:
        """The answer to a review; WebhookError after the time limit or on any failure."""
        content = await self.send(review)
        try:
            found = msgspec.json.decode(content, type=Object)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise WebhookError(f"webhook {self._config.url} answered no object") from None
        if found.get("kind") != review["kind"] or not isinstance(found.get("status"), dict):
            raise WebhookError(f"webhook {self._config.url} answered no {review['kind']} with a status")
        return found

    async def send(self, body: Object) -> bytes:
        """The bytes that were answered with a status of success; WebhookError otherwise."""
        try:
            async with asyncio.timeout(self._config.timeout):
                return await self._send(body)
        except TimeoutError:
            raise WebhookError(f"webhook {self._config.url} did not answer in {self._config.timeout:g}s") from None
        except TransportError as error:
            raise WebhookError(f"webhook {error}") from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def _send(self, body: Object) -> bytes:
        headers = (("content-type", "application/json"), ("accept", "application/json"))
        # a redirect would carry the token that is asked about to another place: the transport follows none
        answer = await self._transport.send(Call("POST", "", headers=headers, body=msgspec.json.encode(body)))
        try:
            content = await read_limited(answer.chunks, ANSWER_LIMIT)
        finally:
            await answer.close()
        if not 200 <= answer.code < 300:
            raise WebhookError(f"webhook {self._config.url} answered {answer.code}")
        return content


async def read_limited(stream: aiohttp.StreamReader | AsyncIterator[bytes], limit: int) -> bytes:
    """All bytes of a stream; WebhookError beyond the limit."""
    parts: list[bytes] = []
    size = 0
    async for part in stream.iter_any() if isinstance(stream, aiohttp.StreamReader) else stream:
        size += len(part)
        if size > limit:
            raise WebhookError(f"the answer is longer than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


class Sender:
    """Posts objects now and then, and looks at nothing but whether they were taken (audit events)."""

    def __init__(self, config: WebhookConfig) -> None:
        self._config = config

    async def __call__(self, body: Object) -> None:
        """WebhookError where it was not taken."""
        caller = Caller(self._config)
        try:
            await caller.send(body)
        finally:
            await caller.close()
