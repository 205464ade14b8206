"""Each fault with a spec whose verdict it flips, and what the fault can and cannot hit."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

# what: (spec, property, verdict without the fault, fault, verdict with it)
FLIPS = {
    "crash between two writes": (
        """
resource Box { spec { a: bool; b: bool } }
controller C for Box {
  reconcile x {
    if x.spec.a { return }
    patch x.spec { a: true }
    patch x.spec { b: true }
  }
}
property whole for x in Box = converges to x.spec.a && x.spec.b
check c { run C; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "whole", "holds", "crash: 1", "stuck",
    ),
    "crash loses memory": (
        """
resource Box { spec { n: 0..2 } }
controller C for Box {
  memory done: bool = false
  reconcile x { if done || x.spec.n == 2 { return }; patch x.spec { n: x.spec.n + 1 }; done = true }
}
property once = always Box.all(x, x.spec.n <= 1)
check c { run C; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "once", "holds", "crash: 1", "safety",
    ),
    "crash of a process loses memory": (
        """
resource Box { spec { n: 0..2 } }
process P {
  memory done: bool = false
  action go(x: Box) when !done && x.spec.n < 2 { patch x.spec { n: x.spec.n + 1 }; done = true }
}
property once = always Box.all(x, x.spec.n <= 1)
check c { run P; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "once", "holds", "crash: 1", "safety",
    ),
    "a stale restart goes back in time": (
        """
resource Box { spec { n: 0..1 }; status { seen: 0..2 } }
controller C for Box { reconcile b { patch b.status { seen: b.spec.n + 1 } } }
environment U { action up(b: Box) at most 1 { patch b.spec { n: 1 } } }
property forward for b in Box = monotone b.status.seen
check c { run C, U; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "forward", "holds", "stale_restart: 1", "safety",
    ),
    "a relist passes over an edge": (
        """
resource Box { spec { n: 0..2 }; status { met: bool } }
controller C for Box {
  watches Note as n -> Box when n.spec.n == 1
  memory up: bool = false
  reconcile b { let n = get cached Note "n"; if n != null && n.spec.n > 0 { patch b.status { met: true } } }
}
resource Note { spec { n: 0..2 } }
environment U {
  action one(n: Note) when n.spec.n == 0 at most 1 { patch n.spec { n: 1 } }
  action two(n: Note) when n.spec.n == 1 at most 1 { patch n.spec { n: 2 } }
}
property met for b in Box = converges while Note.exists(n, n.spec.n == 2) to b.status.met
check c { run C, U; scope { Box: 1, Note: 1 }; faults { FAULT }; given Box b { }; given Note "n" { } }
""", "met", "holds", "relist: 1", "stuck",
    ),
    "a drop loses a wake-up": (
        """
resource Box { spec { n: 0..1 }; status { seen: 0..1 } }
controller C for Box { reconcile b { patch b.status { seen: b.spec.n } } }
environment U { action up(b: Box) at most 1 { patch b.spec { n: 1 } } }
property seen for b in Box = converges to b.status.seen == b.spec.n
check c { run C, U; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "seen", "holds", "drop: 1", "stuck",
    ),
    "a time-out after the write": (
        """
resource Set { spec { go: bool } }
resource Part { }
controller C for Set {
  memory made: bool = false
  reconcile s { if made { return }; create Part { generateName: "p-" }; made = true }
}
property one = always Part.size() <= 1
check c { run C; scope { Set: 1, Part: 2 }; faults { FAULT }; given Set s { } }
""", "one", "holds", "timeout: 1", "safety",
    ),
    "a time-out before the write, taken for done": (
        """
resource Set { spec { go: bool } }
resource Part { }
controller C for Set {
  memory made: bool = false
  reconcile s { if made { return }; create Part { generateName: "p-" } on Timeout { }; made = true }
}
property some = converges to Part.size() == 1
check c { run C; scope { Set: 1, Part: 1 }; faults { FAULT }; given Set s { } }
""", "some", "holds", "timeout: 1", "stuck",
    ),
    "a controller that is down comes back without memory": (
        """
resource Box { spec { n: 0..2 } }
controller C for Box {
  memory done: bool = false
  reconcile x { if done || x.spec.n == 2 { return }; patch x.spec { n: x.spec.n + 1 }; done = true }
}
property once = always Box.all(x, x.spec.n <= 1)
check c { run C; scope { Box: 1 }; faults { FAULT }; given Box b { } }
""", "once", "holds", "down: 1", "safety",
    ),
    "a pause lets a lease run out": (
        """
resource Lease { spec { renewed: Time; lost: bool } }
process Holder {
  action renew(l: Lease) when since(l.spec.renewed) >= 1s { patch l.spec { renewed: now() } }
}
process Other {
  action take(l: Lease) when since(l.spec.renewed) >= 2s { patch l.spec { lost: true, renewed: now() } }
}
property kept = always Lease.all(l, !l.spec.lost)
check c { run Holder, Other; scope { Lease: 1 }; faults { FAULT }; given Lease l { spec: { renewed: now() } }
  waive hot_loop for Lease.spec.renewed "renewed for ever" }
""", "kept", "holds", "pause Holder: 1", "safety",
    ),
    "a partition lets a lease run out": (
        """
resource Lease { spec { renewed: Time; lost: bool } }
process Holder {
  action renew(l: Lease) when since(l.spec.renewed) >= 1s { patch l.spec { renewed: now() } on Timeout { } }
}
process Other {
  action take(l: Lease) when since(l.spec.renewed) >= 2s { patch l.spec { lost: true, renewed: now() } }
}
property kept = always Lease.all(l, !l.spec.lost)
check c { run Holder, Other; scope { Lease: 1 }; faults { FAULT }; given Lease l { spec: { renewed: now() } }
  waive hot_loop for Lease.spec.renewed "renewed for ever" }
""", "kept", "holds", "partition Holder: 1", "safety",
    ),
    "a node that is down stops its kubelet for good": (
        """
resource Node { spec { x: bool } }
resource Pod { spec { node: ref Node? }; status { ready: bool } }
process Kubelet at me in Node {
  action start(p: Pod) when p.spec.node == me && !p.status.ready { patch p.status { ready: true } }
}
property ready for p in Pod = converges to p.status.ready
check c { run Kubelet; scope { Node: 2, Pod: 1 }; faults { FAULT }; given Node n { }; given Node m { }
  given Pod p { spec: { node: "n" } } }
""", "ready", "holds", "node_down: 1", "stuck",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FLIPS)
def test_fault_flips(name: str) -> None:
    text, prop, without, fault, with_ = FLIPS[name]
    assert verdicts(text.replace("FAULT", ""))[prop].split()[0] == without
    assert verdicts(text.replace("FAULT", fault))[prop].split()[0] == with_


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("crash between two writes", "pause: 1"),
        ("crash loses memory", "pause: 1, partition: 1, relist: 1, drop: 1"),
        ("a stale restart goes back in time", "crash: 2"),
        ("a drop loses a wake-up", "relist: 1, crash: 1, down: 1, partition: 1, pause: 1, timeout: 1"),
        ("a node that is down stops its kubelet for good", "pause: 1, down: 1, partition: 1, crash: 1"),
    ],
)
def test_other_faults_do_not(name: str, fault: str) -> None:
    """Who is paused, cut off or down gets over it; a list makes up for what a watch has missed."""
    text, prop, _, _, _ = FLIPS[name]
    assert verdicts(text.replace("FAULT", fault))[prop] == "holds"


