"""Nobody grants what he does not hold: each attempt, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.auth_kit import HandClock, MemoryView, bind, role, rule, run, write

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import DELETE, UPDATE, Attributes
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
IN = ("system:authenticated",)
USERS = {
    "root": User("root", ("system:masters", *IN)),
    "ops": User("ops", IN),
    "ann": User("ann", IN),
    "binder": User("binder", IN),
    "escalator": User("escalator", IN),
    "named": User("named", IN),
    "eve": User("eve", IN),
}
OBJECTS = [
    bind("ops", "ClusterRole/cluster-admin", "User/ops"),
    bind("ann", "ClusterRole/admin", "User/ann", namespace="a"),
    role("writes", rule("*", RBAC, "roles rolebindings clusterroles clusterrolebindings")),
    role("secret", rule("get", "core", "secrets", "db")),
    role("pods", rule("get list", "core", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}),
    bind("eve-pods", "ClusterRole/pods", "User/eve"),
    bind("eve-secret", "ClusterRole/secret", "User/eve"),
    role("rbac-write", rule("create update patch get", RBAC, "roles rolebindings clusterroles clusterrolebindings")),
    bind("write", "ClusterRole/rbac-write", "User/eve", "User/binder", "User/escalator", "User/named"),
    role("may-bind", rule("bind", RBAC, "clusterroles roles")),
    bind("may-bind", "ClusterRole/may-bind", "User/binder"),
    role("may-escalate", rule("escalate", RBAC, "clusterroles")),
    bind("may-escalate", "ClusterRole/may-escalate", "User/escalator"),
    role("may-bind-view", rule("bind", RBAC, "clusterroles", "view")),
    bind("may-bind-view", "ClusterRole/may-bind-view", "User/named"),
    role("local", rule("delete", "apps", "deployments"), namespace="a"),
]
WORLD = Authorizer(AuthzConfig(), MemoryView([*bootstrap_objects(), *OBJECTS]), HandClock())

ALL = rule("*", "*", "*")
AGGREGATED = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}


def cluster_role(*rules: Object) -> Object:
    return role("new", *rules)


def local_role(*rules: Object) -> Object:
    return role("new", *rules, namespace="a")


def cluster_binding(to: str) -> Object:
    return bind("new", to, "User/eve")


def local_binding(to: str) -> Object:
    return bind("new", to, "User/eve", namespace="a")


# who writes what → is it allowed?
ATTEMPTS = [
    ("root", cluster_role(ALL), True),
    ("ops", cluster_role(ALL), True),
    ("ops", cluster_binding("ClusterRole/cluster-admin"), True),
    ("eve", cluster_role(), True),
    ("eve", cluster_role(rule("get", "core", "pods")), True),
    ("eve", cluster_role(rule("get list", "core", "pods")), True),
    ("eve", cluster_role(rule("get", "core", "pods", "one")), True),
    ("eve", cluster_role(rule("get list watch", "core", "pods")), False),
    ("eve", cluster_role(rule("*", "core", "pods")), False),
    ("eve", cluster_role(rule("get", "*", "pods")), False),
    ("eve", cluster_role(rule("get", "core", "*")), False),
    ("eve", cluster_role(rule("get", "core", "pods/log")), False),
    ("eve", cluster_role(rule("get", "core", "*/log")), False),
    ("eve", cluster_role(rule("get", "core apps", "pods")), False),
    ("eve", cluster_role(rule("get", "core", "secrets", "db")), True),
    ("eve", cluster_role(rule("get", "core", "secrets", "db other")), False),
    ("eve", cluster_role(rule("get", "core", "secrets")), False),
    ("eve", cluster_role({"verbs": ["get"], "nonResourceURLs": ["/metrics/cpu"]}), True),
    ("eve", cluster_role({"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}), True),
    ("eve", cluster_role({"verbs": ["get"], "nonResourceURLs": ["/metrics*"]}), False),
    ("eve", cluster_role({"verbs": ["get"], "nonResourceURLs": ["*"]}), False),
    ("eve", cluster_role({"verbs": ["post"], "nonResourceURLs": ["/metrics/cpu"]}), False),
    ("eve", cluster_role(rule("escalate bind impersonate", "*", "*")), False),
    ("eve", local_role(rule("get", "core", "secrets")), False),
    ("eve", local_role(rule("list", "core", "pods")), True),
    ("ann", local_role(rule("get list watch", "core", "secrets")), True),
    ("ann", local_role(rule("create", "core", "pods/exec")), True),
    ("ann", local_role(rule("impersonate", "core", "serviceaccounts")), True),
    ("ann", local_role(rule("impersonate", "core", "users")), False),
    ("ann", local_role(rule("update", "core", "resourcequotas")), False),
    ("ann", cluster_role(rule("get", "core", "secrets")), False),
    ("ann", local_binding("ClusterRole/view"), True),
    ("ann", local_binding("ClusterRole/edit"), True),
    ("ann", local_binding("ClusterRole/admin"), True),
    ("ann", local_binding("ClusterRole/cluster-admin"), False),
    ("ann", local_binding("ClusterRole/system:node"), False),
    ("ann", local_binding("Role/local"), True),
    ("ann", cluster_binding("ClusterRole/view"), False),
    ("eve", cluster_binding("ClusterRole/pods"), True),
    ("eve", local_binding("ClusterRole/pods"), True),
    ("eve", cluster_binding("ClusterRole/cluster-admin"), False),
    ("eve", local_binding("Role/local"), False),
    ("binder", cluster_binding("ClusterRole/cluster-admin"), True),
    ("binder", local_binding("Role/local"), True),
    ("binder", cluster_binding("ClusterRole/gone"), True),
    ("binder", cluster_role(rule("get", "core", "pods")), False),
    ("named", cluster_binding("ClusterRole/view"), True),
    ("named", cluster_binding("ClusterRole/edit"), False),
    ("escalator", cluster_role(ALL), True),
    ("escalator", cluster_binding("ClusterRole/cluster-admin"), False),
    ("escalator", local_role(ALL), False),
    ("ops", {**cluster_role(), "aggregationRule": AGGREGATED}, True),
    ("eve", {**cluster_role(), "aggregationRule": AGGREGATED}, False),
    ("escalator", {**cluster_role(), "aggregationRule": AGGREGATED}, True),
]


def attempt(user: str, new: Object, old: Object | None = None) -> Attributes:
    namespace = new["metadata"].get("namespace", "")
    operation = "CREATE" if old is None else UPDATE
    plural = new["kind"].lower() + "s"
    return write(USERS[user], plural, new, old, group=RBAC, namespace=namespace, operation=operation)


def answer(attributes: Attributes) -> StatusError | None:
    try:
        run(lambda: WORLD.check_escalation(attributes))
    except StatusError as error:
        return error
    return None


@pytest.mark.parametrize(("user", "new", "allowed"), ATTEMPTS)
def test_an_attempt(user: str, new: Object, allowed: bool) -> None:
    error = answer(attempt(user, new))
    assert (error is None) is allowed, error and error.message
    if error is not None:
        assert (error.code, error.reason) == (403, "Forbidden")


def test_what_is_missing_is_told_as_kubernetes_tells_it() -> None:
    new = cluster_role(
        rule("get list watch", "core apps", "secrets pods"), {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    )
    error = answer(attempt("eve", new))
    assert error is not None
    assert error.message == (
        'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "eve" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}\n'
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "list" "watch"]}\n'
        '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list" "watch"]}\n'
        '{NonResourceURLs:["/x"], Verbs:["get"]}'
    )


def test_an_aggregation_rule_takes_an_administrator() -> None:
    error = answer(attempt("eve", {**cluster_role(), "aggregationRule": AGGREGATED}))
    assert error is not None and error.message.endswith("must have cluster-admin privileges to use the aggregationRule")


def test_a_binding_to_a_role_that_is_not_there() -> None:
    error = answer(attempt("eve", cluster_binding("ClusterRole/gone")))
    assert error is not None
    assert (error.code, error.message) == (404, 'clusterroles.rbac.authorization.k8s.io "gone" not found')


def test_an_update_is_checked_where_it_changes_rules() -> None:
    old = cluster_role(ALL)
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert answer(attempt("eve", relabelled, old)) is None, "the rules stay: nothing is granted"
    assert answer(attempt("eve", cluster_role(ALL, ALL), old)) is not None
    assert answer(attempt("eve", cluster_role(), old)) is None, "less is granted"
    aggregated = {**old, "aggregationRule": AGGREGATED}
    assert answer(attempt("eve", cluster_role(), aggregated)) is not None, (
        "removing an aggregationRule is as setting it"
    )


def test_a_binding_is_checked_again_when_it_is_updated() -> None:
    old = cluster_binding("ClusterRole/cluster-admin")
    more = {**old, "subjects": [*old["subjects"], {"kind": "User", "name": "x"}]}
    assert answer(attempt("eve", more, old)) is not None
    collected = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    collected["metadata"]["ownerReferences"] = [{"uid": "u"}]
    assert answer(attempt("eve", collected, old)) is None, "the garbage collector only takes its finalizers"


def test_deleting_and_other_resources_are_not_asked_about() -> None:
    gone = attempt("eve", cluster_role(ALL))
    gone.operation, gone.old, gone.object = DELETE, gone.object, None
    assert answer(gone) is None
    assert answer(write(USERS["eve"], "pods", {"metadata": {"name": "p"}})) is None


def test_a_role_too_wide_to_compare_is_refused_in_time() -> None:
    many = " ".join(f"r{index}" for index in range(400))
    error = answer(attempt("eve", cluster_role(rule(many, many, many))))
    assert error is not None and "cannot be compared: more than 50000 combinations" in error.message


def test_a_right_that_was_just_given_counts() -> None:
    view = MemoryView([role("pods", rule("get", "core", "pods")), role("all", ALL)])
    view.late.append(bind("late", "ClusterRole/all", "User/eve"))
    judge = Authorizer(AuthzConfig(), view, HandClock())
    run(lambda: judge.check_escalation(attempt("eve", cluster_role(rule("get", "core", "pods")))))


def test_without_rbac_roles_grant_nothing_and_are_not_checked() -> None:
    judge = Authorizer(AuthzConfig(("AlwaysAllow",)), MemoryView(), HandClock())
    run(lambda: judge.check_escalation(attempt("eve", cluster_role(ALL))))
