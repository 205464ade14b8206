"""Who may do what: a table of requests against the roles of a new cluster and some of a user's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.api.auth_kit import HandClock, MemoryView, bind, exchange, refused, role, rule, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.attributes import AuthzAttributes, account_groups
from dashpot.runtime.api.auth.authz import DECISION, REASON, Authorizer, AuthzConfig
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.auth.rbac import Rbac, aggregation_changes
from dashpot.runtime.api.exchange import ANONYMOUS, User
from dashpot.runtime.store.base import Unavailable

Object = dict[str, Any]
IN = ("system:authenticated",)


def account(namespace: str, name: str) -> User:
    return User(f"system:serviceaccount:{namespace}:{name}", (*account_groups(namespace), *IN))


USERS = {
    "root": User("root", ("system:masters", *IN)),
    "ops": User("ops", ("platform", *IN)),
    "ann": User("ann", IN),
    "bob": User("bob", IN),
    "eve": User("eve", IN),
    "cy": User("cy", ("team", *IN)),
    "nobody": ANONYMOUS,
    "robot": account("a", "robot"),
    "twin": account("b", "robot"),
    "sched": User("system:kube-scheduler", IN),
    "kcm": User("system:kube-controller-manager", IN),
    "proxy": User("system:kube-proxy", IN),
    "gc": account("kube-system", "generic-garbage-collector"),
    "deploy": account("kube-system", "deployment-controller"),
    "hpa": account("kube-system", "horizontal-pod-autoscaler"),
}

OBJECTS = [
    bind("ops", "ClusterRole/cluster-admin", "Group/platform"),
    bind("ann-admin", "ClusterRole/admin", "User/ann", namespace="a"),
    bind("bob-edit", "ClusterRole/edit", "User/bob", namespace="a"),
    bind("team-view", "ClusterRole/view", "Group/team", namespace="a"),
    role("reader", rule("get list watch", "core", "pods pods/log"), namespace="a"),
    bind("robot-reads", "Role/reader", "ServiceAccount/a/robot", namespace="a"),
    role("one-secret", rule("get", "core", "secrets", "db"), rule("get watch list", "core", "configmaps", "cm")),
    bind("eve-one", "ClusterRole/one-secret", "User/eve", namespace="a"),
    role("scaler", rule("get update", "*", "*/scale"), {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/debug/*"]}),
    bind("cy-scales", "ClusterRole/scaler", "User/cy"),
    role(
        "crds", rule("*", "example.com", "*"), meta={"labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}
    ),
    role("dangling-role", namespace="b"),
    bind("dangling", "Role/gone", "User/eve", namespace="b"),
]

# user verb resource[.group][/subresource] namespace name → yes or no; namespace - is the cluster, name - is none
TABLE = """
root    delete  nodes                               -   n1      yes
root    *       anything.example.com                x   -       yes
ops     create  clusterroles.rbac.authorization.k8s.io -  -     yes
ops     get     secrets                             kube-system s yes
ops     impersonate users                           -   ann     yes
ops     deletecollection pods                       a   -       yes
ann     get     secrets                             a   db      yes
ann     list    secrets                             a   -       yes
ann     list    secrets                             b   -       no
ann     list    secrets                             -   -       no
ann     create  deployments.apps                    a   -       yes
ann     patch   deployments.apps/scale              a   web     yes
ann     create  roles.rbac.authorization.k8s.io     a   -       yes
ann     create  rolebindings.rbac.authorization.k8s.io a -      yes
ann     create  clusterroles.rbac.authorization.k8s.io - -      no
ann     bind    clusterroles.rbac.authorization.k8s.io a edit   no
ann     escalate roles.rbac.authorization.k8s.io    a   r       no
ann     create  localsubjectaccessreviews.authorization.k8s.io a - yes
ann     create  subjectaccessreviews.authorization.k8s.io - -   no
ann     update  resourcequotas                      a   q       no
ann     get     resourcequotas                      a   q       yes
ann     update  limitranges                         a   l       no
ann     create  namespaces                          -   -       no
ann     get     namespaces                          a   a       yes
ann     delete  namespaces                          a   a       no
ann     get     namespaces                          -   b       no
ann     get     nodes                               -   n1      no
ann     update  pods/status                         a   p       no
ann     get     pods/status                         a   p       yes
ann     create  pods/exec                           a   p       yes
ann     create  pods/eviction                       a   p       yes
ann     create  pods/binding                        a   p       no
ann     impersonate serviceaccounts                 a   robot   yes
ann     impersonate serviceaccounts                 b   robot   no
ann     create  serviceaccounts/token               a   robot   yes
ann     create  widgets.example.com                 a   -       yes
ann     create  widgets.example.com                 b   -       no
ann     get     persistentvolumes                   -   pv      no
ann     get     storageclasses.storage.k8s.io       -   sc      no
bob     create  pods                                a   -       yes
bob     delete  pods                                a   p       yes
bob     delete  pods                                b   p       no
bob     get     secrets                             a   db      yes
bob     create  roles.rbac.authorization.k8s.io     a   -       no
bob     get     roles.rbac.authorization.k8s.io     a   r       no
bob     create  rolebindings.rbac.authorization.k8s.io a -      no
bob     get     pods/log                            a   p       yes
bob     create  pods/portforward                    a   p       yes
bob     update  leases.coordination.k8s.io          a   l       yes
bob     create  ingresses.networking.k8s.io         a   -       yes
bob     create  networkpolicies.networking.k8s.io   a   -       yes
bob     create  poddisruptionbudgets.policy         a   -       yes
bob     create  endpointslices.discovery.k8s.io     a   -       no
bob     get     endpointslices.discovery.k8s.io     a   e       yes
bob     create  endpoints                           a   -       no
bob     delete  events                              a   e       yes
bob     watch   widgets.example.com                 a   -       yes
cy      get     pods                                a   p       yes
cy      list    deployments.apps                    a   -       yes
cy      watch   jobs.batch                          a   -       yes
cy      get     secrets                             a   db      no
cy      create  pods                                a   -       no
cy      get     pods/exec                           a   p       no
cy      get     pods/log                            a   p       yes
cy      get     pods                                b   p       no
cy      get     widgets.example.com                 a   w       no
cy      update  deployments.apps/scale              b   web     yes
cy      get     widgets.example.com/scale           z   w       yes
cy      update  deployments.apps                    b   web     no
cy      patch   deployments.apps/scale              b   web     no
eve     get     secrets                             a   db      yes
eve     get     secrets                             a   other   no
eve     list    secrets                             a   -       no
eve     get     secrets                             b   db      no
eve     list    configmaps                          a   cm      yes
eve     list    configmaps                          a   -       no
eve     watch   configmaps                          a   cm      yes
eve     create  configmaps                          a   -       no
eve     get     pods                                b   p       no
eve     create  selfsubjectaccessreviews.authorization.k8s.io - - yes
eve     create  selfsubjectrulesreviews.authorization.k8s.io  - - yes
eve     create  selfsubjectreviews.authentication.k8s.io      - - yes
eve     create  tokenreviews.authentication.k8s.io  -   -       no
robot   list    pods                                a   -       yes
robot   get     pods/log                            a   p       yes
robot   get     pods/exec                           a   p       no
robot   list    pods                                b   -       no
robot   list    secrets                             a   -       no
twin    list    pods                                a   -       no
twin    list    pods                                b   -       no
nobody  list    pods                                a   -       no
nobody  create  selfsubjectaccessreviews.authorization.k8s.io - - no
sched   create  pods/binding                        a   p       yes
sched   create  bindings                            a   -       yes
sched   patch   pods/status                         a   p       yes
sched   delete  pods                                a   p       yes
sched   create  pods                                a   -       no
sched   get     secrets                             a   db      no
sched   update  leases.coordination.k8s.io          kube-system kube-scheduler yes
sched   update  leases.coordination.k8s.io          kube-system other no
sched   update  persistentvolumeclaims              a   c       yes
kcm     list    widgets.example.com                 -   -       yes
kcm     create  serviceaccounts/token               kube-system x yes
kcm     delete  pods                                a   p       no
proxy   watch   services                            -   -       yes
proxy   watch   secrets                             -   -       no
gc      delete  widgets.example.com                 a   w       yes
gc      create  widgets.example.com                 a   -       no
deploy  create  replicasets.apps                    a   -       yes
deploy  update  deployments.apps/status             a   d       yes
deploy  delete  deployments.apps                    a   d       no
deploy  get     secrets                             a   db      no
hpa     update  deployments.apps/scale              a   d       yes
hpa     list    pods.metrics.k8s.io                 a   -       yes
hpa     update  deployments.apps                    a   d       no
"""

# user verb path → yes or no
PATHS = """
nobody get /version      yes
nobody get /healthz      yes
nobody get /api          no
eve    get /api          yes
eve    get /apis/apps/v1 yes
eve    get /openapi/v3   yes
eve    get /openapi/v3/api/v1 yes
eve    post /api         no
eve    get /metrics      no
eve    get /             no
cy     get /metrics      yes
cy     get /debug/pprof  yes
cy     get /debug        no
cy     get /metricsx     no
robot  get /openid/v1/jwks yes
robot  get /.well-known/openid-configuration yes
eve    get /openid/v1/jwks no
root   get /logs         yes
"""


def authorizer(*more: Object) -> Authorizer:
    view = MemoryView([*bootstrap_objects(), *OBJECTS, *more])
    return Authorizer(AuthzConfig(), view, HandClock())


WORLD = authorizer()


def resource_case(line: str) -> tuple[AuthzAttributes, bool]:
    user, verb, what, namespace, name, answer = line.split()
    what, _, subresource = what.partition("/")
    resource, _, group = what.partition(".")
    return (
        AuthzAttributes(
            USERS[user], verb, group, "v1", resource, subresource, namespace.strip("-"), "" if name == "-" else name
        ),
        answer == "yes",
    )


def path_case(line: str) -> tuple[AuthzAttributes, bool]:
    user, verb, path, answer = line.split()
    return AuthzAttributes(USERS[user], verb, path=path, resource_request=False), answer == "yes"


CASES = [resource_case(line) for line in TABLE.strip().splitlines()]
CASES += [path_case(line) for line in PATHS.strip().splitlines()]


def named(case: tuple[AuthzAttributes, bool]) -> str:
    one, allow = case
    where = one.path or "-".join(filter(None, (one.resource, one.subresource, one.group, one.namespace, one.name)))
    return f"{one.user.name}-{one.verb}-{where}-{'yes' if allow else 'no'}"


def test_the_table_is_large() -> None:
    assert len(CASES) >= 130
    assert sum(allow for _, allow in CASES) >= 50
    assert sum(not allow for _, allow in CASES) >= 50


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_request_is_decided(case: tuple[AuthzAttributes, bool]) -> None:
    attributes, allow = case
    assert WORLD.decide(attributes).allow is allow
    assert run(lambda: WORLD.authorize(attributes)).allow is allow
    assert WORLD.decide(attributes).allow is allow, "the remembered answer differs"


@pytest.mark.parametrize(
    ("user", "info", "message"),
    [
        (
            "robot",
            {"verb": "list", "resource": "secrets", "namespace": "a"},
            'secrets is forbidden: User "system:serviceaccount:a:robot" cannot list resource "secrets" in API group "" '
            'in the namespace "a"',
        ),
        (
            "eve",
            {"verb": "get", "resource": "pods", "namespace": "a", "name": "x"},
            'pods "x" is forbidden: User "eve" cannot get resource "pods" in API group "" in the namespace "a"',
        ),
        (
            "eve",
            {"verb": "update", "resource": "deployments", "group": "apps", "subresource": "scale", "namespace": "a"},
            'deployments.apps is forbidden: User "eve" cannot update resource "deployments/scale" in API group "apps" '
            'in the namespace "a"',
        ),
        (
            "ann",
            {"verb": "delete", "resource": "nodes", "name": "n1"},
            'nodes "n1" is forbidden: User "ann" cannot delete resource "nodes" in API group "" at the cluster scope',
        ),
        (
            "eve",
            {"verb": "get", "resource_request": False, "path": "/logs"},
            'forbidden: User "eve" cannot get path "/logs"',
        ),
        (
            "eve",
            {"verb": "list", "resource": "pods", "namespace": "b"},
            'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "b": '
            'RBAC: role.rbac.authorization.k8s.io "gone" not found',
        ),
    ],
)
def test_a_refusal_is_told_as_kubernetes_tells_it(user: str, info: Object, message: str) -> None:
    told = exchange(USERS[user], **info)
    error = run(lambda: refused(WORLD.gate(told)))
    assert isinstance(error, StatusError)
    assert (error.code, error.reason, error.message) == (403, "Forbidden", message)
    assert told.annotations[DECISION] == "forbid"
    if info.get("resource"):
        assert error.details["kind"] == info["resource"]


def test_an_allowed_request_carries_its_reason_to_the_audit_log() -> None:
    told = exchange(USERS["robot"], verb="list", resource="pods", namespace="a")
    run(lambda: WORLD.gate(told))
    assert told.annotations == {
        DECISION: "allow",
        REASON: 'RBAC: allowed by RoleBinding "robot-reads/a" of Role "reader" to ServiceAccount "robot/a"',
    }
    masters = exchange(USERS["root"])
    run(lambda: WORLD.gate(masters))
    assert masters.annotations == {DECISION: "allow", REASON: ""}


def test_changes_count_at_once() -> None:
    view = MemoryView([role("r", rule("get", "core", "pods")), bind("b", "ClusterRole/r", "User/eve")])
    rbac = Rbac(view)
    ask = AuthzAttributes(USERS["eve"], "get", "", "v1", "pods", "", "x", "p")
    assert rbac.decide(ask).allow
    view.put(role("r", rule("get", "core", "secrets")))
    assert not rbac.decide(ask).allow
    view.put(bind("l", "Role/l", "User/eve", namespace="x"))
    assert rbac.decide(ask).reason == 'RBAC: role.rbac.authorization.k8s.io "l" not found'
    view.put(role("l", rule("*", "core", "pods"), namespace="x"))
    assert rbac.decide(ask).allow
    view.remove("RoleBinding", "x", "l")
    assert not rbac.decide(ask).allow
    view.remove("ClusterRole", "", "r")
    assert rbac.decide(ask).reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "r" not found'


def test_a_grant_that_the_cache_has_not_seen_yet_counts() -> None:
    view = MemoryView([role("r", rule("list", "core", "pods"))])
    late = bind("b", "ClusterRole/r", "User/eve")
    view.late.append(late)
    judge = Authorizer(AuthzConfig(), view, HandClock())
    told = exchange(USERS["eve"], verb="list", resource="pods")
    run(lambda: judge.gate(told))
    assert told.annotations[DECISION] == "allow"


def test_a_flood_of_refusals_asks_the_store_twice() -> None:
    class Counting(MemoryView):
        asked = 0

        async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
            self.asked += 1
            await asyncio.sleep(0)
            return await super().fresh(group, plural, namespace, name)

    view = Counting()
    judge = Authorizer(AuthzConfig(), view, HandClock())

    async def main() -> None:
        errors = await asyncio.gather(*(refused(judge.gate(exchange(USERS["eve"]))) for _ in range(200)))
        assert {error.code for error in errors} == {403}
        assert view.asked <= 8, "each refusal asked for itself"

    run(main)


def test_a_store_that_cannot_be_asked_refuses_by_what_is_known() -> None:
    class Broken(MemoryView):
        async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
            raise Unavailable("no leader")

    judge = Authorizer(AuthzConfig(), Broken(), HandClock())
    assert run(lambda: refused(judge.gate(exchange(USERS["eve"])))).code == 403


def test_health_needs_no_permission() -> None:
    told = exchange(ANONYMOUS, resource_request=False, path="/livez", verb="get")
    run(lambda: Authorizer(AuthzConfig(), MemoryView(), HandClock()).gate(told))
    assert told.annotations == {DECISION: "allow", REASON: ""}


def test_roles_aggregate_through_roles() -> None:
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    more = role("more", rule("get", "x.io", "things"), meta={"labels": {label: "true"}})
    view = MemoryView([*bootstrap_objects(), bind("a", "ClusterRole/admin", "User/ann"), more])
    ask = AuthzAttributes(USERS["ann"], "get", "x.io", "v1", "things", "", "a", "t")
    assert Rbac(view).decide(ask).allow, "admin takes edit, which takes view, which takes the new role"
    changed = {one["metadata"]["name"]: one for one in aggregation_changes(view)}
    assert sorted(changed) == ["admin", "edit", "view"]
    for one in changed.values():
        assert more["rules"][0] in one["rules"]
        view.put(one)
    assert aggregation_changes(view) == []


def test_aggregation_in_a_circle_ends() -> None:
    def circle(name: str, takes: str) -> Object:
        found = role(name, meta={"labels": {"is": name}})
        found["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {"is": takes}}]}
        return found

    leaf = role("leaf", rule("get", "core", "pods"), meta={"labels": {"is": "a"}})
    view = MemoryView([circle("a", "b"), circle("b", "a"), leaf, bind("x", "ClusterRole/b", "User/eve")])
    assert Rbac(view).decide(AuthzAttributes(USERS["eve"], "get", "", "v1", "pods", "", "", "")).allow


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}]}, True),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}]}, False),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "k", "operator": "Nonsense"}]}, False),
        ({"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "z", "operator": "Exists"}]}, False),
    ],
)
def test_an_aggregation_selector(selector: Object, chosen: bool) -> None:
    top = role("top")
    top["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    leaf = role("leaf", rule("get", "core", "pods"), meta={"labels": {"k": "v"}})
    view = MemoryView([top, leaf, bind("x", "ClusterRole/top", "User/eve")])
    assert Rbac(view).decide(AuthzAttributes(USERS["eve"], "get", "", "v1", "pods")).allow is chosen


@pytest.mark.parametrize(
    ("modes", "allow", "reason"),
    [
        (("AlwaysAllow",), True, ""),
        (("AlwaysDeny",), False, "Everything is forbidden."),
        (("RBAC", "AlwaysDeny"), False, "Everything is forbidden."),
        (("AlwaysDeny", "AlwaysAllow"), True, ""),
    ],
)
def test_other_modes(modes: tuple[str, ...], allow: bool, reason: str) -> None:
    judge = Authorizer(AuthzConfig(modes), MemoryView(), HandClock())
    found = run(lambda: judge.authorize(AuthzAttributes(USERS["eve"], "get", resource="pods")))
    assert (found.allow, found.reason) == (allow, reason)


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown authorization mode 'ABAC'"):
        AuthzConfig(("ABAC",))
    with pytest.raises(ValueError, match="needs a webhook"):
        AuthzConfig(("Webhook",))


def test_a_decision_is_fast() -> None:
    ask = AuthzAttributes(USERS["deploy"], "create", "apps", "v1", "replicasets", "", "a", "")
    WORLD.decide(ask)
    best = min(_timed(ask) for _ in range(5))
    assert best < 100e-6, f"{best * 1e6:.1f} µs: the remembered answer is not used"


def _timed(ask: AuthzAttributes) -> float:
    start = time.perf_counter()
    for _ in range(1000):
        WORLD.decide(ask)
    return (time.perf_counter() - start) / 1000
