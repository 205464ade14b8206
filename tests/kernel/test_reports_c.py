"""Reports from specs of public bugs: drops of what only wakes, second deletes, what an update sends along."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

WOKEN = """
resource Pod { }
resource Service { status { endpoints: 0..1 = 0 } }
controller Endpoints for Service {
  watches Pod as p -> Service
  reconcile s { let pods = list live Pod; update s.status { endpoints: pods.size() } on Conflict { requeue } }
}
environment U { action remove(p: Pod) at most 1 { delete p } }
property told for s in Service = converges to s.status.endpoints == Pod.size()
check c {
  run Endpoints, U; scope { Pod: 1, Service: 1 }; faults { FAULT }; resync RESYNC
  given Service s { status: { endpoints: 1 } }; given Pod a { }
}
"""


@pytest.mark.parametrize(
    ("fault", "resync", "verdict"),
    [
        ("", "off", "holds"),
        ("drop Pod: 1", "off", "stuck 4"),
        ("drop Pod for Endpoints: 1", "off", "stuck 4"),
        ("drop Service: 1", "off", "holds"),
        ("drop Pod: 1", "on", "holds"),
        ("relist Pod: 1", "off", "holds"),
    ],
)
def test_a_drop_takes_the_wake_up_of_a_kind_that_nobody_reads(fault: str, resync: str, verdict: str) -> None:
    """Once nobody hears of the pod that has gone, no live read happens: list, update, delete, drop."""
    assert verdicts(WOKEN.replace("FAULT", fault).replace("RESYNC", resync)).get("told", "holds") == verdict


AGAIN = """
resource Box { }
environment U {
  action first(b: Box) when b.deletionTimestamp == null at most 1 { delete b FIRST }
  action second(b: Box) when b.deletionTimestamp != null at most 1 { delete b SECOND }
}
property foreground = sometimes Box.exists(b, b.deletionTimestamp != null && "foregroundDeletion" in b.finalizers)
property orphan     = sometimes Box.exists(b, b.deletionTimestamp != null && "orphan" in b.finalizers)
property both       = never Box.exists(b, "foregroundDeletion" in b.finalizers && "orphan" in b.finalizers)
property held       = always Box.exists(b, "hold" in b.finalizers)
check c { run U; scope { Box: 1 }; faults { }; given Box b { finalizers: ["hold"] } }
"""


@pytest.mark.parametrize(
    ("first", "second", "foreground", "orphan"),
    [
        ("", "", False, False),
        ("", "foreground", True, False),
        ("", "orphan", False, True),
        ("background", "foreground", True, False),
        ("foreground", "", True, False),
        ("foreground", "background", True, False),
        ("foreground", "orphan", True, True),
    ],
)
def test_a_second_delete_names_the_propagation_anew(first: str, second: str, foreground: bool, orphan: bool) -> None:
    """As deletionFinalizersForGarbageCollection of the API server: what is named replaces what was there."""
    found = verdicts(AGAIN.replace("FIRST", first).replace("SECOND", second))
    assert (found["foreground"] == "holds", found["orphan"] == "holds") == (foreground, orphan)
    assert (found.get("both", "holds"), found.get("held", "holds")) == ("holds", "holds")


STRIPPED = """
resource Owner { }
resource Part { }
environment U {
  action first(o: Owner) at most 1 { delete o foreground }
  action second(o: Owner) when o.deletionTimestamp != null at most 1 { delete o background }
}
property outlived = sometimes Owner.size() == 0 && Part.size() > 0
check c {
  run U; scope { Owner: 1, Part: 1 }; faults { }
  given Owner o { }; given Part p { owner: o, finalizers: ["hold"] }
}
"""


def test_a_background_delete_no_longer_waits_for_dependents() -> None:
    """The owner goes with the second delete, although a dependent is held; without it the owner would wait for ever."""
    assert verdicts(STRIPPED).get("outlived", "holds") == "holds"
    waits = STRIPPED.replace("delete o background", "delete o")
    assert verdicts(waits)["outlived"] != "holds"


GRACE = """
use kubernetes.core (Pod)
environment U {
  action first(p: Pod) at most 1 { delete p }
  action second(p: Pod) when p.deletionTimestamp != null at most 1 { delete p foreground }
}
property marked = sometimes Pod.exists(p, p.deletionTimestamp != null)
property waits  = never Pod.exists(p, "foregroundDeletion" in p.finalizers)
check c { run U; scope { Pod: 1 }; faults { }; given Pod p { spec: { nodeName: "east" } } }
"""


def test_a_pod_in_its_grace_keeps_its_finalizers() -> None:
    """A second delete of a pod whose grace is running only ever shortens the grace."""
    found = verdicts(GRACE)
    assert (found["marked"], found.get("waits", "holds")) == ("holds", "holds")


ALONG = """
resource Box {
  spec { n: 0..2 = 0, m: 0..2 = 0 }
  status { s: 0..2 = 0 }
}
environment U { action up(b: Box) at most 1 { patch b.WHERE } }
controller C for Box { reconcile b { if b.spec.m == 0 { update b.spec { m: 1 } HOW on NotFound { } on Conflict { } } } }
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""


@pytest.mark.parametrize(
    ("where", "how", "verdict"),
    [
        ("spec { n: 1 }", "force", "safety 2"),
        ("spec { n: 1 }", "", "holds"),
        ("status { s: 1 }", "force", "holds"),
    ],
)
def test_an_update_by_force_sends_what_it_read_along(where: str, how: str, verdict: str) -> None:
    """m is written, n goes back to what it was when the object was read; the status is another subresource."""
    assert verdicts(ALONG.replace("WHERE", where).replace("HOW", how)).get("lost_update", "holds") == verdict
