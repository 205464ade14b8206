"""Which controllers of the library a plane runs, under the names that kube-controller-manager's --controllers has."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dashpot.runtime.controller.uses import Right


@frozen
class Part:
    """A module of the library and those of its actors that run.

    account  the service account of kube-system as which it acts, as in Kubernetes
    asked    only where it is named, since it has kinds of its own, which Kubernetes does not have
    paths    what it may ask at paths, which its text does not tell
    source   the component that its events name, as upstream's; "": the name of the controller
    """

    module: str
    actors: tuple[str, ...]
    account: str
    asked: bool = False
    paths: tuple[Right, ...] = ()
    source: str = ""


CONTROLLERS: dict[str, Part] = {
    "replicaset-controller": Part("kubernetes.replicaset", ("ReplicaSetController",), "replicaset-controller"),
    "deployment-controller": Part("kubernetes.deployment", ("DeploymentController",), "deployment-controller"),
    "statefulset-controller": Part("kubernetes.statefulset", ("StatefulSetController",), "statefulset-controller"),
    "daemonset-controller": Part("kubernetes.daemonset", ("DaemonSetController",), "daemon-set-controller"),
    "job-controller": Part("kubernetes.job", ("JobController", "JobExpiry"), "job-controller"),
    "cronjob-controller": Part("kubernetes.cronjob", ("CronJobController",), "cronjob-controller"),
    "endpoints-controller": Part(
        "kubernetes.endpoints",
        ("EndpointsController", "EndpointsCleaner"),
        "endpoint-controller",
        source="endpoint-controller",
    ),
    "endpointslice-controller": Part(
        "kubernetes.endpoints",
        ("EndpointSliceController",),
        "endpointslice-controller",
        source="endpoint-slice-controller",
    ),
    "endpointslice-mirroring-controller": Part(
        "kubernetes.mirroring",
        ("EndpointSliceMirroringController",),
        "endpointslicemirroring-controller",
        source="endpoint-slice-mirroring-controller",
    ),
    "node-lifecycle-controller": Part("kubernetes.node", ("NodeMonitor",), "node-controller", source="node-controller"),
    "taint-eviction-controller": Part("kubernetes.node", ("TaintEviction",), "node-controller"),
    "pod-garbage-collector-controller": Part(
        "kubernetes.podgc", ("PodCollector", "TerminatedPods"), "pod-garbage-collector"
    ),
    "disruption-controller": Part(
        "kubernetes.pdb", ("DisruptionController",), "disruption-controller", source="controllermanager"
    ),
    "resourcequota-controller": Part("kubernetes.quota", ("QuotaController",), "resourcequota-controller"),
    "persistentvolume-binder-controller": Part(
        "kubernetes.volumes",
        ("ClaimBinder", "VolumeBinder", "HostPathProvisioner", "HostPathDeleter"),
        "persistent-volume-binder",
        source="persistentvolume-controller",
    ),
    "ephemeral-volume-controller": Part(
        "kubernetes.volumes", ("EphemeralVolumes",), "ephemeral-volume-controller", source="ephemeral_volume"
    ),
    "persistentvolumeclaim-protection-controller": Part(
        "kubernetes.volumes", ("ClaimProtection",), "pvc-protection-controller"
    ),
    "persistentvolume-protection-controller": Part(
        "kubernetes.volumes", ("VolumeProtection",), "pv-protection-controller"
    ),
    "horizontal-pod-autoscaler-controller": Part(
        "kubernetes.hpa",
        ("HorizontalPodAutoscalerController",),
        "horizontal-pod-autoscaler",
        source="horizontal-pod-autoscaler",
    ),
    "namespace-controller": Part("kubernetes.namespaces", ("NamespaceController",), "namespace-controller"),
    "serviceaccount-controller": Part(
        "kubernetes.serviceaccounts", ("ServiceAccountController",), "service-account-controller"
    ),
    "root-ca-certificate-publisher-controller": Part(
        "kubernetes.rootca", ("RootCAPublisher",), "root-ca-cert-publisher"
    ),
    "garbage-collector-controller": Part("kubernetes.collector", ("GarbageCollector",), "generic-garbage-collector"),
    "certificatesigningrequest-approving-controller": Part(
        "kubernetes.certificates", ("RequestApprover",), "certificate-controller"
    ),
    "certificatesigningrequest-signing-controller": Part(
        "kubernetes.certificates", ("RequestSigner",), "certificate-controller"
    ),
    "certificatesigningrequest-cleaner-controller": Part(
        "kubernetes.certificates", ("RequestCleaner",), "certificate-controller"
    ),
    "persistentvolume-attach-detach-controller": Part(
        "kubernetes.attachments",
        ("Attacher", "Detacher", "FakeAttacher", "FakeMounts"),
        "attachdetach-controller",
        source="attachdetach-controller",
    ),
    "pod-autosizer-controller": Part(
        "kubernetes.vpa",
        ("PodAutosizerController",),
        "pod-autosizer",
        asked=True,
        paths=(Right("metrics.k8s.io", "pods", "list", "PodMetrics"),),
    ),
    "cluster-autoscaler": Part("kubernetes.autoscaler", ("ClusterAutoscaler",), "cluster-autoscaler", asked=True),
}
"""By name, in the order in which they start."""


class UnknownController(ValueError):
    """A name that no controller has."""


def chosen(words: Sequence[str]) -> tuple[str, ...]:
    """`*` is all but those that want to be named, `name` one more, `-name` one less; without `*` only those named.
    UnknownController."""
    every = "*" in words or all(word.startswith("-") for word in words)
    found = dict.fromkeys(name for name, part in CONTROLLERS.items() if every and not part.asked)
    for word in words:
        name = word.removeprefix("-")
        if name == "*":
            continue
        if name not in CONTROLLERS:
            raise UnknownController(f"there is no controller '{name}'; there are: {', '.join(CONTROLLERS)}")
        if word.startswith("-"):
            found.pop(name, None)
        else:
            found[name] = None
    return tuple(name for name in CONTROLLERS if name in found)


def modules(names: Sequence[str]) -> tuple[str, ...]:
    """The modules of these controllers, each once."""
    return tuple(dict.fromkeys(CONTROLLERS[name].module for name in names))


def source(actor: str) -> str:
    """The component that the events of an actor name."""
    return _SOURCES.get(actor, actor)


_SOURCES = {actor: part.source or name for name, part in CONTROLLERS.items() for actor in part.actors}
