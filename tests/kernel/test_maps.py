"""Null takes an entry out of a map, also of one whose values may be null, as it does when the spec is run."""

from __future__ import annotations

import pytest

import dashpot
from dashpot.grammar.load import load_text

SPEC = """
resource Box "example.com/v1" {
  spec   { next: Name? }
  status { seen: bool = false, state: 0..2 = 0 }
}
controller C for Box {
  memory m: map[Name]VALUE = {}
  reconcile b {
    if b.status.state == 0 {
      m[b.name] = b.name
      update b.status { state: 1 } on Conflict { requeue }
      return
    }
    if b.status.state == 1 {
      m[b.name] = NEW
      update b.status { seen: b.name in m, state: 2 } on Conflict { requeue }
    }
  }
}
property gone = never Box.exists(b, b.status.state == 2 && b.status.seen)
property over = sometimes Box.exists(b, b.status.state == 2)
check small {
  run C
  scope { Box: 1 }
  faults { }
  given Box a { }
}
"""


@pytest.mark.parametrize(
    ("value", "new", "stays"),
    [
        ("Name?", "null", False),
        ("Name", "null", False),
        ("Name?", "b.spec.next", False),
        ("Name?", "b.name", True),
        ("Name", "b.name", True),
    ],
)
def test_null_takes_an_entry_out(value: str, new: str, stays: bool) -> None:
    report = dashpot.check(load_text(SPEC.replace("VALUE", value).replace("NEW", new)), "small")
    held = {result.property: result.verdict.__class__.__name__ for result in report.results}
    assert held["over"] == "Holds"
    assert held["gone"] == ("Violated" if stays else "Holds")
