"""Properties of rules: who covers what, and that what is remembered is true."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.api.auth_kit import MemoryView, bind, obj, role, rule
from tests.api.test_auth_rbac import USERS

from dashpot.runtime.api.auth.attributes import AuthzAttributes
from dashpot.runtime.api.auth.nodegraph import NodeGraph
from dashpot.runtime.api.auth.rbac import Rbac
from dashpot.runtime.api.auth.rules import compile_rules, covers
from dashpot.runtime.api.exchange import ANONYMOUS

Object = dict[str, Any]

NAMES = st.sampled_from(["get", "list", "*"])
RULES = st.lists(
    st.builds(
        lambda verbs, groups, resources, names: {
            "verbs": verbs,
            "apiGroups": groups,
            "resources": resources,
            "resourceNames": names,
        },
        st.lists(NAMES, max_size=2),
        st.lists(st.sampled_from(["", "apps", "*"]), max_size=2),
        st.lists(st.sampled_from(["pods", "pods/scale", "*/scale", "*"]), max_size=2),
        st.lists(st.sampled_from(["x", "y"]), max_size=2),
    ),
    max_size=3,
)
ACTIONS = [
    AuthzAttributes(ANONYMOUS, verb, group, "v1", resource, subresource, "", name)
    for verb in ("get", "list", "other")
    for group in ("", "apps", "other")
    for resource in ("pods", "others")
    for subresource in ("", "scale", "other")
    for name in ("", "x", "z")
]


@given(RULES, RULES)
def test_who_covers_rules_may_do_all_that_they_allow(owner: list[Object], wanted: list[Object]) -> None:
    covered, lacking = covers(owner, wanted)
    assert covered is not bool(lacking)
    held, asked = compile_rules(owner), compile_rules(wanted)
    gained = [one for one in ACTIONS if any(r.allows(one) for r in asked) and not any(r.allows(one) for r in held)]
    if covered:
        assert not gained, "a grant gave more than its giver holds"
    assert covers([*owner, *lacking], wanted)[0], "what is said to be missing is not all that is missing"


@given(RULES)
def test_everybody_covers_what_he_holds(rules: list[Object]) -> None:
    assert covers(rules, rules) == (True, [])
    assert covers([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}], rules) == (True, [])


CHANGES = st.lists(
    st.one_of(
        st.builds(
            lambda name, home, verb, names: role(name, rule(verb, "core", "pods", names), namespace=home),
            st.sampled_from("xy"),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["get", "list", "*"]),
            st.sampled_from(["", "p"]),
        ),
        st.builds(
            lambda name, home, kind, to, subject: bind(name, f"{kind}/{to}", subject, namespace=home),
            st.sampled_from("mn"),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["ClusterRole", "Role"]),
            st.sampled_from("xy"),
            st.sampled_from(["User/eve", "Group/system:authenticated", "ServiceAccount/a/robot"]),
        ),
        st.tuples(st.sampled_from(["ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"]), st.integers(0, 3)),
    ),
    max_size=12,
)
QUESTIONS = [
    AuthzAttributes(USERS[user], verb, "", "v1", "pods", "", home, name)
    for user in ("eve", "robot")
    for verb in ("get", "list")
    for home in ("", "a", "b")
    for name in ("", "p", "q")
]


@given(CHANGES)
def test_what_is_remembered_never_differs_from_what_is_true(changes: list[Any]) -> None:
    """An authorizer that lived through all changes says what one says that has just been made."""
    view = MemoryView()
    old = Rbac(view)
    for change in changes:
        if isinstance(change, tuple):
            kind, index = change
            known = [one for group in view.objects.values() for one in group.values() if one["kind"] == kind]
            if index < len(known):
                meta = known[index]["metadata"]
                view.remove(kind, meta.get("namespace", ""), meta["name"])
        else:
            view.put(change)
        new = Rbac(view)
        for question in QUESTIONS:
            assert old.decide(question) == new.decide(question)


PODS = st.lists(
    st.tuples(
        st.sampled_from("pq"),
        st.sampled_from("ab"),
        st.sampled_from(["", "n1", "n2"]),
        st.sampled_from("st"),
        st.booleans(),
    ),
    max_size=10,
)


@given(PODS)
def test_a_node_reads_what_its_pods_name_whatever_came_before(changes: list[tuple[str, str, str, str, bool]]) -> None:
    """The graph after any history is the one of the pods that there are."""
    view = MemoryView()
    old = NodeGraph(view)
    for name, home, node, secret, there in changes:
        if there:
            volumes = [{"name": "v", "secret": {"secretName": secret}}]
            view.put(obj("Pod", name, home, spec={"nodeName": node, "volumes": volumes}))
        elif view.get("", "pods", home, name):
            view.remove("Pod", home, name)
        for asked in "st":
            for space in "ab":
                true = any(
                    pod["spec"]["nodeName"] == "n1" and pod["spec"]["volumes"][0]["secret"]["secretName"] == asked
                    for pod in view.list("", "pods", space)
                )
                assert old.related("n1", "secrets", space, asked) is true
