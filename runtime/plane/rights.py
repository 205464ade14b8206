"""What the plane's controllers may do: the roles that Kubernetes gives them, and what else their specs call for.

Each controller acts as a service account of kube-system. Upstream's bootstrap roles are written for upstream's code; a
spec may patch where that updates. So what the bodies of a spec can call is read from its text, and granted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import User
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.uses import Right

Object = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
SYSTEM = "kube-system"


def account(name: str) -> User:
    """Who a controller is to the API server and its audit log."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated")
    return User(f"system:serviceaccount:{SYSTEM}:{name}", groups)


def rules(rights: Iterable[Right]) -> list[Object]:
    """RBAC rules for what a spec can call."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        name = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
        verbs.setdefault((right.group, name), set()).add(right.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": sorted(allowed)}
        for (group, resource), allowed in sorted(verbs.items())
    ]


async def grant(client: Client, name: str, wanted: list[Object]) -> None:
    """A ClusterRole with these rules, bound to the account; StatusError, TransportError. What is so already is not
    written again."""
    full = f"dashpot:controller:{name}"
    role: Object = {"metadata": {"name": full}, "rules": wanted}
    binding: Object = {
        "metadata": {"name": full},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": full},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM}],
    }
    for resource, obj in (("clusterroles", role), ("clusterrolebindings", binding)):
        try:
            await client.create(f"{resource}.{RBAC}", obj)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            there = await client.get(f"{resource}.{RBAC}", full)
            if any(there.get(key) != value for key, value in obj.items() if key != "metadata"):
                await client.update(f"{resource}.{RBAC}", {**there, **obj, "metadata": there["metadata"]})