TWO = """
resource Tally { spec { n: 0..6; a: 0..3; b: 0..3 } }
controller A for Tally {
  memory up: bool = false
  reconcile t { if up { return }; patch t.spec { a: min(3, t.spec.a + 1) }; up = true }
}
controller B for Tally {
  memory up: bool = false
  reconcile t { if up { return }; patch t.spec { b: min(3, t.spec.b + 1) }; up = true }
}
property most = always Tally.all(t, t.spec.a <= A && t.spec.b <= B && t.spec.a + t.spec.b <= SUM)
property seen = sometimes Tally.exists(t, t.spec.a + t.spec.b == SUM)
check c { run A, B; scope { Tally: 1 }; faults { FAULT }; given Tally t { } }
"""


@pytest.mark.parametrize(
    ("fault", "a", "b", "both"),
    [
        ("", 1, 1, 2),
        ("crash: 1", 2, 2, 3),
        ("crash: 2", 3, 3, 4),
        ("crash A: 1", 2, 1, 3),
        ("crash A: 1, crash B: 1", 2, 2, 4),
        ("crash A: 1, crash: 1", 3, 2, 4),
        ("crash B: 0", 1, 1, 2),
    ],
)
def test_budgets_are_shared_by_all_that_they_name(fault: str, a: int, b: int, both: int) -> None:
    text = TWO.replace("FAULT", fault).replace("SUM", str(both)).replace("<= A", f"<= {a}").replace("<= B", f"<= {b}")
    found = verdicts(text)
    assert (found["most"], found["seen"]) == ("holds", "holds")


