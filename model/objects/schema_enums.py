"""Fields that take one of a few values, and how upstream lists those. Source: pkg/apis/*/validation, release 1.34."""

from __future__ import annotations

from typing import Final

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PULL = ("Always", "IfNotPresent", "Never")
_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MODES = ("Block", "Filesystem")
_FAILURE = ("Fail", "Ignore")
_MATCH = ("Equivalent", "Exact")

ENUMS: Final[dict[str, tuple[str, ...]]] = {
    "PodSpec.restartPolicy": ("Always", "OnFailure", "Never"),
    "PodSpec.dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "PodSpec.preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "Container.imagePullPolicy": _PULL,
    "EphemeralContainer.imagePullPolicy": _PULL,
    "Container.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "EphemeralContainer.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "ContainerPort.protocol": _PROTOCOLS,
    "HTTPGetAction.scheme": ("HTTP", "HTTPS"),
    "TopologySpreadConstraint.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "Taint.effect": _EFFECTS,
    "ServicePort.protocol": _PROTOCOLS,
    "ServiceSpec.type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "ServiceSpec.sessionAffinity": ("ClientIP", "None"),
    "ServiceSpec.externalTrafficPolicy": ("Cluster", "Local"),
    "ServiceSpec.internalTrafficPolicy": ("Cluster", "Local"),
    "ServiceSpec.ipFamilyPolicy": ("SingleStack", "PreferDualStack", "RequireDualStack"),
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain"),
    "PersistentVolumeSpec.volumeMode": _MODES,
    "PersistentVolumeClaimSpec.volumeMode": _MODES,
    "DeploymentStrategy.type": ("Recreate", "RollingUpdate"),
    "DaemonSetUpdateStrategy.type": ("OnDelete", "RollingUpdate"),
    "StatefulSetSpec.podManagementPolicy": ("OrderedReady", "Parallel"),
    "JobSpec.completionMode": ("NonIndexed", "Indexed"),
    "JobSpec.podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    "CronJobSpec.concurrencyPolicy": ("Allow", "Forbid", "Replace"),
    "HTTPIngressPath.pathType": ("Exact", "ImplementationSpecific", "Prefix"),
    "NetworkPolicyPort.protocol": _PROTOCOLS,
    "StorageClass.reclaimPolicy": ("Delete", "Retain"),
    "StorageClass.volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    "PriorityClass.preemptionPolicy": ("Never", "PreemptLowerPriority"),
    "EndpointSlice.addressType": ("FQDN", "IPv4", "IPv6"),
    "ValidatingWebhook.failurePolicy": _FAILURE,
    "ValidatingWebhook.matchPolicy": _MATCH,
    "MutatingWebhook.failurePolicy": _FAILURE,
    "MutatingWebhook.matchPolicy": _MATCH,
    "MutatingWebhook.reinvocationPolicy": ("IfNeeded", "Never"),
    "ValidatingAdmissionPolicySpec.failurePolicy": _FAILURE,
    "PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget"),
    "MetricSpec.type": ("ContainerResource", "External", "Object", "Pods", "Resource"),
}
"""`Struct.field` to its values, in upstream's order."""
