"""What wakes a controller, and what does not: sources, keys, `when`, `new only`, `gone`, resync, index handlers."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

HEAD = """
const OFF = false
resource Box { spec { on: bool; flag: Name? }; status { seen: 0..3 } }
resource Note { spec { about: ref Box?; others: set[Name]; up: bool; other: bool } }
"""


def follows(clauses: str, action: str, given: str, check: str = "") -> str:
    """Whether a controller that counts notes that are up hears of a change; else it is stuck."""
    text = f"""{HEAD}
controller C for Box {{
  {clauses}
  reconcile b {{
    let notes = list cached Note
    patch b.status {{ seen: notes.count(n, n.spec.up) }} on NotFound {{ }}
  }}
}}
environment U {{
  action act() when Note.all(n, !n.spec.other) at most 1 {{ {action} }}
}}
property heard for b in Box = converges to b.status.seen == Note.count(n, n.spec.up)
check c {{ run C, U; scope {{ Box: 2, Note: 2 }}; faults {{ }}; {check}; {given} }}
"""
    found = verdicts(text)
    return found["heard"].split()[0]


GET = 'let n = get live Note "n"; if n == null { return }; '
UP = GET + "patch n.spec { up: true }"
BOX = "given Box b { }; "
NOTE = 'given Note n { spec: { about: "b" } }'

SOURCES = {
    "a kind that is not watched wakes nobody": ("", UP, BOX + NOTE, "stuck"),
    "owns: the controlling owner": ("owns Note", UP, BOX + "given Note n { owner: b }", "holds"),
    "owns: no owner, nobody": ("owns Note", UP, BOX + NOTE, "stuck"),
    "watches: a name": ("watches Note as n -> n.spec.about", UP, BOX + NOTE, "holds"),
    "watches: null is nobody": ("watches Note as n -> n.spec.about", UP, BOX + "given Note n { }", "stuck"),
    "watches: a name that no object has": (
        "watches Note as n -> n.spec.about", UP, BOX + 'given Note n { spec: { about: "nobody" } }', "stuck",
    ),
    "watches: a set of names": (
        "watches Note as n -> n.spec.others", UP, BOX + 'given Note n { spec: { others: ["x", "b"] } }', "holds",
    ),
    "watches: the empty set": ("watches Note as n -> n.spec.others", UP, BOX + "given Note n { }", "stuck"),
    "watches: all of a kind": ("watches Note as n -> Box", UP, BOX + "given Note n { }", "holds"),
    "watches: objects of the kind": (
        "watches Note as n -> Box.filter(x, x.name == n.spec.about)", UP, BOX + NOTE, "holds",
    ),
    "watches: no such object": (
        "watches Note as n -> Box.filter(x, x.name != n.spec.about)", UP, BOX + NOTE, "stuck",
    ),
    "watches: a literal name": ('watches Note as n -> "b"', UP, BOX + "given Note n { }", "holds"),
    "watches: an owner": ("watches Note as n -> n.owner", UP, BOX + "given Note n { owner: b }", "holds"),
    "a creation wakes": (
        "watches Note as n -> n.spec.about", 'create Note { name: "m", spec: { about: "b", up: true } }', BOX, "holds",
    ),
    "a removal wakes": (
        "watches Note as n -> n.spec.about", GET + "delete n",
        'given Box b { status: { seen: 1 } }; given Note n { spec: { about: "b", up: true } }', "holds",
    ),
    "a change of the keys wakes the old ones, too": (
        "watches Note as n -> n.spec.about", GET + "patch n.spec { about: null, up: true }", BOX + NOTE, "holds",
    ),
    "new only: the old keys are not woken": (
        "watches Note as n -> n.spec.about new only", GET + "patch n.spec { about: null, up: true }", BOX + NOTE,
        "stuck",
    ),
    "new only: the new ones are": (
        "watches Note as n -> n.spec.about new only", GET + 'patch n.spec { about: "b", up: true }', BOX + "given "
        "Note n { }",
        "holds",
    ),
    "new only: a removal wakes by what was there last": (
        "watches Note as n -> n.spec.about new only", GET + "delete n",
        'given Box b { status: { seen: 1 } }; given Note n { spec: { about: "b", up: true } }', "holds",
    ),
    "when filters an update": (
        "watches Note as n -> n.spec.about when n.spec.other", UP, BOX + NOTE, "stuck",
    ),
    "when sees the version before": (
        "watches Note as n -> n.spec.about when !old.spec.up && n.spec.up", UP, BOX + NOTE, "holds",
    ),
    "when that compares the same field on both": (
        "watches Note as n -> n.spec.about when old.spec.other != n.spec.other", UP, BOX + NOTE, "stuck",
    ),
    "when does not filter creations": (
        "watches Note as n -> n.spec.about when n.spec.other",
        'create Note { name: "m", spec: { about: "b", up: true } }', BOX, "holds",
    ),
    "when does not filter removals": (
        "watches Note as n -> n.spec.about when n.spec.other", GET + "delete n",
        'given Box b { status: { seen: 1 } }; given Note n { spec: { about: "b", up: true } }', "holds",
    ),
    "an undefined when is false": (
        "watches Note as n -> n.spec.about when 1 / n.spec.others.size() == 1", UP, BOX + NOTE, "stuck",
    ),
    "undefined keys are no keys": (
        "watches Note as n -> Box.filter(x, x.name == n.owner.name)", UP, BOX + NOTE, "stuck",
    ),
    "a clause that a constant switches off": (
        "watches Note as n -> n.spec.about if OFF", UP, BOX + NOTE, "stuck",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_source(name: str) -> None:
    clauses, action, given, want = SOURCES[name]
    assert follows(clauses, action, given) == want


def test_resync_finds_what_no_event_told() -> None:
    assert follows("", UP, BOX + NOTE, check="resync off") == "stuck"
    assert follows("", UP, BOX + NOTE, check="resync on") == "holds"


OWN = """
resource Box { spec { on: bool; off: bool }; status { seen: bool; passes: 0..3 } }
controller C for Box WHEN { reconcile b { patch b.status { seen: b.spec.on } } }
environment U { action turn(b: Box) at most 1 { patch b.spec { on: true } } }
property heard for b in Box = converges to b.status.seen == b.spec.on
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""


