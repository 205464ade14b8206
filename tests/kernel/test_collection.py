"""Deletion and what follows from it: propagation, owners and their incarnations, eviction under budgets."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe, verdicts

KINDS = """
resource Set { spec { go: bool } }
resource Part { spec { n: 0..1 } }
resource Pod { spec { nodeName: Name?; app: Name? }; status { ready: bool } }
resource PodDisruptionBudget { spec { app: Name? }; status { disruptionsAllowed: 0..2 } }
"""


def check(actors: str, properties: str, given: str, run: str = "U", scope: str = "Set: 1, Part: 1") -> dict[str, str]:
    return verdicts(f"""{KINDS}{actors}
{properties}
check c {{ run {run}; scope {{ {scope} }}; faults {{ }}; {given} }}
""")


OWNED = "given Set s { }; given Part p { owner: s }"
GONE = "property gone = converges while Set.isEmpty() to Part.isEmpty()\n"
DURING = "property between = sometimes Set.isEmpty() && Part.size() == 1\n"
LATER = "property later = sometimes Set.size() == 1 && Part.isEmpty()\n"
FREED = "property freed = sometimes Set.isEmpty() && Part.exists(p, p.owner == null)\n"
STAYS = "property stays = always Part.size() == 1\n"


def test_background_deletes_the_owner_first() -> None:
    found = check(
        "environment U { action del(s: Set) at most 1 { delete s background } }", GONE + DURING + LATER, OWNED
    )
    assert (found["gone"], found["between"]) == ("holds", "holds")
    assert found["later"] != "holds"


def test_foreground_deletes_the_dependents_first() -> None:
    found = check(
        "environment U { action del(s: Set) at most 1 { delete s foreground } }", GONE + DURING + LATER, OWNED
    )
    assert (found["gone"], found["later"]) == ("holds", "holds")
    assert found["between"] != "holds"


def test_foreground_waits_for_a_dependent_that_cannot_go() -> None:
    actors = "environment U { action del(s: Set) at most 1 { delete s foreground } }"
    given = 'given Set s { }; given Part p { owner: s, finalizers: ["f"] }'
    found = check(actors, "property kept = always Set.size() == 1\n", given)
    assert found["kept"] == "holds" and found["terminates"].startswith("stuck")


def test_orphan_lets_the_dependents_go() -> None:
    found = check("environment U { action del(s: Set) at most 1 { delete s orphan } }", FREED + STAYS, OWNED)
    assert (found["freed"], found["stays"]) == ("holds", "holds")


def test_orphan_frees_all_dependents_before_the_owner_goes() -> None:
    found = check(
        "environment U { action del(s: Set) at most 1 { delete s orphan } }",
        "property free_first = always Set.size() == 1 || Part.all(p, p.owner == null)\n"
        "property both = always Part.size() == 2\nproperty gone = sometimes Set.isEmpty()\n",
        "given Set s { }; given Part p { owner: s }; given Part q { owner: s }",
        scope="Set: 1, Part: 2",
    )
    assert (found["free_first"], found["both"], found["gone"]) == ("holds", "holds", "holds")


def test_a_terminating_owner_in_the_background_keeps_its_dependents() -> None:
    found = check(
        "environment U { action del(s: Set) at most 1 { delete s } }",
        STAYS,
        'given Set s { finalizers: ["f"] }; given Part p { owner: s }',
    )
    assert found["stays"] == "holds"


def test_a_dependent_with_a_finalizer_terminates_until_that_is_taken() -> None:
    actors = """
environment U { action del(s: Set) at most 1 { delete s } }
process F { action take(p: Part) when p.deletionTimestamp != null { patch p { finalizers: [] } } }
"""
    given = 'given Set s { }; given Part p { owner: s, finalizers: ["f"] }'
    marked = "property marked = sometimes Part.exists(p, p.deletionTimestamp != null)\n"
    found = check(actors, GONE + marked, given, "U, F")
    assert (found["gone"], found["marked"], found["terminates"]) == ("holds", "holds", "holds")


def test_collection_goes_down_a_chain() -> None:
    found = check(
        "environment U { action del(s: Set) at most 1 { delete s } }",
        "property all_gone = converges while Set.isEmpty() to Pod.isEmpty() && Part.isEmpty()\n",
        "given Set s { }; given Part p { owner: s }; given Pod q { owner: p }",
        scope="Set: 1, Part: 1, Pod: 1",
    )
    assert found["all_gone"] == "holds"


def test_a_dependent_of_the_old_incarnation_is_collected() -> None:
    actors = """
