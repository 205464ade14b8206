"""`take` keeps so many wherever its list goes: through `?:`, `+`, `in`, `==`, a field, a name that is used twice."""

from __future__ import annotations

import pytest

import dashpot
from dashpot.grammar.load import load_text

SPEC = """
use kubernetes.core (Pod)
resource Box "example.com/v1" {
  spec   { all: bool = false }
  status { state: 0..2 = 0 }
}
controller C for Box {
  watches Pod as p -> Box
  memory done: bool = false
  reconcile b {
    if done { return }
    done = true
    let pods  = list cached Pod
    let order = pods.sortBy(p, TIED ? 0 : (p.name == "one" ? 0 : 1))
    BODY
    update b.status { state: 1 } on Conflict { requeue }
  }
}
property one   = never Box.exists(b, b.status.state == 1) && !Pod.exists(p, p.name == "one")
property two   = never Box.exists(b, b.status.state == 1) && !Pod.exists(p, p.name == "two")
property none  = never Box.exists(b, b.status.state == 1) && Pod.isEmpty()
property all   = never Box.exists(b, b.status.state == 1) && Pod.size() == 2
check small {
  run C
  scope { Box: 1, Pod: 2 }
  faults { }
  given Box a { }
  given Pod one { }
  given Pod two { }
}
"""
NAMES = {"one", "two", "none", "all"}
DELETE = "{ delete p on NotFound { } }"


def held(body: str, tied: bool) -> set[str]:
    """The properties that hold."""
    text = SPEC.replace("BODY", body).replace("TIED", "true" if tied else "false")
    report = dashpot.check(load_text(text), "small")
    return {one.property for one in report.results if one.verdict.__class__.__name__ == "Holds"} & NAMES


@pytest.mark.parametrize(
    ("body", "gone", "either"),
    [
        (f"for p in order.take(1) {DELETE}", {"one"}, True),
        (f"for p in b.spec.all ? order : order.take(1) {DELETE}", {"one"}, True),
        (f"for p in b.spec.all ? order.take(1) : order {DELETE}", {"one", "two"}, False),
        (f"for p in b.spec.all ? order.take(0) : order.take(1) {DELETE}", {"one"}, True),
        (f"let some = b.spec.all ? order : order.take(1)\n for p in some {DELETE}", {"one"}, True),
        (f"for p in order.take(1) + order.take(0) {DELETE}", {"one"}, True),
        ("for p in order { if p in order.take(1) { delete p on NotFound { } } }", {"one"}, None),
        (f"if order.take(1) != order {{ for p in order.take(1) {DELETE} }}", {"one"}, True),
        (f"let some = order.take(1)\n for p in some.filter(q, q in some) {DELETE}", {"one"}, True),
    ],
)
@pytest.mark.parametrize("tied", [False, True])
def test_so_many_are_kept(body: str, gone: set[str], either: bool | None, tied: bool) -> None:
    found = held(body, tied)
    if not tied:
        assert found == {"one", "two", "none", "all"} - gone - ({"none"} if len(gone) == 2 else set())
    elif either:
        assert found == {"none", "all"}  # one of them goes, and either may
    elif either is False:
        assert found == {"all"}
