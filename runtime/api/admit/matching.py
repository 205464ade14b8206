"""Which writes a webhook or a policy wants: rules, namespace selector, object selector, equivalent versions.

Sources: k8s.io/apiserver pkg/admission/plugin/webhook/predicates/{rules,namespace,object}, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from dashpot.model.objects import selector
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Subject, not_found
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object
from dashpot.runtime.api.view import View

Labels = Mapping[str, str]
LabelTest = Callable[[Labels], bool]

REGISTRATION = "admissionregistration.k8s.io"
NAMESPACES = Subject("", "namespaces")


class Catalog(Protocol):
    """What is served: how one object is shown in several versions."""

    def equivalents(self, resource: Resource) -> Sequence[Resource]:
        """All resources that show the same objects, in order of preference; the resource itself is among them."""
        ...

    async def convert(self, one: Object, source: Resource, target: Resource) -> Object:
        """The object as another of them shows it: a new object, the given one is not changed."""
        ...


@frozen
class Rule:
    """One RuleWithOperations, or NamedRuleWithOperations of a policy."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """`(resource, subresource)`, each may be `*`; an empty subresource is the main resource."""
    scope: str
    names: frozenset[str]

    @staticmethod
    def of(rule: Object) -> Rule:
        """Reads a rule; absent lists match nothing, as upstream."""
        parts = [str(text).partition("/") for text in rule.get("resources") or ()]
        return Rule(
            frozenset(rule.get("operations") or ()),
            frozenset(rule.get("apiGroups") or ()),
            frozenset(rule.get("apiVersions") or ()),
            tuple((resource, sub) for resource, _, sub in parts),
            rule.get("scope") or "*",
            frozenset(rule.get("resourceNames") or ()),
        )

    def matches(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Whether such a write is meant, names aside."""
        if "*" not in self.operations and operation not in self.operations:
            return False
        if "*" not in self.groups and resource.group not in self.groups:
            return False
        if "*" not in self.versions and resource.version not in self.versions:
            return False
        if self.scope != "*" and (self.scope == "Namespaced") != resource.namespaced:
            return False
        return any(r in ("*", resource.plural) and sub in ("*", subresource) for r, sub in self.resources)


def match_resource(
    rules: Sequence[Rule],
    operation: str,
    resource: Resource,
    subresource: str,
    equivalents: Sequence[Resource] = (),
) -> tuple[Resource, frozenset[str]] | None:
    """The version that the rules ask for: the written one, else an equivalent one; with the names they are limited to.

    None where no rule matches; no names means all.
    """
    for candidate in (resource, *(r for r in equivalents if r is not resource)):
        found = [rule for rule in rules if rule.matches(operation, candidate, subresource)]
        if found:
            limited = all(rule.names for rule in found)
            return candidate, frozenset[str]().union(*(rule.names for rule in found)) if limited else frozenset()
    return None


def asked(attributes: Attributes) -> Resource:
    """The resource in the version of the request, where objects are stored in another one."""
    found = attributes.exchange.resource
    if found is None or found is attributes.resource:
        return attributes.resource
    stored = (found.plural, found.storage_group, found.storage_version)
    own = attributes.resource
    return found if stored == (own.plural, own.storage_group, own.storage_version) else own


def label_test(source: Object | None) -> LabelTest | None:
    """A LabelSelector as a function; None for one that matches everything."""
    if not source or not (source.get("matchLabels") or source.get("matchExpressions")):
        return None
    return selector.from_object(source).matches


def _labels(one: Object | None) -> Labels:
    metadata: Any = (one or {}).get("metadata") or {}
    found: Labels = metadata.get("labels") or {}
    return found


def object_matches(test: LabelTest | None, attributes: Attributes) -> bool:
    """Whether the new or the old object has the labels."""
    if test is None:
        return True
    return any(one is not None and test(_labels(one)) for one in (attributes.object, attributes.old))


async def namespace_matches(test: LabelTest | None, attributes: Attributes, view: View) -> bool:
    """Whether the namespace of the object, or the namespace that is the object, has the labels.

    Objects of the cluster always match; 404 where the namespace does not exist.
    """
    if test is None:
        return True
    resource = attributes.resource
    if resource.group == "" and resource.plural == "namespaces":
        if not attributes.subresource and attributes.operation in (CREATE, UPDATE):
            return test(_labels(attributes.object))
        return test(_labels(attributes.old))
    if not attributes.namespace:
        return True
    namespace = await find_namespace(attributes.namespace, view)
    return test(_labels(namespace))


async def find_namespace(name: str, view: View) -> Object:
    """A namespace from the cache, else from the store; 404 where there is none."""
    found = view.get("", "namespaces", "", name) or await view.fresh("", "namespaces", "", name)
    if found is None:
        raise not_found(NAMESPACES, name)
    return found
