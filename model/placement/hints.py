"""Queueing hints (S51 to S53): whether an event may let in a pod that some plugins rejected.

    event = changed("Node", old, new)
    if event is not None and any(helps(plugin, pod, event) for plugin in rejecting): …

Two tables: `complete`, the default, in which every event that can turn a rejection into admission is hinted, and
`v1.34.1`, which misses three of InterPodAffinity (kubernetes#134393, #141354, #141953).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from dashpot.model.placement import static
from dashpot.model.placement.interpod import Term, terms_of
from dashpot.model.placement.match import required_here, untolerated
from dashpot.model.placement.request import scalar
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.model.placement.spread import HARD, Constraint

Object = dict[str, Any]
COMPLETE, V1_34_1 = "complete", "v1.34.1"
BASIC = static.BASIC
TAINTS = ("NoSchedule", "NoExecute")


@frozen
class Event:
    """Something that happened. `old` and `new` are the object before and after; one is None where it came or went.

    kind     of the object
    actions  add, delete; of a pod label, scale-down, toleration, gates; of a node allocatable, label, taint, condition,
             annotation; of both generic: anything else
    """

    kind: str
    actions: frozenset[str]
    old: Object | None = None
    new: Object | None = None

    @property
    def uid(self) -> str:
        """Of the object."""
        return str(((self.new or self.old or {}).get("metadata") or {}).get("uid", ""))


def changed(kind: str, old: Object | None, new: Object | None) -> Event | None:
    """The event that a change of an object is; None where nothing changed that a plugin could look at."""
    if old is None or new is None:
        return Event(kind, frozenset(("add" if old is None else "delete",)), old, new)
    actions = _pod_actions(old, new) if kind == "Pod" else _node_actions(old, new) if kind == "Node" else {"generic"}
    return Event(kind, frozenset(actions), old, new) if actions else None


def _pod_actions(old: Object, new: Object) -> set[str]:
    found: set[str] = set()
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if _labels(old) != _labels(new):
        found.add("label")
    if before.get("tolerations") != after.get("tolerations"):
        found.add("toleration")
    if before.get("schedulingGates") and not after.get("schedulingGates"):
        found.add("gates")
    if before.get("containers") != after.get("containers") or before.get("resources") != after.get("resources"):
        was, now = Pod.of(old).asks, Pod.of(new).asks
        if any(now.get(name, 0) < amount for name, amount in was.items()):
            found.add("scale-down")
    return found


def _node_actions(old: Object, new: Object) -> set[str]:
    found: set[str] = set()
    before, after = old.get("spec") or {}, new.get("spec") or {}
    was, now = old.get("status") or {}, new.get("status") or {}
    if was.get("allocatable") != now.get("allocatable"):
        found.add("allocatable")
    if _labels(old) != _labels(new):
        found.add("label")
    if before.get("taints") != after.get("taints") or bool(before.get("unschedulable")) != bool(
        after.get("unschedulable")
    ):
        found.add("taint")
    if was.get("images") != now.get("images"):
        found.add("generic")
    return found


# -- what helps whom -----------------------------------------------------------------------------------------------


def helps(plugin: str, pod: Pod, event: Event, table: str = COMPLETE, spaces: Mapping[str, Any] | None = None) -> bool:
    """Whether the event may turn the plugin's rejection of the pod into admission; an unknown plugin: always.

    spaces  namespace → its labels, for terms that select namespaces
    """
    if plugin == "InterPodAffinity":
        return _interpod(pod, event, table, spaces or {})
    asked = HINTS.get(plugin)
    return True if asked is None else asked(pod, event)


def _fit(pod: Pod, event: Event) -> bool:
    if event.kind == "Pod":
        if event.uid == pod.uid:
            return "scale-down" in event.actions
        if "delete" in event.actions:
            return bool(_placed(event.old))
        if "scale-down" in event.actions and event.old and event.new and _placed(event.new):
            was, now = Pod.of(event.old).asks, Pod.of(event.new).asks
            return any(pod.asks.get(name, 0) > 0 and now.get(name, 0) < amount for name, amount in was.items())
        return False
    if event.kind != "Node" or event.new is None or not event.actions & {"add", "allocatable"}:
        return False
    node = NodeView.of(event.new)
    if not static.fit(pod, node).ok:
        return False
    if event.old is None:
        return True
    was = NodeView.of(event.old).allocatable
    asked = [name for name in pod.asks if (name in BASIC or scalar(name)) and pod.asks[name] > 0]
    return any(node.allocatable.get(name, 0) > was.get(name, 0) for name in ("pods", *asked))


def _taints(pod: Pod, event: Event) -> bool:
    if event.kind == "Pod":
        return event.uid == pod.uid and "toleration" in event.actions
    if event.kind != "Node" or event.new is None or not event.actions & {"add", "taint"}:
        return False
    return _tolerated(pod, event.new) and (event.old is None or not _tolerated(pod, event.old))


def _tolerated(pod: Pod, node: Object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return untolerated(taints, pod.spec.get("tolerations") or (), TAINTS) is None


def _cordon(pod: Pod, event: Event) -> bool:
    if event.kind == "Pod":
        return event.uid == pod.uid and "toleration" in event.actions
    if event.kind != "Node" or event.new is None or not event.actions & {"add", "taint"}:
        return False
    cordoned = [bool(((one or {}).get("spec") or {}).get("unschedulable")) for one in (event.old, event.new)]
    return not cordoned[1] and (event.old is None or cordoned[0])


def _affinity(pod: Pod, event: Event) -> bool:
    if event.kind != "Node" or event.new is None or not event.actions & {"add", "label"}:
        return False
    return required_here(pod.spec, event.new) and (event.old is None or not required_here(pod.spec, event.old))


def _name(pod: Pod, event: Event) -> bool:
    return event.kind == "Node" and "add" in event.actions


def _ports(pod: Pod, event: Event) -> bool:
    if event.kind == "Node":
        return "add" in event.actions
    if event.kind != "Pod" or "delete" not in event.actions or event.old is None or not _placed(event.old):
        return False
    other = Pod.of(event.old)
    return any(static.clash(mine, theirs) for mine in pod.ports for theirs in other.ports)


def _spread(pod: Pod, event: Event) -> bool:
    own = pod.spec.get("topologySpreadConstraints") or ()
    rules = [Constraint.of(one, pod.labels) for one in own if one.get("whenUnsatisfiable") == HARD]
    if event.kind == "Pod":
        return _spread_pod(pod, rules, event)
    if event.kind != "Node":
        return False
    keys = [rule.key for rule in rules]
    was, now = ({} if one is None else _labels(one) for one in (event.old, event.new))
    had, has = (all(key in labels for key in keys) for labels in (was, now))
    if "add" in event.actions or "delete" in event.actions:
        return has or had
    if "label" in event.actions and (had != has or any(was.get(key) != now.get(key) for key in keys)):
        return True
    return has and "taint" in event.actions


def _spread_pod(pod: Pod, rules: list[Constraint], event: Event) -> bool:
    if event.uid == pod.uid:
        tolerates = "toleration" in event.actions and any(rule.by_taints for rule in rules)
        return tolerates or "label" in event.actions
    thing = event.new or event.old or {}
    if (thing.get("metadata") or {}).get("namespace") != pod.namespace or not _placed(event.old, event.new):
        return False
    was, now = (None if one is None else _labels(one) for one in (event.old, event.new))
    if not rules:  # the defaults of the profile, which are not the pod's to tell
        return bool(event.actions & {"add", "delete", "label"})
    for rule in rules:
        before = was is not None and rule.selector.matches(was)
        after = now is not None and rule.selector.matches(now)
        if before != after or (_going(event.old) != _going(event.new) and after):
            return True
    return False


# -- affinity between pods -----------------------------------------------------------------------------------------


def _interpod(pod: Pod, event: Event, table: str, spaces: Mapping[str, Any]) -> bool:
    terms = terms_of(pod)
    if event.kind == "Node":
        return _interpod_node(terms.near, terms.far, event)
    if event.kind != "Pod":
        return False
    if event.uid == pod.uid:
        return "label" in event.actions
    if not _placed(event.old, event.new):
        return False
    before, after = (None if one is None else Pod.of(one) for one in (event.old, event.new))

    def meant(wanted: tuple[Term, ...], other: Pod | None) -> bool:
        if other is None or not wanted:
            return False
        # 1.34.1 looks at the namespaces that a term lists, not at those that it selects (kubernetes#141953)
        labels = {} if table == V1_34_1 else spaces.get(other.namespace) or {}
        return all(term.matches(other, labels) for term in wanted)

    if meant(terms.near, after) and not meant(terms.near, before):
        return True
    if any(meant((term,), before) and not meant((term,), after) for term in terms.far):
        return True
    if table == V1_34_1:
        return False
    mine = spaces.get(pod.namespace) or {}
    blocked = before is not None and any(term.matches(pod, mine) for term in terms_of(before).far)
    still = after is not None and any(term.matches(pod, mine) for term in terms_of(after).far)
    if blocked and not still:  # kubernetes#134393
        return True
    # who wants to be near its own kind may begin a group when the last of another has gone (kubernetes#141354)
    alone = bool(terms.near) and all(term.matches(pod, mine) for term in terms.near)
    return alone and meant(terms.near, before) and not meant(terms.near, after)


def _interpod_node(near: tuple[Term, ...], far: tuple[Term, ...], event: Event) -> bool:
    was, now = ({} if one is None else _labels(one) for one in (event.old, event.new))
    if "add" in event.actions:
        return bool(far) or not near or any(term.key in now for term in near)
    if "label" not in event.actions:
        return False
    if any(term.key in now and was.get(term.key) != now[term.key] for term in near):
        return True
    return any(was.get(term.key) != now.get(term.key) for term in far) or not near


# -- volumes -------------------------------------------------------------------------------------------------------

STORAGE = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity")


def _volumes(pod: Pod, event: Event) -> bool:
    if event.kind == "PersistentVolumeClaim":
        thing = event.new or event.old or {}
        return bool((thing.get("metadata") or {}).get("namespace") == pod.namespace)
    if event.kind == "Node":
        return bool(event.actions & {"add", "label"})
    return event.kind in STORAGE


def _claims(pod: Pod, event: Event) -> bool:
    if event.kind == "Pod" and "delete" in event.actions:
        thing = event.old or {}
        return bool((thing.get("metadata") or {}).get("namespace") == pod.namespace)
    return _volumes(pod, event)


HINTS: dict[str, Callable[[Pod, Event], bool]] = {
    "NodeResourcesFit": _fit,
    "TaintToleration": _taints,
    "NodeUnschedulable": _cordon,
    "NodeAffinity": _affinity,
    "NodeName": _name,
    "NodePorts": _ports,
    "PodTopologySpread": _spread,
    "VolumeBinding": _volumes,
    "VolumeZone": _volumes,
    "VolumeRestrictions": _claims,
    "NodeVolumeLimits": _claims,
    "DefaultPreemption": lambda pod, event: False,
    "SchedulingGates": lambda pod, event: event.uid == pod.uid and "gates" in event.actions,
}


def _labels(obj: Object) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("labels") or {}
    return found


def _placed(*objects: Object | None) -> bool:
    """Whether a pod stands on a node, or is promised one, before or after."""
    for one in objects:
        if one is not None:
            if (one.get("spec") or {}).get("nodeName") or (one.get("status") or {}).get("nominatedNodeName"):
                return True
    return False


def _going(obj: Object | None) -> bool:
    return obj is not None and bool((obj.get("metadata") or {}).get("deletionTimestamp"))
