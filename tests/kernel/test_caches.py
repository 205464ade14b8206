"""What a cache shows and when: lag, order, own writes, live caches, workers, several controllers."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

TWINS = """
resource Set { spec { want: 0..3 = 1 } }
resource Part { }
controller C for Set {
  owns Part
  CLAUSES
  reconcile s {
    let parts = list cached Part where p -> p.owner == s
    if parts.size() < s.spec.want { create Part { generateName: "p-", owner: s } }
  }
}
property no_twins = always Part.size() <= 1
property made     = converges to Part.size() >= 1
check c { run C; scope { Set: 1, Part: 3 }; resync RESYNC; faults { FAULTS }; given Set s { } }
"""


def twins(clauses: str = "", resync: str = "on", faults: str = "") -> tuple[str, str]:
    text = TWINS.replace("CLAUSES", clauses).replace("RESYNC", resync).replace("FAULTS", faults)
    found = verdicts(text)
    return found["no_twins"].split()[0], found["made"].split()[0]


def test_a_lagging_cache_makes_twins() -> None:
    assert twins()[0] == "safety"


def test_read_own_writes_makes_none() -> None:
    assert twins("cache Part read_own_writes") == ("holds", "holds")


def test_read_own_writes_is_lost_in_a_crash_and_the_list_makes_up_for_it() -> None:
    assert twins("cache Part read_own_writes", "off", "crash: 1") == ("holds", "holds")


def test_read_own_writes_does_not_survive_a_stale_restart() -> None:
    """A restart on a server that lags shows the world from before the write, and nobody knows of it any more."""
    assert twins("cache Part read_own_writes", "off", "stale_restart: 1")[0] == "safety"


def test_read_own_writes_does_not_know_an_answer_that_was_lost() -> None:
    assert twins("cache Part read_own_writes", "off", "timeout: 1")[0] == "safety"


def test_a_live_cache_makes_none() -> None:
    assert twins("cache Part live") == ("holds", "holds")


def test_read_own_writes_of_one_key_does_not_hold_up_another() -> None:
    text = """
resource Set { spec { go: bool }; status { made: bool } }
resource Part { }
controller C for Set {
  owns Part
  cache Part read_own_writes
  reconcile s {
    let parts = list cached Part where p -> p.owner == s
    if parts.isEmpty() { create Part { generateName: "p-", owner: s } }
  }
}
property one_waits = sometimes Part.size() == 2
check c { run C; scope { Set: 2, Part: 2, lag: 2 }; faults { }; given Set a { }; given Set b { } }
"""
    assert verdicts(text)["one_waits"] == "holds"


RACE = """
resource Box { spec { on: bool } }
resource Mark { }
controller C for Box {
  CLAUSES
  reconcile b {
    let marks = list cached Mark
    if marks.isEmpty() { create Mark { generateName: "m-" } }
  }
}
process Other {
  memory done: bool = false
  action make() when !done { create Mark { generateName: "o-" }; done = true }
}
property one = always Mark.size() <= 1
check c { run C, Other; scope { Box: 1, Mark: 3 }; faults { }; given Box b { } }
"""


def test_a_read_of_a_live_cache_is_a_step_of_its_own() -> None:
    """Somebody may write between the read and the call that it decides."""
    assert verdicts(RACE.replace("CLAUSES", "cache Mark live"))["one"].split()[0] == "safety"


def test_a_read_of_a_lagging_cache_may_be_old() -> None:
    assert verdicts(RACE.replace("CLAUSES", "cache Mark lagging"))["one"].split()[0] == "safety"


WORKERS = """
resource Box { spec { on: bool } }
resource Note { spec { n: 0..2 } }
resource Mark { spec { saw: 0..2 } }
controller C for Box {
  WORKERS
  reconcile b {
    let n = get cached Note "n"
    if n == null { return }
    create Mark { name: "m-" + b.name, spec.saw: n.spec.n } on AlreadyExists { }
  }
}
environment U { action up() when Note.exists(n, n.spec.n == 0) at most 1 { let n = get live Note "n"
  if n == null { return }; patch n.spec { n: 1 } } }
property in_turn = on create Mark m require Mark.all(x, x.spec.saw <= m.spec.saw)
property both    = sometimes Mark.size() == 2
check c { run C, U; scope { Box: 2, Mark: 2, Note: 1 }; faults { }; given Box a { }; given Box b { }; given Note n { } }
"""


def test_one_worker_reads_in_the_order_of_its_writes() -> None:
    found = verdicts(WORKERS.replace("WORKERS", ""))
    assert (found["in_turn"], found["both"]) == ("holds", "holds")


def test_two_workers_read_at_once_and_write_in_any_order() -> None:
    """One reads, a delivery comes, the other reads and writes, and only then the first writes."""
    found = verdicts(WORKERS.replace("WORKERS", "workers 2"))
    assert (found["in_turn"].split()[0], found["both"]) == ("safety", "holds")


BUSY = """
resource Box { spec { on: bool }; status { a: bool; b: bool } }
resource Flag { spec { busy: bool; both: bool } }
controller C for Box {
  WORKERS
  reconcile x {
    let f = get live Flag "f"
    if f == null { return }
    if f.spec.busy { patch f.spec { both: true } }
    patch f.spec { busy: true }
    patch f.spec { busy: false }
  }
}
property together = sometimes Flag.exists(f, f.spec.both)
check c { run C; scope { Box: N, Flag: 1 }; faults { }; resync on; GIVEN; given Flag f { } }
"""


@pytest.mark.parametrize(
    ("workers", "boxes", "together"), [("", 2, False), ("workers 2", 2, True), ("workers 2", 1, False)]
)
def test_workers_take_different_keys_and_a_key_is_in_one_pair_of_hands(
    workers: str, boxes: int, together: bool
) -> None:
    given = "; ".join(f"given Box b{i} {{ }}" for i in range(boxes))
    text = BUSY.replace("WORKERS", workers).replace("N,", f"{boxes},").replace("GIVEN", given)
    assert (verdicts(text)["together"] == "holds") == together


def test_a_key_that_becomes_dirty_in_work_is_queued_behind() -> None:
    text = """
