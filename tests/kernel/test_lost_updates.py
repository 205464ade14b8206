"""The lost-update detector: silent on healthy controllers, loud where something written by another is lost."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

HEAD = """
resource Box {
  spec { n: 0..4; m: 0..4; list: []Name; all: set[Name]; on: bool }
  status { n: 0..4; list: []Name }
}
"""


def lost(actors: str, run: str = "A, B", extra: str = "", given: str = "given Box b { }") -> str:
    """The verdict on `lost_update` when these actors run, in a word."""
    text = f"""{HEAD}{actors}
{extra}
check c {{ run {run}; scope {{ Box: 2, list: 3 }}; faults {{ }}; {given} }}
"""
    found = verdicts(text)
    return found.get("lost_update", "holds").split()[0]


def once(name: str, body: str) -> str:
    """A controller that does something once a life."""
    return f"""
controller {name} for Box {{
  memory done: bool = false
  reconcile b {{
    if done {{ return }}
    {body}
    done = true
  }}
}}
"""


def both(body: str, other: str | None = None) -> str:
    return once("A", body) + once("B", other or body)


SILENT = {
    "increments with a version": both("update b.spec { n: b.spec.n + 1 } on Conflict { requeue }"),
    "a list with a version": both('update b.spec { list: b.spec.list + ["x"] } on Conflict { requeue }'),
    "a patch if unchanged": both("patch b.spec { n: b.spec.n + 1 } if unchanged on Conflict { requeue }"),
    "a list by a patch if unchanged": both(
        'patch b.spec { list: b.spec.list + ["x"] } if unchanged on Conflict { requeue }',
        'patch b.spec { list: b.spec.list + ["y"] } if unchanged on Conflict { requeue }',
    ),
    "disjoint fields": both("patch b.spec { n: b.spec.n + 1 }", "patch b.spec { m: b.spec.m + 1 }"),
    "status against spec": both("patch b.status { n: b.status.n + 1 }", "patch b.spec { n: b.spec.n + 1 }"),
    "spec with a version, status without": both(
        "update b.spec { n: b.spec.n + 1 } on Conflict { requeue }", "patch b.status { n: b.spec.n }"
    ),
    "apply of different fields": both("apply b { spec.n: 1 } on Conflict { }", "apply b { spec.m: 1 } on Conflict { }"),
    "apply of one field": both("apply b { spec.n: 1 } on Conflict { }", "apply b { spec.n: 2 } on Conflict { }"),
    "apply with force is intent": both("apply b { spec.n: 1 } force", "apply b { spec.n: 2 } force"),
    "the same constant": both("patch b.spec { n: 1 }"),
    "the same constant, decided by the field": both("if b.spec.n == 0 { patch b.spec { n: 1 } }"),
    "one writer alone, on a stale cache": once("A", "patch b.spec { n: b.spec.n + 1 }")
    + once("B", "if b.spec.on { return }"),
    "a JSON patch that adds to a list": both(
        'patch json b { add spec.list: "x" }', 'patch json b { add spec.list: "y" }'
    ),
    "a set that both extend with one member": both('patch b.spec { all: b.spec.all + ["x"] }'),
}

LOUD = {
    "increments": both("patch b.spec { n: b.spec.n + 1 }"),
    "increments by a local": both("let next = b.spec.n + 1; patch b.spec { n: next }"),
    "increments by a function": "fun next(x: Box): int = x.spec.n + 1\n" + both("patch b.spec { n: next(b) }"),
    "a list read earlier": both(
        'patch b.spec { list: b.spec.list + ["x"] }', 'patch b.spec { list: b.spec.list + ["y"] }'
    ),
    "a list read earlier, by a local": both(
        'let more = b.spec.list + ["x"]; patch b.spec { list: more }', 'patch b.spec { list: b.spec.list + ["y"] }'
    ),
    "a set read earlier": both('patch b.spec { all: b.spec.all + ["x"] }', 'patch b.spec { all: b.spec.all + ["y"] }'),
    "a constant over another's": both("patch b.spec { n: 1 }", "patch b.spec { n: 2 }"),
    "update force of a field of another": both("update b.spec { n: 1 } force", "update b.spec { n: 2 } force"),
    "update force takes another's field along": both("update b.spec { n: 1 } force", "patch b.spec { m: 2 }"),
    "a strategic patch of an atomic list": both(
        'patch strategic b.spec { list: b.spec.list + ["x"] }', 'patch strategic b.spec { list: b.spec.list + ["y"] }'
    ),
    "the value of an old read, written into a fresh one": both(
        'let now = get live Box "b"; if now == null { return }; patch now.spec { list: b.spec.list + ["x"] }',
        'patch b.spec { list: b.spec.list + ["y"] }',
    ),
    "a conditional choice that keeps the old value": both(
        "patch b.spec { n: b.spec.on ? 1 : b.spec.n }", "patch b.spec { n: 2 }"
    ),
    "a status list": both(
        'patch b.status { list: b.status.list + ["x"] }', 'patch b.status { list: b.status.list + ["y"] }'
    ),
    "labels": both('patch b { labels: { "l": "x" } }', 'patch b { labels: { "l": "y" } }'),
    "finalizers": both('patch b { finalizers: b.finalizers + ["x"] }', 'patch b { finalizers: b.finalizers + ["y"] }'),
    "one with a version, one without": both(
        'update b.spec { list: b.spec.list + ["x"] } on Conflict { requeue }',
        'patch b.spec { list: b.spec.list + ["y"] }',
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert lost(SILENT[name]) == "holds"


@pytest.mark.parametrize("name", LOUD)
def test_loud(name: str) -> None:
    assert lost(LOUD[name]) == "safety"


USER = "environment U { action set(b: Box) at most 1 { patch b.spec { n: 3 } } }\n"


def test_users_are_intent() -> None:
    """What a user writes over a controller's value is no loss."""
    actors = USER + once("A", "patch b.spec { n: b.spec.n + 1 } if unchanged on Conflict { }")
    assert lost(actors, "A, U") == "holds"


