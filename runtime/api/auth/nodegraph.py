"""Which objects belong to a node, because pods that run there name them.

Edges (upstream: plugin/pkg/auth/authorizer/node/graph.go): node ← pod ← Secret, ConfigMap, ServiceAccount,
PersistentVolumeClaim, ResourceClaim; claim ← PersistentVolume ← Secret; node ← VolumeAttachment, ResourceSlice.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.view import View

Object = dict[str, Any]
Name = tuple[str, str]
"""Plural and name, in the pod's namespace."""

MIRROR = "kubernetes.io/config.mirror"
_SECRETS_OF_CSI = (
    "controllerPublishSecretRef",
    "nodeStageSecretRef",
    "nodePublishSecretRef",
    "controllerExpandSecretRef",
    "nodeExpandSecretRef",
)
_SECRETS_OF_VOLUMES = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")

_GRAPH = tally("node_authorizer_graph_actions_duration_seconds")
"""Upstream's graph grows with each object; here it is made anew when somebody asks after a change."""


class NodeGraph:
    """Answers from the view. Names of a pod are read once a version of it; the index of a namespace lasts as long as
    no pod changes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._version = -1
        self._spaces: dict[str, dict[Name, set[str]]] = {}
        self._names: dict[str, dict[str, tuple[Object, frozenset[Name]]]] = {}
        self._volumes_version = -1
        self._secrets: dict[tuple[str, str], list[Object]] = {}

    def related(self, node: str, plural: str, namespace: str, name: str) -> bool:
        """Whether the object is the node's business."""
        if plural == "pods":
            pod = self._view.get("", "pods", namespace, name)
            return pod is not None and pod.get("spec", {}).get("nodeName") == node
        if plural == "persistentvolumes":
            volume = self._view.get("", "persistentvolumes", "", name)
            return volume is not None and self._claimed(node, volume)
        if plural == "volumeattachments":
            return self._spec_of("storage.k8s.io", plural, name).get("nodeName") == node
        if plural == "resourceslices":
            return self._spec_of("resource.k8s.io", plural, name).get("nodeName") == node
        if node in self._space(namespace).get((plural, name), ()):
            return True
        if plural == "secrets":
            return any(self._claimed(node, volume) for volume in self._volumes(namespace, name))
        return False

    def _spec_of(self, group: str, plural: str, name: str) -> Object:
        found = self._view.get(group, plural, "", name)
        return (found or {}).get("spec") or {}

    def _claimed(self, node: str, volume: Object) -> bool:
        claim = (volume.get("spec") or {}).get("claimRef") or {}
        key = ("persistentvolumeclaims", claim.get("name", ""))
        return node in self._space(claim.get("namespace", "")).get(key, ())

    def _space(self, namespace: str) -> dict[Name, set[str]]:
        """Nodes by what pods of the namespace name."""
        version = self._view.version("", "pods")
        if version != self._version:
            self._version = version
            self._spaces.clear()
        found = self._spaces.get(namespace)
        if found is not None:
            return found
        began = perf_counter()
        found = {}
        known, names = self._names.get(namespace, {}), {}
        for pod in self._view.list("", "pods", namespace):
            name, node = pod["metadata"]["name"], (pod.get("spec") or {}).get("nodeName")
            if node:
                seen = known.get(name)
                if seen is None or seen[0] is not pod:
                    seen = (pod, frozenset(names_of(pod)))
                names[name] = seen
                for one in seen[1]:
                    found.setdefault(one, set()).add(node)
        self._names.pop(namespace, None)
        if names:
            self._spaces[namespace], self._names[namespace] = found, names
        _GRAPH.hist("AddPod").observe(perf_counter() - began)
        return found

    def _volumes(self, namespace: str, secret: str) -> list[Object]:
        """Volumes that need this secret."""
        version = self._view.version("", "persistentvolumes")
        if version != self._volumes_version:
            self._volumes_version = version
            began = perf_counter()
            self._secrets.clear()
            for volume in self._view.list("", "persistentvolumes"):
                for key in _secrets_of(volume):
                    self._secrets.setdefault(key, []).append(volume)
            _GRAPH.hist("AddPV").observe(perf_counter() - began)
        return self._secrets.get((namespace, secret), [])


def _secrets_of(volume: Object) -> Iterator[tuple[str, str]]:
    spec = volume.get("spec") or {}
    home = (spec.get("claimRef") or {}).get("namespace", "")
    csi = spec.get("csi") or {}
    refs = [(csi.get(key), home) for key in _SECRETS_OF_CSI]
    refs += [((spec.get(kind) or {}).get("secretRef"), home) for kind in _SECRETS_OF_VOLUMES]
    for ref, namespace in refs:
        if ref and ref.get("name"):
            yield ref.get("namespace") or namespace, ref["name"]
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or home, azure["secretName"]


def names_of(pod: Object) -> Iterator[Name]:
    """What a pod names in its namespace. Mirror pods, which a kubelet writes itself, name nothing: else it could
    open any Secret by writing a pod."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if MIRROR in (meta.get("annotations") or {}):
        return
    if spec.get("serviceAccountName"):
        yield "serviceaccounts", spec["serviceAccountName"]
    yield from secrets_and_configs(pod)
    for volume in spec.get("volumes") or ():
        claim = volume.get("persistentVolumeClaim")
        if claim:
            yield "persistentvolumeclaims", claim.get("claimName", "")
        elif volume.get("ephemeral"):
            yield "persistentvolumeclaims", f"{meta.get('name', '')}-{volume.get('name', '')}"
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {one.get("name"): one.get("resourceClaimName") for one in statuses}
    for claim in spec.get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or made.get(claim.get("name"))
        if name:
            yield "resourceclaims", name


def secrets_and_configs(pod: Object) -> Iterator[Name]:
    """The Secrets and ConfigMaps that a pod names: to pull images, in environments and in volumes."""
    spec = pod.get("spec") or {}
    for ref in spec.get("imagePullSecrets") or ():
        yield "secrets", ref.get("name", "")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield from _environment(container)
    for volume in spec.get("volumes") or ():
        yield from _volume(volume)


def _environment(container: Object) -> Iterator[Name]:
    for source in container.get("envFrom") or ():
        for key, plural in (("secretRef", "secrets"), ("configMapRef", "configmaps")):
            if source.get(key):
                yield plural, source[key].get("name", "")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        for key, plural in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
            if source.get(key):
                yield plural, source[key].get("name", "")


def _volume(volume: Object) -> Iterator[Name]:
    if volume.get("secret"):
        yield "secrets", volume["secret"].get("secretName", "")
    if volume.get("configMap"):
        yield "configmaps", volume["configMap"].get("name", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        for key, plural in (("secret", "secrets"), ("configMap", "configmaps")):
            if source.get(key):
                yield plural, source[key].get("name", "")
    for kind in (*_SECRETS_OF_VOLUMES, "csi"):
        source = volume.get(kind) or {}
        ref = source.get("secretRef") or source.get("nodePublishSecretRef")
        if ref:
            yield "secrets", ref.get("name", "")
    if (volume.get("azureFile") or {}).get("secretName"):
        yield "secrets", volume["azureFile"]["secretName"]
