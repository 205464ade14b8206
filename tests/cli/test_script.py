"""Scenarios of a spec, in the world that the kernel makes of them."""

from __future__ import annotations

import pytest

from dashpot.checker.scenario import Played, perform
from dashpot.grammar.load import load_text

SPEC = """
resource Box { spec { want: 0..3 = 1, stamp: Time? } }
resource Item { }
controller BoxController for Box {
  owns Item
  reconcile b {
    let items = list cached Item where i -> i.owner == b
    if items.size() < b.spec.want {
      create Item { generateName: b.name + "-", owner: b }
    }
  }
}
process Clock {
  cache Box live
  action mark(b: Box) when b.spec.stamp != null && since(b.spec.stamp) >= 3s { patch b.spec { stamp: null } }
}
admission Small on create Item i {
  if i.name == "big" { fail "too big" }
}
environment Users { action wreck(b: Box) at most 3 { delete b } }
property few for b in Box = always Item.count(i, i.owner == b) <= b.spec.want
"""


def played(*lines: str, given: str = "given Box one { spec: { want: 2 } }") -> Played:
    body = "\n  ".join((given, *lines))
    program = load_text(f'{SPEC}scenario "s" {{\n  {body}\n}}\n')
    return perform(program, program.scenarios[0])


def test_users_do_only_what_the_script_says() -> None:
    assert played("settle", "assert Item.size() == 2", "assert Box.size() == 1").failure is None
    assert played("settle", "delete one", "settle", "assert Item.size() == 0").failure is None


def test_a_failed_assert_points_at_its_line() -> None:
    failure = played("settle", "assert Item.size() == 3").failure
    assert failure is not None and (failure.kind, failure.line) == ("assert", 1)
    assert failure.span.line == SPEC.count("\n") + 4


def test_the_world_grows_until_the_script_fits() -> None:
    names = [f'create Item {{ name: "x{n}" }}' for n in range(4)]
    more = ['create Item { generateName: "y-" }'] * 5
    assert played(*names, *more, "assert Item.size() == 9").failure is None


def test_held_deliveries_stay_held() -> None:
    failed = played("hold Item", "settle", "assert Item.size() == 2").failure
    assert failed is not None and failed.kind == "assert"
    assert played("hold Item", "settle", "release Item", "settle", "assert Item.size() == 2").failure is None


def test_a_crash_lists_anew() -> None:
    lines = ("hold Item for BoxController", "settle", "inject crash BoxController", "settle", "assert Item.size() == 2")
    assert played(*lines).failure is None


def test_a_stale_restart_forgets_what_came_since() -> None:
    lines = ("settle", "inject stale_restart BoxController", "hold Item", "settle", "assert Item.size() > 2")
    found = played(*lines)
    assert found.failure is None and dict(found.broken).keys() == {"few"}


def test_a_timeout_hits_the_next_call() -> None:
    found = played("inject timeout BoxController", "settle", "assert Item.size() >= 2")
    assert found.failure is None
    labels = [found.system.updates[i].label for i in found.trace.steps]
    assert sum("Timeout" in label.detail for label in labels) == 1


def test_time_passes_only_when_told() -> None:
    given = "given Box one { spec: { want: 0 } }"
    lines = ("patch one.spec { stamp: now() }", "settle", "assert one.spec.stamp != null")
    assert played(*lines, given=given).failure is None
    late = played(*lines, "tick 2", "settle", "assert one.spec.stamp == null", given=given).failure
    assert late is None or late.kind == "assert"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('create Item { name: "big" }', "Denied"),
        ("inject crash Clock", ""),
        ("hold Box for Clock", "nothing to hold"),
        ("release Item", "not held"),
    ],
)
def test_what_cannot_be_done_is_said(line: str, said: str) -> None:
    failure = played("settle", line).failure
    if not said:
        assert failure is None
        return
    assert failure is not None and failure.kind == "refused" and said in failure.message


def test_a_write_to_what_is_gone_is_refused() -> None:
    failure = played("delete one", "settle", "patch one.spec { want: 1 }").failure
    assert failure is not None and failure.kind == "refused"
