"""What a client shows to be let in, kept fresh: token files are read again, plugins run again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping

from attrs import field, frozen

from dashpot.runtime.client.access import KubeconfigError, Login
from dashpot.runtime.client.execplugin import Told, run_plugin
from dashpot.runtime.clock import Clock

TOKEN_FILE_S = 60.0
"""How long a token file's content is believed (upstream: cachingTokenSource)."""


@frozen
class Shown:
    """What goes with a request: the Authorization header; and the certificate and key (PEM) of its connection."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


class Credentials:
    """One login. `environment` is what plugins inherit, `terminal` whether a person can answer them."""

    def __init__(
        self, login: Login, clock: Clock, environment: Mapping[str, str] | None = None, *, terminal: bool = False
    ) -> None:
        self._login = login
        self._clock = clock
        self._environment = environment or {}
        self._terminal = terminal
        self._lock = asyncio.Lock()
        self._told: Told | None = None
        self._fixed: Shown | None = None
        if login.plugin is None and login.token_file is None:
            self._fixed = self._shown(login.token, login.certificate, login.key)

    async def current(self) -> Shown:
        """What to show now; KubeconfigError where it cannot be had."""
        if self._fixed is not None:
            return self._fixed
        async with self._lock:
            if self._told is None or (self._told.expires is not None and self._clock.now() >= self._told.expires):
                self._told = await self._fresh()
            told = self._told
        return self._shown(told.token, told.certificate, told.key)

    def refused(self, shown: Shown) -> bool:
        """The server does not know it (401): whether to ask again and try once more."""
        if self._fixed is not None:
            return False
        told = self._told
        if told is not None and self._shown(told.token, told.certificate, told.key) == shown:
            self._told = None
        return True

    async def _fresh(self) -> Told:
        login = self._login
        if login.plugin is not None:
            told = await run_plugin(login.plugin, self._environment, terminal=self._terminal)
            if told.certificate:
                return told
            return Told(told.token, login.certificate, login.key, told.expires)
        path = login.token_file
        assert path is not None
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no text"
            raise KubeconfigError(f"tokenFile {path} cannot be read ({reason}): correct the path in the user") from None
        if not token:
            raise KubeconfigError(f"tokenFile {path} is empty: write a token into it")
        return Told(token, login.certificate, login.key, self._clock.now() + TOKEN_FILE_S)

    def _shown(self, token: str, certificate: bytes, key: bytes) -> Shown:
        if token:
            return Shown(f"Bearer {token}", certificate, key)
        if self._login.username:
            pair = f"{self._login.username}:{self._login.password}"
            return Shown(f"Basic {base64.b64encode(pair.encode()).decode()}", certificate, key)
        return Shown("", certificate, key)