environment U {
  action renew(s: Set) at most 1 { delete s; create Set { name: "s", spec.go: true } }
}
"""
    properties = """
property in_the_end = converges while Set.exists(s, s.spec.go) to Part.isEmpty()
property by_name = sometimes Set.exists(s, s.spec.go && Part.exists(p, p.owner.name == s.name))
property by_uid  = never Set.exists(s, s.spec.go && Part.exists(p, p.owner == s))
property uids    = never Set.exists(s, s.spec.go && Part.exists(p, p.owner.uid == s.uid))
"""
    found = check(actors, properties, OWNED)
    assert [found[p] for p in ("in_the_end", "by_name", "by_uid", "uids")] == ["holds"] * 4


def test_a_dependent_of_an_owner_that_never_was_is_collected() -> None:
    """The collector asks for the owner, and it is not there."""
    actors = """
process Maker { action make(s: Set) when !s.spec.go { patch s.spec { go: true }; create Part { name: "p", owner: s } } }
environment U { action del(s: Set) when s.spec.go at most 1 { delete s } }
"""
    properties = "property made = sometimes Set.isEmpty() && Part.size() == 1\n" + GONE
    found = check(actors, properties, "given Set s { }", "Maker, U")
    assert (found["made"], found["gone"]) == ("holds", "holds")


WRONG = """
controller C for Set {
  reconcile s { if !s.spec.go { return }; CALL }
}
environment U {
  action renew(s: Set) at most 1 { delete s; create Set { name: "s", spec.go: true } }
}
"""


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("delete s on NotFound { }", True),
        ("delete s if same on NotFound { } on Conflict { }", False),
        ("delete s if unchanged on NotFound { } on Conflict { }", False),
        ("patch s.spec { go: false } on NotFound { }", True),
        ("update s.spec { go: false } on NotFound { } on Conflict { }", False),
        ("patch s.spec { go: false } if unchanged on NotFound { } on Conflict { }", False),
    ],
)
def test_wrong_uid(call: str, wrong: bool) -> None:
    """A write decided on one object that lands on the next of its name."""
    found = check(WRONG.replace("CALL", call), "", "given Set s { spec: { go: true } }", "C, U")
    assert (found["wrong_uid"] if wrong else found.get("wrong_uid", "holds")) == ("safety 3" if wrong else "holds")


# ---------------------------------------------------------------------- eviction
EVICT = """
process D {
  action drain(p: Pod) when p.deletionTimestamp == null && !p.status.ready {
    evict p on TooManyRequests { patch p.status { ready: true }; return } on NotFound { }
  }
}
"""


def evicted(given: str) -> list[dict[str, str]]:
    text = f"{KINDS}{EVICT}\ncheck c {{ run D; scope {{ Pod: 2, PodDisruptionBudget: 1 }}; {given} }}"
    return Probe(text).ends()


def test_evict_without_a_budget_deletes() -> None:
    (end,) = evicted('given Pod p { spec: { app: "x" } }')
    assert "Pod[0]" not in end


def test_evict_takes_one_off_its_budget() -> None:
    budget = 'given PodDisruptionBudget b { spec: { app: "x" }, status: { disruptionsAllowed: 1 } }'
    (end,) = evicted('given Pod p { spec: { app: "x" } }; ' + budget)
    assert "Pod[0]" not in end and end["PodDisruptionBudget[0].status.disruptionsAllowed"] == "0"


def test_evict_is_refused_when_the_budget_is_spent() -> None:
    budget = 'given PodDisruptionBudget b { spec: { app: "x" }, status: { disruptionsAllowed: 1 } }'
    pods = 'given Pod p { spec: { app: "x" } }; given Pod q { spec: { app: "x" } }; '
    left = [sorted(key for key in end if key in ("Pod[0]", "Pod[1]")) for end in evicted(pods + budget)]
    assert sorted(left) == [["Pod[0]"], ["Pod[1]"]]


def test_evict_of_another_app_asks_no_budget() -> None:
    budget = 'given PodDisruptionBudget b { spec: { app: "x" }, status: { disruptionsAllowed: 0 } }'
    (end,) = evicted('given Pod p { spec: { app: "y" } }; ' + budget)
    assert "Pod[0]" not in end


def test_evict_of_a_bound_pod_marks_it() -> None:
    (end,) = evicted('given Pod p { spec: { app: "x", nodeName: "n" } }')
    assert end["Pod[0].deletionTimestamp"] != "null"


def test_evict_of_a_terminating_pod_costs_nothing() -> None:
    text = f"""{KINDS}