resource Box { spec { n: 0..1 }; status { seen: 0..1; more: 0..1 } }
controller C for Box {
  reconcile b {
    patch b.status { seen: b.spec.n }
    patch b.status { more: b.spec.n }
  }
}
environment U { action up(b: Box) at most 1 { patch b.spec { n: 1 } } }
property copied for b in Box = converges to b.status.seen == b.spec.n && b.status.more == b.spec.n
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""
    assert verdicts(text)["copied"] == "holds"


SEATS = """
enum Seat { east, west }
resource Box { spec { on: bool }; status { by: set[Seat]; alone: bool } }
KIND at me in Seat {
  memory done: bool = false
  BODY
}
property both = sometimes Box.exists(b, Seat.all(s, s in b.status.by))
property each_once = on patch Box b by A at me require !(me in old.status.by)
check c { run A; scope { Box: 1 }; faults { }; given Box b { } }
"""


def test_a_process_stands_in_every_seat_with_memory_of_its_own() -> None:
    body = "action sit(b: Box) when !done { patch b.status { by: b.status.by + [me] }; done = true }"
    text = SEATS.replace("KIND", "process A").replace("BODY", body)
    found = verdicts(text)
    assert (found["both"], found["each_once"]) == ("holds", "holds")


def test_a_controller_stands_in_every_seat_with_caches_of_its_own() -> None:
    body = "reconcile b { if done { return }; patch b.status { by: b.status.by + [me] }; done = true }"
    found = verdicts(SEATS.replace("KIND", "controller A for Box").replace("BODY", body))
    assert found["each_once"] == "holds"
    assert found["lost_update"].startswith("safety")  # both read the empty set


def test_two_controllers_lag_each_on_its_own() -> None:
    text = """
resource Box { spec { n: 0..1 }; status { a: 0..1; b: 0..1 } }
controller A for Box { reconcile x { patch x.status { a: x.spec.n } } }
controller B for Box { reconcile x { patch x.status { b: x.spec.n } } }
environment U { action up(x: Box) at most 1 { patch x.spec { n: 1 } } }
property a_first = sometimes Box.exists(x, x.status.a == 1 && x.status.b == 0)
property b_first = sometimes Box.exists(x, x.status.b == 1 && x.status.a == 0)
property both for x in Box = converges to x.status.a == x.spec.n && x.status.b == x.spec.n
check c { run A, B, U; scope { Box: 1 }; faults { }; given Box b { } }
"""
    assert [verdicts(text)[p] for p in ("a_first", "b_first", "both")] == ["holds"] * 3


def test_kinds_lag_each_on_its_own() -> None:
    """The later write to one kind may be seen before the earlier one to another."""
    text = """
resource Box { spec { n: 0..1 }; status { odd: bool } }
resource Note { spec { n: 0..1 } }
controller C for Box {
  watches Note as n -> Box
  reconcile b {
    let n = get cached Note "n"
    if n != null && n.spec.n == 1 && b.spec.n == 0 { patch b.status { odd: true } }
  }
}
environment U {
  action up(b: Box) at most 1 { patch b.spec { n: 1 }; let n = get live Note "n"
    if n != null { patch n.spec { n: 1 } } }
}
property odd = sometimes Box.exists(b, b.status.odd)
check c { run C, U; scope { Box: 1, Note: 1 }; faults { }; given Box b { }; given Note n { } }
"""
    assert verdicts(text)["odd"] == "holds"


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_lag_bounds_how_old_a_cache_is(lag: int) -> None:
    """With two boxes in turn nothing merges: the cache is at most `lag` changes behind."""
    text = f"""
resource Box {{ spec {{ n: 0..4 }} }}
controller C for Box {{ reconcile b {{ return }} }}
environment U {{
  action a() when Box.exists(x, x.name == "a" &&
      Box.exists(y, y.name == "b" && x.spec.n == y.spec.n && x.spec.n < 4)) {{
    let x = get live Box "a"; if x != null {{ patch x.spec {{ n: x.spec.n + 1 }} }}
  }}
  action b() when Box.exists(x, x.name == "a" && Box.exists(y, y.name == "b" && x.spec.n > y.spec.n)) {{
    let y = get live Box "b"; if y != null {{ patch y.spec {{ n: y.spec.n + 1 }} }}
  }}
}}
check c {{ run C, U; scope {{ Box: 2, lag: {lag} }}; faults {{ }}; given Box a {{ }}; given Box b {{ }} }}
"""
    probe = Probe(text)
    cells = {(c.area, c.slot, c.path): c.index for c in probe.system.cells if c.kind == "Box"}
    behind = set()
    for state in probe.edges:
        v = probe.backend.unpack(state)
        behind.add(sum(v[cells["store", s, "spec.n"]] - v[cells["cache", s, "spec.n"]] for s in (0, 1)))
    assert behind == set(range(lag + 1))
