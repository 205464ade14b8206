"""Which fields Go leaves out when they are zero: those that are no pointers there, which OpenAPI does not tell.

A `replicas: 0` is meant, a `hostNetwork: false` is the same as none and is not stored; an empty string, list or map
is the same as none except where Go has a pointer. Source: the `omitempty` fields of k8s.io/api, release 1.34 to 1.37.
"""

from __future__ import annotations

from typing import Final

ZERO: Final = frozenset(
    """
    active authenticated availableReplicas chapAuthDiscovery chapAuthSession clusterScope count currentReplicas denied
    deprecatedCount failed failureThreshold follow fullyLabeledReplicas generation globalDefault healthCheckNodePort
    hostIPC hostNetwork hostPID hostPort initialDelaySeconds insecureSkipTLSVerifyBackend minReadySeconds nodePort
    number numberAvailable numberUnavailable observedGeneration partition paused periodSeconds previous
    publishNotReadyAddresses readOnly readyReplicas replicas signal sizeBytes sslEnabled stderr stdin stdinOnce stdout
    succeeded successThreshold timeoutSeconds timestamps tty unavailableReplicas unschedulable
    updatedNumberScheduled updatedReplicas
    """.split()
)
"""Numbers and booleans: absent when 0 or false."""

_KEPT: Final = frozenset(
    """
    DeploymentSpec.replicas ReplicaSetSpec.replicas StatefulSetSpec.replicas ReplicationControllerSpec.replicas
    ScaleSpec.replicas ReplicaSetStatus.replicas StatefulSetStatus.replicas ReplicationControllerStatus.replicas
    ScaleStatus.replicas StatefulSetStatus.availableReplicas RollingUpdateStatefulSetStrategy.partition
    HorizontalPodAutoscalerStatus.observedGeneration HPAScalingPolicy.periodSeconds AzureDiskVolumeSource.readOnly
    CSIVolumeSource.readOnly CSIPersistentVolumeSource.readOnly ValidatingWebhook.timeoutSeconds
    MutatingWebhook.timeoutSeconds ClientIPConfig.timeoutSeconds VolumeNodeResources.count
    """.split()
)
"""Fields of these names that are pointers, or are written whatever they are."""

_POINTERS: Final = frozenset(
    """
    storageClassName volumeAttributesClassName ingressClassName runtimeClassName loadBalancerClass holderIdentity
    currentVolumeAttributesClassName localhostProfile default pattern
    """.split()
)
_POINTER_FIELDS: Final = frozenset(
    """
    HostPathVolumeSource.type EndpointPort.name EndpointPort.appProtocol EndpointPort.protocol
    TypedLocalObjectReference.apiGroup TypedObjectReference.apiGroup TypedObjectReference.namespace
    IngressClassParametersReference.apiGroup IngressClassParametersReference.namespace
    Event.reportingComponent Event.reportingInstance GRPCAction.service CronJobSpec.timeZone JobSpec.managedBy
    PodDNSConfigOption.value ServiceReference.path WebhookClientConfig.url Endpoint.hostname Endpoint.nodeName
    Endpoint.zone NetworkPolicyPort.protocol ReplicaSetCondition.message
    PodSchedulingGroup.podGroupName WindowsSecurityContextOptions.runAsUserName
    WindowsSecurityContextOptions.gmsaCredentialSpec WindowsSecurityContextOptions.gmsaCredentialSpecName
    """.split()
)
"""Strings that say something when they are empty."""

_WRITTEN_LISTS: Final = frozenset(
    ("EndpointSlice.endpoints", "EndpointSlice.ports", "Role.rules", "ClusterRole.rules", "CSINodeSpec.drivers")
)
"""Lists that are written even when they are empty."""


def keeps_zero(struct: str, name: str, *, required: bool) -> bool:
    """Whether a 0 or false of a field is stored."""
    return required or name not in ZERO or f"{struct}.{name}" in _KEPT


def keeps_list(struct: str, name: str, *, required: bool) -> bool:
    """Whether an empty list or map of a field is stored."""
    return required or f"{struct}.{name}" in _WRITTEN_LISTS


def keeps_empty(struct: str, name: str, *, required: bool) -> bool:
    """Whether an empty string of a field is stored."""
    return required or name in _POINTERS or f"{struct}.{name}" in _POINTER_FIELDS
