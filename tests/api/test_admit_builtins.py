"""Built-in plugins, a table each: what they fill in and what they refuse, in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.admit_kit import (
    CLAIMS,
    CONFIGMAPS,
    NAMESPACES,
    FakeView,
    Object,
    admit,
    configmap,
    named,
    of,
    pod,
    refusal,
    resource,
    write,
)

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import DELETE, UPDATE
from dashpot.runtime.api.admit.classes import DefaultIngressClass, DefaultStorageClass
from dashpot.runtime.api.admit.limits import LimitRanger
from dashpot.runtime.api.admit.namespaces import NamespaceLifecycle
from dashpot.runtime.api.admit.nodetaint import TaintNodesByCondition
from dashpot.runtime.api.admit.priority import Priority
from dashpot.runtime.api.admit.runtimeclass import RuntimeClass
from dashpot.runtime.api.admit.storage import PersistentVolumeClaimResize, StorageObjectInUseProtection
from dashpot.runtime.api.admit.tolerations import DefaultTolerationSeconds

# --- NamespaceLifecycle


def test_create_in_a_missing_namespace() -> None:
    told = refusal(NamespaceLifecycle(FakeView()), write(configmap(), CONFIGMAPS, namespace="gone"))
    assert told == (404, 'namespaces "gone" not found')


def test_namespace_that_only_the_store_knows_is_enough() -> None:
    view = FakeView()
    view.hidden["", "namespaces", "", "new"] = named("new")
    admit(NamespaceLifecycle(view), write(configmap(), CONFIGMAPS, namespace="new"))


def test_terminating_namespace_takes_nothing_new() -> None:
    view = FakeView()
    view.put("", "namespaces", {**named("n"), "status": {"phase": "Terminating"}})
    with pytest.raises(StatusError) as caught:
        admit(NamespaceLifecycle(view), write(configmap(), CONFIGMAPS))
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "cm" is forbidden: unable to create new content in namespace n because it is being '
        "terminated",
        "reason": "Forbidden",
        "details": {
            "name": "cm",
            "kind": "configmaps",
            "causes": [
                {
                    "reason": "NamespaceTerminating",
                    "message": "namespace n is being terminated",
                    "field": "metadata.namespace",
                }
            ],
        },
        "code": 403,
    }
    admit(NamespaceLifecycle(view), write(configmap(), CONFIGMAPS, UPDATE, old=configmap()))
    admit(NamespaceLifecycle(view), write(None, CONFIGMAPS, DELETE, old=configmap()))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_immortal_namespaces(name: str) -> None:
    told = refusal(NamespaceLifecycle(FakeView()), write(None, NAMESPACES, DELETE, old=named(name)))
    assert told == (403, f'namespaces "{name}" is forbidden: this namespace may not be deleted')


def test_other_namespaces_may_go() -> None:
    admit(NamespaceLifecycle(FakeView()), write(None, NAMESPACES, DELETE, old=named("n")))


# --- LimitRanger


def limit_range(*items: Object) -> FakeView:
    return FakeView(of("v1", "LimitRange", "limits", "n", spec={"limits": list(items)}))


def with_resources(**resources: Object) -> Object:
    return {"name": "c", "image": "i", "resources": resources}


def test_limits_are_filled_in_and_told() -> None:
    view = limit_range({"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}})
    made = admit(LimitRanger(view), write(pod()))
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    }


def test_limits_that_are_said_stay() -> None:
    view = limit_range({"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}})
    container = with_resources(requests={"cpu": "1"}, limits={"cpu": "2"})
    made = admit(LimitRanger(view), write(pod(container)))
    assert made["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    assert "annotations" not in made["metadata"]


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"type": "Container", "min": {"memory": "1Gi"}},
            {"requests": {"memory": "512Mi"}},
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "300m"}},
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        ({"type": "Pod", "max": {"cpu": "1"}}, {}, "maximum cpu usage per Pod is 1.  No limit is specified"),
        (
            {"type": "Pod", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            "[minimum cpu usage per Pod is 1.  No request is specified, maximum memory usage per Pod is 1Gi, but limit "
            "is 2Gi]",
        ),
    ],
)
def test_limits_are_enforced(item: Object, resources: Object, why: str) -> None:
    told = refusal(LimitRanger(limit_range(item)), write(pod(with_resources(**resources))))
    assert told == (403, f'pods "web" is forbidden: {why}')


def test_limits_of_claims() -> None:
    view = limit_range({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    claim = of("v1", "PersistentVolumeClaim", "p", "n", spec={"resources": {"requests": {"storage": "3Gi"}}})
    assert refusal(LimitRanger(view), write(claim, CLAIMS)) == (
        403,
        'persistentvolumeclaims "p" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request '
        "is 3Gi",
    )


# --- Priority


def priority_class(name: str, value: int, **rest: Any) -> Object:
    return of("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **rest)


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        ({}, (), (0, "PreemptLowerPriority", None)),
        ({"priorityClassName": "a"}, (priority_class("a", 7),), (7, "PreemptLowerPriority", "a")),
        (
            {"priorityClassName": "a"},
            (priority_class("a", 7, preemptionPolicy="Never"),),
            (7, "Never", "a"),
        ),
        ({}, (priority_class("a", 7, globalDefault=True),), (7, "PreemptLowerPriority", "a")),
        (
            {"priorityClassName": "system-node-critical"},
            (),
            (2000001000, "PreemptLowerPriority", "system-node-critical"),
        ),
    ],
)
def test_priority(spec: Object, classes: tuple[Object, ...], expected: tuple[int, str, str | None]) -> None:
    made = admit(Priority(FakeView(*classes)), write(pod(**spec)))["spec"]
    assert (made["priority"], made["preemptionPolicy"], made.get("priorityClassName")) == expected


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "x"}, "no PriorityClass with name x was found"),
        (
            {"priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; priority admission controller "
            "computed 0 from the given PriorityClass name",
        ),
    ],
)
def test_priority_refusals(spec: Object, why: str) -> None:
    assert refusal(Priority(FakeView()), write(pod(**spec))) == (403, f'pods "web" is forbidden: {why}')


def test_second_default_class() -> None:
    view = FakeView(priority_class("a", 7, globalDefault=True))
    second = write(priority_class("b", 8, globalDefault=True), resource("scheduling.k8s.io", "priorityclasses"))
    assert refusal(Priority(view), second) == (
        403,
        'priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass a is already marked as default. Only one '
        "default can exist",
    )


def test_update_keeps_the_priority() -> None:
    made = admit(Priority(FakeView()), write(pod(), operation=UPDATE, old=pod(priority=9, preemptionPolicy="Never")))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (9, "Never")


# --- the small ones


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], ["not-ready", "unreachable"]),
        ([{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], ["unreachable"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["not-ready", "unreachable"]),
    ],
)
def test_default_tolerations(given: list[Object], added: list[str]) -> None:
    made = admit(DefaultTolerationSeconds(), write(pod(tolerations=given)))["spec"]["tolerations"]
    assert made[: len(given)] == given
    assert [(t["key"].partition("/")[2], t["tolerationSeconds"]) for t in made[len(given) :]] == [
        (name, 300) for name in added
    ]


def storage_class(name: str, made: str, default: bool = True, **rest: Any) -> Object:
    found = of("storage.k8s.io/v1", "StorageClass", name, **rest)
    found["metadata"]["creationTimestamp"] = made
    if default:
        found["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, "new"), ({"storageClassName": ""}, ""), ({"storageClassName": "own"}, "own")],
)
def test_default_storage_class(spec: Object, expected: str) -> None:
    classes = (storage_class("new", "2026-02-01T00:00:00Z"), storage_class("old", "2026-01-01T00:00:00Z"))
    view = FakeView(*classes, storage_class("z", "2026-03-01T00:00:00Z", default=False))
    claim = of("v1", "PersistentVolumeClaim", "p", "n", spec=spec)
    assert admit(DefaultStorageClass(view), write(claim, CLAIMS))["spec"]["storageClassName"] == expected


def test_default_ingress_class() -> None:
    one = of("networking.k8s.io/v1", "IngressClass", "nginx")
    one["metadata"]["annotations"] = {"ingressclass.kubernetes.io/is-default-class": "true"}
    ingress = of("networking.k8s.io/v1", "Ingress", "i", "n", spec={})
    made = admit(DefaultIngressClass(FakeView(one)), write(ingress, resource("networking.k8s.io", "ingresses")))
    assert made["spec"]["ingressClassName"] == "nginx"


@pytest.mark.parametrize(
    ("plural", "finalizer"),
    [("persistentvolumes", "pv-protection"), ("persistentvolumeclaims", "pvc-protection")],
)
def test_storage_objects_in_use(plural: str, finalizer: str) -> None:
    made = admit(StorageObjectInUseProtection(), write(named("x", "n", finalizers=["a/b"]), resource("", plural)))
    assert made["metadata"]["finalizers"] == ["a/b", f"kubernetes.io/{finalizer}"]


@pytest.mark.parametrize(
    ("phase", "expandable", "why"),
    [
        ("Pending", True, "Only bound persistent volume claims can be expanded"),
        (
            "Bound",
            False,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc",
        ),
        ("Bound", True, None),
    ],
)
def test_claims_grow_where_they_can(phase: str, expandable: bool, why: str | None) -> None:
    def claim(size: str) -> Object:
        spec = {"storageClassName": "s", "resources": {"requests": {"storage": size}}}
        return of("v1", "PersistentVolumeClaim", "p", "n", spec=spec, status={"phase": phase})

    view = FakeView(storage_class("s", "2026-01-01T00:00:00Z", allowVolumeExpansion=expandable))
    attributes = write(claim("2Gi"), CLAIMS, UPDATE, old=claim("1Gi"))
    if why is None:
        admit(PersistentVolumeClaimResize(view), attributes)
        return
    code, message = refusal(PersistentVolumeClaimResize(view), attributes)
    assert code == 403 and message.startswith(f'persistentvolumeclaims "p" is forbidden: {why}')


def test_new_nodes_are_tainted() -> None:
    node = {"apiVersion": "v1", "kind": "Node", **named("m")}
    made = admit(TaintNodesByCondition(), write(node, resource("", "nodes")))
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert admit(TaintNodesByCondition(), write(made, resource("", "nodes")))["spec"] == made["spec"]


def test_runtime_class() -> None:
    overhead = {"podFixed": {"cpu": "100m"}}
    scheduling = {"nodeSelector": {"kind": "vm"}, "tolerations": [{"key": "vm", "operator": "Exists"}]}
    one = of("node.k8s.io/v1", "RuntimeClass", "vm", handler="vm", overhead=overhead, scheduling=scheduling)
    plugin = RuntimeClass(FakeView(one))
    made = admit(plugin, write(pod(runtimeClassName="vm")))["spec"]
    assert made["overhead"] == {"cpu": "100m"} and made["nodeSelector"] == {"kind": "vm"}
    assert made["tolerations"] == scheduling["tolerations"]
    told = refusal(plugin, write(pod(runtimeClassName="vm", nodeSelector={"kind": "metal"})))
    assert told[1].endswith(
        "conflict: runtimeClass.scheduling.nodeSelector[kind] = vm; pod.spec.nodeSelector[kind] = metal"
    )
    told = refusal(plugin, write(pod(runtimeClassName="no")))
    assert told == (403, 'pods "web" is forbidden: pod rejected: RuntimeClass "no" not found')
    told = refusal(plugin, write(pod(overhead={"cpu": "1"})))
    assert told[1].endswith("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
