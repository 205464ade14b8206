"""Time: ages, ticks urgent and free, `requeue after`, times compared with each other."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

TIMER = """
resource Box { spec { at: Time; n: 0..3 } }
process P { action fire(b: Box) when since(b.spec.at) >= AFTER && b.spec.n == 0 { patch b.spec { n: 1 } } }
environment U { action touch(b: Box) at most 1 { patch b.spec { at: now() } } }
property fired = converges to Box.all(b, b.spec.n == 1)
property soon  = on patch Box b by P require since(old.spec.at) >= AFTER
property too_soon = on patch Box b by P require since(old.spec.at) > AFTER
check c { run P, U; scope { Box: 1 }; faults { }; time TIME; given Box b { spec: { at: GIVEN } } }
"""


@pytest.mark.parametrize("after", ["1s", "3s", "90min"])
def test_since_grows_with_the_ticks(after: str) -> None:
    text = TIMER.replace("AFTER", after).replace("GIVEN", "now()")
    for time in ("urgent", "free"):
        found = verdicts(text.replace("TIME", time))
        assert (found["fired"], found["soon"]) == ("holds", "holds")
    # Urgent time passes only while nobody has work: who waits for its age acts at once.
    assert verdicts(text.replace("TIME", "urgent"))["too_soon"].startswith("safety")
    assert verdicts(text.replace("TIME", "free"))["too_soon"].startswith("safety")


URGENT = """
resource Box { spec { at: Time; n: 0..1; late: bool } }
process Fast { action work(b: Box) when b.spec.n == 0 { patch b.spec { n: 1 } } }
process Slow { action give_up(b: Box) when since(b.spec.at) >= 1s &&
      b.spec.n == 0 { patch b.spec { late: true, n: 1 } } }
property in_time = never Box.exists(b, b.spec.late)
check c { run Fast, Slow; scope { Box: 1 }; faults { }; time TIME; given Box b { spec: { at: now() } } }
"""


def test_urgent_time_waits_for_work_and_free_time_does_not() -> None:
    assert verdicts(URGENT.replace("TIME", "urgent"))["in_time"] == "holds"
    assert verdicts(URGENT.replace("TIME", "free"))["in_time"].startswith("safety")


AGAIN = """
resource Box { spec { n: 0..3; at: Time } }
controller C for Box as b when b.spec.at != old.spec.at {
  reconcile b {
    if b.spec.n < 2 { patch b.spec { n: b.spec.n + 1 }; requeue HOW }
  }
}
property twice = converges to Box.all(b, b.spec.n == 2)
check c { run C; scope { Box: 1 }; faults { FAULT }; given Box b { } }
"""


def test_requeue_after_comes_back() -> None:
    assert verdicts(AGAIN.replace("HOW", "after 5s").replace("FAULT", ""))["twice"] == "holds"
    assert verdicts(AGAIN.replace("requeue HOW", "return").replace("FAULT", ""))["twice"].startswith("stuck")


def test_requeue_after_is_forgotten_in_a_crash_but_the_list_wakes() -> None:
    assert verdicts(AGAIN.replace("HOW", "after 5s").replace("FAULT", "crash: 1"))["twice"] == "holds"


def test_requeue_after_waits_its_time() -> None:
    text = """
resource Box { spec { n: 0..2; at: Time } }
controller C for Box as b when b.spec.at != old.spec.at {
  reconcile b {
    if b.spec.n == 0 { patch b.spec { n: 1, at: now() } on NotFound { }; requeue after 2s }
    if b.spec.n == 1 { patch b.spec { n: 2 } }
  }
}
property waited = on patch Box b require old.spec.n == 0 || since(old.spec.at) >= 2s
property done = converges to Box.all(b, b.spec.n == 2)
check c { run C; scope { Box: 1 }; faults { }; time free; given Box b { } }
"""
    # Its own write of `at` wakes it at once; without that it waits.
    assert verdicts(text)["waited"].startswith("safety")
    quiet = verdicts(text.replace("when b.spec.at != old.spec.at", "when b.spec.n == 3"))
    assert (quiet["waited"], quiet["done"]) == ("holds", "holds")


def test_an_event_comes_before_a_delayed_requeue() -> None:
    text = """
resource Box { spec { n: 0..1; on: bool; at: Time } }
controller C for Box as b when b.spec.on != old.spec.on {
  reconcile b {
    if b.spec.on { patch b.spec { n: 1 } }
    requeue after 10s
  }
}
environment U { action turn(b: Box) at most 1 { patch b.spec { on: true, at: now() } } }
property prompt = on patch Box b by C require since(old.spec.at) < 10s
property done = sometimes Box.exists(b, b.spec.n == 1)
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""
    found = verdicts(text)
    assert (found["prompt"], found["done"]) == ("holds", "holds")


ORDER = """
resource Box { spec { at: Time } }
resource Log { status { first: Name? } }
process P {
  action stamp(b: Box) when Log.all(l, l.status.first == null) && b.name == "a" &&
      since(b.spec.at) >= 1s { patch b.spec { at: now() } }
}
property equal = always Box.all(x, Box.all(y, x.name == y.name || x.spec.at != y.spec.at ||
  since(x.spec.at) == since(y.spec.at)))
property older = sometimes Box.exists(x, Box.exists(y, x.spec.at < y.spec.at))
check c { run P; scope { Box: 2, Log: 1 }; faults { }; given Box a { }; given Box b { spec: { at: now() } }
  given Log l { } }
"""


def test_times_are_compared_by_age() -> None:
    found = verdicts(ORDER)
    assert (found["equal"], found["older"]) == ("holds", "holds")


def test_a_later_now_never_equals_a_stored_time() -> None:
    text = """
resource Box { spec { at: Time?; same: bool; n: 0..1 } }
process P {
  action go(b: Box) when b.spec.n == 0 {
    patch b.spec { at: now() }
    patch b.spec { n: 1, same: b.spec.at == now() }
  }
}
property different = never Box.exists(b, b.spec.same)
check c { run P; scope { Box: 1 }; given Box b { } }
"""
    assert verdicts(text)["different"] == "holds"


def test_ages_saturate_so_that_the_world_is_finite() -> None:
    text = """
resource Box { spec { at: Time; n: 0..1 } }
process P { action go(b: Box) when since(b.spec.at) >= 2s && since(b.spec.at) < 3s &&
      b.spec.n == 0 { patch b.spec { n: 1 } } }
check c { run P; scope { Box: 1 }; time free; given Box b { spec: { at: now() } } }
"""
    probe = Probe(text)
    ages = {probe.store(s)["Box[0].spec.at"] for s in probe.edges}
    assert len(ages) == 5  # 0, 1, 2, 3 and "4 or more"
    old = [
        s
        for s in probe.edges
        if probe.store(s)["Box[0].spec.n"] == "0" and "or more" in probe.store(s)["Box[0].spec.at"]
    ]
    assert old and all(t == s for s in old for _, t in probe.edges[s])


def test_creation_is_a_time_too() -> None:
    text = """
resource Box { spec { x: bool } }
process P {
  action make() when Box.isEmpty() { create Box { name: "b" } }
  action reap(b: Box) when since(b.creationTimestamp) >= 2s { delete b }
}
property young = on delete Box b require since(b.creationTimestamp) >= 2s
property dies = sometimes Box.isEmpty()
check c { run P; scope { Box: 1 }; time free; waive hot_loop "it goes round" }
"""
    found = verdicts(text)
    assert (found["young"], found["dies"]) == ("holds", "holds")
    assert len(Probe(text).edges) < 12
