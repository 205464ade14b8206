"""Reports from specs of public bugs: what a refused write may be held to, and what a story says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernel.probe import asked, spec, verdicts

from dashpot.checker import explore
from dashpot.checker.story import Story, story
from dashpot.checker.verdict import Violated
from dashpot.grammar.load import load
from dashpot.model.kernel.build import build

RENEWED = """
resource Node { }
resource Pod { spec { nodeName: ref Node? } }
controller C for Pod { reconcile p { if p.spec.nodeName == null { bind p to "east" on Conflict { } on NotFound { } } } }
environment U {
  action renew(p: Pod) at most 1 { delete p now; create Pod { name: "web", spec: { nodeName: TO } } }
}
check c { run C, U; scope { Pod: 1 }; faults { }; given Pod web { } }
"""


@pytest.mark.parametrize("to", ['"west"', "null"])
def test_a_bind_lands_on_no_other_uid(to: str) -> None:
    """A Binding carries the uid of the pod that was read: the next pod of the name answers Conflict, bound or not."""
    assert verdicts(RENEWED.replace("TO", to)).get("wrong_uid", "holds") == "holds"


REFUSED = """
resource Box { spec { n: 0..3; stop: bool }; rule !self.spec.stop || self.spec.n != 2 else "no" }
controller A for Box { reconcile b { if b.spec.n == 0 { patch b.spec { n: 2 } } } }
controller B for Box { reconcile b { if b.spec.n == 0 { patch b.spec { n: 1, stop: STOP } } } }
check c { run A, B; scope { Box: 1 }; faults { }; given Box b { } }
"""


def test_a_refused_patch_loses_no_update() -> None:
    """A over B is refused by the rule; B over A goes through, and is the only loss."""
    program = spec(REFUSED.replace("STOP", "true"))
    updates = build(program, asked(program)).updates
    losers = {u.label.actor for u in updates if any(o.property == "lost_update" for o in u.obligations)}
    refused = [u for u in updates if "Invalid" in u.label.detail]
    assert losers == {"A", "B"}
    assert refused and not any(o.property == "lost_update" for u in refused for o in u.obligations)


BEHIND = """
resource Part { spec { of: Name immutable; n: 0..1 } }
resource Box { spec { go: bool = true } }
controller C for Box {
  reconcile b {
    let old = list cached Part
    if b.spec.go { for p in old { patch p.spec { n: 1 } on NotFound { } } }
    if old.isEmpty() { return }
  }
}
property never_one = never Part.exists(p, p.spec.n == 1)
check c { run C; scope { Box: 1, Part: 1 }; faults { }; given Box b { }; given Part "p" { spec.of: "b" } }
"""


def test_only_tests_in_front_of_a_call_led_to_it() -> None:
    """Neither what follows the call nor what the API server tests is told as a reason."""
    program = spec(BEHIND)
    patch = [u.label for u in build(program, asked(program)).updates if u.label.verb == "patch"]
    lines = BEHIND.replace(";", "\n").split("\n")
    assert patch
    for label in patch:
        assert [lines[s.line - 1].strip().split()[1] for s, _ in label.decided] == ["b.spec.go"]


def told(text: str, name: str) -> Story:
    program = spec(text)
    check = asked(program)
    found = next(r for r in explore.check(program, check).results if r.property == name)
    assert isinstance(found.verdict, Violated)
    return story(build(program, check), found.verdict, {}, property=name)


FOREGROUND = """
resource Owner { }
resource Part { }
controller C for Owner { owns Part; reconcile o { create Part { name: o.name, owner: o } on AlreadyExists { } } }
environment U { action remove(o: Owner) at most 1 { delete o foreground } }
check c { run C, U; scope { Owner: 1, Part: 1 }; faults { }; given Owner o { } }
"""


@pytest.mark.parametrize("name", ["terminates", "hot_loop"])
def test_advice_on_a_foreground_delete_is_to_create_nothing(name: str) -> None:
    """The finalizer is the collector's: nobody else can take it."""
    advice = " ".join(told(FOREGROUND, name).fix)
    assert "deletionTimestamp" in advice and "remove it" not in advice and "differs" not in advice


OVERWRITTEN = """
resource Volume { spec { claim: Name? } }
resource Claim { spec { volume: Name? } }
controller C for Claim {
  watches Volume as v -> Claim
  reconcile c {
    if c.spec.volume != null { return }
    let free = list cached Volume where v -> v.spec.claim == null
    if free.isEmpty() { return }
    let v = any free
    patch v.spec { claim: c.name }
    update c.spec { volume: v.name } on Conflict { requeue }
  }
}
property single for v in Volume = always Claim.count(c, c.spec.volume == v.name) <= 1
check c { run C; scope { Claim: 2, Volume: 1 }; faults { }; given Claim a { }; given Claim b { }; given Volume "v" { } }
"""


def test_advice_names_the_write_that_overwrote() -> None:
    """The last write of the run is a consequence."""
    assert told(OVERWRITTEN, "single").fix[0].startswith("Let the patch of Volume v fail")


SHOP = """
resource Box "v1" { spec { n: 0..2 } }
controller C for Box { reconcile b { if b.spec.n == 0 { update b.spec { n: 2 } on Conflict { requeue } } } }
property small = always Box.all(b, b.spec.n < 2)
property lent  = never Box.exists(b, b.spec.n == 2)
"""

MINE = """
use shop (Box, C)
property small = always Box.all(b, b.spec.n < 3)
check c {
  run C
  scope { Box: 1 }
  faults { }
  given Box b { }
  expect small
  expect violation of lent
}
"""


def test_a_name_means_the_property_of_its_own_file(tmp_path: Path) -> None:
    """Another file's property of that name is not asked; a name that only the other has is its."""
    (tmp_path / "shop.loop").write_text(SHOP)
    (tmp_path / "mine.loop").write_text(MINE)
    program = load(tmp_path / "mine.loop")
    found = {r.property: r.as_said for r in explore.check(program, asked(program)).results}
    assert found["small"] is True and found["lent"] is True
