"""The roles of Kubernetes' own controllers and the few roles inside namespaces, as data (lines as in bootstrap_roles).

Each controller is the service account of its name in kube-system, and holds `system:controller:NAME`.
Source of the facts: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{controller,namespace}_policy.go, release 1.34.
"""

from __future__ import annotations

from dashpot.runtime.api.auth.bootstrap_roles import EVENTS

CONTROLLERS: dict[str, str] = {
    "attachdetach-controller": f"""
list watch : core : persistentvolumeclaims persistentvolumes
R : core : nodes
patch update : core : nodes/status
list watch : core : pods
{EVENTS}
get create delete list watch : storage.k8s.io : volumeattachments
R : storage.k8s.io : csidrivers
R : storage.k8s.io : csinodes
""",
    "clusterrole-aggregation-controller": "escalate get list watch update patch : rbac.authorization.k8s.io : "
    "clusterroles",
    "cronjob-controller": f"""
get list watch update : batch : cronjobs
get list watch create update delete patch : batch : jobs
update : batch : cronjobs/status
update : batch : cronjobs/finalizers
list delete : core : pods
{EVENTS}
""",
    "daemon-set-controller": f"""
R : apps extensions : daemonsets
update : apps extensions : daemonsets/status
update : apps extensions : daemonsets/finalizers
list watch : core : nodes
list watch create delete patch : core : pods
create : core : pods/binding
get list watch create delete update patch : apps : controllerrevisions
{EVENTS}
""",
    "deployment-controller": f"""
get list watch update : apps extensions : deployments
update : apps extensions : deployments/status
update : apps extensions : deployments/finalizers
get list watch create update patch delete : apps extensions : replicasets
get list watch update : core : pods
{EVENTS}
""",
    "disruption-controller": f"""
R : apps extensions : deployments
R : apps extensions : replicasets
R : core : replicationcontrollers
R : policy : poddisruptionbudgets
R : apps : statefulsets
update : policy : poddisruptionbudgets/status
patch update : core : pods/status
get : * : */scale
{EVENTS}
""",
    "endpoint-controller": f"""
R : core : pods services
get list create update delete : core : endpoints
create : core : endpoints/restricted
{EVENTS}
""",
    "endpointslice-controller": f"""
R : core : nodes pods services
update : core : services/finalizers
get list create update delete : discovery.k8s.io : endpointslices
{EVENTS}
""",
    "endpointslicemirroring-controller": f"""
R : core : endpoints services
update : core : services/finalizers
update : core : endpoints/finalizers
get list create update delete : discovery.k8s.io : endpointslices
{EVENTS}
""",
    "expand-controller": f"""
get list watch update patch : core : persistentvolumes
update patch : core : persistentvolumeclaims/status
R : core : persistentvolumeclaims
R : storage.k8s.io : storageclasses
get : core : endpoints services
get : core : secrets
{EVENTS}
""",
    "ephemeral-volume-controller": f"""
R : core : pods
update : core : pods/finalizers
get list watch create : core : persistentvolumeclaims
{EVENTS}
""",
    "resource-claim-controller": f"""
R : core : pods
update : core : pods/finalizers
get list watch create delete : resource.k8s.io : resourceclaims
update patch : resource.k8s.io : resourceclaims resourceclaims/status
update patch : core : pods/status
{EVENTS}
""",
    "generic-garbage-collector": f"get list watch patch update delete : * : *\n{EVENTS}",
    "horizontal-pod-autoscaler": f"""
R : autoscaling : horizontalpodautoscalers
update : autoscaling : horizontalpodautoscalers/status
get update : * : */scale
list : core : pods
list : metrics.k8s.io : pods
get list : custom.metrics.k8s.io : *
get list : external.metrics.k8s.io : *
{EVENTS}
""",
    "job-controller": f"""
get list watch update patch : batch : jobs
update : batch : jobs/status
update : batch : jobs/finalizers
list watch create delete patch : core : pods
{EVENTS}
""",
    "namespace-controller": """
get list watch delete : core : namespaces
update : core : namespaces/finalize namespaces/status
get list delete deletecollection : * : *
""",
    "node-controller": f"""
get list update delete patch : core : nodes
patch update : core : nodes/status
patch update : core : pods/status
list get delete : core : pods
{EVENTS}
""",
    "persistent-volume-binder": f"""
get list watch update create delete : core : persistentvolumes
update : core : persistentvolumes/status
get list watch update : core : persistentvolumeclaims
update : core : persistentvolumeclaims/status
list watch get create delete : core : pods
R : storage.k8s.io : storageclasses
get list : core : nodes
watch : core : events
{EVENTS}
""",
    "pod-garbage-collector": """
list watch delete : core : pods
get list : core : nodes
patch : core : pods/status
""",
    "replicaset-controller": f"""
get list watch update : apps extensions : replicasets
update : apps extensions : replicasets/status
update : apps extensions : replicasets/finalizers
list watch patch create delete : core : pods
{EVENTS}
""",
    "replication-controller": f"""
get list watch update : core : replicationcontrollers
update : core : replicationcontrollers/status
update : core : replicationcontrollers/finalizers
list watch patch create delete : core : pods
{EVENTS}
""",
    "resourcequota-controller": f"list watch : * : *\nupdate : core : resourcequotas/status\n{EVENTS}",
    "route-controller": f"list watch : core : nodes\npatch : core : nodes/status\n{EVENTS}",
    "service-account-controller": f"create : core : serviceaccounts\n{EVENTS}",
    "service-controller": f"""
R : core : services
patch update : core : services/status
list watch : core : nodes
{EVENTS}
""",
    "service-cidrs-controller": f"""
get list watch patch update : networking.k8s.io : servicecidrs
patch update : networking.k8s.io : servicecidrs/finalizers
patch update : networking.k8s.io : servicecidrs/status
R : networking.k8s.io : ipaddresses
{EVENTS}
""",
    "statefulset-controller": f"""
list watch : core : pods
R : apps : statefulsets
update : apps : statefulsets/status
update : apps : statefulsets/finalizers
get create delete update patch : core : pods
get create delete update patch list watch : apps : controllerrevisions
get create : core : persistentvolumeclaims
update delete : core : persistentvolumeclaims
{EVENTS}
""",
    "ttl-controller": f"update patch list watch : core : nodes\n{EVENTS}",
    "certificate-controller": f"""
get list watch delete : certificates.k8s.io : certificatesigningrequests
update : certificates.k8s.io : certificatesigningrequests/approval certificatesigningrequests/status
approve : certificates.k8s.io : signers : kubernetes.io/kube-apiserver-client-kubelet
sign : certificates.k8s.io : signers : kubernetes.io/kube-apiserver-client \
kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown
create : authorization.k8s.io : subjectaccessreviews
{EVENTS}
""",
    "pvc-protection-controller": f"""
get list watch update : core : persistentvolumeclaims
list watch get : core : pods
{EVENTS}
""",
    "pv-protection-controller": f"get list watch update : core : persistentvolumes\n{EVENTS}",
    "ttl-after-finished-controller": f"get list watch delete : batch : jobs\n{EVENTS}",
    "root-ca-cert-publisher": f"create update : core : configmaps\n{EVENTS}",
    "validatingadmissionpolicy-status-controller": f"""
R : admissionregistration.k8s.io : validatingadmissionpolicies
get patch update : admissionregistration.k8s.io : validatingadmissionpolicies/status
list watch : apiextensions.k8s.io : customresourcedefinitions
{EVENTS}
""",
    "legacy-service-account-token-cleaner": """
get : core : configmaps : kube-apiserver-legacy-service-account-token-tracking
patch delete : core : secrets
""",
}

