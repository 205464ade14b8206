"""Priority: a pod's number comes from its class, and only from there; one class at most is the default.

Source: kubernetes plugin/pkg/admission/priority, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.view import View

GROUP = "scheduling.k8s.io"
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""They exist in every cluster, whether or not somebody has made the objects yet."""
PREEMPT = "PreemptLowerPriority"


class Priority(Plugin):
    """Resolves `priorityClassName` into `priority` and `preemptionPolicy`."""

    name = "Priority"

    def __init__(self, view: View) -> None:
        self._view = view
        self._version = -1
        self._default: Object | None = None

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Pods and priority classes that are made or changed."""
        if subresource or operation not in (CREATE, UPDATE):
            return False
        return (resource.group, resource.plural) in (("", "pods"), (GROUP, "priorityclasses"))

    async def mutate(self, attributes: Attributes) -> None:
        """Sets the number of a new pod; keeps it where an update leaves it out."""
        if attributes.resource.plural != "pods" or attributes.object is None:
            return
        spec = attributes.object.get("spec") or {}
        if attributes.operation == UPDATE:
            before = (attributes.old or {}).get("spec") or {}
            for key in ("priority", "preemptionPolicy"):
                if spec.get(key) is None and before.get(key) is not None:
                    spec[key] = before[key]
            return
        value, policy = self._resolve(attributes, spec)
        if spec.get("priority") not in (None, value):
            raise refuse(
                attributes,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        if spec.get("preemptionPolicy") not in (None, policy):
            raise refuse(
                attributes,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        spec["priority"], spec["preemptionPolicy"] = value, policy

    async def validate(self, attributes: Attributes) -> None:
        """Refuses a second default class."""
        made = attributes.object
        if attributes.resource.plural != "priorityclasses" or made is None or not made.get("globalDefault"):
            return
        default = self._global_default()
        if default is None:
            return
        known = default["metadata"]["name"]
        if attributes.operation == CREATE or known != made["metadata"].get("name"):
            raise refuse(attributes, f"PriorityClass {known} is already marked as default. Only one default can exist")

    def _resolve(self, attributes: Attributes, spec: Object) -> tuple[int, str]:
        name = spec.get("priorityClassName")
        if not name:
            default = self._global_default()
            if default is None:
                return 0, PREEMPT
            spec["priorityClassName"] = default["metadata"]["name"]
            return int(default.get("value") or 0), default.get("preemptionPolicy") or PREEMPT
        found = self._view.get(GROUP, "priorityclasses", "", name)
        if found is not None:
            return int(found.get("value") or 0), found.get("preemptionPolicy") or PREEMPT
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name], PREEMPT
        raise refuse(attributes, f"no PriorityClass with name {name} was found")

    def _global_default(self) -> Object | None:
        """The class marked as default; of several (a lost race) the one with the lowest value."""
        version = self._view.version(GROUP, "priorityclasses")
        if version != self._version:
            marked = [pc for pc in self._view.list(GROUP, "priorityclasses") if pc.get("globalDefault")]
            self._default = min(marked, key=lambda pc: int(pc.get("value") or 0), default=None)
            self._version = version
        return self._default
