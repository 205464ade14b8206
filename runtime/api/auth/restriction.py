"""NodeRestriction: a kubelet writes its own Node, its own pods, its own lease, and tokens for its own pods.

Source: plugin/pkg/admission/noderestriction/admission.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects.status import StatusError, Subject, forbidden, not_found, shown
from dashpot.runtime.api.admit.base import CREATE, DELETE, UPDATE, Attributes, Plugin
from dashpot.runtime.api.auth.attributes import AuthzAttributes, Decision, node_of
from dashpot.runtime.api.auth.csr import KUBELET_CLIENT, KUBELET_SERVING, common_name
from dashpot.runtime.api.auth.node import LEASES
from dashpot.runtime.api.auth.nodegraph import MIRROR, secrets_and_configs
from dashpot.runtime.api.view import View

Object = dict[str, Any]

Decide = Callable[[AuthzAttributes], Decision]

RESTRICTED = "node-restriction.kubernetes.io"
_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)
_LABEL_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CLAIM_STATUS = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses", "modifyVolumeStatus")


def restrict(attributes: Attributes, view: View, decide: Decide | None = None) -> None:
    """Passes writes of anybody but nodes, and a node's writes within its limits; else 403 with the limit.

    `decide` is asked whether a node may have tokens for audiences that its pods do not name.
    """
    node = node_of(attributes.user)
    if node is None:
        return
    if not node:
        raise _refuse(attributes, f"could not determine node from user {shown(attributes.user.name)}")
    resource = (attributes.resource.group, attributes.resource.plural)
    if resource == ("", "pods"):
        _pod(attributes, node, view)
    elif resource == ("", "nodes"):
        _node(attributes, node)
    elif resource == ("", "persistentvolumeclaims"):
        _claim(attributes, node)
    elif resource == ("", "serviceaccounts"):
        _token(attributes, node, view, decide)
    elif resource == ("coordination.k8s.io", "leases"):
        _lease(attributes, node)
    elif resource == ("storage.k8s.io", "csinodes"):
        if _name(attributes) != node:
            raise _refuse(attributes, "can only access CSINode with the same name as the requesting node")
    elif resource == ("resource.k8s.io", "resourceslices"):
        _slice(attributes, node)
    elif resource == ("certificates.k8s.io", "certificatesigningrequests"):
        _request(attributes, node)


class NodeRestriction(Plugin):
    """The admission plugin around `restrict`. It looks before others change the object."""

    name = "NodeRestriction"

    def __init__(self, view: View, decide: Decide | None = None) -> None:
        self._view = view
        self._decide = decide

    async def mutate(self, attributes: Attributes) -> None:
        """Refuses; changes nothing."""
        restrict(attributes, self._view, self._decide)


def _refuse(attributes: Attributes, why: str) -> StatusError:
    return forbidden(attributes.resource.subject, attributes.name, why)


def _name(attributes: Attributes) -> str:
    """The name of the object; on create the one in its metadata."""
    if attributes.operation == CREATE and attributes.object is not None:
        return str((attributes.object.get("metadata") or {}).get("name", ""))
    return attributes.name


def _spec(one: Object | None) -> Object:
    return (one or {}).get("spec") or {}


def _meta(one: Object | None) -> Object:
    return (one or {}).get("metadata") or {}


def _pod(attributes: Attributes, node: str, view: View) -> None:
    who = shown(node)
    if attributes.subresource == "status":
        _pod_status(attributes, who, node)
    elif attributes.subresource == "eviction":
        if attributes.operation != CREATE:
            raise _refuse(attributes, f"unexpected operation {attributes.operation}")
        name = attributes.name or _name(attributes)
        if _existing(attributes, view, name) != node:
            raise _refuse(attributes, f"node {node} can only evict pods with spec.nodeName set to itself")
    elif attributes.subresource:
        told = shown(attributes.subresource)
        raise _refuse(attributes, f"unexpected pod subresource {told}, only 'status' and 'eviction' are allowed")
    elif attributes.operation == CREATE:
        _pod_create(attributes, who, node, view)
    elif attributes.operation == DELETE:
        if attributes.old is None:
            home = _existing(attributes, view, attributes.name)
        else:
            home = _spec(attributes.old).get("nodeName", "")
        if home != node:
            raise _refuse(attributes, f"node {who} can only delete pods with spec.nodeName set to itself")
    else:
        operation = shown(attributes.operation)
        raise _refuse(
            attributes, f"unexpected operation {operation}, node {who} can only create and delete mirror pods"
        )


def _existing(attributes: Attributes, view: View, name: str) -> str:
    """The node of a pod that exists."""
    pod = view.get("", "pods", attributes.namespace, name)
    if pod is None:
        raise not_found(Subject("", "pods"), name)
    return str(_spec(pod).get("nodeName", ""))


def _pod_status(attributes: Attributes, who: str, node: str) -> None:
    if attributes.operation != UPDATE:
        raise _refuse(attributes, f"unexpected operation {shown(attributes.operation)}")
    old, new = attributes.old or {}, attributes.object or {}
    if _spec(old).get("nodeName") != node:
        why = f"node {who} can only update pod status for pods with spec.nodeName set to itself"
        raise _refuse(attributes, why)
    if (_meta(old).get("labels") or {}) != (_meta(new).get("labels") or {}):
        raise _refuse(attributes, f"node {who} cannot update labels through pod status")
    before = (old.get("status") or {}).get("resourceClaimStatuses") or []
    if before != ((new.get("status") or {}).get("resourceClaimStatuses") or []):
        raise _refuse(attributes, f"node {who} cannot update resource claim statues")


def _pod_create(attributes: Attributes, who: str, node: str, view: View) -> None:
    pod = attributes.object or {}
    meta, spec = _meta(pod), _spec(pod)
    if MIRROR not in (meta.get("annotations") or {}):
        raise _refuse(
            attributes, f"pod does not have {shown(MIRROR)} annotation, node {who} can only create mirror pods"
        )
    if spec.get("nodeName") != node:
        raise _refuse(attributes, f"node {who} can only create pods with spec.nodeName set to itself")
    _owner(attributes, who, node, view, meta.get("ownerReferences") or [])
    if spec.get("serviceAccountName"):
        raise _refuse(attributes, f"node {who} can not create pods that reference a service account")
    named = {plural for plural, _ in secrets_and_configs(pod)}
    volumes = spec.get("volumes") or []
    if any(volume.get("persistentVolumeClaim") or volume.get("ephemeral") for volume in volumes):
        named.add("persistentvolumeclaims")
    sources = [one for volume in volumes for one in (volume.get("projected") or {}).get("sources") or ()]
    if any(source.get("clusterTrustBundle") for source in sources):
        named.add("clustertrustbundles")
    if any(source.get("serviceAccountToken") for source in sources):
        named.add("service account tokens")
    if spec.get("resourceClaims"):
        named.add("resourceclaims")
    if named:
        raise _refuse(attributes, f"node {who} can not create pods that reference {min(named)}")


def _owner(attributes: Attributes, who: str, node: str, view: View, owners: list[Object]) -> None:
    if len(owners) > 1:
        raise _refuse(attributes, f"node {who} can only create pods with a single owner reference set to itself")
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        raise _refuse(attributes, f"node {who} can only create pods with an owner reference set to itself")
    if owner.get("controller") is not True:
        why = f"node {who} can only create pods with a controller owner reference set to itself"
        raise _refuse(attributes, why)
    if owner.get("blockOwnerDeletion"):
        raise _refuse(attributes, f"node {who} must not set blockOwnerDeletion on an owner reference")
    found = view.get("", "nodes", "", node)
    if found is None:
        raise not_found(Subject("", "nodes"), node)
    uid, wanted = _meta(found).get("uid", ""), owner.get("uid", "")
    if uid != wanted:
        raise _refuse(attributes, f"node {node} UID mismatch: expected {wanted} got {uid}")


def _node(attributes: Attributes, node: str) -> None:
    who, wanted = shown(node), _name(attributes)
    if wanted != node:
        raise _refuse(attributes, f"node {who} is not allowed to modify node {shown(wanted)}")
    if attributes.operation not in (CREATE, UPDATE):
        return
    new, old = attributes.object or {}, attributes.old or {}
    source, before = _spec(new).get("configSource"), _spec(old).get("configSource")
    if attributes.operation == CREATE and source is not None:
        raise _refuse(attributes, f"node {who} is not allowed to create pods with a non-nil configSource")
    if source is not None and source != before:
        raise _refuse(attributes, f"node {who} is not allowed to update configSource to a new non-nil configSource")
    if attributes.operation == UPDATE and _meta(new).get("ownerReferences") != _meta(old).get("ownerReferences"):
        # CVE-2025-5187: with an owner that is gone, a node could have itself collected, and come back as it likes
        raise _refuse(attributes, f"node {who} is not allowed to modify ownerReferences")
    if attributes.operation == UPDATE and (_spec(new).get("taints") or []) != (_spec(old).get("taints") or []):
        raise _refuse(attributes, f"node {who} is not allowed to modify taints")
    labels = forbidden_labels(_meta(new).get("labels") or {}, _meta(old).get("labels") or {})
    if labels and attributes.operation == CREATE:
        raise _refuse(attributes, f"node {who} is not allowed to set the following labels: {', '.join(labels)}")
    if labels:
        raise _refuse(attributes, f"is not allowed to modify labels: {', '.join(labels)}")


def forbidden_labels(new: Object, old: Object) -> list[str]:
    """Labels that were added, changed or removed and that a node must not touch, in order."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(filter(_forbidden_label, changed))


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith("." + parent)


