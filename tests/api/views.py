"""A view over plain dictionaries, for tests without a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Object = dict[str, Any]


class DictView:
    """What a test put in, by group and plural."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = defaultdict(dict)
        self.versions: dict[tuple[str, str], int] = defaultdict(int)

    def get(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object."""
        return self.objects[group, plural].get((namespace, name))

    def list(self, group: str, plural: str, namespace: str | None = None) -> Iterable[Object]:
        """All objects of a resource, of one namespace or of all."""
        return [one for (home, _), one in self.objects[group, plural].items() if namespace in (None, home)]

    def version(self, group: str, plural: str) -> int:
        """The number of the last change."""
        return self.versions[group, plural]

    async def synced(self, group: str, plural: str) -> None:
        """Plain dictionaries are never behind."""

    async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, not older than the call."""
        return self.get(group, plural, namespace, name)
