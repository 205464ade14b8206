"""An informer's store: the objects that are known, by key and by index. Source: client-go tools/cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dashpot.model.objects import selector
from dashpot.model.objects.selector import Selector

Object = dict[str, Any]
IndexFunction = Callable[[Object], Iterable[str]]
"""Under which values an object is found."""


def key_of(obj: Object) -> str:
    """`namespace/name`, or `name` of a cluster-wide object."""
    meta = obj["metadata"]
    space = meta.get("namespace")
    return f"{space}/{meta['name']}" if space else str(meta["name"])


def by_namespace(obj: Object) -> Iterable[str]:
    """The index function of namespaces."""
    return (obj["metadata"].get("namespace") or "",)


def split_key(key: str) -> tuple[str, str]:
    """Namespace (empty: cluster-wide) and name."""
    space, _, name = key.rpartition("/")
    return space, name


class Indexer:
    """Objects by key. They are shared: who changes one copies it first."""

    def __init__(self, indexers: Mapping[str, IndexFunction] | None = None) -> None:
        self._objects: dict[str, Object] = {}
        self._functions: dict[str, IndexFunction] = {"namespace": by_namespace, **(indexers or {})}
        self._indices: dict[str, dict[str, dict[str, None]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: str) -> Object | None:
        """The object of a key."""
        return self._objects.get(key)

    def keys(self) -> list[str]:
        """All keys."""
        return list(self._objects)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """A further index, over what is there already too; ValueError where the name is taken."""
        if name in self._functions:
            raise ValueError(f"there is an index {name!r} already")
        self._functions[name] = function
        index: dict[str, dict[str, None]] = {}
        self._indices[name] = index
        for key, obj in self._objects.items():
            for value in function(obj):
                index.setdefault(value, {})[key] = None

    def by_index(self, name: str, value: str) -> list[Object]:
        """The objects with that value; KeyError for an index that there is not."""
        return [self._objects[key] for key in self._indices[name].get(value, ())]

    def index_values(self, name: str) -> list[str]:
        """The values that some object has."""
        return list(self._indices[name])

    def put(self, key: str, obj: Object) -> Object | None:
        """Sets an object; the one that was there."""
        old = self._objects.get(key)
        self._objects[key] = obj
        self._index(key, old, obj)
        return old

    def remove(self, key: str) -> Object | None:
        """Takes an object out; None if it was not there."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._index(key, old, None)
        return old

    def _index(self, key: str, old: Object | None, new: Object | None) -> None:
        for name, function in self._functions.items():
            index = self._indices[name]
            before = set(function(old)) if old is not None else set()
            after = list(function(new)) if new is not None else []
            for value in before.difference(after):
                keys = index[value]
                keys.pop(key, None)
                if not keys:
                    del index[value]
            for value in after:
                if value not in before:
                    index.setdefault(value, {})[key] = None


class Lister:
    """Reads of an informer's store, as a client's are, without asking the server. Objects are shared: copy first."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer

    def get(self, name: str, namespace: str = "") -> Object | None:
        """One object, if it is known."""
        return self._indexer.get(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str = "", labels: str | Selector = "") -> list[Object]:
        """The objects of a namespace ("": of all) that a label selector selects."""
        rows: Iterable[Object] = self._indexer.by_index("namespace", namespace) if namespace else self._indexer
        chosen = selector.parse(labels) if isinstance(labels, str) else labels
        return list(rows) if chosen.empty else [obj for obj in rows if chosen.selects(obj)]
