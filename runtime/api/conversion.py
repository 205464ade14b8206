"""Stored objects in the version that was asked for: the stored bytes where that is theirs, else converted and kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from dashpot.model.objects.convert import convert
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.stored import Stored

Object = dict[str, Any]
Webhook = Callable[[Sequence[Object], str], Awaitable[Sequence[Object]]]
"""Converts objects to an apiVersion by asking somebody else (a CRD's conversion webhook)."""

_START = b'{"apiVersion":"'


def head(api_version: str) -> bytes:
    """How the JSON of an object of this version begins."""
    return _START + api_version.encode() + b'"'


def _made(stored: Stored, obj: Object, api_version: str) -> Stored:
    metadata = {"resourceVersion": str(stored.revision), **obj["metadata"]}
    first = {"apiVersion": api_version, "kind": obj["kind"], "metadata": metadata}
    whole = first | {key: value for key, value in obj.items() if key not in first}
    raw = msgspec.json.encode(whole)
    return Stored(stored.key, stored.namespace, stored.name, stored.revision, stored.created, raw)


class Conversion:
    """To the version of one resource. `webhook` serves custom resources whose versions differ by more than their name;
    others with several versions keep their fields and change the name alone."""

    def __init__(self, resource: Resource, webhook: Webhook | None = None) -> None:
        self.api_version = resource.api_version
        self._custom = resource.custom
        self._head = head(self.api_version)
        self._webhook = webhook

    @property
    def asks(self) -> bool:
        """Whether objects of other versions have to be prepared."""
        return self._webhook is not None

    def same(self, stored: Stored) -> bool:
        """Whether the object is stored in this version."""
        return stored.raw.startswith(self._head)

    def one(self, stored: Stored) -> Stored:
        """The object in this version; StatusError 500 for one that only the webhook can convert and `prepare` did
        not."""
        if stored.raw.startswith(self._head):
            return stored
        found: Stored | None = stored.rendering(self.api_version)
        if found is None:
            found = self._convert(stored)
            stored.keep(self.api_version, found)
        return found

    def _convert(self, stored: Stored) -> Stored:
        if self._custom:
            if self._webhook is not None:
                raise StatusError("InternalError", f"{stored.key} was not converted to {self.api_version}")
            end = stored.raw.index(b'"', len(_START))
            raw = _START + self.api_version.encode() + stored.raw[end:]
            return Stored(stored.key, stored.namespace, stored.name, stored.revision, stored.created, raw)
        return _made(stored, convert(stored.glance, self.api_version), self.api_version)

    async def prepare(self, found: Sequence[Stored]) -> None:
        """Asks the webhook for all that are of another version, in one call; then `one` knows them."""
        if self._webhook is None:
            return
        missing = [s for s in found if not self.same(s) and s.rendering(self.api_version) is None]
        if not missing:
            return
        converted = await self._webhook([stored.glance for stored in missing], self.api_version)
        for stored, obj in zip(missing, converted, strict=True):
            stored.keep(self.api_version, _made(stored, obj, self.api_version))
