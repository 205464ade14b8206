"""The roles of a new cluster as data: one line a rule, `verbs : groups : resources [: names]`, or `verbs : /paths`.

`core` stands for the group "", `R` for get list watch, `W` for create update patch delete deletecollection.
Source of the facts: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

SHORT = {"R": "get list watch", "W": "create update patch delete deletecollection"}
EVENTS = "create update patch : core events.k8s.io : events"


def rules_of(text: str) -> list[Object]:
    """PolicyRules from lines; verbs, groups and resources in the order of the alphabet, as upstream stores them."""
    return [_rule(line) for line in text.strip().splitlines()]


def _rule(line: str) -> Object:
    first, second, *rest = (part.strip() for part in line.split(" : "))
    verbs = [verb for word in first.split() for verb in SHORT.get(word, word).split()]
    if second.startswith("/") or not rest:
        return {"nonResourceURLs": sorted(second.split()), "verbs": sorted(verbs)}
    groups = ["" if group == "core" else group for group in second.split()]
    found: Object = {"apiGroups": sorted(groups), "resources": sorted(rest[0].split())}
    if len(rest) > 1:
        found["resourceNames"] = sorted(rest[1].split())
    found["verbs"] = sorted(verbs)
    return found


_NODE = """
create : authentication.k8s.io : tokenreviews
create : authorization.k8s.io : subjectaccessreviews localsubjectaccessreviews
R : core : services
create get list watch : core : nodes
update patch : core : nodes/status
update patch : core : nodes
create update patch : core events.k8s.io : events
R : core : pods
create delete : core : pods
update patch : core : pods/status
create : core : pods/eviction
R : core : secrets configmaps
get : core : persistentvolumeclaims persistentvolumes
get : core : endpoints
create get list watch : certificates.k8s.io : certificatesigningrequests
get create update patch delete : coordination.k8s.io : leases
get : storage.k8s.io : volumeattachments
get update patch : core : persistentvolumeclaims/status
create : core : serviceaccounts/token
R : storage.k8s.io : csidrivers
get create update patch delete : storage.k8s.io : csinodes
R : node.k8s.io : runtimeclasses
get : resource.k8s.io : resourceclaims
deletecollection : resource.k8s.io : resourceslices
get list watch create update patch delete : resource.k8s.io : resourceslices
"""
NODE_RULES = rules_of(_NODE)

_VIEW = """
R : core : configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
replicationcontrollers/scale serviceaccounts services services/status
R : core : bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
resourcequotas resourcequotas/status
R : core : namespaces
R : discovery.k8s.io : endpointslices
R : apps : controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status
R : autoscaling : horizontalpodautoscalers horizontalpodautoscalers/status
R : batch : cronjobs cronjobs/status jobs jobs/status
R : extensions : daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses \
ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale
R : policy : poddisruptionbudgets poddisruptionbudgets/status
R : networking.k8s.io : ingresses ingresses/status networkpolicies
"""
_EDIT = """
R : core : pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy
impersonate : core : serviceaccounts
W : core : pods pods/attach pods/exec pods/portforward pods/proxy
create : core : pods/eviction
W : core : configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
serviceaccounts services services/proxy
create : core : serviceaccounts/token
W : apps : daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
statefulsets/scale
W : autoscaling : horizontalpodautoscalers
W : batch : cronjobs jobs
W : extensions : daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies \
replicasets replicasets/scale replicationcontrollers/scale
W : policy : poddisruptionbudgets
W : networking.k8s.io : ingresses networkpolicies
R W : coordination.k8s.io : leases
"""
_ADMIN = """
create : authorization.k8s.io : localsubjectaccessreviews
R W : rbac.authorization.k8s.io : rolebindings roles
"""
_SCHEDULER = f"""
{EVENTS}
create : coordination.k8s.io : leases
get list update watch : coordination.k8s.io : leases : kube-scheduler
create : coordination.k8s.io : leasecandidates
get list watch update patch delete deletecollection : coordination.k8s.io : leasecandidates
R : core : nodes
get list watch delete : core : pods
create : core : bindings pods/binding
patch update : core : pods/status
R : core : replicationcontrollers services
R : apps extensions : replicasets
R : apps : statefulsets
R : policy : poddisruptionbudgets
R : core : persistentvolumeclaims persistentvolumes
create : authentication.k8s.io : tokenreviews
create : authorization.k8s.io : subjectaccessreviews
R : storage.k8s.io : csinodes
R : core : namespaces
R : storage.k8s.io : csidrivers
R : storage.k8s.io : csistoragecapacities
R : storage.k8s.io : volumeattachments
R : resource.k8s.io : deviceclasses
get list watch update patch : resource.k8s.io : resourceclaims
update patch : resource.k8s.io : resourceclaims/status
R : resource.k8s.io : resourceslices
"""
_MANAGER = f"""
{EVENTS}
create : coordination.k8s.io : leases
get list update watch : coordination.k8s.io : leases : kube-controller-manager
create : coordination.k8s.io : leasecandidates
get list watch update patch delete deletecollection : coordination.k8s.io : leasecandidates
create : core : secrets serviceaccounts
delete : core : secrets
get : core : configmaps namespaces secrets serviceaccounts
update : core : secrets serviceaccounts
create : authentication.k8s.io : tokenreviews
create : authorization.k8s.io : subjectaccessreviews
list watch : * : *
create : core : serviceaccounts/token
"""

ROLES: dict[str, str] = {
    "cluster-admin": "* : * : *\n* : *",
    "system:discovery": "get : /api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version "
    "/version/",
    "system:basic-user": "create : authorization.k8s.io : selfsubjectaccessreviews selfsubjectrulesreviews\n"
    "create : authentication.k8s.io : selfsubjectreviews",
    "system:public-info-viewer": "get : /healthz /livez /readyz /version /version/",
    "system:monitoring": "get : /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
    "system:aggregate-to-admin": _ADMIN,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:heapster": "R : core : events namespaces nodes pods\nR : extensions : deployments",
    "system:node": _NODE,
    "system:node-problem-detector": f"get : core : nodes\npatch : core : nodes/status\n{EVENTS}",
    "system:kubelet-api-admin": "R : core : nodes\nproxy : core : nodes\n"
    "* : core : nodes/checkpoint nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy "
    "nodes/stats",
    "system:node-bootstrapper": "create get list watch : certificates.k8s.io : certificatesigningrequests",
    "system:auth-delegator": "create : authentication.k8s.io : tokenreviews\n"
    "create : authorization.k8s.io : subjectaccessreviews",
    "system:kube-aggregator": "R : core : endpoints services",
    "system:kube-controller-manager": _MANAGER,
    "system:kube-dns": "list watch : core : endpoints services",
    "system:persistent-volume-provisioner": f"""