def _forbidden_label(label: str) -> bool:
    domain, slash, _ = label.partition("/")
    if not slash:
        return False
    if _within(domain, RESTRICTED):
        return True
    if not (_within(domain, "kubernetes.io") or _within(domain, "k8s.io")):
        return False
    return label not in _LABELS and not any(_within(domain, prefix) for prefix in _LABEL_PREFIXES)


def _claim(attributes: Attributes, node: str) -> None:
    if attributes.subresource != "status":
        raise _refuse(attributes, "may only update PVC status")
    if attributes.operation != UPDATE:
        raise _refuse(attributes, f"unexpected operation {shown(attributes.operation)}")
    if _rest(attributes.old or {}) != _rest(attributes.object or {}):
        why = f"node {shown(node)} is not allowed to update fields other than status.capacity and status.conditions"
        raise _refuse(attributes, why)


def _rest(claim: Object) -> Object:
    """What a node may not change of a claim."""
    meta = {k: v for k, v in _meta(claim).items() if k not in ("resourceVersion", "managedFields")}
    status = {k: v for k, v in (claim.get("status") or {}).items() if k not in _CLAIM_STATUS}
    return {**claim, "metadata": meta, "status": status}


def _token(attributes: Attributes, node: str, view: View, decide: Decide | None) -> None:
    if attributes.operation != CREATE or attributes.subresource != "token":
        return
    ref = _spec(attributes.object).get("boundObjectRef") or {}
    if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
        raise _refuse(attributes, "node requested token not bound to a pod")
    uid = ref.get("uid")
    if not uid:
        raise _refuse(attributes, "node requested token with a pod binding without a uid")
    pod = view.get("", "pods", attributes.namespace, ref["name"])
    if pod is None:
        raise not_found(Subject("", "pods"), ref["name"])
    if uid != _meta(pod).get("uid"):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise _refuse(attributes, why)
    if _spec(pod).get("nodeName") != node:
        raise _refuse(attributes, "node requested token bound to a pod scheduled on a different node")
    _audience(attributes, pod, view, decide)


