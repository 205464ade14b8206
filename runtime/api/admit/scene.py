"""The variables of one write, for conditions and policies."""

from __future__ import annotations

from dashpot.runtime.api.admit.authorizing import CelAuthorizer, Decide
from dashpot.runtime.api.admit.base import Attributes, Object
from dashpot.runtime.api.admit.conditions import Scene
from dashpot.runtime.api.auth.attributes import AuthzAttributes


def scene_of(attributes: Attributes, request: Object, decide: Decide | None) -> Scene:
    """What expressions may name about a write; what policies add (params, variables, namespaceObject) is null."""
    authorizer = None
    if decide is not None:
        resource = attributes.resource
        written = AuthzAttributes(
            attributes.user,
            "",
            resource.group,
            resource.version,
            resource.plural,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
        )
        authorizer = CelAuthorizer(decide, attributes.user, written)
    return Scene(
        {
            "object": attributes.object,
            "oldObject": attributes.old,
            "request": request,
            "params": None,
            "namespaceObject": None,
            "variables": None,
            "authorizer": authorizer,
        }
    )
