"""Worlds that once could not be built: sorting what is certainly left out, and caches of kinds without an object."""

from __future__ import annotations

from tests.kernel.probe import verdicts

BOXES = """
resource Box "v1" { spec { n: 0..2; on: bool } }
controller C for Box {
  reconcile b {
    let boxes = list cached Box where x -> x.name == b.name
    for x in boxes.filter(y, y.name == "a").sortBy(y, [-y.spec.n]).take(1) { patch x.spec { on: true } }
  }
}
property on = sometimes Box.exists(b, b.spec.on)
check small { run C; scope { Box: 2 }; given Box a { }; given Box b { }; expect on }
"""

NONE = """
const MAKES = true
resource Box "v1" { spec { on: bool } }
resource Part "v1" { spec { n: 0..1 } }
controller C for Box {
  cache Part read_own_writes
  reconcile b {
    let parts = list cached Part where p -> MAKES && p.owner == b
    if MAKES && parts.isEmpty() { create Part { name: "part", owner: b } on AlreadyExists { } }
    patch b.spec { on: true }
  }
}
property on = sometimes Box.exists(b, b.spec.on)
check small { run C; scope { Box: 1, MAKES: false }; given Box a { }; expect on }
"""


def test_a_list_of_keys_sorts_what_is_certainly_left_out() -> None:
    assert verdicts(BOXES)["on"] == "holds"


def test_a_kind_without_an_object_changes_nothing_in_a_cache() -> None:
    assert verdicts(NONE)["on"] == "holds"
