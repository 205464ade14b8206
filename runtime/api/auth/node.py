"""What a kubelet may do: its own node, and of the rest only what pods on its node name.

Source: plugin/pkg/auth/authorizer/node/node_authorizer.go, release 1.34 (AuthorizeNodeWithSelectors on).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.runtime.api.auth.attributes import ALLOWED, NO_OPINION, AuthzAttributes, Decision, node_of
from dashpot.runtime.api.auth.bootstrap_roles import NODE_RULES
from dashpot.runtime.api.auth.nodegraph import NodeGraph
from dashpot.runtime.api.auth.rules import compile_rules
from dashpot.runtime.api.view import View

Object = dict[str, Any]

LEASES = "kube-node-lease"
_OWN_VERBS = ("get", "create", "update", "patch", "delete")


def _no(reason: str) -> Decision:
    return Decision(False, reason)


class NodeAuthorizer:
    """Decides for users of the group system:nodes; about all others it has no opinion."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._graph = NodeGraph(view)
        self._rules = compile_rules(NODE_RULES)
        self._special: dict[tuple[str, str], Callable[[str, AuthzAttributes], Decision]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("", "serviceaccounts"): self._token,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("storage.k8s.io", "csinodes"): self._csinode,
            ("coordination.k8s.io", "leases"): self._lease,
        }

    def decide(self, attributes: AuthzAttributes) -> Decision:
        """Allowed, or no opinion with a reason."""
        node = node_of(attributes.user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f'unknown node for user "{attributes.user.name}"')
        if attributes.resource_request:
            special = self._special.get((attributes.group, attributes.resource))
            if special is not None:
                return special(node, attributes)
        return ALLOWED if any(rule.allows(attributes) for rule in self._rules) else NO_OPINION

    def _related(self, node: str, attributes: AuthzAttributes) -> Decision:
        if not attributes.name:
            return _no("No Object name found")
        if self._graph.related(node, attributes.resource, attributes.namespace, attributes.name):
            return ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")

    def _get(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.verb != "get":
            return _no("can only get individual resources of this type")
        if attributes.subresource:
            return _no("cannot get subresource")
        return self._related(node, attributes)

    def _read(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.verb not in ("get", "list", "watch"):
            return _no("can only read resources of this type")
        if attributes.subresource:
            return _no("cannot read subresource")
        if not attributes.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, attributes)

    def _claim(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, attributes)

    def _token(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.verb != "create" or not attributes.name:
            return _no("can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _lease(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != LEASES:
            return _no(f'can only access leases in the "{LEASES}" system namespace')
        if attributes.verb != "create" and attributes.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csinode(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return _no("cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOWED

    def _slice(self, node: str, attributes: AuthzAttributes) -> Decision:
        if attributes.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if attributes.verb == "create":
            return ALLOWED  # whose it is, NodeRestriction sees
        if attributes.verb in ("get", "update", "patch", "delete"):
            return self._related(node, attributes)
        if attributes.verb in ("watch", "list", "deletecollection"):
            if _selects(attributes.field_selector, "spec.nodeName", node):
                return ALLOWED
            return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        verbs = "get, watch, list, create, update, patch, delete, deletecollection"
        return _no(f"only the following verbs are allowed for a ResourceSlice: {verbs}")

    def _node(self, node: str, attributes: AuthzAttributes) -> Decision:
        verb = attributes.verb
        if attributes.subresource == "status":
            return ALLOWED if verb in ("update", "patch") else NO_OPINION
        if attributes.subresource:
            return NO_OPINION
        if verb in ("create", "update", "patch"):
            return ALLOWED  # whose it is, NodeRestriction sees
        if verb not in ("get", "list", "watch"):
            return NO_OPINION
        if attributes.name == node:
            return ALLOWED
        if not attributes.name:
            return _no(f"node '{node}' cannot read all nodes, only its own Node object")
        return _no(f"node '{node}' cannot read '{attributes.name}', only its own Node object")

    def _pod(self, node: str, attributes: AuthzAttributes) -> Decision:
        verb = attributes.verb
        if attributes.subresource == "status":
            return ALLOWED if verb in ("update", "patch") else NO_OPINION
        if attributes.subresource == "eviction":
            return ALLOWED if verb == "create" else NO_OPINION
        if attributes.subresource:
            return NO_OPINION
        if verb in ("create", "delete"):
            return ALLOWED  # mirror pods and its own only: NodeRestriction sees to that
        if verb == "get":
            return self._related(node, attributes)
        if verb not in ("list", "watch"):
            return NO_OPINION
        if _selects(attributes.field_selector, "spec.nodeName", node):
            return ALLOWED
        if attributes.name:
            return self._related(node, attributes)
        return _no("can only list/watch pods with spec.nodeName field selector")


def _selects(selector: str, path: str, value: str) -> bool:
    """Whether one requirement of a field selector is `path=value`."""
    for term in selector.split(","):
        key, equals, wanted = term.partition("=")
        if equals and not key.endswith("!") and key.strip() == path and wanted.removeprefix("=").strip() == value:
            return True
    return False
