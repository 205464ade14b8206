"""What makes a spec's objects concrete: the least that real validation asks of a built-in kind, and where kinds and
fields are kept that the API server has no place for.

    served = Served(program); body = complete(view, body)

Source of what is required: the reference of each kind in Kubernetes' API documentation, release 1.34.
"""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field

from dashpot.model.objects.registry import builtin
from dashpot.model.objects.resource import Resource
from dashpot.model.program import Field, Program
from dashpot.model.program import Resource as Declared
from dashpot.runtime.controller.paths import Path
from dashpot.runtime.controller.views import Opacity, View

Object = dict[str, Any]

GROUP = "replay.dashpot.dev"
"""Of kinds that stand in a built-in group without being one of its kinds, and of annotations that hold a field."""
IMAGE = "example.com/replay"
UNSAID = f"{IMAGE}:1"
"""The image where the model says nothing of a template."""

_LABELS = {"replay": "yes"}
_CONTAINERS = {"containers": [{"name": "c", "image": UNSAID}]}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _CONTAINERS}
_JOB = {"spec": {**_CONTAINERS, "restartPolicy": "Never"}}
_WORKLOAD = {"spec": {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}}
_ROLE = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}

_LEAST: dict[tuple[str, str], Object] = {
    ("", "Pod"): {"spec": _CONTAINERS},
    ("", "ReplicationController"): {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    ("", "Service"): {"spec": {"ports": [{"port": 80}]}},
    ("", "PersistentVolumeClaim"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    ("", "PersistentVolume"): {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/replay"}}
    },
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "DaemonSet"): _WORKLOAD,
    ("apps", "StatefulSet"): {"spec": {**_WORKLOAD["spec"], "serviceName": "replay"}},
    ("batch", "Job"): {"spec": {"template": _JOB}},
    ("batch", "CronJob"): {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": _JOB}}}},
    ("storage.k8s.io", "StorageClass"): {"provisioner": GROUP},
    ("storage.k8s.io", "VolumeAttachment"): {
        "spec": {"attacher": GROUP, "nodeName": "replay", "source": {"persistentVolumeName": "replay"}}
    },
    ("discovery.k8s.io", "EndpointSlice"): {"addressType": "IPv4", "endpoints": []},
    ("scheduling.k8s.io", "PriorityClass"): {"value": 0},
    ("networking.k8s.io", "Ingress"): {
        "spec": {"defaultBackend": {"service": {"name": "replay", "port": {"number": 80}}}}
    },
    ("autoscaling", "HorizontalPodAutoscaler"): {
        "spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "replay"}}
    },
    ("rbac.authorization.k8s.io", "RoleBinding"): _ROLE,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE,
}


def complete(view: View, body: Object) -> Object:
    """The body of a create with what the kind needs at least; what the spec writes stays as it is."""
    least = _LEAST.get((view.resource.group, view.kind))
    made: Object = body if least is None else _merged(body, least)
    if view.kind == "Pod" and view.resource.group == "":
        volumes = made["spec"].get("volumes")
        if volumes:
            named = [{"name": f"v{n}", **volume} for n, volume in enumerate(volumes)]
            made = {**made, "spec": {**made["spec"], "volumes": named}}
    return made


def real(view: View, body: Object) -> Object:
    """The body of an update or patch: opaque symbols of the model as objects that stand for them."""
    least = _LEAST.get((view.resource.group, view.kind))
    made: Object = body if least is None else _real(body, least)
    return made


def _real(have: Any, least: Any) -> Any:
    if not isinstance(least, dict):
        return have
    if isinstance(have, str):
        return _holding(least, have)
    if not isinstance(have, dict):
        return have
    return {**have, **{key: _real(have[key], part) for key, part in least.items() if key in have}}


def _merged(have: Any, least: Any) -> Any:
    if isinstance(least, dict):
        if isinstance(have, dict):
            return {**have, **{k: _merged(have[k], v) if have.get(k) is not None else v for k, v in least.items()}}
        if isinstance(have, str):
            return _holding(least, have)
    if isinstance(least, list) and isinstance(have, list):
        return [_merged(one, least[0]) if isinstance(one, dict) and least else one for one in have]
    return have


def _holding(least: Object, symbol: str) -> Object:
    """An object that stands for an opaque symbol of the model: it has the symbol in the image of its container."""
    if "containers" in least:
        image = f"{IMAGE}:{symbol}"
        return {**least, "containers": [{**one, "image": image} for one in least["containers"]]}
    if "spec" in least:
        return {**least, "spec": _holding(least["spec"], symbol)}
    return {**least, "symbol": symbol}


def symbol_of(json: Any) -> Any:
    """The symbol that an object stands for; None for what only validation asks for; else the value as it is."""
    found = json
    while isinstance(found, dict):
        if "containers" in found:
            image = str(found["containers"][0].get("image", ""))
            return image.removeprefix(f"{IMAGE}:") if image.startswith(f"{IMAGE}:") and image != UNSAID else None
        if set(found) <= {"metadata", "spec"} and "spec" in found:
            found = found["spec"]
        else:
            return found.get("symbol", json)
    return found


def _written(resource: Resource, path: Path, value: Any) -> Any:
    """An opaque value of the model at its place."""
    least: Any = _LEAST.get((resource.group, resource.kind))
    for step in path:
        least = least.get(step) if isinstance(least, dict) else None
    return _holding(least, value) if isinstance(least, dict) and isinstance(value, str) else value


SYMBOLS = Opacity(symbol_of, _written)
"""How a replay has opaque values: by their symbols."""


def _free(one: Field) -> Field:
    return evolve(one, monotone=False)


@define(eq=False)
class Served:
    """A program whose kinds the API server has a place for, and what had to be moved: one sentence each.

    custom   kinds that need a definition of their own
    """

    program: Program
    notes: list[str] = field(factory=list)
    custom: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.program = evolve(self.program, resources=tuple(map(self._placed, self.program.resources)))

    def _placed(self, declared: Declared) -> Declared:
        # that a monotone field goes back is what a run may have to show: the server must not refuse it
        declared = evolve(declared, spec=tuple(map(_free, declared.spec)), status=tuple(map(_free, declared.status)))
        group, _, version = declared.api_version.rpartition("/")
        known = builtin().by_kind(group, version, declared.kind)
        if known is not None and (not declared.status or known.subresource("status") is not None):
            return declared
        self.custom.append(declared.kind)
        if known is None and group not in {resource.group for resource in builtin().resources}:
            return declared
        moved = evolve(declared, api_version=f"{GROUP}/{version}")
        why = "is no kind of Kubernetes" if known is None else "has no status there"
        self.notes.append(
            f"{declared.kind} is served as a custom resource of {GROUP}: {declared.kind} {declared.api_version} {why}"
        )
        return moved

    def annotate(self, kind: str, name: str, why: str) -> None:
        """Keeps a field of a spec in an annotation: where the spec has it, the kind has no room for such a value."""

        def moved(fields: tuple[Field, ...]) -> tuple[Field, ...]:
            at = f"metadata.annotations['{GROUP}/spec.{name}']"
            return tuple(evolve(f, at=at) if f.name == name else f for f in fields)

        self.program = evolve(
            self.program,
            resources=tuple(evolve(r, spec=moved(r.spec)) if r.kind == kind else r for r in self.program.resources),
        )
        self.notes.append(f"{kind}.spec.{name} is kept in an annotation: {why}")
