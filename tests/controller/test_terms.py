"""Terms on real JSON mean what the kernel says that they mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.expr import Binary, Method
from dashpot.model.interpret import evaluate
from dashpot.model.kernel.build import build
from dashpot.model.program import State
from dashpot.runtime.controller.terms import compile_term
from dashpot.runtime.controller.texts import ALPHABET, hash_of
from dashpot.runtime.controller.views import Views
from tests.controller.kit import NOW, asked, frame, property_term, spec, value_of
from tests.kernel.test_terms import ALWAYS

HEAD = """
enum Phase { Pending, Running, Done }
struct Condition { type: Name, status: bool, at: Time? }
resource Box "example.com/v1" {
  spec {
    mp: map[Name]0..1; name: Name; none: Name?; zero: 0..1; set: set[Name]; limit: Quantity at "spec.limits.cpu"
    waitSeconds: Duration; pause: Duration; since: Time?; phase: Phase = Running; seats: map[Phase]0..3
    app: Name? at "metadata.labels['app.io/name']"; image: Name? at "spec.containers[0].image"; any: opaque; n: int
  }
  status {
    conditions: []Condition keyed type; ready: bool at "status.conditions[type=Ready].status"
  }
}
"""
BOX = {
    "apiVersion": "example.com/v1",
    "kind": "Box",
    "metadata": {"name": "b", "uid": "u1", "creationTimestamp": "2027-01-15T07:59:00Z", "labels": {"app.io/name": "x"}},
    "spec": {
        "mp": {"k": 1, "l": 1},
        "name": "alpha",
        "set": ["s"],
        "limits": {"cpu": "1500m"},
        "waitSeconds": 90,
        "pause": "1m30s",
        "containers": [{"image": "a:1"}, {"image": "b:1"}],
        "any": {"b": [1, 2.5], "a": None},
        "seats": {"Running": 2},
    },
    "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:00:00Z"}]},
}


@pytest.mark.parametrize("term", ALWAYS)
def test_the_table_of_the_kernel_holds_here(term: str) -> None:
    assert (asked(f"Box.all(b, {term})", BOX, head=HEAD) is True) == ALWAYS[term]


VALUES: dict[str, Any] = {
    # how fields lie in JSON
    "b.spec.limit": 1500,
    "b.spec.waitSeconds == b.spec.pause": True,
    "b.spec.pause": 90_000,
    "b.spec.since": None,
    "since(b.creationTimestamp)": 60_000,
    "since(b.creationTimestamp) == 1min": True,
    "b.spec.phase == Running": True,
    "b.spec.app": "x",
    "b.spec.image": "a:1",
    "b.status.ready": True,
    "b.status.conditions.exists(c, c.type == 'Ready' && c.status)": True,
    "b.status.conditions.exists(c, c.at != null)": False,
    "b.spec.seats[Running]": 2,
    "b.spec.seats[Done]": 0,
    "b.generation": 0,
    "b.finalizers.isEmpty()": True,
    # null and what is missing
    "b.owner.name": "undefined",
    "has(b.owner.name)": False,
    "has(b.spec.since)": False,
    "since(b.spec.since)": "undefined",
    "b.spec.mp['zz']": "undefined",
    "b.labels.nothing": "undefined",
    "b.spec.none in ['x']": False,
    "b.spec.none == null || b.spec.none.size() > 0": True,
    "b.spec.none.size() > 0 || b.spec.zero == 0": True,
    "b.spec.none.size() > 0 && b.spec.zero == 1": False,
    "b.spec.none.size() > 0 && b.spec.zero == 0": "undefined",
    # order
    "[Done, Pending].sortBy(p, p).first()": "Pending",
    "[true, false].sortBy(x, x).first()": False,
    "[1, 2, 3].sortBy(x, [x > 1 ? 0 : 1, -x])": [3, 2, 1],
    # texts
    "b.name + '-' + 1 + '-' + string(true)": "b-1-true",
    "string(b.spec.limit) + string(b.spec.pause) + string(b.spec.phase)": "1500m1m30sRunning",
    "string(b.creationTimestamp)": "2027-01-15T07:59:00Z",
    "b.name.matches('[')": "undefined",
    # sets and maps
    "['a', 'b'].map(x, x.size())": [1, 1],
    "b.spec.mp.keys().size() + b.spec.mp.size()": 4,
    "b.spec.set + ['s', 't'] == ['t', 's']": True,
    "b in Box && Box.size() == 1": True,
    "gone(b)": False,
    # arithmetic
    "-7 / 2": -3,
    "-7 % 3": -1,
    "(1..3).sum() + [1, 2].count() + (1..3).max()": 11,
}


@pytest.mark.parametrize("term", VALUES)
def test_value(term: str) -> None:
    program = spec(f"{HEAD}\nproperty p = always Box.map(b, {term}).size() == 1")
    views = Views(program)
    formula = next(p for p in program.properties if p.name == "p").formula
    assert isinstance(formula, State) and isinstance(formula.body, Binary) and isinstance(formula.body.left, Method)
    rows = value_of(compile_term(formula.body.left.base, views), frame(views, BOX))
    assert rows == "undefined" if VALUES[term] == "undefined" else rows == [VALUES[term]]


def test_a_hash_is_that_of_kubernetes_alphabet_and_depends_on_content_alone() -> None:
    def hashed(of: object) -> object:
        program = spec(f"{HEAD}\nproperty p = always hash(Box.first().spec.any) == ''")
        views = Views(program)
        formula = next(p for p in program.properties if p.name == "p").formula
        assert isinstance(formula, State) and isinstance(formula.body, Binary)
        return value_of(compile_term(formula.body.left, views), frame(views, {**BOX, "spec": {"any": of}}))

    assert hashed({"a": None, "b": [1, 2.5]}) == hashed({"b": [1, 2.5], "a": None})
    assert hashed({"a": None, "b": [1, 2.5]}) != hashed({"a": None, "b": [1, 2]})
    number = 2166136261
    for byte in b'"v1"':
        number = ((number ^ byte) * 16777619) % 2**32
    assert hash_of("v1") == "".join(ALPHABET[ord(d) % 27] for d in str(number))


# ---------------------------------------------------------------- random terms, by both readings
def _numbers() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(["0", "1", "2", "3", "b.spec.zero", "b.spec.n"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        rows = st.lists(inner, min_size=1, max_size=3).map(lambda xs: f"[{', '.join(xs)}]")
        folded = st.tuples(rows, st.sampled_from([".sum()", ".max()", ".min()", ".count()", ".size()"])).map("".join)
        chosen = st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} > {t[1]} ? {t[1]} : {t[2]})")
        filtered = st.tuples(rows, leaves).map(lambda t: f"{t[0]}.filter(x, x > {t[1]}).sum(x, x - 1)")
        at = st.tuples(rows, inner).map(lambda t: f"{t[0]}[{t[1]}]")
        divided = st.tuples(inner, st.sampled_from(["*", "/", "%"]), leaves).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        return pair | divided | folded | chosen | filtered | at

    return st.recursive(leaves, grown, max_leaves=3)


def _truths() -> st.SearchStrategy[str]:
    compared = st.tuples(_numbers(), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), _numbers()).map(" ".join)
    null = st.sampled_from(
        ["b.spec.opt == null", "b.spec.opt.size() == 1", "b.owner.name == b.name", "has(b.spec.opt)"]
    )

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        asked_ = st.tuples(st.sampled_from(["exists", "all", "exists_one"]), compared, _numbers()).map(
            lambda t: f"[0, 1, 2].{t[0]}(y, {t[1]} && y > {t[2]})"
        )
        return joined | inner.map(lambda t: f"!({t})") | asked_

    return st.recursive(compared | null, grown, max_leaves=3)


FINITE = 'resource Box "example.com/v1" { spec { zero: 0..1; n: 0..2 = 2; opt: Name? } }'
AT_REST = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "b", "uid": "u"}, "spec": {}}


@settings(max_examples=15, deadline=None)
@given(st.lists(_truths(), min_size=4, max_size=4, unique=True))
def test_both_readings_agree(terms: list[str]) -> None:
    names = [(f"p{i}", term) for i, term in enumerate(terms)] + [(f"q{i}", f"!({t})") for i, t in enumerate(terms)]
    properties = "\n".join(f"property {name} = always Box.exists(b, {term})" for name, term in names)
    text = f"""{FINITE}
{properties}
check c {{ run U; scope {{ Box: 1, list: 3 }}; faults {{ }}; given Box b {{ }} }}
environment U {{ action touch(b: Box) at most 1 {{ patch b.spec {{ n: b.spec.n, zero: b.spec.zero }} }} }}
"""
    program = spec(text)
    (check,) = program.checks
    system = build(program, check)
    start = [cell.initial for cell in system.cells]
    told = {goal.property: evaluate(goal.body, start.__getitem__) for goal in system.goals}
    views = Views(program)
    at = frame(views, AT_REST)
    for name, term in names:
        mine = value_of(property_term(program, views, name), at)
        assert (mine is True) == bool(told[name]), (term, mine)


def test_now_is_that_of_the_frame() -> None:
    assert asked("now() == now() && now() > Box.first().creationTimestamp", BOX, head=HEAD) is True
    assert NOW % 1000 == 0
