"""What one API call does to the store and what it answers: the rules of semantics.md, one row each."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe

KINDS = """
enum Out { none, ok, conflict, exists, missing, invalid, denied, many }
struct Port { name: Name; n: 0..3 }
resource Log { status { out: Out } }
resource Box {
  spec { n: 0..3; m: 0..3 = 2; list: []Name; ports: []Port keyed name; fixed: 0..3 immutable; opt: Name? }
  status { seen: 0..3 }
  rule self.spec.n <= self.spec.m else "n is at most m"
  rule self.spec.opt != "bad" else "bad"
  rule oldSelf.spec.n != 3 || self.spec.n == 3 else "3 stays"
}
resource Mark { spec { of: Name? } }
resource Pod { spec { nodeName: Name? } }
"""

OUTCOMES = {
    "Conflict": "conflict",
    "AlreadyExists": "exists",
    "NotFound": "missing",
    "Invalid": "invalid",
    "Denied": "denied",
}


def calling(body: str, errors: str, given: str, more: str) -> str:
    """One process that makes some calls; the last answers with `errors`, and the log says how it went."""
    handlers = " ".join(f"on {e} {{ patch l.status {{ out: {OUTCOMES[e]} }}; return }}" for e in errors.split())
    hooks = [line.split()[1] for line in more.split("\n") if line.startswith("admission")]
    return f"""{KINDS}{more}
