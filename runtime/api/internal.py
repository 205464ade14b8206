"""Requests that the server makes of itself, through its own gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dashpot.runtime.api.exchange import LOOPBACK, User

Object = dict[str, Any]


class Internal(Protocol):
    """Calls the API in process; the answer is decoded."""

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        user: User = LOOPBACK,
    ) -> Object:
        """The object that was answered; raises StatusError where the answer is a failure."""
        ...
