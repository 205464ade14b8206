"""A question about placement: the cluster as it is, and the pods that are to be placed, alike ones together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field, frozen

from dashpot.checker.feasibility.dump import BadInput, Dump, Item
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.placement.cycle import Profile
from dashpot.model.placement.profile import default
from dashpot.model.placement.shape import Pod
from dashpot.model.placement.snapshot import Snapshot

Object = dict[str, Any]

ENDED = ("Succeeded", "Failed")
DECIDING = (
    "nodeName", "nodeSelector", "affinity", "tolerations", "overhead", "resources", "topologySpreadConstraints",
    "schedulerName", "priority", "preemptionPolicy", "hostNetwork", "schedulingGates",
)  # fmt: skip
"""Fields of a pod's spec that placement reads, beside containers and volumes."""
OWNERS = {"ReplicaSet", "Deployment", "StatefulSet", "Job", "ReplicationController"}
PODS_LIMIT = 100_000
MOST = (1 << 63) - 1
"""What quantities are cut to: nothing has so much."""


@frozen(eq=False)
class Template:
    """Pods that are alike to every rule. `name`: what people call them; `place`: where they were read."""

    name: str
    pod: Pod
    members: tuple[Pod, ...]
    place: str

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.members)


@define(eq=False)
class Instance:
    """A question. `missing`: what the input does not have, and what is assumed of it, a sentence each; `unread`: rules
    of which nothing is known here, though a pod needs them."""

    cluster: Snapshot
    templates: list[Template]
    profile: Profile
    places: dict[str, str] = field(factory=dict)
    missing: list[str] = field(factory=list)
    unread: list[str] = field(factory=list)

    @property
    def pods(self) -> list[Pod]:
        """All pods that are to be placed."""
        return [pod for template in self.templates for pod in template.members]


def instance(dump: Dump, *, replicas: Mapping[str, int] | None = None, profile: Profile | None = None) -> Instance:
    """The question that a dump asks: its pending pods, and the pods of controllers that have none in it. `replicas`:
    other numbers, by `KIND/NAME` or name. BadInput."""
    for item in dump.of("Node"):
        _check_node(item)
    pods = dump.of("Pod")
    for item in pods:
        _check_pod(item, dump)
    names = {item.name for item in dump.of("Node")}
    if not names:
        raise BadInput("", "the input has no nodes: add them with another -f, such as `kubectl get nodes -o json`")
    namespaces = {item.name: item.object["metadata"].get("labels") or {} for item in dump.of("Namespace")}
    kinds = ("Service", "ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget")
    placed = [i.object for i in pods if (i.object.get("spec") or {}).get("nodeName") in names]
    cluster = Snapshot.of(
        dump.objects("Node"), [_identified(one) for one in placed], namespaces, {k: dump.objects(k) for k in kinds}
    )
    wanted = [i for i in pods if _pending(i.object)] + _controlled(dump, replicas or {}, pods)
    if len(wanted) > PODS_LIMIT:
        raise BadInput("", f"{len(wanted)} pods are to be placed; {PODS_LIMIT} is the most")
    found = Instance(cluster, _grouped(wanted), profile or default())
    found.places = {f"{i.kind}/{i.name}": i.place for i in dump.items}
    _notes(found, dump)
    return found


