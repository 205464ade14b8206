"""An actor's own writes, and whether its caches have seen them: a key waits until they have (KEP-5647)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from attrs import frozen

from dashpot.runtime.client.reflector import older
from dashpot.runtime.controller.caches import KindCache
from dashpot.runtime.controller.calls import Answer
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest


@frozen
class _Write:
    """The newest version written of a kind, in which epoch of its cache."""

    version: str
    epoch: int


@frozen
class _Removal:
    """An object that was deleted: its cache must show it gone, or terminating."""

    kind: str
    namespace: str
    name: str
    uid: str
    epoch: int


class OwnWrites:
    """The last writes for each key, for the kinds of `caches`."""

    def __init__(self, caches: Mapping[str, KindCache]) -> None:
        self._caches = caches
        self._writes: dict[Hashable, dict[str, _Write]] = {}
        self._removals: dict[Hashable, dict[tuple[str, str], _Removal]] = {}

    def wrote(self, key: Hashable, request: ApiRequest, answer: Answer) -> None:
        """Notes a write that the server has answered."""
        cache = self._caches.get(request.kind)
        if cache is None or not request.writes:
            return
        if request.verb in ("delete", "evict"):
            uid = request.target.uid if request.target is not None else ""
            if uid:
                gone = _Removal(request.kind, request.namespace, request.name, uid, cache.epoch)
                self._removals.setdefault(key, {})[request.kind, uid] = gone
        elif isinstance(answer, Obj) and answer.version.isdigit():
            rows = self._writes.setdefault(key, {})
            known = rows.get(request.kind)
            if known is None or known.epoch != cache.epoch or older(known.version, answer.version):
                rows[request.kind] = _Write(answer.version, cache.epoch)

    def seen(self, key: Hashable) -> bool:
        """Whether the caches have passed all writes for the key; what they have passed is forgotten."""
        rows = self._writes.get(key)
        if rows is not None:
            for kind in [kind for kind, write in rows.items() if self._passed(kind, write)]:
                del rows[kind]
            if not rows:
                del self._writes[key]
        gone = self._removals.get(key)
        if gone is not None:
            for at in [at for at, removal in gone.items() if self._gone(removal)]:
                del gone[at]
            if not gone:
                del self._removals[key]
        return key not in self._writes and key not in self._removals

    def _passed(self, kind: str, write: _Write) -> bool:
        cache = self._caches[kind]
        # after a restore from a backup the version may never come
        return write.epoch != cache.epoch or not older(cache.version, write.version)

    def _gone(self, removal: _Removal) -> bool:
        cache = self._caches[removal.kind]
        if removal.epoch != cache.epoch:
            return True
        there = cache.get(removal.namespace, removal.name)
        return there is None or there.uid != removal.uid or bool(there.meta.get("deletionTimestamp"))