def test_what_a_user_wrote_can_be_lost() -> None:
    assert lost(USER + once("A", "patch b.spec { n: 1 }"), "A, U") == "safety"


def test_a_change_there_and_back_is_no_loss() -> None:
    actors = (
        once("A", "patch b.spec { m: b.spec.m + 1 }")
        + """
process P {
  memory step: 0..2 = 0
  action go(b: Box) when step < 2 { patch b.spec { m: step == 0 ? 3 : 0 }; step = step + 1 }
}
"""
    )
    there = actors.replace("step < 2", "step < 1")
    assert lost(there, "A, P") == "safety"
    # The value at which it stands in between is lost all the same.
    assert lost(actors, "A, P") == "safety"
    back = """
resource Box { spec { m: 0..4; turn: 0..3 } }
process P {
  action go(b: Box) when b.spec.turn == 1 { patch b.spec { m: 3 }; patch b.spec { m: 0 }; patch b.spec { turn: 2 } }
}
process A {
  action read(b: Box) when b.spec.turn == 0 {
    patch b.spec { turn: 1 }
    let now = get live Box "b"
    if now == null || now.spec.turn != 2 { return }
    patch b.spec { m: b.spec.m + 1 }
    patch b.spec { turn: 3 }
  }
}
property done = sometimes Box.exists(b, b.spec.m == 1)
check c { run A, P; scope { Box: 1 }; faults { }; given Box b { } }
"""
    found = verdicts(back)
    assert (found["done"], found["lost_update"]) == ("holds", "holds")
    lost_it = verdicts(back.replace("patch b.spec { m: 0 }; ", ""))
    assert (lost_it["done"], lost_it["lost_update"].split()[0]) == ("holds", "safety")


def test_two_keys_of_one_controller_are_two_writers() -> None:
    actors = """
resource Sum { spec { n: 0..4 } }
controller A for Box {
  memory done: set[Name] = []
  reconcile b {
    if b.name in done { return }
    let s = get cached Sum "s"
    if s == null { return }
    patch s.spec { n: min(4, s.spec.n + 1) }
    done = done + [b.name]
  }
}
"""
    assert lost(actors, "A", given='given Box a { }; given Box b { }; given Sum "s" { }') == "safety"
    fixed = actors.replace(") }\n    done", ") } if unchanged on Conflict { requeue }\n    done")
    assert lost(fixed, "A", given='given Box a { }; given Box b { }; given Sum "s" { }') == "holds"


def test_a_property_may_ask_for_one_field() -> None:
    extra = "property kept = no lost updates to Box.spec.list\nproperty other = no lost updates to Box.spec.n\n"
    text = f"""{HEAD}{LOUD["a list read earlier"]}
{extra}
check c {{ run A, B; scope {{ Box: 1, list: 3 }}; faults {{ }}; given Box b {{ }} }}
"""
    found = verdicts(text)
    assert (found["kept"].split()[0], found["other"]) == ("safety", "holds")


def test_a_new_object_of_that_name_has_lost_nothing() -> None:
    actors = USER.replace("patch b.spec { n: 3 }", 'delete b; create Box { name: "b", spec.n: 3 }')
    text = (
        actors + once("A", "patch b.spec { n: 1 } on NotFound { }") + once("B", "patch b.spec { m: 1 } on NotFound { }")
    )
    assert lost(text, "A, B, U") == "holds"


OWN = """
resource Box { spec { n: 0..3 = 0 } }
resource Tick { spec { on: bool = false } }
controller C for Box {
  watches Tick as t -> Box
  memory left: 0..2 = 2
  reconcile b {
    if left == 0 { return }
    left = left - 1
    patch b.spec { n: min(3, b.spec.n + 1) }
  }
}
environment Never { action other(b: Box) when b.spec.n > 3 { patch b.spec { n: 0 } } }
environment Clock { action tick(t: Tick) at most 1 { patch t.spec { on: true } } }
check c { run C, Clock, Never; scope { Box: 1, Tick: 1 }; faults { }; given Box a { }; given Tick t { }
  expect lost_update }
"""


def test_ones_own_write_since_the_read_is_no_loss() -> None:
    """The second pass reads from a cache that does not show the first: what stands there nobody else wrote."""
    assert verdicts(OWN).get("lost_update", "holds") == "holds"