process D {{
  action drain(p: Pod) when !p.status.ready {{
    evict p on TooManyRequests {{ return }}
    evict p on TooManyRequests {{ return }}
    patch p.status {{ ready: true }}
  }}
}}
check c {{
  run D; scope {{ Pod: 1, PodDisruptionBudget: 1 }}
  given Pod p {{ spec: {{ app: "x", nodeName: "n" }} }}
  given PodDisruptionBudget b {{ spec: {{ app: "x" }}, status: {{ disruptionsAllowed: 1 }} }}
}}"""
    end = Probe(text).end()
    assert end["Pod[0].status.ready"] == "true" and end["PodDisruptionBudget[0].status.disruptionsAllowed"] == "0"


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_evict_of_a_pod_that_does_not_run_asks_no_budget(phase: str) -> None:
    text = f"""
enum Phase {{ Running, Pending, Succeeded, Failed }}
resource Pod {{ spec {{ app: Name? }}; status {{ phase: Phase }} }}
resource PodDisruptionBudget {{ spec {{ app: Name? }}; status {{ disruptionsAllowed: 0..2 }} }}
process D {{ action drain(p: Pod) {{ evict p on TooManyRequests {{ }} }} }}
check c {{
  run D; scope {{ Pod: 2, PodDisruptionBudget: 1 }}
  given Pod p {{ spec: {{ app: "x" }}, status: {{ phase: {phase} }} }}
  given Pod q {{ spec: {{ app: "x" }} }}
  given PodDisruptionBudget b {{ spec: {{ app: "x" }} }}
}}"""
    end = Probe(text).end()
    assert "Pod[0]" not in end and "Pod[1]" in end


def test_evict_of_a_pod_under_two_budgets_fails() -> None:
    budgets = "; ".join(
        f'given PodDisruptionBudget b{i} {{ spec: {{ app: "x" }}, status: {{ disruptionsAllowed: 1 }} }}'
        for i in range(2)
    )
    text = f"""{KINDS}
process D {{
  action drain(p: Pod) when !p.status.ready {{ evict p on Denied {{ patch p.status {{ ready: true }} }} }}
}}
check c {{ run D; scope {{ Pod: 1, PodDisruptionBudget: 2 }}; given Pod p {{ spec: {{ app: "x" }} }}; {budgets} }}"""
    end = Probe(text).end()
    assert end["Pod[0].status.ready"] == "true"
    assert end["PodDisruptionBudget[0].status.disruptionsAllowed"] == "1"


def test_evict_that_admission_denies_costs_nothing() -> None:
    text = f"""{KINDS}
admission Keep on evict Pod p {{ fail "keep" }}
process D {{
  action drain(p: Pod) when !p.status.ready {{
    evict p on Denied {{ }}
    patch p.status {{ ready: true }}
  }}
}}
check c {{
  run Keep, D; scope {{ Pod: 1, PodDisruptionBudget: 1 }}
  given Pod p {{ spec: {{ app: "x" }} }}
  given PodDisruptionBudget b {{ spec: {{ app: "x" }}, status: {{ disruptionsAllowed: 1 }} }}
}}"""
    end = Probe(text).end()
    assert end["Pod[0]"] == "there" and end["PodDisruptionBudget[0].status.disruptionsAllowed"] == "1"
