"""Simulated nodes as the API sees them: the Node object, its lease, and addresses for pods."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

Object = dict[str, Any]

LEASES = "kube-node-lease"
LEASE_S = 40
"""What a lease promises, in seconds (kubelet's nodeLeaseDurationSeconds)."""
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@frozen
class Shape:
    """What each simulated node has. `labels` are added to those that every node carries; `taints` are there from the
    start; `more`: amounts of other resources."""

    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: dict[str, str] = field(factory=dict)
    taints: tuple[Object, ...] = ()
    more: dict[str, str] = field(factory=dict)


def node(name: str, number: int, shape: Shape) -> Object:
    """The object that a kubelet registers. The number gives its address and its pods' network."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        **shape.labels,
    }
    network = pod_network(number)
    spec: Object = {"podCIDR": network, "podCIDRs": [network], "providerID": f"fake://{name}"}
    if shape.taints:
        spec["taints"] = list(shape.taints)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"fake.dashpot.dev/node": "true"}},
        "spec": spec,
    }


def node_status(name: str, number: int, shape: Shape, now: str, known: Object) -> Object:
    """What a kubelet that is well writes of itself; transition times move only with a condition's status."""
    amounts = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods), "ephemeral-storage": "100Gi"}
    amounts |= shape.more
    before = {one["type"]: one for one in known.get("conditions") or ()}
    conditions = []
    for kind, status, reason, text in CONDITIONS:
        old = before.get(kind) or {}
        moved = now if old.get("status") != status else old.get("lastTransitionTime", now)
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": text,
                "lastHeartbeatTime": now,
                "lastTransitionTime": moved,
            }
        )
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": host(number)}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "kubeletVersion": "v1.34.0-fake",
            "kubeProxyVersion": "",
            "containerRuntimeVersion": "fake://1",
            "kernelVersion": "fake",
            "osImage": "simulated",
            "machineID": name,
            "systemUUID": name,
            "bootID": name,
        },
    }


def lease(name: str, uid: str, now: str) -> Object:
    """The node's sign of life, owned by the node."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": LEASES,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": now},
    }


def host(number: int) -> str:
    """A node's own address."""
    return f"192.168.{number // 250}.{number % 250 + 1}"


def pod_network(number: int) -> str:
    """The network of a node's pods: 1,022 addresses each."""
    at = number * 4
    return f"10.{64 + at // 256 % 128}.{at % 256}.0/22"


class Pool:
    """The addresses of a node's pods; the lowest free one is given out."""

    MOST = 1022

    def __init__(self, number: int) -> None:
        at = number * 4
        self._high, self._low = 64 + at // 256 % 128, at % 256
        self._taken: set[int] = set()
        self._next = 1

    def take(self) -> str:
        """A free address. Where all are taken the last is given out again: nothing runs that could mind."""
        every = ((self._next - 1 + step) % self.MOST + 1 for step in range(self.MOST))
        at = next((one for one in every if one not in self._taken), self._next)
        self._taken.add(at)
        self._next = at % self.MOST + 1
        return f"10.{self._high}.{self._low + at // 256}.{at % 256}"

    def keep(self, address: str) -> None:
        """An address that is in use already."""
        at = self._offset(address)
        if at is not None:
            self._taken.add(at)

    def free(self, address: str) -> None:
        """An address that nobody uses any more; idempotent."""
        at = self._offset(address)
        if at is not None:
            self._taken.discard(at)

    def _offset(self, address: str) -> int | None:
        parts = address.split(".")
        if len(parts) != 4 or parts[0] != "10" or parts[1] != str(self._high):
            return None
        at = (int(parts[2]) - self._low) * 256 + int(parts[3])
        return at if 0 < at <= self.MOST else None
