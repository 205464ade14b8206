"""The roles of a new cluster: complete, consistent, and no wider than upstream's."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.auth.bootstrap_roles import rules_of

Object = dict[str, Any]
OBJECTS = bootstrap_objects()
BY_KIND = {
    kind: {
        (one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in OBJECTS if one["kind"] == kind
    }
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}
VERBS = set("get list watch create update patch delete deletecollection".split()) | {
    "*",
    "approve",
    "sign",
    "impersonate",
    "escalate",
    "proxy",
}


def test_the_line_notation() -> None:
    assert rules_of("R : core apps : pods pods/log : x") == [
        {
            "apiGroups": ["", "apps"],
            "resources": ["pods", "pods/log"],
            "resourceNames": ["x"],
            "verbs": ["get", "list", "watch"],
        }
    ]
    assert rules_of("get : /api /api/*\n* : *") == [
        {"nonResourceURLs": ["/api", "/api/*"], "verbs": ["get"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]


@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view", "system:discovery", "system:node"])
def test_the_roles_that_everybody_knows(name: str) -> None:
    role = BY_KIND["ClusterRole"]["", name]
    assert role["rules"]
    assert role["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
    assert role["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def test_every_name_is_given_once_and_every_binding_finds_its_role() -> None:
    assert sum(map(len, BY_KIND.values())) == len(OBJECTS)
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for (namespace, _), binding in BY_KIND[kind].items():
            role = binding["roleRef"]
            assert (namespace if role["kind"] == "Role" else "", role["name"]) in BY_KIND[role["kind"]]
            assert binding["apiVersion"] == "rbac.authorization.k8s.io/v1"


def test_rules_are_well_formed() -> None:
    for one in OBJECTS:
        for rule in one.get("rules") or ():
            assert set(rule["verbs"]) <= VERBS, one["metadata"]["name"]
            if "nonResourceURLs" in rule:
                assert not rule.keys() & {"apiGroups", "resources"}
                assert all(url.startswith("/") or url == "*" for url in rule["nonResourceURLs"])
            else:
                assert rule["apiGroups"] and rule["resources"]
                assert all(group == "*" or "." in group or group in KNOWN for group in rule["apiGroups"]), rule


KNOWN = ("", "apps", "batch", "policy", "autoscaling", "extensions")


def test_only_one_role_gives_everything_and_only_masters_have_it() -> None:
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    assert [name for (_, name), one in BY_KIND["ClusterRole"].items() if every in one["rules"]] == ["cluster-admin"]
    holders = [b for b in BY_KIND["ClusterRoleBinding"].values() if b["roleRef"]["name"] == "cluster-admin"]
    assert [b["subjects"] for b in holders] == [
        [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}]
    ]


def test_strangers_see_the_version_and_no_more() -> None:
    for binding in BY_KIND["ClusterRoleBinding"].values():
        names = [one["name"] for one in binding.get("subjects") or ()]
        if "system:unauthenticated" in names:
            assert binding["metadata"]["name"] == "system:public-info-viewer"


def test_view_shows_no_secrets_and_edit_grants_no_rights() -> None:
    def resources(name: str, verb: str) -> set[str]:
        rules = BY_KIND["ClusterRole"]["", name]["rules"]
        return {one for rule in rules if verb in rule["verbs"] for one in rule["resources"]}

    assert "secrets" not in resources("view", "get")
    assert not any(rule["verbs"] != ["get", "list", "watch"] for rule in BY_KIND["ClusterRole"]["", "view"]["rules"])
    assert not resources("edit", "create") & {"roles", "rolebindings"}
    assert {"roles", "rolebindings", "secrets", "pods"} <= resources("admin", "create")
    assert not resources("admin", "update") & {"resourcequotas", "limitranges", "namespaces", "nodes"}


def test_nobody_but_the_aggregation_controller_may_escalate() -> None:
    found = [
        one["metadata"]["name"] for one in OBJECTS for rule in one.get("rules") or () if "escalate" in rule["verbs"]
    ]
    assert found == ["system:controller:clusterrole-aggregation-controller"]