process P {{
  action go(l: Log) when l.status.out == none {{
    {body} {handlers}
    patch l.status {{ out: ok }}
  }}
}}
check c {{
  run {", ".join([*hooks, "P"])}
  scope {{ Log: 1, Box: 1, Mark: 1, list: 4 }}
  given Log l {{ }}
  {given}
}}
"""


BOX = 'let b = get live Box "b"; if b == null { return }; '
GIVEN = "given Box b { }"

CALLS: dict[str, tuple[str, str, str, dict[str, str | None]]] = {
    # ---- create
    "create stores the object with its defaults and generation 1": (
        'create Box { name: "b", spec.n: 1 }', "AlreadyExists", "",
        {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].spec.m": "2", "Box[0].generation": "1"},
    ),
    "create of a taken name is AlreadyExists and changes nothing": (
        'create Box { name: "b", spec.n: 1 }', "AlreadyExists", GIVEN,
        {"Log[0].status.out": "exists", "Box[0].spec.n": "0"},
    ),
    "create of a name that terminates is AlreadyExists": (
        BOX + 'delete b; create Box { name: "b", spec.n: 1 }', "AlreadyExists", 'given Box b { finalizers: ["f"] }',
        {"Log[0].status.out": "exists"},
    ),
    "create against a rule is Invalid": (
        'create Box { name: "b", spec.n: 3 }', "Invalid AlreadyExists", "",
        {"Log[0].status.out": "invalid", "Box[0]": None},
    ),
    # ---- update and patch
    "update after a write of one's own goes through, since the local holds the answer": (
        BOX + "update b.spec { n: 1 }; update b.spec { m: 3 }", "Conflict", GIVEN,
        {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].spec.m": "3"},
    ),
    "update of an old copy is a Conflict": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; update b.spec { m: 3 }',
        "Conflict", GIVEN, {"Log[0].status.out": "conflict", "Box[0].spec.m": "2"},
    ),
    "a patch of an old copy goes through": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; patch b.spec { m: 3 }',
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].spec.m": "3"},
    ),
    "a patch of an old copy if unchanged is a Conflict": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; patch b.spec { m: 3 } if '
        'unchanged',
        "Conflict", GIVEN, {"Log[0].status.out": "conflict", "Box[0].spec.m": "2"},
    ),
    "a status write, too, makes a copy old": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.status { seen: 1 }; update b.spec { m: 3 }',
        "Conflict", GIVEN, {"Log[0].status.out": "conflict"},
    ),
    "a write that changes nothing leaves a copy current": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 0 }; update b.spec { m: 3 }',
        "Conflict", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.m": "3"},
    ),
    "update of an object that is gone is NotFound": (
        BOX + "delete b; update b.spec { n: 1 }", "NotFound", GIVEN, {"Log[0].status.out": "missing", "Box[0]": None},
    ),
    "patch of an object that is gone is NotFound": (
        BOX + "delete b; patch b.spec { n: 1 }", "NotFound", GIVEN, {"Log[0].status.out": "missing", "Box[0]": None},
    ),
    "update of a new object of that name is a Conflict": (
        BOX + 'delete b; create Box { name: "b" }; update b.spec { n: 1 }', "Conflict NotFound", GIVEN,
        {"Log[0].status.out": "conflict", "Box[0].spec.n": "0"},
    ),
    "all assignments of a write read the state before it": (
        BOX + "patch b.spec { n: b.spec.m, m: 3, opt: b.name }", "Invalid", GIVEN,
        {"Log[0].status.out": "ok", "Box[0].spec.n": "2", "Box[0].spec.m": "3", "Box[0].spec.opt": "b"},
    ),
    "a write of the spec leaves the status alone": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.status { seen: 2 }; update b.spec { n: '
        '1 } force',
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].status.seen": "2"},
    ),
    "a write of the whole object leaves the status alone": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.status { seen: 2 }; '
        "update b { spec.n: 1 } force",
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].status.seen": "2"},
    ),
    "a write of the status leaves the spec alone": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; update b.status { seen: '
        '2 } force',
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.n": "1", "Box[0].status.seen": "2"},
    ),
    "update force sends every field of its side as it was read": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; update b.spec { m: 3 } force',
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.n": "0", "Box[0].spec.m": "3"},
    ),
    "update force sends the finalizers as they were read": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c { finalizers: ["f"] }; '
        "update b.spec { m: 3 } force",
        "NotFound", GIVEN, {"Log[0].status.out": "ok", "Box[0].spec.m": "3", "Box[0].finalizers.f": "no"},
    ),
    "a merge patch replaces a list whole": (
        BOX + 'patch b.spec { list: ["y"] }', "NotFound", 'given Box b { spec: { list: ["x", "z"] } }',
        {"Box[0].spec.list.size": "1", "Box[0].spec.list.0": "y"},
    ),
    "a merge patch replaces a list map whole": (
        BOX + 'patch b.spec { ports: [{ name: "y", n: 1 }] }', "NotFound",
        'given Box b { spec: { ports: [{ name: "x", n: 2 }] } }',
        {"Box[0].spec.ports.size": "1", "Box[0].spec.ports.0.name": "y", "Box[0].spec.ports.0.n": "1"},
    ),
    "a strategic patch merges a list map by its key": (
        BOX + 'patch strategic b.spec { ports: [{ name: "y", n: 1 }, { name: "x", n: 3 }] }', "NotFound",
        'given Box b { spec: { ports: [{ name: "x", n: 2 }, { name: "z", n: 1 }] } }',
        {
            "Box[0].spec.ports.size": "3", "Box[0].spec.ports.0.name": "x", "Box[0].spec.ports.0.n": "3",
            "Box[0].spec.ports.1.name": "z", "Box[0].spec.ports.1.n": "1", "Box[0].spec.ports.2.name": "y",
        },
    ),
    "a strategic patch replaces an atomic list whole": (
        BOX + 'patch strategic b.spec { list: ["y"] }', "NotFound", 'given Box b { spec: { list: ["x", "z"] } }',
        {"Box[0].spec.list.size": "1", "Box[0].spec.list.0": "y"},
    ),
    "a null removes an optional field": (
        BOX + "patch b.spec { opt: null }", "NotFound", 'given Box b { spec: { opt: "x" } }', {"Box[0].spec.opt":
        "null"},
    ),
    "a JSON patch goes through when its test holds": (
        BOX + "patch json b { test spec.n: 0, replace spec.m: 3 }", "Invalid", GIVEN,
        {"Log[0].status.out": "ok", "Box[0].spec.m": "3"},
    ),
    "a JSON patch whose test fails is Invalid and changes nothing": (
        BOX + "patch json b { replace spec.m: 3, test spec.n: 1 }", "Invalid", GIVEN,
        {"Log[0].status.out": "invalid", "Box[0].spec.m": "2"},
    ),
    "the operations of a JSON patch see each other": (
        BOX + "patch json b { replace spec.m: 3, test spec.m: 3, replace spec.n: 1 }", "Invalid", GIVEN,
        {"Log[0].status.out": "ok", "Box[0].spec.m": "3", "Box[0].spec.n": "1"},
    ),
    "a JSON patch adds to the end of a list": (
        BOX + 'patch json b { add spec.list: "y" }', "Invalid", 'given Box b { spec: { list: ["x"] } }',
        {"Log[0].status.out": "ok", "Box[0].spec.list.size": "2", "Box[0].spec.list.0": "x", "Box[0].spec.list.1": "y"},
    ),
    "a JSON patch removes an optional field": (
        BOX + "patch json b { remove spec.opt }", "Invalid", 'given Box b { spec: { opt: "x" } }',
        {"Log[0].status.out": "ok", "Box[0].spec.opt": "null"},
    ),
    "a JSON patch of a field with a default removes it to its default": (
        BOX + "patch json b { remove spec.m }", "Invalid", "given Box b { spec: { m: 3 } }",
        {"Log[0].status.out": "ok", "Box[0].spec.m": "2"},
    ),
    "a JSON patch cannot remove what is not there": (
        BOX + "patch json b { remove spec.opt }", "Invalid", GIVEN, {"Log[0].status.out": "invalid"},
    ),
    # ---- rules, immutability
    "an immutable field stays": (
        BOX + "patch b.spec { fixed: 2 }", "Invalid", GIVEN, {"Log[0].status.out": "invalid", "Box[0].spec.fixed": "0"},
    ),
    "writing the value that an immutable field has is fine": (
        BOX + "patch b.spec { fixed: 1, n: 1 }", "Invalid", "given Box b { spec: { fixed: 1 } }",
        {"Log[0].status.out": "ok", "Box[0].spec.n": "1"},
    ),
    "a rule over both versions denies an update": (
        BOX + "patch b.spec { n: 2 }", "Invalid", "given Box b { spec: { n: 3, m: 3 } }",
        {"Log[0].status.out": "invalid", "Box[0].spec.n": "3"},
    ),
    "a rule over both versions does not look at a create": (
        'create Box { name: "b", spec.n: 2 }', "Invalid AlreadyExists", "", {"Log[0].status.out": "ok"},
    ),
    "update of a copy from before a delete is a Conflict": (
        BOX + 'delete b; update b { finalizers: [] }', "Conflict", 'given Box b { finalizers: ["f"] }',
        {"Log[0].status.out": "conflict", "Box[0]": "there"},
    ),
    # ---- delete
    "delete of an object that nothing holds": (BOX + "delete b", "NotFound", GIVEN, {"Box[0]": None}),
    "delete twice is NotFound": (BOX + "delete b; delete b", "NotFound", GIVEN, {"Log[0].status.out": "missing"}),
    "a finalizer keeps the object, terminating": (
        BOX + "delete b", "NotFound", 'given Box b { finalizers: ["f"] }',
        {"Log[0].status.out": "ok", "Box[0]": "there", "Box[0].deletionTimestamp": "set"},
    ),
    "delete now does not pass a finalizer by": (
        BOX + "delete b now", "NotFound", 'given Box b { finalizers: ["f"] }', {"Box[0]": "there"},
    ),
    "taking the last finalizer of a terminating object removes it": (
        BOX + "delete b; patch b { finalizers: [] }", "NotFound", 'given Box b { finalizers: ["f"] }', {"Box[0]": None},
    ),
    "taking one of two finalizers does not": (
        BOX + 'delete b; patch b { finalizers: ["g"] }', "NotFound", 'given Box b { finalizers: ["f", "g"] }',
        {"Box[0]": "there"},
    ),
    "no new finalizer while it terminates": (
        BOX + 'delete b; patch b { finalizers: ["f", "g"] }', "Invalid", 'given Box b { finalizers: ["f"] }',
        {"Log[0].status.out": "invalid", "Box[0].finalizers.g": "no"},
    ),
    "other writes to a terminating object go through": (
        BOX + "delete b; patch b.spec { n: 1 }", "Invalid", 'given Box b { finalizers: ["f"] }',
        {"Log[0].status.out": "ok", "Box[0].spec.n": "1"},
    ),
    "delete if same passes over a change": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; delete b if same',
        "Conflict", GIVEN, {"Log[0].status.out": "ok", "Box[0]": None},
    ),
    "delete if same of a new object of that name is a Conflict": (
        BOX + 'delete b; create Box { name: "b" }; delete b if same', "Conflict", GIVEN,
        {"Log[0].status.out": "conflict", "Box[0]": "there"},
    ),
    "delete if unchanged after a change is a Conflict": (
        BOX + 'let c = get live Box "b"; if c == null { return }; patch c.spec { n: 1 }; delete b if unchanged',
        "Conflict", GIVEN, {"Log[0].status.out": "conflict", "Box[0]": "there"},
    ),
    "delete if unchanged of what did not change": (
        BOX + "delete b if unchanged", "Conflict", GIVEN, {"Log[0].status.out": "ok", "Box[0]": None},
    ),
    # ---- pods
    "a pod that is bound lingers": (
        'let p = get live Pod "p"; if p == null { return }; delete p', "NotFound", 'given Pod p { spec: { '
        'nodeName: "x" } }',
        {"Pod[0]": "there", "Pod[0].deletionTimestamp": "set"},
    ),
    "a pod that is bound goes with delete now": (
        'let p = get live Pod "p"; if p == null { return }; delete p; delete p now', "NotFound",
        'given Pod p { spec: { nodeName: "x" } }', {"Log[0].status.out": "ok", "Pod[0]": None},
    ),
    "a pod that is not bound goes at once": (
        'let p = get live Pod "p"; if p == null { return }; delete p', "NotFound", "given Pod p { }", {"Pod[0]": None},
    ),
    "a bound pod that terminates waits for its kubelet after its last finalizer": (
        'let p = get live Pod "p"; if p == null { return }; delete p; patch p { finalizers: [] }', "NotFound",
        'given Pod p { finalizers: ["f"], spec: { nodeName: "x" } }', {"Pod[0]": "there"},
    ),
    "bind binds": (
        'let p = get live Pod "p"; if p == null { return }; bind p to "x"', "Conflict", "given Pod p { }",
        {"Log[0].status.out": "ok", "Pod[0].spec.nodeName": "x"},
    ),
    "bind twice is a Conflict": (
        'let p = get live Pod "p"; if p == null { return }; bind p to "x"; bind p to "y"', "Conflict", "given Pod "
        "p { }",
        {"Log[0].status.out": "conflict", "Pod[0].spec.nodeName": "x"},
    ),
    "bind of a pod that terminates is a Conflict": (
        'let p = get live Pod "p"; if p == null { return }; delete p; bind p to "x"', "Conflict NotFound",
        'given Pod p { finalizers: ["f"] }', {"Log[0].status.out": "conflict", "Pod[0].spec.nodeName": "null"},
    ),
    "get live of nothing, behind another call, asked for a member behind a test": (
        'create Mark { name: "m" }; let b = get live Box "b"; if b == null || b.spec.n == 1 { '
        "patch l.status { out: missing }; return }; patch b.spec { n: 1 }",
        "NotFound", "", {"Log[0].status.out": "missing"},
    ),
    "get live of nothing is null": ('let b = get live Box "b"; if b != null { return }', "", "",
        {"Log[0].status.out": "ok"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    body, errors, given, want = CALLS[name]
    end = Probe(calling(body, errors, given, "")).end()
    assert {key: end.get(key) for key in want} == want
