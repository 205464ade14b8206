"""Generations: what makes them grow, and that renumbering keeps every comparison."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

WRITES = {
    "a change of the spec": ("patch b.spec { n: 1 }", "more"),
    "a write of the spec that changes nothing": ("patch b.spec { n: 0 }", "none"),
    "a change of the status": ("patch b.status { seen: 1 }", "same"),
    "finalizers": ('patch b { finalizers: ["f"] }', "same"),
    "labels": ('patch b { labels: { "l": "x" } }', "same"),
    "the mark of deletion": ("delete b", "more"),
}


@pytest.mark.parametrize("name", WRITES)
def test_generation_grows_with_the_spec_only(name: str) -> None:
    call, what = WRITES[name]
    text = f"""
resource Box {{ spec {{ n: 0..3 }}; status {{ seen: 0..3; was: Generation = 0 }} }}
environment Users {{ action write(b: Box) at most 1 {{ {call} }} }}
controller Copy for Box {{ reconcile b {{ patch b.status {{ was: b.generation }} }} }}
property older = sometimes Box.exists(b, b.status.was > 0 && b.status.was < b.generation)
property equal = sometimes Box.exists(b, b.status.was == b.generation)
property never_newer = always Box.all(b, b.status.was <= b.generation)
check c {{
  run Users, Copy; scope {{ Box: 1, opaque: ["x"] }}
  faults {{ }}
  given Box b {{ finalizers: ["g"] }}
}}
"""
    found = verdicts(text)
    assert found["equal"] == "holds" and found["never_newer"] == "holds"
    assert (found["older"] == "holds") == (what == "more")


COPIED = """
resource Box { spec { n: 0..3 } }
resource Mark { spec { at: Generation = 0; of: 0..3 } }
controller C for Box {
  reconcile b {
    create Mark { name: "m", spec.at: b.generation, spec.of: b.spec.n } on AlreadyExists { }
  }
}
environment U { action up(b: Box) when b.spec.n < 2 at most 2 { patch b.spec { n: b.spec.n + 1 } } }
property told_apart = never Mark.exists(m, Box.exists(b, m.spec.of < b.spec.n && m.spec.at == b.generation))
property equal      = sometimes Mark.exists(m, Box.exists(b, m.spec.at == b.generation))
check c { run C, U; scope { Box: 1, Mark: 1 }; faults { }; given Box b { } }
"""


def test_a_generation_kept_in_another_kind_stays_comparable() -> None:
    found = verdicts(COPIED)
    assert (found["told_apart"], found["equal"]) == ("holds", "holds")


REMEMBERED = """
resource Box { spec { n: 0..3 }; status { stale: bool } }
controller C for Box {
  memory seen: Generation = 0
  memory n: 0..3 = 0
  reconcile b {
    if seen == b.generation && n != b.spec.n { patch b.status { stale: true } }
    seen = b.generation
    n = b.spec.n
  }
}
environment U { action up(b: Box) when b.spec.n < 3 { patch b.spec { n: b.spec.n + 1 } } }
property told_apart = never Box.exists(b, b.status.stale)
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""


def test_a_generation_kept_in_memory_stays_comparable() -> None:
    assert verdicts(REMEMBERED)["told_apart"] == "holds"


@pytest.mark.parametrize("boxes", [1, 2])
def test_generations_never_run_out(boxes: int) -> None:
    given = "; ".join(f"given Box b{i} {{ }}" for i in range(boxes))
    text = f"""
resource Box {{ spec {{ n: bool }}; status {{ seen: bool }} }}
controller C for Box as b when b.generation != old.generation {{
  reconcile b {{ patch b.status {{ seen: b.spec.n }} }}
}}
environment U {{ action flip(b: Box) when b.name == "b0" {{ patch b.spec {{ n: !b.spec.n }} }} }}
property copied for b in Box = converges to b.status.seen == b.spec.n
check c {{ run C, U; scope {{ Box: {boxes}, lag: 1 }}; faults {{ }}; {given} }}
"""
    assert verdicts(text)["copied"] == "holds"
