"""One client floods a running server with lists: no lease is late."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from dashpot.runtime.api.auth.certificates import Pki
from tests.api.auth_kit import bind, obj
from tests.clients.people import People
from tests.clients.running import Running
from tests.tree import ROOT

LEASES = "leases/kube-node-lease:leases"
INTERVAL_S = 10.0
"""A kubelet renews its lease four times in its 40 seconds."""


def furnish(people: People, pods: int, nodes: int) -> None:
    """Pods to be listed, by somebody who may do nothing else; and a lease for each node, of its own."""
    people.make("rbac/-:clusterrolebindings", bind("flood", "ClusterRole/view", "User/flood"))
    people.make("default:serviceaccounts", obj("ServiceAccount", "default"))
    spec = {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "x" * 600}]}]}
    for number in range(pods):
        people.make("default:pods", obj("Pod", f"p{number}", spec=spec))
    for number in range(nodes):
        name = f"n{number}"
        people.certify(name, f"system:node:{name}", "system:nodes")
        people.make("-:nodes", obj("Node", name))
        lease = obj("Lease", name, spec={"holderIdentity": name, "leaseDurationSeconds": 40})
        assert people.ask(name, "POST", LEASES, lease).code == 201


def renew(people: People, node: str) -> float:
    """Seconds that a renewal takes: read, and written back."""
    begun = time.monotonic()
    found = people.ask(node, "GET", f"{LEASES}/{node}")
    assert found.code == 200, found.message
    spec = {**found.json["spec"], "renewTime": "2026-01-01T00:00:00.000000Z"}
    done = people.ask(node, "PUT", f"{LEASES}/{node}", {**found.json, "spec": spec})
    assert done.code == 200, done.message
    return time.monotonic() - begun


@pytest.mark.parametrize(
    ("pods", "connections", "renewals", "nodes"),
    [(1000, 200, 15, 3), pytest.param(5000, 400, 200, 20, marks=pytest.mark.soak)],
)
def test_no_lease_is_late(tmp_path: Path, pods: int, connections: int, renewals: int, nodes: int) -> None:
    """Each renewal takes less than a third of the time between two, and the flood goes on meanwhile."""
    with Running(tmp_path / "data", "--store", "memory") as running, People(running) as people:
        furnish(people, pods, nodes)
        pair = Pki.load_or_create(tmp_path / "data" / "pki").client("flood", ("flooders",))
        identity = tmp_path / "flood.pem"
        identity.write_bytes(pair.certificate + pair.key)
        host, port = people.address
        words = [host, str(port), str(identity), "/api/v1/namespaces/default/pods", str(connections)]
        command = [sys.executable, "-m", "tests.clients.flood", *words]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flood:
            assert flood.stdout is not None and flood.stdout.readline() == "under way\n"
            begun = time.monotonic()
            times = sorted(renew(people, f"n{number % nodes}") for number in range(renewals))
            seconds = time.monotonic() - begun
            out, _ = flood.communicate(timeout=60)
        codes: Counter[str] = Counter(msgspec.json.decode(out))
    print(
        f"{renewals} renewals in {seconds:.1f} s, half within {times[len(times) // 2]:.2f} s, all within "
        f"{times[-1]:.2f} s; {connections} lists of {pods} pods in flight, answers {dict(codes)}"
    )
    assert times[-1] < INTERVAL_S / 3
    assert set(codes) <= {"200", "429"} and codes["200"] > 0 and codes.total() >= connections
