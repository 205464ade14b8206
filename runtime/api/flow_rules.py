"""Which requests a FlowSchema means, and to which flow each belongs.

Source: k8s.io/apiserver pkg/util/flowcontrol/{match,rule}.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen

from dashpot.runtime.api.auth.attributes import account_of
from dashpot.runtime.api.exchange import Info, User

Object = dict[str, Any]


@frozen
class Rule:
    """Who may do what: one `rules` entry. Sets that hold `*` mean everything."""

    users: frozenset[str]
    groups: frozenset[str]
    accounts: frozenset[tuple[str, str]]
    """Namespace and name; the name `*` is every account of the namespace."""
    resources: tuple[ResourceRule, ...]
    paths: tuple[PathRule, ...]

    def matches(self, info: Info, user: User) -> bool:
        """Whether a request of a user is meant."""
        return self._subject(user) and (
            any(rule.matches(info) for rule in self.resources)
            if info.resource_request
            else any(rule.matches(info) for rule in self.paths)
        )

    def _subject(self, user: User) -> bool:
        if "*" in self.users or user.name in self.users:
            return True
        if "*" in self.groups or not self.groups.isdisjoint(user.groups):
            return True
        if not self.accounts:
            return False
        account = account_of(user.name)
        return account is not None and (account in self.accounts or (account[0], "*") in self.accounts)


@frozen
class ResourceRule:
    """Verbs on resources, in namespaces and (or) of the cluster."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    namespaces: frozenset[str]
    cluster: bool

    def matches(self, info: Info) -> bool:
        """Whether a resource request is meant."""
        if "*" not in self.verbs and info.verb not in self.verbs:
            return False
        if "*" not in self.groups and info.group not in self.groups:
            return False
        if "*" not in self.resources:
            named = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
            if named not in self.resources:
                return False
        if not info.namespace:
            return self.cluster
        return "*" in self.namespaces or info.namespace in self.namespaces


@frozen
class PathRule:
    """Verbs on paths that are no resources; a path may end in `/*`."""

    verbs: frozenset[str]
    paths: tuple[str, ...]

    def matches(self, info: Info) -> bool:
        """Whether a request for a path is meant."""
        if "*" not in self.verbs and info.verb not in self.verbs:
            return False
        path = info.path
        return any(
            one in ("*", path) or (one.endswith("/*") and path.startswith(one.rstrip("*"))) for one in self.paths
        )


@frozen
class Schema:
    """One FlowSchema, compiled. `distinguisher` is ByUser, ByNamespace or empty."""

    name: str
    uid: str
    level: str
    precedence: int
    distinguisher: str
    rules: tuple[Rule, ...]

    def matches(self, info: Info, user: User) -> bool:
        """Whether it means a request."""
        return any(rule.matches(info, user) for rule in self.rules)

    def flow(self, info: Info, user: User) -> str:
        """What tells one flow of it from another."""
        if self.distinguisher == "ByUser":
            return user.name
        return info.namespace if self.distinguisher == "ByNamespace" else ""


def compile_schema(obj: Object) -> Schema:
    """A FlowSchema object as Schema."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    return Schema(
        meta["name"],
        meta.get("uid", ""),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence") or 1000,
        (spec.get("distinguisherMethod") or {}).get("type", ""),
        tuple(_rule(rule) for rule in spec.get("rules") or ()),
    )


def ordered(schemas: Iterable[Schema]) -> list[Schema]:
    """By precedence, then by name: the first that matches decides."""
    return sorted(schemas, key=lambda schema: (schema.precedence, schema.name))


def _rule(raw: Object) -> Rule:
    subjects = raw.get("subjects") or ()

    def names(kind: str) -> frozenset[str]:
        found = (s.get(kind.lower()) or {} for s in subjects if s.get("kind") == kind)
        return frozenset(one.get("name", "") for one in found)

    accounts = (s.get("serviceAccount") or {} for s in subjects if s.get("kind") == "ServiceAccount")
    return Rule(
        names("User"),
        names("Group"),
        frozenset((one.get("namespace", ""), one.get("name", "")) for one in accounts),
        tuple(
            ResourceRule(
                frozenset(one.get("verbs") or ()),
                frozenset(one.get("apiGroups") or ()),
                frozenset(one.get("resources") or ()),
                frozenset(one.get("namespaces") or ()),
                bool(one.get("clusterScope")),
            )
            for one in raw.get("resourceRules") or ()
        ),
        tuple(
            PathRule(frozenset(one.get("verbs") or ()), tuple(one.get("nonResourceURLs") or ()))
            for one in raw.get("nonResourceRules") or ()
        ),
    )
