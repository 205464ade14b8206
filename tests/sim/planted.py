"""Variants of the library's ReplicaSet with one bug each, and one more check, in which that bug is quickly found.

The other checks stay: they say what is claimed of a plane under which faults.
"""

from __future__ import annotations

from pathlib import Path

from dashpot.grammar.load import library_text

MODULE = "kubernetes.replicaset"
GATE = "  cache   Pod read_own_writes\n"
DENIED = '          event rs Warning "FailedCreate" "Error creating: the API server denies the pod"'
REQUEUE = "          requeue\n"

EAGER = """
check eager {
  run    ReplicaSetController, Starter
  scope  { ReplicaSet: 1, Pod: 4, MAX: 2, lag: 2, LIVE: false }
  faults { }
  given  ReplicaSet web { spec: { replicas: 2, template: "v1" } }
  expect bounded
}
"""

CROWDED = """
resource Limit "example.com/v1" { spec { pods: 0..PODS = 1 } }

admission Gate on create Pod p {
  if Limit.exists(l, Pod.size() >= l.spec.pods) { fail "no more pods" }
}

environment Admins {
  action lift(l: Limit) at most 1 { delete l }
}

check crowded {
  run    ReplicaSetController, Starter, Gate, Admins
  scope  { ReplicaSet: 1, Pod: 2, Limit: 1, MAX: 2, lag: 2, LIVE: false }
  faults { }
  given  Limit tight { }
  given  ReplicaSet web { spec: { replicas: 2, template: "v1" } }
  expect converges
}
"""


def lagging(folder: Path) -> Path:
    """The gate is gone: a pass may begin before the cache shows what the last one made."""
    text = library_text(MODULE)
    assert text.count(GATE) == 1
    return _written(folder, "lagging.loop", text.replace(GATE, "  cache   Pod lagging\n") + EAGER)


def forgetful(folder: Path) -> Path:
    """A pass that was denied a pod does not come again."""
    text = library_text(MODULE)
    at = text.index(REQUEUE, text.index(DENIED))
    text = text[:at] + REQUEUE.replace("requeue", "return") + text[at + len(REQUEUE) :]
    return _written(folder, "forgetful.loop", text + CROWDED)


def _written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