@pytest.mark.parametrize(
    ("when", "want"),
    [
        ("", "holds"),
        ("as b when b.generation != old.generation", "holds"),
        ("as b when b.spec.on != old.spec.on", "holds"),
        ("as b when b.spec.off != old.spec.off", "stuck"),
        ("as b when b.status.seen != old.status.seen", "stuck"),
    ],
)
def test_for_with_when(when: str, want: str) -> None:
    assert verdicts(OWN.replace("WHEN", when))["heard"].split()[0] == want


def test_a_write_that_changes_nothing_wakes_nobody() -> None:
    text = """
resource Box { spec { on: bool }; status { n: 0..3 } }
controller C for Box { reconcile b { patch b.status { n: 0 } } }
check c { run C; scope { Box: 1 }; faults { }; given Box b { } }
"""
    probe = Probe(text)
    assert len(probe.edges) == 2  # dirty, clean: the pass leaves nothing behind


def test_writing_now_is_a_change_each_time() -> None:
    text = """
resource Box { spec { at: Time? } }
controller C for Box { reconcile b { patch b.spec { at: now() } } }
check c { run C; scope { Box: 1 }; faults { }; given Box b { } }
"""
    assert verdicts(text)["hot_loop"].split()[0] == "trapped"


GONE = """
resource Box { spec { on: bool } }
resource Mark { spec { of: Name? } }
controller C for Box {
  reconcile b { if b.spec.on { return } }
  gone name { create Mark { name: "m", spec.of: name } on AlreadyExists { } }
}
environment U { action remove(b: Box) at most 1 { delete b } }
property told = converges while Box.isEmpty() to Mark.exists(m, m.spec.of == "b")
property not_before = always Box.isEmpty() || Mark.isEmpty()
check c { run C, U; scope { Box: 1, Mark: 1 }; faults { FAULT }; given Box b { } }
"""


def test_gone_runs_for_a_key_without_object() -> None:
    found = verdicts(GONE.replace("FAULT", ""))
    assert (found["told"], found["not_before"]) == ("holds", "holds")


@pytest.mark.parametrize("fault", ["crash: 1", "drop: 1"])
def test_gone_is_not_told_again_after_a_restart(fault: str) -> None:
    """A controller that relies on `gone` alone leaks what was removed while it was away."""
    assert verdicts(GONE.replace("FAULT", fault))["told"].startswith("stuck")


def test_gone_is_told_after_a_relist() -> None:
    assert verdicts(GONE.replace("FAULT", "relist: 1"))["told"] == "holds"


