"""Reports from specs of public bugs: drops of what only wakes, second deletes, what an update sends along."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

WOKEN = """
resource Pod { }
resource Service { status { endpoints: 0..1 = 0 } }
controller Endpoints for Service {
  watches Pod as p -> Service
  reconcile s { let pods = list live Pod; update s.status { endpoints: pods.size() } on Conflict { requeue } }
}
environment U { action remove(p: Pod) at most 1 { delete p } }
property told for s in Service = converges to s.status.endpoints == Pod.size()
check c {
  run Endpoints, U; scope { Pod: 1, Service: 1 }; faults { FAULT }; resync RESYNC
  given Service s { status: { endpoints: 1 } }; given Pod a { }
}
"""


@pytest.mark.parametrize(
    ("fault", "resync", "verdict"),
    [
        ("", "off", "holds"),
        ("drop Pod: 1", "off", "stuck 4"),
        ("drop Pod for Endpoints: 1", "off", "stuck 4"),
        ("drop Service: 1", "off", "holds"),
        ("drop Pod: 1", "on", "holds"),
        ("relist Pod: 1", "off", "holds"),
    ],
)
def test_a_drop_takes_the_wake_up_of_a_kind_that_nobody_reads(fault: str, resync: str, verdict: str) -> None:
    """Once nobody hears of the pod that has gone, no live read happens: list, update, delete, drop."""
    assert verdicts(WOKEN.replace("FAULT", fault).replace("RESYNC", resync)).get("told", "holds") == verdict


AGAIN = """
resource Box { }
environment U {
  action first(b: Box) when b.deletionTimestamp == null at most 1 { delete b FIRST }
  action second(b: Box) when b.deletionTimestamp != null at most 1 { delete b SECOND }
}
property foreground = sometimes Box.exists(b, b.deletionTimestamp != null && "foregroundDeletion" in b.finalizers)
property orphan     = sometimes Box.exists(b, b.deletionTimestamp != null && "orphan" in b.finalizers)
property both       = never Box.exists(b, "foregroundDeletion" in b.finalizers && "orphan" in b.finalizers)
property held       = always Box.exists(b, "hold" in b.finalizers)
check c { run U; scope { Box: 1 }; faults { }; given Box b { finalizers: ["hold"] } }
"""


@pytest.mark.parametrize(
    ("first", "second", "foreground", "orphan"),
    [
        ("", "", False, False),
        ("", "foreground", True, False),
        ("", "orphan", False, True),
        ("background", "foreground", True, False),
        ("foreground", "", True, False),
        ("foreground", "background", True, False),
        ("foreground", "orphan", True, True),
    ],
)
def test_a_second_delete_names_the_propagation_anew(first: str, second: str, foreground: bool, orphan: bool) -> None:
    """As deletionFinalizersForGarbageCollection of the API server: what is named replaces what was there."""
    found = verdicts(AGAIN.replace("FIRST", first).replace("SECOND", second))
    assert (found["foreground"] == "holds", found["orphan"] == "holds") == (foreground, orphan)
    assert (found.get("both", "holds"), found.get("held", "holds")) == ("holds", "holds")


STRIPPED = """
resource Owner { }
resource Part { }
environment U {
  action first(o: Owner) at most 1 { delete o foreground }
  action second(o: Owner) when o.deletionTimestamp != null at most 1 { delete o background }
}
property outlived = sometimes Owner.size() == 0 && Part.size() > 0
check c {
  run U; scope { Owner: 1, Part: 1 }; faults { }
  given Owner o { }; given Part p { owner: o, finalizers: ["hold"] }
}
"""


def test_a_background_delete_no_longer_waits_for_dependents() -> None:
    """The owner goes with the second delete, although a dependent is held; without it the owner would wait for ever."""
    assert verdicts(STRIPPED).get("outlived", "holds") == "holds"
    waits = STRIPPED.replace("delete o background", "delete o")
    assert verdicts(waits)["outlived"] != "holds"


GRACE = """
use kubernetes.core (Pod)
environment U {
  action first(p: Pod) at most 1 { delete p }
  action second(p: Pod) when p.deletionTimestamp != null at most 1 { delete p foreground }
}
property marked = sometimes Pod.exists(p, p.deletionTimestamp != null)
property waits  = never Pod.exists(p, "foregroundDeletion" in p.finalizers)
check c { run U; scope { Pod: 1 }; faults { }; given Pod p { spec: { nodeName: "east" } } }
"""


def test_a_pod_in_its_grace_keeps_its_finalizers() -> None:
    """A second delete of a pod whose grace is running only ever shortens the grace."""
    found = verdicts(GRACE)
    assert (found["marked"], found.get("waits", "holds")) == ("holds", "holds")


ALONG = """
resource Box {
  spec { n: 0..2 = 0, m: 0..2 = 0 }
  status { s: 0..2 = 0 }
}
environment U { action up(b: Box) at most 1 { patch b.WHERE } }
controller C for Box { reconcile b { if b.spec.m == 0 { update b.spec { m: 1 } HOW on NotFound { } on Conflict { } } } }
check c { run C, U; scope { Box: 1 }; faults { }; given Box b { } }
"""


@pytest.mark.parametrize(
    ("where", "how", "verdict"),
    [
        ("spec { n: 1 }", "force", "safety 2"),
        ("spec { n: 1 }", "", "holds"),
        ("status { s: 1 }", "force", "holds"),
    ],
)
def test_an_update_by_force_sends_what_it_read_along(where: str, how: str, verdict: str) -> None:
    """m is written, n goes back to what it was when the object was read; the status is another subresource."""
    assert verdicts(ALONG.replace("WHERE", where).replace("HOW", how)).get("lost_update", "holds") == verdict


def in_turn(*turns: tuple[str, str]) -> dict[str, str]:
    """The box after each manager has made its call, in this order; "turn.0" → "true" where the first went well."""
    managers: dict[str, str] = {}
    for i, (who, call) in enumerate(turns):
        managers[who] = (
            managers.get(who, "")
            + f"""
  action turn{i}(l: Log) when l.status.step == {i} {{
    let b = get live Box "b"
    if b == null {{ return }}
    {call} on Conflict {{ patch l.status {{ step: {i + 1} }}; return }}
      on Invalid {{ patch l.status {{ step: {i + 1} }}; return }}
    patch l.status {{ step: {i + 1}, ok{i}: true }}
  }}"""
        )
    actors = "\n".join(f"process {who} {{{actions}\n}}" for who, actions in managers.items())
    flags = "; ".join(f"ok{i}: bool" for i in range(len(turns)))
    end = Probe(f"""