# namespace, role, rules
NAMESPACE_ROLES: list[tuple[str, str, str]] = [
    (
        "kube-system",
        "extension-apiserver-authentication-reader",
        "R : core : configmaps : extension-apiserver-authentication",
    ),
    ("kube-system", "system:controller:bootstrap-signer", "R : core : secrets"),
    ("kube-system", "system:controller:cloud-provider", "create get list watch : core : configmaps"),
    ("kube-system", "system:controller:token-cleaner", f"get list watch delete : core : secrets\n{EVENTS}"),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "watch : core : configmaps\nget update : core : configmaps : kube-controller-manager",
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "watch : core : configmaps\nget update : core : configmaps : kube-scheduler",
    ),
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        f"R : core : configmaps\nupdate : core : configmaps : cluster-info\n{EVENTS}",
    ),
]

# namespace, binding, role, subjects (kind, name)
NAMESPACE_BINDINGS: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        [("User", "system:kube-controller-manager"), ("User", "system:kube-scheduler")],
    ),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        [("ServiceAccount", "bootstrap-signer")],
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        [("ServiceAccount", "cloud-provider")],
    ),
    (
        "kube-system",
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        [("ServiceAccount", "token-cleaner")],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        [("User", "system:kube-controller-manager"), ("ServiceAccount", "kube-controller-manager")],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        [("User", "system:kube-scheduler"), ("ServiceAccount", "kube-scheduler")],
    ),
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        [("ServiceAccount", "bootstrap-signer")],
    ),
]
