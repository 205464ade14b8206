"""Where objects lie in the store: `/registry/RESOURCE/NAMESPACE/NAME`, those of custom resources under their group.

So are those of metrics.k8s.io (upstream: of a server of its own): it has nodes and pods, too.

The layout is Kubernetes' own, so that a namespaced list is one range over its prefix.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.stored import Stored, sound, stamp
from dashpot.runtime.store.base import Entry

METRICS_GROUP = "metrics.k8s.io"


class Keys:
    """The keys of one stored resource."""

    def __init__(self, resource: Resource) -> None:
        grouped = resource.custom or resource.storage_group == METRICS_GROUP
        place = f"{resource.storage_group}/{resource.plural}" if grouped else resource.plural
        self.prefix = f"/registry/{place}/"
        self.namespaced = resource.namespaced

    def under(self, namespace: str) -> str:
        """The prefix of one namespace's objects; of all for "" and for resources of the cluster."""
        return f"{self.prefix}{namespace}/" if namespace and self.namespaced else self.prefix

    def key(self, namespace: str, name: str) -> str:
        """The key of one object."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else self.prefix + name

    def parts(self, key: str) -> tuple[str, str]:
        """Namespace and name of a key."""
        rest = key[len(self.prefix) :]
        if not self.namespaced:
            return "", rest
        namespace, _, name = rest.partition("/")
        return namespace, name

    def stored(self, entry: Entry) -> Stored:
        """An entry of the store as an object."""
        return self.written(entry.key, entry.value, entry.modified, entry.created)

    def written(self, key: str, value: bytes, revision: int, created: int) -> Stored:
        """What a write left as an object."""
        namespace, name = self.parts(key)
        sound(key, value)
        return Stored(key, namespace, name, revision, created, stamp(key, value, revision))


def storable(namespace: str, name: str) -> bool:
    """Whether the parts of a key are parts: a slash in a name would reach into another namespace."""
    return bool(name) and "/" not in name and "/" not in namespace