struct Port {{ name: Name, num: 0..3 }}
resource Log {{ status {{ step: 0..9; {flags} }} }}
resource Box {{
  spec {{ n: 0..3; m: 0..3; ports: []Port keyed name }}
  rule self.spec.n != 3 else "three is too much"
}}
{actors}
check c {{ run {", ".join(managers)}; scope {{ Log: 1, Box: 1 }}; given Log l {{ }}; given Box b {{ }} }}
""").end()
    found = {f"turn.{i}": end[f"Log[0].status.ok{i}"] for i in range(len(turns))}
    return found | {k.removeprefix("Box[0]."): v for k, v in end.items() if k.startswith("Box[0].")}


def port(name: str, num: int) -> str:
    return f'{{ name: "{name}", num: {num} }}'


def ports(*entries: str) -> str:
    return f"apply b {{ spec.ports: [{', '.join(entries)}] }}"


HTTP, GRPC = port("http", 1), port("grpc", 2)
OTHER_HTTP = f"patch strategic b {{ spec.ports: [{port('http', 3)}] }}"
BOTH = "apply b { spec.m: 2, spec.n: 2 }"
SIZE, FIRST = "spec.ports.size", "spec.ports.0.num"
TURNS = {
    "entries of one list map have owners of their own": (
        [("A", ports(HTTP)), ("B", ports(GRPC)), ("A", ports(HTTP))], "true", {SIZE: "2"},
    ),
    "an entry of another with another value is a conflict": (
        [("A", ports(HTTP)), ("B", ports(port("http", 2)))], "false", {SIZE: "1", FIRST: "1"},
    ),
    "the same value is shared": ([("A", ports(HTTP)), ("B", ports(HTTP, GRPC))], "true", {SIZE: "2"}),
    "what is given up goes, what others apply stays": (
        [("A", ports(HTTP)), ("B", ports(GRPC)), ("A", ports())], "true", {SIZE: "1", FIRST: "2"},
    ),
    "what is shared stays until nobody applies it": (
        [("A", ports(HTTP)), ("B", ports(HTTP)), ("A", ports())], "true", {SIZE: "1", FIRST: "1"},
    ),
    "and goes with the last": (
        [("A", ports(HTTP)), ("B", ports(HTTP)), ("A", ports()), ("B", ports())], "true", {SIZE: "0"},
    ),
    "no list at all gives up its entries": (
        [("A", ports(HTTP)), ("B", ports(GRPC)), ("A", "apply b { spec.m: 1 }")], "true", {SIZE: "1", FIRST: "2"},
    ),
    "force takes an entry over": (
        [("A", ports(HTTP)), ("B", ports(port("http", 2)) + " force"), ("A", ports(HTTP))], "false", {FIRST: "2"},
    ),
    "one's own entry may change": (
        [("A", ports(HTTP)), ("A", ports(port("http", 2)))], "true", {SIZE: "1", FIRST: "2"},
    ),
    "a patch takes over the entries that it changes": (
        [("A", ports(HTTP, GRPC)), ("B", OTHER_HTTP), ("A", ports(HTTP))],
        "false", {FIRST: "3"},
    ),
    "and leaves the others": (
        [
            ("A", ports(HTTP, GRPC)), ("B", OTHER_HTTP),
            ("A", ports(port("http", 3), port("grpc", 1))),
        ],
        "true", {SIZE: "2", FIRST: "3"},
    ),
    "a conflict takes nothing": (
        [("A", "apply b { spec.n: 1 }"), ("B", BOTH), ("A", "apply b { spec.n: 1, spec.m: 1 }")],
        "true", {"spec.m": "1"},
    ),
    "what is invalid takes nothing": (
        [("B", "apply b { spec.m: 0, spec.n: 3 }"), ("A", "apply b { spec.m: 1 }")], "true", {"spec.m": "1"},
    ),
    "an invalid patch takes nothing": (
        [("A", "apply b { spec.m: 1 }"), ("B", "patch b { spec.m: 2, spec.n: 3 }"), ("A", "apply b { spec.m: 2 }")],
        "true", {"spec.m": "2"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_owners_of_entries(name: str) -> None:
    """As server-side apply has it: `listType=map` is owned by entry, and only what is stored has a new owner."""
    turns, last, want = TURNS[name]
    end = in_turn(*turns)
    assert end[f"turn.{len(turns) - 1}"] == last
    assert {path: end[path] for path in want} == want
