"""What an audit log says about the pods of a Deployment, event by event, and whether it kept within its bounds.

history = read(log); faults = judge(history, replicas=6, surge=2, unavailable=1)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import frozen

Object = dict[str, Any]

VERBS = {"DELETED": "delete"}
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: "", resources: [pods, pods/*]}
- level: None
"""


@frozen
class Write:
    """A write of a pod that was answered: when, by whom, which verb, and the pod as it was then."""

    revision: int
    order: int
    user: str
    verb: str
    pod: Object

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    def counts(self) -> bool:
        """Whether it is one of the pods that a Deployment counts: neither ended nor on its way out."""
        ended = self.pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        return not ended and self.verb != "delete" and "deletionTimestamp" not in self.pod["metadata"]

    def serves(self) -> bool:
        """Whether it counts and is ready."""
        return self.counts() and serves(self.pod)


def serves(pod: Object) -> bool:
    """Whether a pod is ready."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions") or ())


def read(log: Path) -> list[Write]:
    """The writes of a log in the order in which the store took them. The last line may be cut short by a kill."""
    found = []
    lines = log.read_text().splitlines()
    for order, line in enumerate(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a line that a kill cut short; what it told is made up for by `watched`
        pod = event.get("responseObject") or {}
        if pod.get("kind") == "Pod" and event["responseStatus"]["code"] < 300:
            found.append(_write(pod, order, event["user"]["username"], event["verb"]))
    return sorted(found, key=lambda one: (one.revision, one.order))


def watched(text: str) -> list[Write]:
    """The writes that a watch tells of, one event a line: those too whose line in the log went with the process."""
    events = [json.loads(line) for line in text.splitlines()]
    wrong = [event for event in events if event["type"] not in ("ADDED", "MODIFIED", "DELETED")]
    assert not wrong, wrong
    return [_write(event["object"], -1, "watch", VERBS.get(event["type"], "")) for event in events]


def _write(pod: Object, order: int, user: str, verb: str) -> Write:
    return Write(int(pod["metadata"]["resourceVersion"]), order, user, verb, pod)


@frozen
class Excess:
    """A moment out of bounds."""

    revision: int
    text: str


def judge(writes: Iterable[Write], *, app: str, replicas: int, surge: int, unavailable: int) -> list[Excess]:
    """Every moment at which more pods counted than replicas + surge, or, once all served, fewer served than
    replicas - unavailable."""
    now: dict[str, Write] = {}
    faults = []
    begun = False
    for one in sorted(writes, key=lambda one: (one.revision, one.order)):
        if one.pod["metadata"].get("labels", {}).get("app") != app:
            continue
        now[one.pod["metadata"]["uid"]] = one
        there = sum(write.counts() for write in now.values())
        serving = sum(write.serves() for write in now.values())
        begun = begun or serving >= replicas
        who = f"{one.user} {one.verb} {one.name}"
        if there > replicas + surge:
            faults.append(Excess(one.revision, f"{there} pods, {replicas + surge} allowed ({who})"))
        if begun and serving < replicas - unavailable:
            faults.append(Excess(one.revision, f"{serving} available, {replicas - unavailable} needed ({who})"))
    return faults
