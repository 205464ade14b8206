"""`dashpot up` dies of kill -9 within rolling updates: it resumes, converges and never leaves the bounds."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.clients.history import POLICY, Write, judge, read, serves, watched
from tests.clients.running import Running

Object = dict[str, Any]

REPLICAS, SURGE, UNAVAILABLE = 6, 2, 1
WRITES = 45
"""About as many writes of pods as an update takes: kills fall between them."""
QUIET_S = 3.0
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": UNAVAILABLE}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "example.com/web:0"}]},
        },
    },
}


class Killed:
    """A control plane on one data directory that is killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.log = folder / "audit.log"
        policy = folder / "policy.yaml"
        policy.write_text(POLICY)
        self.options = ("--nodes", "3", "--audit-policy", str(policy), "--audit-log", str(self.log), *options)
        self.told: list[Write] = []
        self.running = self._started()

    def _started(self) -> Running:
        running = Running(self.folder / "data", *self.options, plane=True)
        running.wait()
        return running

    def kubectl(self, *words: str, told: Object | None = None) -> str:
        """What kubectl prints; it must end well."""
        done = self.running.kubectl(*words, **({} if told is None else {"input": json.dumps(told)}))
        assert done.returncode == 0, (words, done.stderr, self.running.errors())
        return done.stdout

    def pods(self) -> list[Object]:
        """The pods of the namespace `default`."""
        items: list[Object] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return items

    def kill(self) -> None:
        """Ends the process as `kill -9` does, and starts it on what it left; asks what was written and not logged."""
        self.running.process.kill()
        self.running.process.wait(30)
        self.running.stop()
        last = max(write.revision for write in read(self.log))
        self.running = self._started()
        path = f"/api/v1/namespaces/default/pods?watch=1&resourceVersion={last}&timeoutSeconds=1"
        self.told += watched(self.kubectl("get", "--raw", path))

    def reached(self, lines: int) -> None:
        """Waits until the log is that long, or no longer grows."""
        quiet = time.monotonic() + QUIET_S
        size = 0
        while time.monotonic() < quiet:
            log = self.log.read_bytes()
            if log.count(b"\n") >= lines:
                return
            if len(log) != size:
                size, quiet = len(log), time.monotonic() + QUIET_S
            time.sleep(0.002)

    def writes(self) -> list[Write]:
        """All that is known of the pods: the audit log, and what watches told after each kill."""
        return read(self.log) + self.told


def updated(plane: Killed, image: str) -> None:
    """The Deployment is rolled out: as many pods as asked for, all of them ready, all new."""
    plane.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    pods = [pod for pod in plane.pods() if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [image] * REPLICAS
    assert all(serves(pod) for pod in pods)
    sets = json.loads(plane.kubectl("get", "replicasets", "-o", "json"))["items"]
    assert sorted(one["status"]["replicas"] for one in sets)[-2:] in ([0, REPLICAS], [REPLICAS])


def killed(folder: Path, kills: int, seed: int) -> Killed:
    """Rolling updates with so many kills within them; each is finished in the end."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    plane = Killed(folder)
    plane.kubectl("create", "-f", "-", told=DEPLOYMENT)
    updated(plane, "example.com/web:0")
    image, done = "", 0
    for number in range(1, kills + 1):
        if not image:
            image = f"example.com/web:{number}"
            plane.kubectl("set", "image", "deployment/web", f"c={image}")
            done = len(plane.log.read_bytes().splitlines())
        plane.reached(done + chance.randrange(WRITES))
        plane.kill()
        if chance.random() < 0.5 or number == kills:
            updated(plane, image)
            image = ""
    assert plane.running.stop() == 0
    return plane


@pytest.mark.parametrize(
    ("kills", "seed"), [(5, 1), *(pytest.param(25, seed, marks=pytest.mark.soak) for seed in (2, 3))]
)
def test_a_rolling_update_survives_kills(tools: Path, tmp_path: Path, kills: int, seed: int) -> None:
    plane = killed(tmp_path, kills, seed)
    writes = plane.writes()
    assert len({write.pod["metadata"]["uid"] for write in writes}) > REPLICAS * 2
    assert judge(writes, app="web", replicas=REPLICAS, surge=SURGE, unavailable=UNAVAILABLE) == []
    # the judge is awake: the update uses its room, and with less of it, or without the deletions, it would be condemned
    assert judge(writes, app="web", replicas=REPLICAS, surge=SURGE - 1, unavailable=UNAVAILABLE)
    assert judge(writes, app="web", replicas=REPLICAS, surge=SURGE, unavailable=UNAVAILABLE - 1)
    kept = [write for write in writes if write.counts()]
    assert judge(kept, app="web", replicas=REPLICAS, surge=SURGE, unavailable=UNAVAILABLE)
