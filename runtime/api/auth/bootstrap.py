"""The roles and bindings that exist in every cluster from its first second, as objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashpot.runtime.api.auth.bootstrap_controllers import CONTROLLERS, NAMESPACE_BINDINGS, NAMESPACE_ROLES
from dashpot.runtime.api.auth.bootstrap_roles import AGGREGATED, AGGREGATES, BINDINGS, ROLES, rules_of
from dashpot.runtime.api.auth.rbac import GROUP, aggregate

Object = dict[str, Any]

API_VERSION = f"{GROUP}/v1"
AGGREGATE_LABEL = f"{GROUP}/aggregate-to-"


def _object(kind: str, name: str, namespace: str = "", aggregate_to: str = "") -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if aggregate_to:
        labels[AGGREGATE_LABEL + aggregate_to] = "true"
    meta: Object = {"name": name}
    if namespace:
        meta["namespace"] = namespace
    meta["labels"] = labels
    meta["annotations"] = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta}


def _subjects(subjects: Iterable[tuple[str, str]], namespace: str) -> list[Object]:
    found: list[Object] = []
    for kind, name in subjects:
        if kind == "ServiceAccount":
            found.append({"kind": kind, "name": name, "namespace": namespace})
        else:
            found.append({"apiGroup": GROUP, "kind": kind, "name": name})
    return found


def _binding(name: str, kind: str, role: str, subjects: list[Object], namespace: str = "") -> Object:
    found = _object("RoleBinding" if namespace else "ClusterRoleBinding", name, namespace)
    found["roleRef"] = {"apiGroup": GROUP, "kind": kind, "name": role}
    if subjects:
        found["subjects"] = subjects
    return found


def _cluster_roles() -> list[Object]:
    roles: list[Object] = []
    for name, text in ROLES.items():
        roles.append({**_object("ClusterRole", name, aggregate_to=AGGREGATED.get(name, "")), "rules": rules_of(text)})
    for name, text in CONTROLLERS.items():
        roles.append({**_object("ClusterRole", f"system:controller:{name}"), "rules": rules_of(text)})
    gathered: list[Object] = []
    for name, (into, label) in AGGREGATES.items():
        role = _object("ClusterRole", name, aggregate_to=into)
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE_LABEL + label: "true"}}]}
        gathered.append(role)
    # Their rules are stored from the start: `kubectl describe clusterrole edit` waits for no controller.
    everything = roles + gathered
    return roles + [{**role, "rules": aggregate(role, everything)} for role in gathered]


def bootstrap_objects() -> list[Object]:
    """ClusterRoles, ClusterRoleBindings, Roles and RoleBindings, in this order; the last two kinds need the namespaces
    kube-system and kube-public."""
    found = _cluster_roles()
    for name, subjects in BINDINGS.items():
        found.append(_binding(name, "ClusterRole", name, _subjects(subjects, "kube-system")))
    for name in CONTROLLERS:
        full = f"system:controller:{name}"
        found.append(_binding(full, "ClusterRole", full, _subjects([("ServiceAccount", name)], "kube-system")))
    for namespace, name, text in NAMESPACE_ROLES:
        found.append({**_object("Role", name, namespace), "rules": rules_of(text)})
    for namespace, name, role, subjects in NAMESPACE_BINDINGS:
        found.append(_binding(name, "Role", role, _subjects(subjects, "kube-system"), namespace))
    return found
