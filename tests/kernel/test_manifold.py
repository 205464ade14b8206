"""Kinds that stand for many, and `owners`, in the checker."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

KINDS = """
resource Object "*" { }
resource Set { spec { go: bool } }
resource Scale "*/scale" { spec { replicas: 0..2 = 0 }; status { replicas: 0..2 = 0 } }
struct Target { apiVersion: Name, kind: Name, name: Name }
resource Sizer { spec { target: Target, size: 0..2 = 2 } }
"""


def check(actors: str, properties: str, given: str, run: str = "C", scope: str = "Object: 3") -> dict[str, str]:
    return verdicts(f"""{KINDS}{actors}
{properties}
check c {{ run {run}; scope {{ {scope} }}; faults {{ }}; {given} }}
""")


OWNED = "given Object a { }; given Object b { owner: a }; given Object c { owners: [b] }"


@pytest.mark.parametrize(("owner", "name"), [("b", "a"), ("c", "b"), ("a", "")])
def test_owners_are_the_controlling_owner_as_a_set(owner: str, name: str) -> None:
    has = f'Object.exists(o, o.name == "{owner}" && o.owners.exists(r, r.name == "{name}"))'
    one = f'Object.exists(o, o.name == "{owner}" && o.owners.size() == {int(bool(name))})'
    found = check("environment C { }", f"property p = always {one} && {has if name else 'true'}\n", OWNED)
    assert found["p"] == "holds"


def test_a_reference_says_that_it_controls_and_blocks() -> None:
    test = "Object.all(o, o.owners.all(r, r.controller && r.blockOwnerDeletion && r.kind == 'Object'))"
    assert check("environment C { }", f"property p = always {test}\n", OWNED)["p"] == "holds"


def test_get_live_follows_an_owner_reference() -> None:
    actors = """
controller C for Object {
  reconcile o {
    for r in o.owners {
      let owner = get live Object r
      if owner != null && owner.uid == r.uid { patch o { labels: { found: "yes" } } on NotFound { } }
    }
  }
}
"""
    found = check(
        actors,
        """property all_found = converges to Object.all(o, o.owners.isEmpty() || o.labels.found == "yes")
property a_is_not = never Object.exists(o, o.name == "a" && "found" in o.labels)
""",
        OWNED,
    )
    assert (found["all_found"], found["a_is_not"]) == ("holds", "holds")


def test_a_name_in_a_reference_is_not_the_uid() -> None:
    """An owner that was made anew is found by the name of the reference, and is another one."""
    actors = """
environment C {
  action del(s: Object) when s.name == "a" at most 1 { delete s }
  action again() at most 1 { create Object { name: "a" } on AlreadyExists { } }
  action look(o: Object) when o.name == "b" at most 1 {
    for r in o.owners {
      let owner = get live Object r
      if owner != null && owner.uid != r.uid { patch o { labels: { seen: "other" } } on NotFound { } }
    }
  }
}
"""
    given = "given Object a { }; given Object b { owner: a }"
    found = check(actors, 'property other = sometimes Object.exists(o, "seen" in o.labels)\n', given)
    assert found["other"] == "holds"


@pytest.mark.parametrize("how", ["owners: []", "owners: o.owners.filter(r, r.name != 'a')", "owner: null"])
def test_owners_can_be_taken_out(how: str) -> None:
    actors = f"""
controller C for Object {{
  reconcile o {{
    if o.owners.exists(r, r.name == "a") {{ update o {{ {how} }} on Conflict {{ requeue }} on NotFound {{ }} }}
  }}
}}
"""
    found = check(
        actors,
        """property freed = converges to Object.all(o, o.name != "b" || o.owners.isEmpty())
property c_stays = always Object.exists(o, o.name == "c" && o.owners.exists(r, r.name == "b"))
""",
        OWNED,
    )
    assert (found["freed"], found["c_stays"]) == ("holds", "holds")


def test_owners_can_be_given() -> None:
    actors = """
controller C for Object {
  reconcile o {
    if o.name == "a" {
      let all = list cached Object where x -> x.name == "b"
      for b in all { if o.owners.isEmpty() { update o { owners: [b] } on Conflict { requeue } on NotFound { } } }
    }
  }
}
"""
    given = "given Object a { }; given Object b { }"
    found = check(
        actors, 'property owned = converges to Object.exists(o, o.name == "a" && o.owner.name == "b")\n', given
    )
    assert found["owned"] == "holds"


SIZING = """
controller C for Sizer {
  reconcile z {
    let s = get live Scale z.spec.target
    if s != null { update s.spec { replicas: z.spec.size } if changed on Conflict { requeue } on NotFound { } }
  }
}
"""


@pytest.mark.parametrize(("name", "sized"), [("web", True), ("other", False)])
def test_a_scale_is_found_by_the_name_in_a_reference(name: str, sized: bool) -> None:
    found = check(
        SIZING,
        "property sized = converges to Scale.all(s, s.spec.replicas == 2)\n",
        "given Scale web { }; given Sizer z { spec: { target: "
        f'{{ apiVersion: "apps/v1", kind: "Deployment", name: "{name}" }} }} }}',
        scope="Scale: 1, Sizer: 1",
    )
    assert (found["sized"] == "holds") is sized
