"""Reports from specs of public bugs: finalizers by any way, moments inside values, filters at delivery, advice."""

from __future__ import annotations

import pytest
from tests.kernel.probe import asked, spec, verdicts

from dashpot.checker import explore
from dashpot.checker.story import story
from dashpot.checker.verdict import Violated
from dashpot.model.kernel.build import build

MARKED = """
fun mine(): Name = "kopf"
resource Backup { spec { f: Name = "kopf"; n: 0..1 } }
controller C for Backup {
  memory m: Name = "kopf"
  reconcile b { BODY }
}
property held = sometimes Backup.exists(b, b.finalizers.size() == 1)
property free = always Backup.all(b, b.finalizers.isEmpty())
check c { run C; scope { Backup: 1 }; faults { }; given Backup a { } }
"""
WRITES = {
    "a list": 'update b { finalizers: ["kopf"] } on Conflict { requeue }',
    "a local": 'let k = "kopf"; update b { finalizers: [k] } on Conflict { requeue }',
    "a function": "update b { finalizers: [mine()] } on Conflict { requeue }",
    "memory": "update b { finalizers: [m] } on Conflict { requeue }",
    "the default of a field": "update b { finalizers: [b.spec.f] } on Conflict { requeue }",
    "the object's name": "update b { finalizers: [b.name] } on Conflict { requeue }",
    "a computed name": 'update b { finalizers: ["f-" + b.name] } on Conflict { requeue }',
    "a JSON patch": 'patch json b { add finalizers: ["kopf"] } on Invalid { return }',
    "a JSON patch of what was read": (
        "patch json b { test finalizers: b.finalizers, "
        "replace finalizers: b.finalizers.filter(f, f != mine()) + [mine()] } on Invalid { return }"
    ),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_finalizer_is_set_whatever_way_its_name_comes(how: str) -> None:
    found = verdicts(MARKED.replace("BODY", WRITES[how]))
    assert (found["held"], found["free"]) == ("holds", "safety 1")


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize("op", ['add PART: { "app": "x" }', 'add PART["app"]: "x"'])
def test_a_json_patch_sets_labels_and_annotations(part: str, op: str) -> None:
    text = """
resource Box { spec { n: 0..1 } }
controller C for Box { reconcile b { patch json b { OP } on Invalid { return } } }
property set = sometimes Box.exists(b, "app" in b.PART)
property unset = always Box.all(b, !("app" in b.PART))
check c { run C; scope { Box: 1 }; faults { }; given Box a { } }
"""
    found = verdicts(text.replace("OP", op).replace("PART", part))
    assert (found["set"], found["unset"]) == ("holds", "safety 1")


@pytest.mark.parametrize("name", ["b.spec.f", 'b.name + "-" + b.spec.f'])
def test_the_default_of_a_field_is_a_name_that_objects_can_have(name: str) -> None:
    text = """
resource Box { spec { f: Name = "kopf" } }
resource Part { }
controller C for Box { reconcile b { create Part { name: NAME } on AlreadyExists { } } }
property made = sometimes Part.size() == 1
check c { run C; scope { Box: 1, Part: 1 }; faults { }; given Box a { } }
"""
    found = verdicts(text.replace("NAME", name))
    assert found["made"] == "holds" and "unbounded" not in found


STAMPS = """
struct Cond { type: Name, at: Time? }
resource Box { status { one: Cond; many: []Cond keyed type; plain: []Cond; maybe: Cond?; when: Time? } }
controller C for Box { reconcile b { BODY } }
property quiet = never Box.exists(b, b.status.plain.size() > 9)
check c { run C; scope { Box: 1 }; faults { }; given Box a { } }
"""


@pytest.mark.parametrize(
    "body",
    [
        "patch b.status { when: now() }",
        "patch b.status { one.at: now() }",
        'patch b.status { one: { type: "Ready", at: now() } }',
        'patch b.status { maybe: { type: "Ready", at: now() } }',
        'patch b.status { plain: [{ type: "Ready", at: now() }] }',
        'patch strategic b.status { many: [{ type: "Ready", at: now() }] }',
        'apply b.status { many: [{ type: "Ready", at: now() }] } on Conflict { requeue }',
        "patch json b.status { add when: now() } on Invalid { requeue }",
    ],
)
def test_a_moment_inside_a_value_always_changes_something(body: str) -> None:
    assert verdicts(STAMPS.replace("BODY", body))["hot_loop"].split()[0] == "trapped"


def test_an_entry_that_keeps_its_moment_changes_nothing() -> None:
    """The strategic patch touches another entry; the moment of the first one stays as it was."""
    body = (
        'if b.status.many.isEmpty() { patch strategic b.status { many: [{ type: "Old", at: now() }] } }'
        '; patch strategic b.status { many: [{ type: "Ready" }] }'
    )
    assert verdicts(STAMPS.replace("BODY", body)).get("hot_loop", "holds") == "holds"


def test_a_local_moment_equals_the_answer_of_the_write_that_stored_it() -> None:
    text = """
resource Box { status { at: Time?; same: bool } }
controller C for Box {
  memory same: bool = false
  reconcile b {
    if b.status.at != null { if same && !b.status.same { patch b.status { same: true } }; return }
    let n = now()
    update b.status { at: n } on Conflict { requeue }
    if b.status.at == n { same = true }
  }
}
property same = sometimes Box.exists(b, b.status.same)
check c { run C; scope { Box: 1 }; faults { }; given Box a { } }
"""
    assert verdicts(text)["same"] == "holds"


ASKS = """
resource Flag { spec { on: bool } }
resource Box { spec { n: 0..1 }; status { seen: 0..1 } }
controller C for Box as b when Flag.exists(f, f.spec.on) {
  watches Flag as f -> Box
  reconcile b { if b.status.seen != b.spec.n { update b.status { seen: b.spec.n } on Conflict { requeue } } }
}
environment U {
  action on(f: Flag) at most 1 { patch f.spec { on: true } }
  action set(b: Box) at most 1 { patch b.spec { n: 1 } }
}
property seen for b in Box = converges to b.status.seen == b.spec.n
property seen_while_on for b in Box = converges while Flag.exists(f, f.spec.on) to b.status.seen == b.spec.n
check c { run C, U; scope { Flag: 1, Box: 1 }; faults { }; given Flag f { }; given Box a { } }
"""


def test_a_filter_that_asks_another_cache_is_evaluated_at_delivery() -> None:
    """Whichever of the two changes is delivered last finds the flag up, or wakes by the flag's own clause."""
    found = verdicts(ASKS)
    assert (found["seen"], found["seen_while_on"]) == ("stuck 3", "holds")


@pytest.mark.parametrize(
    ("clauses", "verdict"),
    [
        ("", "holds"),
        ("as b when b.generation != old.generation", "stuck"),
        ("as b when b.status.n == 0", "holds"),
    ],
)
def test_a_resync_passes_the_filters(clauses: str, verdict: str) -> None:
    """It is an update that changes nothing: a filter by generation drops it, one by state does not."""
    text = """
resource Box { spec { n: 0..1 = 1 }; status { n: 0..1 } }
controller C for Box CLAUSES {
  reconcile b { if b.status.n != b.spec.n { update b.status { n: 1 } on Conflict { requeue } } }
}
environment U { action undo(b: Box) when b.status.n == 1 at most 1 { patch b.status { n: 0 } } }
property back for b in Box = converges to b.status.n == 1
check c { run C, U; scope { Box: 1 }; faults { }; resync on; given Box a { } }
"""
    assert verdicts(text.replace("CLAUSES", clauses))["back"].split()[0] == verdict


def test_a_resync_of_an_owned_kind_wakes_the_owner_past_the_filter_of_its_own() -> None:
    text = """
resource Box { spec { n: 0..1 = 1 }; status { n: 0..1 } }
resource Part { }
controller C for Box as b when b.generation != old.generation {
  owns Part
  reconcile b { if b.status.n != b.spec.n { update b.status { n: 1 } on Conflict { requeue } } }
}
environment U { action undo(b: Box) when b.status.n == 1 at most 1 { patch b.status { n: 0 } } }
property back for b in Box = converges to b.status.n == 1
check c { run C, U; scope { Box: 1, Part: 1 }; faults { }; resync on; given Box a { }; given Part p { owner: a } }
"""
    assert verdicts(text)["back"] == "holds"


def advice(text: str, name: str) -> tuple[str, str]:
    """What the story of a violation says of why nothing helps and of what would."""
    program = spec(text)
    check = asked(program)
    found = next(r for r in explore.check(program, check).results if r.property == name)
    assert isinstance(found.verdict, Violated)
    told = story(build(program, check), found.verdict, {}, property=name)
    return " ".join(told.why), " ".join(told.fix)


def test_a_write_that_would_change_nothing_is_no_way_out() -> None:
    """The second delete of a terminating object is possible, and pointless."""
    text = """
resource Box { spec { n: 0..1 } }
environment U { action remove(b: Box) at most 2 { delete b } }
check c { run U; scope { Box: 1 }; faults { }; given Box a { finalizers: ["held"] } }
"""
    why, _ = advice(text, "terminates")
    assert "remove" not in why


def test_who_takes_away_what_another_makes_again_is_told_so() -> None:
    text = """
resource Box { spec { n: 0..1 } }
process Maker { action make() when Box.size() == 0 { create Box { name: "a" } on AlreadyExists { } } }
process Sweeper { action sweep(b: Box) { delete b on NotFound { } } }
property there = converges to Box.size() == 1
check c { run Maker, Sweeper; scope { Box: 1 }; faults { } }
"""
    for name in ("there", "hot_loop"):
        _, fix = advice(text, name)
        assert "Sweeper takes away Box a, and Maker makes another" in fix