INDEX = """
resource Box { status { n: 0..3; m: 0..3 } }
resource Note { spec { up: bool } }
controller C for Box {
  watches Note as n -> Box
  index   size: 0..3 = 0 on Note {
    add n { size = size + 1 }
    delete n { size = size - 1 }
  }
  index   ups: 0..3 = 0 on Note {
    add n { if n.spec.up { ups = ups + 1 } }
    update a -> b {
      if b.spec.up && !a.spec.up { ups = ups + 1 }
      if a.spec.up && !b.spec.up { ups = ups - 1 }
    }
    delete n { if n.spec.up { ups = ups - 1 } }
  }
  reconcile b { patch b.status { n: size, m: ups } }
}
environment U {
  action put() when Note.isEmpty() at most 2 { create Note { name: "n" } }
  action rise(n: Note) when !n.spec.up at most 1 { patch n.spec { up: true } }
  action remove(n: Note) at most 1 { delete n }
}
property counted for b in Box = converges to b.status.n == Note.size() && b.status.m == Note.count(n, n.spec.up)
property some = sometimes Box.exists(b, b.status.m == 1)
check c { run C, U; scope { Box: 1, Note: 1, lag: 3 }; faults { FAULT }; given Box b { }; GIVEN }
"""


@pytest.mark.parametrize("fault", ["", "crash: 1", "relist: 1", "crash: 1, stale_restart: 1"])
@pytest.mark.parametrize("given", ["", "given Note n { spec: { up: true } }"])
def test_an_index_keeps_step(fault: str, given: str) -> None:
    found = verdicts(INDEX.replace("FAULT", fault).replace("GIVEN", given))
    assert (found["counted"], found["some"], found.get("panic", "holds")) == ("holds", "holds", "holds")


def test_an_index_is_out_of_step_after_a_drop() -> None:
    assert verdicts(INDEX.replace("FAULT", "drop: 1").replace("GIVEN", ""))["counted"].startswith("stuck")


# ---------------------------------------------------------------------- keys found at delivery, and merging
LATE = """
resource Box { spec { x: bool }; status { started: bool; met: bool } }
resource Note { spec { to: Name?; n: 0..2 } }
resource Done { }
controller C for Box as b when b.spec.x != old.spec.x {
  watches Note as n -> KEYS
  memory started: bool = false
  reconcile b {
    let notes = list cached Note
    if !started { started = true; patch b.status { started: true }; return }
    patch b.status { met: notes.size() >= 0 }
  }
}
environment U { ACTIONS }
property met for b in Box = converges while DONE to b.name != "b" || b.status.met
property can = sometimes Box.exists(b, b.status.met)
check c { run C, U; scope { Box: 1, Note: 1, Done: 1, lag: 2 }; faults { }; given Box "b" { }; GIVEN }
"""
READY = "Box.all(b, b.status.started)"


@pytest.mark.parametrize(
    ("keys", "actions", "done", "given"),
    [
        (
            "Box when n.spec.n == 1",
            f"action one(n: Note) when n.spec.n == 0 && {READY} at most 1 {{ patch n.spec {{ n: 1 }} }}; "
            "action two(n: Note) when n.spec.n == 1 at most 1 { patch n.spec { n: 2 } }",
            "Note.exists(n, n.spec.n == 2)",
            'given Note "n" { }',
        ),
        (
            "Box.filter(b, b.name == n.spec.to)",
            f'action one(n: Note) when n.spec.n == 0 && {READY} at most 1 {{ patch n.spec {{ n: 1, to: "b" }} }}; '
            "action two(n: Note) when n.spec.n == 1 at most 1 { patch n.spec { n: 2, to: null } }",
            "Note.exists(n, n.spec.n == 2)",
            'given Note "n" { }',
        ),
        (
            "Box",
            f'action one() when Note.isEmpty() && {READY} at most 1 {{ create Note {{ name: "n" }} }}; '
            'action two(n: Note) at most 1 { delete n; create Done { name: "d" } }',
            "Done.size() == 1",
            "",
        ),
    ],
    ids=["when", "a key in between", "came and went"],
)
def test_merging_loses_no_key_that_is_found_at_delivery(keys: str, actions: str, done: str, given: str) -> None:
    text = LATE.replace("KEYS", keys).replace("ACTIONS", actions).replace("DONE", done).replace("GIVEN", given)
    found = verdicts(text)
    assert (found["met"], found["can"]) == ("holds", "holds")
