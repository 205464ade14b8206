"""What a request for a log asks: its options, checked in Kubernetes' words.

Sources: pkg/apis/core/validation (ValidatePodLogOptions), pkg/registry/core/pod/rest/log.go, release 1.34.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

from dashpot.model.objects.status import (
    Cause,
    StatusError,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
)
from dashpot.runtime.api.exchange import Request
from dashpot.runtime.api.streams.node import LogOptions

ALIVE_S = 15.0
"""How often a silent log looks whether its reader is still there."""
_TIME = re.compile(r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_INT = re.compile(r"[+-]?\d{1,20}")


def _number(request: Request, name: str) -> int | None:
    text = request.get(name)
    if not text:
        return None
    if not _INT.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text[:64]}": invalid syntax')
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def options(request: Request, pod: str) -> LogOptions:
    """Reads the query; StatusError 400 for what is no number or time, 422 for what does not make sense."""
    since = request.get("sinceTime") or None
    if since is not None and not _TIME.fullmatch(since):
        shown = since[:64].replace('"', '\\"')
        raise bad_request(f'parsing time "{shown}" as "2006-01-02T15:04:05Z07:00": cannot parse "{shown}" as "2006"')
    found = LogOptions(
        follow=request.flag("follow"),
        previous=request.flag("previous"),
        timestamps=request.flag("timestamps"),
        since_seconds=_number(request, "sinceSeconds"),
        since_time=since,
        tail_lines=_number(request, "tailLines"),
        limit_bytes=_number(request, "limitBytes"),
    )
    causes = _causes(found)
    if request.get("stream"):
        causes.append(forbidden_field("stream", "may not be specified"))
    if causes:
        raise invalid("", "PodLogOptions", pod, causes)
    return found


def _causes(found: LogOptions) -> list[Cause]:
    causes: list[Cause] = []
    if found.tail_lines is not None and found.tail_lines < 0:
        causes.append(invalid_value("tailLines", found.tail_lines, "must be greater than or equal to 0"))
    if found.limit_bytes is not None and found.limit_bytes < 1:
        causes.append(invalid_value("limitBytes", found.limit_bytes, "must be greater than 0"))
    if found.since_seconds is not None:
        if found.since_time is not None:
            causes.append(forbidden_field("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
        elif found.since_seconds < 1:
            causes.append(invalid_value("sinceSeconds", found.since_seconds, "must be greater than 0"))
    return causes


async def limited(pieces: AsyncIterator[bytes], limit: int | None, alive_s: float = ALIVE_S) -> AsyncIterator[bytes]:
    """The pieces, at most `limit` bytes of them, and an empty one whenever there was none for a while.

    The next piece is asked for only when the last was sent: a slow reader costs one piece of memory.
    """
    left = limit
    upcoming: asyncio.Future[bytes | None] | None = None
    try:
        while left is None or left > 0:
            if upcoming is None:
                upcoming = asyncio.ensure_future(_next(pieces))
            done, _ = await asyncio.wait((upcoming,), timeout=alive_s)
            if not done:
                yield b""
                continue
            try:
                piece = upcoming.result()
            except (StatusError, OSError):
                # the head of the answer is long sent: all that can be said is that the log ends here
                return
            finally:
                upcoming = None
            if piece is None:
                return
            if left is not None:
                piece = piece[:left]
                left -= len(piece)
            if piece:
                yield piece
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
