"""Nobody grants what he does not hold: writes of roles and bindings are checked against the writer's own rights.

Source: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go and
pkg/registry/rbac/escalation_check.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from dashpot.model.objects.status import StatusError, Subject, forbidden, not_found, shown
from dashpot.runtime.api.admit.base import DELETE, Attributes
from dashpot.runtime.api.auth.attributes import MASTERS, AuthzAttributes, Decision
from dashpot.runtime.api.auth.rbac import GROUP, NoRole, Rbac
from dashpot.runtime.api.auth.rules import Rule, TooManyPieces, compact, compile_rules, missing, told, told_list
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]

ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")
FULL_AUTHORITY: list[Object] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]

Authorize = Callable[[AuthzAttributes], Awaitable[Decision]]


def _only_for_collection(new: Object, old: Object) -> bool:
    """Whether an update changes at most what the garbage collector writes: finalizers and owner references."""

    def rest(one: Object) -> Object:
        ignored = ("finalizers", "ownerReferences", "managedFields", "resourceVersion", "selfLink")
        meta = {key: value for key, value in one.get("metadata", {}).items() if key not in ignored}
        return {**one, "metadata": meta}

    return rest(new) == rest(old)


class Escalation:
    """The check, by an authorizer (for the verbs escalate and bind) and the writer's RBAC rules."""

    def __init__(self, rbac: Rbac, authorize: Authorize) -> None:
        self._rbac = rbac
        self._authorize = authorize

    def handles(self, attributes: Attributes) -> bool:
        """Whether the write is one of a role or a binding."""
        return (
            attributes.resource.group == GROUP
            and not attributes.subresource
            and attributes.operation != DELETE
            and attributes.resource.plural in ROLES + BINDINGS
        )

    async def check(self, attributes: Attributes) -> None:
        """Passes a write of a role or binding, or raises 403 with the rights that the writer lacks."""
        new, old, user = attributes.object, attributes.old, attributes.user
        if new is None or not self.handles(attributes) or MASTERS in user.groups:
            return
        if old is not None and _only_for_collection(new, old):
            return
        if attributes.resource.plural in ROLES:
            await self._check_role(attributes, new, old)
        else:
            await self._check_binding(attributes, new)

    async def _check_role(self, attributes: Attributes, new: Object, old: Object | None) -> None:
        if old is not None and all(new.get(key) == old.get(key) for key in ("rules", "aggregationRule")):
            return
        name = _name(attributes, new)
        if await self._may(attributes, "escalate", attributes.resource.plural, name):
            return
        self._confirm(attributes, name, compile_rules(new.get("rules")))
        if any((one or {}).get("aggregationRule") for one in (new, old)):
            held, _ = self._rbac.rules_for(attributes.user, attributes.namespace)
            if missing(held, compile_rules(FULL_AUTHORITY)):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise forbidden(attributes.resource.subject, name, why)

    async def _check_binding(self, attributes: Attributes, new: Object) -> None:
        role = new.get("roleRef") or {}
        kind, name = role.get("kind", ""), role.get("name", "")
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind, "")
        if plural and await self._may(attributes, "bind", plural, name):
            return
        try:
            rules = self._rbac.role_rules(kind, name, attributes.namespace)
        except NoRole as error:
            if plural:
                raise not_found(Subject(GROUP, plural), name) from None
            raise forbidden(attributes.resource.subject, _name(attributes, new), str(error)) from None
        self._confirm(attributes, _name(attributes, new), rules)

    async def _may(self, attributes: Attributes, verb: str, plural: str, name: str) -> bool:
        asked = AuthzAttributes(attributes.user, verb, GROUP, "*", plural, "", attributes.namespace, name)
        return (await self._authorize(asked)).allow

    def _confirm(self, attributes: Attributes, name: str, wanted: tuple[Rule, ...]) -> None:
        user = attributes.user
        held, errors = self._rbac.rules_for(user, attributes.namespace)
        try:
            lacking = missing(held, wanted)
        except TooManyPieces as error:
            raise forbidden(attributes.resource.subject, name, f"the rules cannot be compared: {error}") from None
        if lacking:
            raise _escalation(attributes, user, name, lacking, errors)


def _escalation(attributes: Attributes, user: User, name: str, lacking: list[Object], errors: list[str]) -> StatusError:
    rights = "\n".join(sorted({told(rule) for rule in compact(lacking)}))
    why = (
        f"user {shown(user.name)} (groups={told_list(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{rights}"
    )
    if errors:
        why += f"; resolution errors: [{' '.join(errors)}]"
    return forbidden(attributes.resource.subject, name, why)


def _name(attributes: Attributes, new: Object) -> str:
    return attributes.name or str(new.get("metadata", {}).get("name", ""))
