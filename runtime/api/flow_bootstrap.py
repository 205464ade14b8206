"""The priority levels and flow schemas that exist in every cluster, as objects.

Figures: k8s.io/apiserver pkg/apis/flowcontrol/bootstrap/default.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]

GROUP = "flowcontrol.apiserver.k8s.io"
API_VERSION = f"{GROUP}/v1"
EXEMPT, CATCH_ALL = "exempt", "catch-all"

# name: nominal shares, percent that may be lent, (queues, hand size, queue length), None: refused when there is no seat
_LEVELS: dict[str, tuple[int, int, tuple[int, int, int] | None]] = {
    CATCH_ALL: (5, 0, None),
    "system": (30, 33, (64, 6, 50)),
    "node-high": (40, 25, (64, 6, 50)),
    "leader-election": (10, 0, (16, 4, 50)),
    "workload-high": (40, 50, (128, 6, 50)),
    "workload-low": (100, 90, (128, 6, 50)),
    "global-default": (20, 50, (128, 6, 50)),
}

_LEASES = {"coordination.k8s.io": ["leases"]}
_LOCKS = {"": ["endpoints", "configmaps"], **_LEASES}
_ELECTING = ["get", "create", "update"]
_SYSTEM_ACCOUNTS = ("ServiceAccount", "kube-system", "*")
_MANAGER = ("User", "system:kube-controller-manager")
_SCHEDULER = ("User", "system:kube-scheduler")
_EVERYBODY = (("Group", "system:unauthenticated"), ("Group", "system:authenticated"))


def _everything() -> Object:
    return {
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
        ],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _resources(verbs: list[str], named: dict[str, list[str]], *, cluster: bool = False) -> Object:
    return {
        "resourceRules": [
            {
                "verbs": verbs,
                "apiGroups": [group],
                "resources": resources,
                "namespaces": ["*"],
                **({"clusterScope": True} if cluster and not group else {}),
            }
            for group, resources in named.items()
        ]
    }


def _in_kube_system() -> Object:
    rules = _resources(_ELECTING, _LOCKS)
    rules["resourceRules"][0]["namespaces"] = ["kube-system"]
    return rules


def _subject(subject: Sequence[str]) -> Object:
    kind, *names = subject
    if kind == "ServiceAccount":
        return {"kind": kind, "serviceAccount": {"namespace": names[0], "name": names[1]}}
    return {"kind": kind, kind.lower(): {"name": names[0]}}


def _schema(
    name: str, level: str, precedence: int, distinguisher: str, rules: Object, subjects: Sequence[Sequence[str]]
) -> Object:
    spec: Object = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": [_subject(subject) for subject in subjects], **rules}],
    }
    if distinguisher:
        spec["distinguisherMethod"] = {"type": distinguisher}
    return {"apiVersion": API_VERSION, "kind": "FlowSchema", "metadata": _metadata(name), "spec": spec}


def _metadata(name: str) -> Object:
    return {"name": name, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}


def levels() -> list[Object]:
    """The PriorityLevelConfigurations."""
    found: list[Object] = [
        _level(EXEMPT, {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})
    ]
    for name, (shares, lendable, queuing) in _LEVELS.items():
        response: Object = {"type": "Reject"}
        if queuing is not None:
            queues, hand, length = queuing
            response = {
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }
        limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
        found.append(_level(name, {"type": "Limited", "limited": limited}))
    return found


def _level(name: str, spec: Object) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "PriorityLevelConfiguration",
        "metadata": _metadata(name),
        "spec": spec,
    }


def schemas() -> list[Object]:
    """The FlowSchemas."""
    nodes = (("Group", "system:nodes"),)
    probes = {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]}
    endpoints = _resources(["get", "create", "update"], {"": ["endpoints"]})
    own_nodes = _resources(["*"], {"": ["nodes", "nodes/status"], **_LEASES}, cluster=True)
    controllers = (
        ("ServiceAccount", "kube-system", "endpoint-controller"),
        ("ServiceAccount", "kube-system", "endpointslicemirroring-controller"),
    )
    user, namespace = "ByUser", "ByNamespace"
    return [
        _schema(EXEMPT, EXEMPT, 1, "", _everything(), (("Group", "system:masters"),)),
        _schema("probes", EXEMPT, 2, "", probes, _EVERYBODY),
        _schema(
            "system-leader-election",
            "leader-election",
            100,
            user,
            _in_kube_system(),
            (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS),
        ),
        _schema("endpoint-controller", "workload-high", 150, user, endpoints, (_MANAGER, *controllers)),
        _schema(
            "workload-leader-election",
            "leader-election",
            200,
            user,
            _resources(_ELECTING, _LOCKS),
            (_SYSTEM_ACCOUNTS,),
        ),
        _schema("system-node-high", "node-high", 400, user, own_nodes, nodes),
        _schema("system-nodes", "system", 500, user, _everything(), nodes),
        _schema("kube-controller-manager", "workload-high", 800, namespace, _everything(), (_MANAGER,)),
        _schema("kube-scheduler", "workload-high", 800, namespace, _everything(), (_SCHEDULER,)),
        _schema("kube-system-service-accounts", "workload-high", 900, namespace, _everything(), (_SYSTEM_ACCOUNTS,)),
        _schema("service-accounts", "workload-low", 9000, user, _everything(), (("Group", "system:serviceaccounts"),)),
        _schema("global-default", "global-default", 9900, user, _everything(), _EVERYBODY),
        _schema(CATCH_ALL, CATCH_ALL, 10000, user, _everything(), _EVERYBODY),
    ]


def objects() -> list[Object]:
    """All of them, levels first."""
    return [*levels(), *schemas()]
