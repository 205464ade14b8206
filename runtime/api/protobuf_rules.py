"""How Kubernetes' protobuf messages differ from its JSON, beyond what the descriptors say.

The Go types know (inlined structs, json names, omitempty, pointers); a descriptor does not. Found by comparing the
descriptors with the OpenAPI properties and typed creates of kubectl 1.32 and 1.37 with their JSON.
"""

from __future__ import annotations

CORE = "k8s.io.api.core.v1."
META = "k8s.io.apimachinery.pkg.apis.meta.v1."

# Fields whose message stands inline in its parent: (message, field).
INLINED = {
    (f"{CORE}Volume", "volumeSource"),
    (f"{CORE}PersistentVolumeSpec", "persistentVolumeSource"),
    (f"{CORE}Probe", "handler"),
    (f"{CORE}EphemeralContainer", "ephemeralContainerCommon"),
    ("k8s.io.api.networking.v1.IngressRule", "ingressRuleValue"),
    ("k8s.io.api.admissionregistration.v1.RuleWithOperations", "rule"),
    ("k8s.io.api.admissionregistration.v1.NamedRuleWithOperations", "ruleWithOperations"),
    *(
        (f"k8s.io.api.resource.v1.Device{owner}Configuration", "deviceConfiguration")
        for owner in ("Allocation", "Claim", "Class")
    ),
    *(
        (f"{CORE}{owner}{use}", "localObjectReference")
        for owner in ("ConfigMap", "Secret")
        for use in ("EnvSource", "KeySelector", "Projection")
    ),
    (f"{CORE}ConfigMapVolumeSource", "localObjectReference"),
}

RENAMED = {
    "uID": "uid",
    "aPIGroup": "apiGroup",
    "Webhooks": "webhooks",
    "Expression": "expression",
    "Name": "name",
}

# Strings that mean something when they are empty: a claim without any class.
MEANT_EMPTY = {"storageClassName"}

# Numbers and booleans that Go leaves out of JSON when they are zero, although it sends them.
DROPPED_ZERO = frozenset(
    """
    active authenticated availableReplicas chapAuthDiscovery chapAuthSession clusterScope count currentReplicas
    denied deprecatedCount failed failureThreshold follow fullyLabeledReplicas generation globalDefault handSize
    healthCheckNodePort hostIPC hostNetwork hostPID hostPort initialDelaySeconds insecureSkipTLSVerifyBackend
    minReadySeconds nodePort number numberAvailable numberUnavailable observedGeneration partition paused
    periodSeconds previous publishNotReadyAddresses queueLengthLimit queues readOnly readyReplicas replicas signal
    sizeBytes sslEnabled stderr stdin stdinOnce stdout succeeded successThreshold timeoutSeconds timestamps tty
    unavailableReplicas unschedulable updatedNumberScheduled updatedReplicas
    """.split()
)

# … and where the same names are pointers, or always in the JSON: (message, field).
KEPT_ZERO = {
    *((f"k8s.io.api.apps.v1.{kind}Spec", "replicas") for kind in ("Deployment", "ReplicaSet", "StatefulSet")),
    (f"{CORE}ReplicationControllerSpec", "replicas"),
    *((f"k8s.io.api.apps.v1.{kind}Status", "replicas") for kind in ("ReplicaSet", "StatefulSet")),
    (f"{CORE}ReplicationControllerStatus", "replicas"),
    ("k8s.io.api.autoscaling.v1.ScaleStatus", "replicas"),
    ("k8s.io.api.autoscaling.v1.HorizontalPodAutoscalerStatus", "currentReplicas"),
    ("k8s.io.api.events.v1.EventSeries", "count"),
    ("k8s.io.api.resource.v1.ResourcePool", "generation"),
    ("k8s.io.api.apps.v1.StatefulSetStatus", "availableReplicas"),
    ("k8s.io.api.apps.v1.RollingUpdateStatefulSetStrategy", "partition"),
    *(
        (f"k8s.io.api.autoscaling.{version}.HorizontalPodAutoscalerStatus", "observedGeneration")
        for version in ("v1", "v2")
    ),
    ("k8s.io.api.autoscaling.v2.HPAScalingPolicy", "periodSeconds"),
    (f"{CORE}AzureDiskVolumeSource", "readOnly"),
    (f"{CORE}CSIVolumeSource", "readOnly"),
    (f"{CORE}ClientIPConfig", "timeoutSeconds"),
    *((f"k8s.io.api.admissionregistration.v1.{kind}Webhook", "timeoutSeconds") for kind in ("Mutating", "Validating")),
    ("k8s.io.api.storage.v1.VolumeNodeResources", "count"),
}