def test_faults_of_the_environment_are_those_of_the_check_unless_it_has_its_own() -> None:
    base = TWO.replace("SUM", "2").replace("<= A", "<= 1").replace("<= B", "<= 1")
    base = base.replace("check c { run A, B;", "environment U { fault crash A at most 1 }\ncheck c { run A, B, U;")
    assert verdicts(base.replace("faults { FAULT };", ""))["most"].startswith("safety")
    assert verdicts(base.replace("FAULT", ""))["most"] == "holds"


def test_a_relist_of_one_cache_leaves_others_alone() -> None:
    text = FLIPS["a relist passes over an edge"][0]
    assert verdicts(text.replace("FAULT", "relist Note: 1"))["met"].startswith("stuck")
    assert verdicts(text.replace("FAULT", "relist Note for C: 1"))["met"].startswith("stuck")
    assert verdicts(text.replace("FAULT", "relist Box: 1"))["met"] == "holds"


def test_faults_do_not_hit_environments() -> None:
    text = """
resource Box { spec { n: 0..2 } }
environment U { action up(b: Box) at most 1 { patch b.spec { n: 1 }; patch b.spec { n: 2 } } }
property whole = converges to Box.all(b, b.spec.n != 1)
check c { run U; scope { Box: 1 }; faults { crash: 1, pause: 1, down: 1, partition: 1 }; given Box b { } }
"""
    assert verdicts(text)["whole"] == "holds"


def test_a_stale_restart_can_show_an_object_that_is_gone() -> None:
    text = (
        """
resource Box { spec { x: bool } }
resource Mark { }
controller C for Box {
  watches Mark as m -> Box
  reconcile b {
    let marks = list cached Mark
    if !marks.isEmpty() && !b.spec.x { patch b.spec { x: true } }
    if b.spec.x && !marks.isEmpty() { delete_it() }
  }
}
""".replace("    if b.spec.x && !marks.isEmpty() { delete_it() }\n", "")
        + """
environment U {
  action clear(m: Mark) at most 1 { delete m }
}
property seen_after = on patch Box b by C require Mark.size() == 1
check c { run C, U; scope { Box: 1, Mark: 1 }; faults { FAULT }; given Box b { }; given Mark m { } }
"""
    )
    # Lag alone can do it, but not once the controller has seen that the mark is gone.
    told = """
resource Box { spec { x: bool; back: bool } }
resource Mark { }
controller C for Box {
  watches Mark as m -> Box
  reconcile b {
    let marks = list cached Mark
    if marks.isEmpty() { patch b.spec { x: true } }
    else { if b.spec.x { patch b.spec { back: true } } }
  }
}
environment U { action clear(m: Mark) at most 1 { delete m } }
property forward = never Box.exists(b, b.spec.back)
check c { run C, U; scope { Box: 1, Mark: 1 }; faults { FAULT }; given Box b { }; given Mark m { } }
"""
    assert verdicts(text.replace("FAULT", ""))["seen_after"].startswith("safety")
    assert verdicts(told.replace("FAULT", "crash: 1"))["forward"] == "holds"
    assert verdicts(told.replace("FAULT", "stale_restart: 1"))["forward"].startswith("safety")


