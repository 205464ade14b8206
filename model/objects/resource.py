"""What can be asked of an API: resources, their verbs and subresources, each with the schema of its kind."""

from __future__ import annotations

from attrs import field, frozen

from dashpot.model.objects.status import Object, Subject

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@frozen
class Subresource:
    """`deployments/scale`: its kind may be of another group (autoscaling/v1 Scale, policy/v1 Eviction)."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@frozen(eq=False)
class Resource:
    """One resource in one version, as discovery tells it.

    `storage_group` and `storage_version` name the form in which objects are stored: another one where two resources
    show the same objects (autoscaling v1 and v2; core and events.k8s.io events, stored as core/v1).
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...] = ALL_VERBS
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    storage_group: str = field(kw_only=True)
    storage_version: str = field(kw_only=True)
    custom: bool = field(default=False, kw_only=True)
    list_kind: str = field(default="", kw_only=True)
    """Of a custom resource whose definition names another than KIND + `List`."""
    printer_columns: tuple[Object, ...] = field(default=(), kw_only=True)
    """A custom resource's additionalPrinterColumns."""
    deprecation: str = field(default="", kw_only=True)
    """What whoever asks for it is warned of."""
    selectable_fields: tuple[str, ...] = field(default=(), kw_only=True)
    """JSON paths of a custom resource's selectableFields."""

    @property
    def api_version(self) -> str:
        """`apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def subject(self) -> Subject:
        """How failures name it."""
        return Subject(self.group, self.plural)

    @property
    def qualified(self) -> str:
        """`deployments.apps`, `pods`."""
        return self.subject.qualified

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name."""
        return next((sub for sub in self.subresources if sub.name == name), None)