get list watch create patch delete : core : persistentvolumes
get list watch update : core : persistentvolumeclaims
R : storage.k8s.io : storageclasses
watch : core : events
{EVENTS}
""",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": "create : certificates.k8s.io : "
    "certificatesigningrequests/nodeclient",
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": "create : certificates.k8s.io : "
    "certificatesigningrequests/selfnodeclient",
    "system:volume-scheduler": """
get list watch update patch : core : persistentvolumes
R : storage.k8s.io : storageclasses
get list watch update patch : core : persistentvolumeclaims
""",
    "system:certificates.k8s.io:legacy-unknown-approver": "approve : certificates.k8s.io : signers : "
    "kubernetes.io/legacy-unknown",
    "system:certificates.k8s.io:kubelet-serving-approver": "approve : certificates.k8s.io : signers : "
    "kubernetes.io/kubelet-serving",
    "system:certificates.k8s.io:kube-apiserver-client-approver": "approve : certificates.k8s.io : signers : "
    "kubernetes.io/kube-apiserver-client",
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": "approve : certificates.k8s.io : signers : "
    "kubernetes.io/kube-apiserver-client-kubelet",
    "system:service-account-issuer-discovery": "get : /.well-known/openid-configuration "
    "/.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
    "system:node-proxier": f"""
list watch : core : endpoints services
R : core : nodes
{EVENTS}
list watch : discovery.k8s.io : endpointslices
R : networking.k8s.io : servicecidrs
""",
    "system:kube-scheduler": _SCHEDULER,
}

BINDINGS: dict[str, list[tuple[str, str]]] = {
    "cluster-admin": [("Group", "system:masters")],
    "system:monitoring": [("Group", "system:monitoring")],
    "system:discovery": [("Group", "system:authenticated")],
    "system:basic-user": [("Group", "system:authenticated")],
    "system:public-info-viewer": [("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    "system:node-proxier": [("User", "system:kube-proxy")],
    "system:kube-controller-manager": [("User", "system:kube-controller-manager")],
    "system:kube-dns": [("ServiceAccount", "kube-dns")],
    "system:kube-scheduler": [("User", "system:kube-scheduler")],
    "system:volume-scheduler": [("User", "system:kube-scheduler")],
    "system:node": [],
    "system:service-account-issuer-discovery": [("Group", "system:serviceaccounts")],
}

# role → (label that others take it in by, label by which it takes in others)
AGGREGATES: dict[str, tuple[str, str]] = {
    "admin": ("", "admin"),
    "edit": ("admin", "edit"),
    "view": ("edit", "view"),
}
AGGREGATED = {f"system:aggregate-to-{name}": name for name in AGGREGATES}