def test_a_time_out_of_a_read_changes_nothing() -> None:
    text = """
resource Box { spec { n: 0..1 }; status { bad: bool } }
controller C for Box {
  reconcile b { let x = get live Box b.name on Timeout { patch b.status { bad: true }; return }
    if x == null { return }; patch x.spec { n: 1 } on NotFound { } }
}
property fine = never Box.exists(b, b.status.bad)
property done for b in Box = converges to b.spec.n == 1
check c { run C; scope { Box: 1 }; faults { FAULT }; given Box b { } }
"""
    assert verdicts(text.replace("FAULT", ""))["fine"] == "holds"
    found = verdicts(text.replace("FAULT", "timeout: 1"))
    assert found["fine"].startswith("safety") and found["done"] == "holds"


def test_steps_of_faults_are_not_fair_and_their_ends_are() -> None:
    text = FLIPS["a drop loses a wake-up"][0].replace("FAULT", "pause: 1, partition: 1, crash: 1, drop: 1")
    labels = {label.verb: label for label in Probe(text).fired()}
    for verb in ("pause", "partition", "crash", "drop"):
        assert labels[verb].role == "fault" and not labels[verb].fair
    for verb in ("resume", "reconnect", "deliver"):
        assert labels[verb].role == "step" and labels[verb].fair


def test_a_crash_leaves_nothing_behind() -> None:
    """Queue, delays, memory, locals and what was on its way: all as at a start on the store as it is."""
    text = """
resource Box { spec { n: 0..2; at: Time }; status { seen: 0..2 } }
controller C for Box {
  memory passes: 0..2 = 0
  reconcile b {
    passes = min(2, passes + 1)
    if b.spec.n == 2 { requeue after 3s }
    let now = get live Box b.name
    if now == null { return }
    patch b.status { seen: min(2, now.spec.n) } on NotFound { }
    patch now.spec { n: min(2, now.spec.n + 1) } on NotFound { }
  }
}
environment U { action remove(b: Box) at most 1 { delete b } }
check c { run C, U; scope { Box: 2 }; faults { crash: 1 }; time free; given Box a { }; given Box b { } }
"""
    probe = Probe(text)
    cells = probe.system.cells
    delayed = crashes = 0
    for state, edges in probe.edges.items():
        before = probe.backend.unpack(state)
        for index, target in edges:
            if probe.system.updates[index].label.verb != "crash":
                continue
            crashes += 1
            after = probe.backend.unpack(target)
            value = {(c.area, c.slot, c.path): after[c.index] for c in cells}
            delayed += any(before[c.index] for c in cells if c.area == "queue" and c.path == "delay")
            for c in cells:
                if c.area in ("memory", "local", "control", "pending"):
                    assert after[c.index] == c.initial, c.name
                elif c.area == "cache" and c.path == "spec.n":
                    assert after[c.index] == value["store", c.slot, "spec.n"], c.name
                elif c.area == "queue" and c.path == "delay":
                    assert after[c.index] == 0, c.name
                elif c.area == "queue" and c.path == "dirty":
                    assert bool(after[c.index]) == bool(value["store", c.slot, "present"]), c.name
    assert crashes and delayed
