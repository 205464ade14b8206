"""Terms over values that may not be there, strings, maps, lists: what is undefined is absorbed as in CEL."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

TERMS = [
    "x.spec.list.size() > 0", 'x.spec.all.exists(y, y == "a")', 'x.spec.list[0] == "a"', "x.spec.list == []",
    '"a" in x.spec.all', "x.spec.opt != null", 'x.spec.list.sortBy(y, y).first() == "a"',
    'x.spec.all.filter(y, y != "a").map(y, y).size() == 1', 'x.labels.foo == "a"', 'x.labels["foo"] == "a"',
    "x.spec.n + 1 > 2", "since(x.spec.at) > 1s", "x.spec.st.f == 1", 'x.spec.mp["k"] == 1', "x.owner == b",
    "x.owner.name == b.name", "x.spec.ports.exists(p, p.f == 1)", "x.spec.opt == b.name",
    "x.spec.ports.count(p, p.f == 1) == 2", "x.spec.ph in [P1]", "x.spec.ph == P1", "x.uid == b.uid", "x == b",
    "x.finalizers.isEmpty()", "x.generation > b.generation", "x.deletionTimestamp != null",
    "x.spec.list.sum(y, 1) > 0", "x.spec.list.min(y, 1) > 0", 'x.spec.list.all(y, y == "a")',
    "x.spec.mp.keys().size() > 0", "x.spec.mp.values().size() > 0", "x.spec.list.take(1).size() == 1",
    'x.spec.list.contains("a")', "!x.spec.on", "-x.spec.n > 1", "(x.spec.on ? 1 : 2) == 1", 'string(x.spec.n) == "1"',
    "hash(x.spec.o) == hash(b.spec.o)", "has(x.spec.opt)", "max(x.spec.n, 1) == 1", "x.spec.n / x.spec.n == 1",
    "[x.spec.n].size() == 1", "x.spec.n in [1, 2]", "x.spec.n in 0..1", "(0..x.spec.n).size() == 1",
    "x.spec.st == b.spec.st", 'x.name + "a" == "ba"', 'x.spec.list + ["a"] == []', 'x.name.startsWith("b")',
    'x.spec.opt.contains("b")', "x.name.size() == 1", 'x.name.matches("^b")',
]  # fmt: skip

SPEC = """
enum Ph { P0, P1 }
struct St { f: 0..1; g: Name? }
resource Box {
  spec {
    n: 0..2; list: []Name; all: set[Name]; opt: Name?; at: Time; st: St; mp: map[Name]0..1; ports: []St keyed f
    ph: Ph; on: bool; o: opaque
  }
}
process A {
  action read(b: Box) when b.spec.n == 0 && b.name == "b" {
    patch b.spec { n: 1 }
    let x = get live Box "q"
    if x == null || TERM { return }
    patch b.spec { n: 2 }
  }
}
environment U { action make() at most 1 { create Box { name: "q", owner: Box "b" } } }
check c { run A, U; scope { Box: 2, list: 2 }; faults { }; given Box "b" { labels: { "foo": "z" } } }
"""


@pytest.mark.parametrize("term", TERMS)
def test_behind_a_test_for_null(term: str) -> None:
    """Where the object is not there, the term behind `== null ||` has no value, and nobody asks for it."""
    text = SPEC.replace("TERM", term).replace(', owner: Box "b"', "")
    assert set(verdicts(text)) >= {"hot_loop"}


ALWAYS = {
    # maps
    'b.spec.mp.keys() == ["k", "l"]': True,
    "b.spec.mp.values() == [1]": True,
    "b.spec.mp.values().size() == 1": True,
    '"k" in b.spec.mp && !("m" in b.spec.mp)': True,
    'b.spec.mp["k"] == 1': True,
    'b.spec.mp["m"] == 0': False,
    # strings
    'b.spec.name.startsWith("al") && b.spec.name.endsWith("ha") && b.spec.name.contains("ph")': True,
    'b.spec.name.matches("^a.*a$") && !b.spec.name.matches("^b")': True,
    "b.spec.name.size() == 5": True,
    'b.spec.none.startsWith("x")': False,
    'b.spec.none == null || b.spec.none.startsWith("x")': True,
    'b.spec.name + "-" + 1 == "alpha-1"': True,
    # numbers
    "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1 && -7 % 3 == -1": True,
    "1 / b.spec.zero == 1": False,
    "1 / b.spec.zero == 1 || true": True,
    "true || 1 / b.spec.zero == 1": True,
    "(1 / b.spec.zero == 1) ? true : true": False,
    "!(false && 1 / b.spec.zero == 1)": True,
    "b.spec.zero == 0 ? true : 1 / b.spec.zero == 1": True,
    "(3..1).isEmpty() && (1..3).size() == 3 && 2 in 1..3": True,
    # folds over nothing
    "[1].filter(x, x > 1).sum() == 0 && [1].filter(x, x > 1).count() == 0": True,
    "[1].filter(x, x > 1).min() <= 9": False,
    "[1].filter(x, x > 1).first() <= 9": False,
    "[1].filter(x, x > 1).all(x, 1 / b.spec.zero == 1)": True,
    # quantifiers absorb, as in CEL
    "[0, 1].exists(x, 1 / x == 1)": True,
    "![0, 2].all(x, 2 / x != 1)": True,
    "[0, 2].all(x, 2 / x == 1)": False,
    "[1, 2, 2].exists_one(x, x == 1) && ![1, 2, 2].exists_one(x, x == 2)": True,
    # order
    "[2, 1, 3].sortBy(x, x) == [1, 2, 3] && [2, 1, 3].sortBy(x, -x).first() == 3": True,
    "[2, 1, 3].sortBy(x, x)[0] == 1 && [2, 1, 3].sortBy(x, x).drop(1) == [2, 3]": True,
    "[2, 1, 3].sortBy(x, x).drop(1).first() == 2 && [2, 1, 3].sortBy(x, -x).take(2) == [3, 2]": True,
    "[2, 1].take(5) == [2, 1] && [2, 1].drop(1) == [1] && [2, 1].drop(5).isEmpty()": True,
    "[2, 1] != [1, 2]": True,
    "[1, 2] + [2] == [1, 2, 2]": True,
    "[1, 2].map(x, x > 1, x * 2) == [4]": True,
    "b.spec.set + b.spec.set == b.spec.set": True,
    "max(1, 2) == 2 && min(1, 2) == 1": True,
    # owners
    "b.owner == null && !(b.owner == b)": True,
    'b.owner.name == "x"': False,
}


@pytest.mark.parametrize("term", ALWAYS)
def test_value(term: str) -> None:
    text = f"""