def _audience(attributes: Attributes, pod: Object, view: View, decide: Decide | None) -> None:
    """A token is for an audience that the pod names, or one that RBAC lets the node ask for."""
    audiences = _spec(attributes.object).get("audiences") or [""]
    if len(audiences) > 1:
        raise _refuse(attributes, "node may only request 0 or 1 audiences")
    (audience,) = audiences
    if audience in _audiences(pod, view):
        return
    user = attributes.user
    verb = "request-serviceaccounts-token-audience"
    asked = AuthzAttributes(user, verb, "", "", audience, "", attributes.namespace, attributes.name)
    if audience and decide is not None and decide(asked).allow:
        return
    why = (
        f"audience {shown(audience)} not found in pod spec volume, "
        f"{user.name} is not authorized to request tokens for this audience"
    )
    raise _refuse(attributes, why)


def _audiences(pod: Object, view: View) -> set[str]:
    """Audiences in the volumes of a pod: of projected tokens, and those that its CSI drivers want."""
    found: set[str] = set()
    namespace, name = _meta(pod).get("namespace", ""), _meta(pod).get("name", "")
    for volume in _spec(pod).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                found.add(source["serviceAccountToken"].get("audience") or "")
        driver = (volume.get("csi") or {}).get("driver")
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            claim = f"{name}-{volume.get('name', '')}"
        if claim:
            bound = _spec(view.get("", "persistentvolumeclaims", namespace, claim)).get("volumeName", "")
            driver = (_spec(view.get("", "persistentvolumes", "", bound)).get("csi") or {}).get("driver")
        if driver:
            requests = _spec(view.get("storage.k8s.io", "csidrivers", "", driver)).get("tokenRequests") or ()
            found.update(one.get("audience") or "" for one in requests)
    return found


def _lease(attributes: Attributes, node: str) -> None:
    if attributes.namespace != LEASES:
        raise _refuse(attributes, f"can only access leases in the {shown(LEASES)} system namespace")
    if _name(attributes) != node:
        raise _refuse(attributes, "can only access node lease with the same name as the requesting node")


def _slice(attributes: Attributes, node: str) -> None:
    for operation, one in ((CREATE, attributes.object), (DELETE, attributes.old)):
        if attributes.operation == operation and _spec(one).get("nodeName") != node:
            verb = operation.lower()
            why = f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
            raise _refuse(attributes, why)


def _request(attributes: Attributes, node: str) -> None:
    if attributes.operation != CREATE or attributes.subresource:
        return
    spec = _spec(attributes.object)
    if spec.get("signerName") not in (KUBELET_CLIENT, KUBELET_SERVING):
        return
    name = common_name(spec.get("request", ""))
    if name is None:
        raise _refuse(attributes, "unable to parse csr")
    if name != f"system:node:{node}":
        raise _refuse(attributes, f"can only create a node CSR with CN=system:node:{node}")
