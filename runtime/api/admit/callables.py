"""Plugins that ask authorization: who may hand out rights, and who may tie objects to owners.

Sources: kubernetes plugin/pkg/admission/gc, pkg/registry/rbac (escalation check), release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, DELETE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision

Check = Callable[[Attributes], Awaitable[None]]
"""Looks at one write; refuses it by a StatusError."""
Authorize = Callable[[AuthzAttributes], Awaitable[Decision]]
"""Whether a user may do something."""

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC_KINDS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")


class EscalationCheck(Plugin):
    """Nobody hands out rights that they do not have themselves."""

    name = "EscalationCheck"

    def __init__(self, check: Check) -> None:
        self._check = check

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Roles and bindings that are made or changed."""
        return operation in (CREATE, UPDATE) and resource.group == RBAC_GROUP and resource.plural in RBAC_KINDS

    async def validate(self, attributes: Attributes) -> None:
        """Compares the rules granted with the rules held."""
        await self._check(attributes)


KindToResource = Callable[[str, str], tuple[str, str] | None]
"""`(apiVersion, kind) -> (group, plural)`, None for a kind that is not served."""


class OwnerReferencesPermissionEnforcement(Plugin):
    """Who sets owner references must be allowed to delete the object; `blockOwnerDeletion` needs rights on the owner.

    Not among the plugins that are on by default, upstream and here.
    """

    name = "OwnerReferencesPermissionEnforcement"

    def __init__(self, authorize: Authorize, kinds: KindToResource) -> None:
        self._authorize, self._kinds = authorize, kinds

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """All writes of whole objects but deletes; bindings of pods have no owners."""
        return operation not in (DELETE, "CONNECT") and not (resource.plural == "pods" and subresource)

    async def validate(self, attributes: Attributes) -> None:
        """Asks the authorizer where owner references change."""
        new, old = _owners(attributes.object), _owners(attributes.old)
        if new == old:
            return
        asked = AuthzAttributes(
            attributes.user,
            "delete",
            attributes.resource.group,
            attributes.resource.version,
            attributes.resource.plural,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
        )
        if attributes.operation == UPDATE and not (await self._authorize(asked)).allow:
            raise refuse(attributes, "cannot set an ownerRef on a resource you can't delete: ")
        held = {ref.get("uid") for ref in old if ref.get("blockOwnerDeletion")}
        for ref in new:
            if ref.get("blockOwnerDeletion") and ref.get("uid") not in held:
                await self._check_block(attributes, ref)

    async def _check_block(self, attributes: Attributes, ref: Object) -> None:
        api_version, kind = str(ref.get("apiVersion") or ""), str(ref.get("kind") or "")
        found = self._kinds(api_version, kind)
        if found is None:
            why = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion"
            raise refuse(attributes, f"{why} {api_version} Kind {kind}")
        group, plural = found
        version = api_version.rpartition("/")[2]
        name = str(ref.get("name") or "")
        user, namespace = attributes.user, attributes.namespace
        asked = AuthzAttributes(user, "update", group, version, plural, "finalizers", namespace, name)
        if not (await self._authorize(asked)).allow:
            raise refuse(
                attributes,
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: ",
            )


def _owners(one: Object | None) -> list[Object]:
    return ((one or {}).get("metadata") or {}).get("ownerReferences") or []