def _pending(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    gone = phase in ENDED or pod["metadata"].get("deletionTimestamp")
    return not (pod.get("spec") or {}).get("nodeName") and not gone


def _identified(pod: Object) -> Object:
    meta = pod["metadata"]
    if meta.get("uid"):
        return pod
    return {**pod, "metadata": {**meta, "uid": f"{meta.get('namespace', '')}/{meta['name']}"}}


def _controlled(dump: Dump, replicas: Mapping[str, int], pods: Sequence[Item]) -> list[Item]:
    """Pods of controllers: as many as are wanted and not in the dump."""
    left = dict(replicas)
    found: list[Item] = []
    for item in dump.items:
        if item.kind not in OWNERS:
            continue
        if any(ref.get("controller") for ref in item.object["metadata"].get("ownerReferences") or ()):
            continue
        template = _template(item)
        if template is None:
            continue
        key = next(
            (k for k in (f"{item.kind}/{item.name}", f"{item.kind.lower()}/{item.name}", item.name) if k in left), ""
        )
        want = left.pop(key) if key else _wanted(item)
        labels = (template.get("metadata") or {}).get("labels") or {}
        have = sum(1 for one in pods if one.namespace == item.namespace and _labelled(one.object, labels))
        for at in range(max(0, want - have)):
            name = f"{item.name}-{have + at}"
            meta = {"name": name, "namespace": item.namespace, "labels": labels, "uid": f"{item.kind}/{name}"}
            spec = template.get("spec") or {}
            found.append(Item({"kind": "Pod", "metadata": meta, "spec": spec}, item.place))
    if left:
        raise BadInput("--replicas", f"the input has no controller '{next(iter(left))}'")
    for one in found[:1000]:
        _check_pod(one, dump)
    return found


def _labelled(pod: Object, labels: Mapping[str, str]) -> bool:
    have = pod["metadata"].get("labels") or {}
    phase = (pod.get("status") or {}).get("phase")
    return bool(labels) and phase not in ENDED and all(have.get(key) == value for key, value in labels.items())


def _template(item: Item) -> Object | None:
    found = (item.object.get("spec") or {}).get("template")
    return found if isinstance(found, dict) else None


def _wanted(item: Item) -> int:
    spec = item.object.get("spec") or {}
    value = spec.get("parallelism" if item.kind == "Job" else "replicas", 1)
    if not isinstance(value, int) or value < 0:
        raise BadInput(item.place, f"{item.kind} {item.name}: '{value}' is no number of replicas")
    return value


def _grouped(wanted: Sequence[Item]) -> list[Template]:
    groups: dict[bytes, list[Item]] = {}
    for item in wanted:
        groups.setdefault(_sort(item.object), []).append(item)
    found = []
    for rows in groups.values():
        members = tuple(Pod.of(_identified(row.object)) for row in rows)
        found.append(Template(_called(rows), members[0], members, rows[0].place))
    return found


def _called(rows: Sequence[Item]) -> str:
    owner = next((r for r in rows[0].object["metadata"].get("ownerReferences") or () if r.get("controller")), None)
    if len(rows) == 1:
        return f"pod {rows[0].name}"
    if owner is not None:
        return f"{len(rows)} pods of {owner.get('kind')} {owner.get('name')}"
    return f"{len(rows)} pods like {rows[0].name}"


def _sort(pod: Object) -> bytes:
    """What placement reads of a pod, as one key."""
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    containers = [
        [
            {name: one.get(name) for name in ("resources", "ports", "restartPolicy", "image") if one.get(name)}
            for one in spec.get(part) or ()
        ]
        for part in ("containers", "initContainers")
    ]
    volumes = [
        one for one in spec.get("volumes") or () if not ({"projected", "secret", "configMap", "emptyDir"} & set(one))
    ]
    owner = next(
        (r.get("uid") or r.get("name") for r in meta.get("ownerReferences") or () if r.get("controller")), None
    )
    read = {name: spec[name] for name in DECIDING if name in spec}
    return msgspec.json.encode(
        [meta.get("namespace"), meta.get("labels"), owner, read, containers, volumes], order="sorted"
    )


# ---------------------------------------------------------------- what is wrong with the input
def _check_node(item: Item) -> None:
    allocatable = (item.object.get("status") or {}).get("allocatable")
    if not isinstance(allocatable, dict) or not allocatable:
        raise BadInput(item.place, f"Node {item.name} has no status.allocatable: what fits it cannot be told")
    _check_amounts(item, "status.allocatable", allocatable)


def _check_pod(item: Item, dump: Dump) -> None:
    spec = item.object.get("spec")
    if not isinstance(spec, dict) or not spec.get("containers"):
        raise BadInput(item.place, f"Pod {item.name} has no spec.containers")
    for part in ("containers", "initContainers"):
        for at, one in enumerate(spec.get(part) or ()):
            if not isinstance(one, dict):
                raise BadInput(item.place, f"Pod {item.name}: spec.{part}[{at}] is no object")
            for side in ("requests", "limits"):
                rows = (one.get("resources") or {}).get(side)
                _check_amounts(item, f"spec.{part}[{at}].resources.{side}", rows or {})
    _check_amounts(item, "spec.overhead", spec.get("overhead") or {})
    claims = {(one.namespace, one.name) for one in dump.of("PersistentVolumeClaim")}
    for volume in spec.get("volumes") or () if claims else ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and _pending(item.object) and (item.namespace, claim) not in claims:
            text = f"Pod {item.name} names the PersistentVolumeClaim '{claim}', which is not in the input"
            raise BadInput(item.place, text)


def _check_amounts(item: Item, where: str, rows: Any) -> None:
    if not isinstance(rows, dict):
        raise BadInput(item.place, f"{item.kind} {item.name}: {where} is no list of resources")
    for name, text in rows.items():
        try:
            amount = parse(str(text))
        except QuantityError as error:
            raise BadInput(item.place, f"{item.kind} {item.name}: {where}.{name} '{text}': {error}") from None
        if amount.nano < 0:
            raise BadInput(item.place, f"{item.kind} {item.name}: {where}.{name} '{text}' is negative")
        if amount.value >= MOST:
            raise BadInput(item.place, f"{item.kind} {item.name}: {where}.{name} '{text}' is more than can be counted")


def _notes(found: Instance, dump: Dump) -> None:
    """What is assumed since the input lacks it, and which rules are not read here."""
    volumes = [v for pod in found.pods for v in pod.spec.get("volumes") or ()]
    if any("persistentVolumeClaim" in v or "ephemeral" in v for v in volumes):
        found.unread.append("VolumeBinding: where claims can be bound is not looked at")
    if any(pod.spec.get("resourceClaims") for pod in found.pods):
        found.unread.append("DynamicResources: devices that resource claims ask for are not looked at")
    selectors = any(
        "namespaceSelector" in (term.get("podAffinityTerm") or term)
        for pod in found.pods
        for side in (pod.spec.get("affinity") or {}).values()
        for rows in side.values()
        if isinstance(rows, list)
        for term in rows
    )
    if selectors and not dump.of("Namespace"):
        found.missing.append("the input has no Namespaces: their labels are taken to be empty")
    if not dump.of("Pod"):
        found.missing.append("the input has no Pods: the nodes are taken to be empty")