resource Box {{
  spec {{ mp: map[Name]0..1; name: Name; none: Name?; zero: 0..1; set: set[Name] }}
}}
property p = always Box.all(b, {term})
check c {{
  run U; scope {{ Box: 1, list: 3 }}; faults {{ }}
  given Box b {{ spec: {{ mp: {{ "k": 1, "l": 1 }}, name: "alpha", set: ["s"] }} }}
}}
environment U {{ action touch(b: Box) at most 1 {{ patch b.spec {{ name: b.spec.name, zero: b.spec.zero }} }} }}
"""
    assert (verdicts(text)["p"] == "holds") == ALWAYS[term]


SORTED = """
resource Box { spec { list: []Name }; status { list: []Name; rest: []Name } }
controller C for Box {
  reconcile b {
    let byName = b.spec.list.sortBy(x, x == "z" ? 3 : x == "y" ? 2 : 1)
    patch b.status { list: byName, rest: byName.drop(1) }
  }
}
property stored = converges to Box.all(b, b.status.list == ["x", "y", "z"] && b.status.rest == ["y", "z"])
check c { run C; scope { Box: 1, list: 3 }; faults { }; given Box b { spec: { list: ["y", "z", "x"] } } }
"""


def test_a_sorted_list_is_stored_in_its_order() -> None:
    assert verdicts(SORTED)["stored"] == "holds"


KEPT = """
resource Box { spec { keep: 0..2 = 1 } }
resource Part { spec { age: 0..3 } }
controller C for Box {
  watches Part as p -> Box
  reconcile b {
    let parts = list cached Part
    for p in parts.sortBy(p, p.spec.age).drop(b.spec.keep) { delete p on NotFound { } }
  }
}
property youngest = on delete Part p require Part.exists(q, q.name != p.name && q.spec.age <= p.spec.age)
property few      = converges to Part.size() == 1
property a_stays  = sometimes Part.size() == 1 && Part.exists(p, p.name == "a")
property b_stays  = sometimes Part.size() == 1 && Part.exists(p, p.name == "b")
property c_stays  = sometimes Part.size() == 1 && Part.exists(p, p.name == "c")
check c {
  run C; scope { Box: 1, Part: 3 }; faults { }
  given Box x { }
  given Part a { spec: { age: A } }
  given Part b { spec: { age: 1 } }
  given Part c { spec: { age: 2 } }
}
"""


@pytest.mark.parametrize(("age", "stay"), [(3, "b"), (0, "a"), (1, "ab")])
def test_drop_keeps_the_first_by_order_and_ties_are_a_choice(age: int, stay: str) -> None:
    found = verdicts(KEPT.replace("age: A", f"age: {age}"))
    assert (found["youngest"], found["few"]) == ("holds", "holds")
    assert "".join(n for n in "abc" if found[f"{n}_stays"] == "holds") == stay
