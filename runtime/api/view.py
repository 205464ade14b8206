"""What the gates may look up: objects of the watch cache, decoded, without waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

Object = dict[str, Any]


class View(Protocol):
    """The newest state that this server has seen of each resource, in the form in which it is stored.

    The dictionaries are shared: never change one. All methods answer at once from memory; a resource that is not
    cached yet answers nothing, `fresh` waits for it.
    """

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object (namespace "" for those of the cluster)."""
        ...

    def list(self, group: str, plural: str, namespace: str | None = None) -> Iterable[Object]:
        """All objects of a resource, of one namespace or of all (None)."""
        ...

    def version(self, group: str, plural: str) -> int:
        """The revision of the last change of the resource: an index built from it holds as long as this does."""
        ...

    async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, not older than the call: from the cache after it has caught up with the store."""
        ...


class SyncedView(View, Protocol):
    """A View that can be waited for."""

    async def synced(self, group: str, plural: str) -> None:
        """Waits until the view of a resource is not older than the call."""
        ...
