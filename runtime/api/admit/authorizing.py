"""CEL's `authorizer`: asks what the user of the request, or a service account, may do.

Source: k8s.io/apiserver pkg/cel/library/authz.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import evolve, frozen

from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision, account_groups, account_user
from dashpot.runtime.api.exchange import User

Decide = Callable[[AuthzAttributes], Decision]
"""Decides at once, without waiting."""


@frozen(eq=False)
class CelDecision:
    """What the authorizer said."""

    cel_type = "kubernetes.authorization.Decision"
    decision: Decision

    def cel_allowed(self) -> bool:
        """Whether the action is allowed."""
        return self.decision.allow

    def cel_reason(self) -> str:
        """Why."""
        return self.decision.reason

    def cel_errored(self) -> bool:
        """Whether the authorizer failed."""
        return bool(self.decision.error)

    def cel_error(self) -> str:
        """How it failed."""
        return self.decision.error


@frozen(eq=False)
class ResourceCheck:
    """An action on a resource, still without verb."""

    cel_type = "kubernetes.authorization.ResourceCheck"
    decide: Decide
    attributes: AuthzAttributes

    def cel_subresource(self, name: str) -> ResourceCheck:
        """On a subresource."""
        return evolve(self, attributes=evolve(self.attributes, subresource=name))

    def cel_namespace(self, name: str) -> ResourceCheck:
        """In a namespace."""
        return evolve(self, attributes=evolve(self.attributes, namespace=name))

    def cel_name(self, name: str) -> ResourceCheck:
        """On one object."""
        return evolve(self, attributes=evolve(self.attributes, name=name))

    def cel_fieldSelector(self, text: str) -> ResourceCheck:
        """On the objects that a field selector chooses."""
        return evolve(self, attributes=evolve(self.attributes, field_selector=text))

    def cel_labelSelector(self, text: str) -> ResourceCheck:
        """On the objects that a label selector chooses; no authorizer here looks at it."""
        return self

    def cel_check(self, verb: str) -> CelDecision:
        """The decision for a verb."""
        return CelDecision(self.decide(evolve(self.attributes, verb=verb)))


@frozen(eq=False)
class GroupCheck:
    """A group of resources, named by the last call."""

    cel_type = "kubernetes.authorization.GroupCheck"
    decide: Decide
    user: User
    group: str

    def cel_resource(self, name: str) -> ResourceCheck:
        """A resource of the group."""
        return ResourceCheck(self.decide, AuthzAttributes(self.user, "", self.group, "*", name))


@frozen(eq=False)
class PathCheck:
    """A path that is no resource."""

    cel_type = "kubernetes.authorization.PathCheck"
    decide: Decide
    user: User
    path: str

    def cel_check(self, verb: str) -> CelDecision:
        """The decision for a method in lower case."""
        asked = AuthzAttributes(self.user, verb, path=self.path, resource_request=False)
        return CelDecision(self.decide(asked))


class CelAuthorizer(Mapping[str, Any]):
    """The variable `authorizer`; its field `requestResource` is the resource that is written."""

    cel_type = "kubernetes.authorization.Authorizer"

    def __init__(self, decide: Decide, user: User, written: AuthzAttributes) -> None:
        self._decide, self._user, self._written = decide, user, written

    def __getitem__(self, key: str) -> Any:
        if key != "requestResource":
            raise KeyError(key)
        return ResourceCheck(self._decide, self._written)

    def __iter__(self) -> Iterator[str]:
        return iter(("requestResource",))

    def __len__(self) -> int:
        return 1

    def cel_path(self, path: str) -> PathCheck:
        """`authorizer.path('/healthz')`."""
        return PathCheck(self._decide, self._user, path)

    def cel_group(self, group: str) -> GroupCheck:
        """`authorizer.group('apps')`."""
        return GroupCheck(self._decide, self._user, group)

    def cel_serviceAccount(self, namespace: str, name: str) -> CelAuthorizer:
        """On behalf of a service account."""
        groups = ("system:authenticated", *account_groups(namespace))
        user = User(account_user(namespace, name), groups)
        return CelAuthorizer(self._decide, user, evolve(self._written, user=user))
