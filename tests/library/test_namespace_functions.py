"""What kubernetes.namespaces and kubernetes.rootca compute."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from dashpot.model.extern import namespaces, rootca

Object = dict[str, Any]
NOW = 1_800_000_000_000
STAMP = "2027-01-15T08:00:00Z"


@frozen
class Thing:
    """An object as an extern sees it."""

    json: Object
    key_name: str = ""


def thing(key_name: str, *finalizers: str) -> Thing:
    return Thing({"metadata": {"finalizers": list(finalizers)}}, key_name)


def service(group: str, version: str = "v1") -> Thing:
    return Thing({"spec": {"group": group, "version": version}})


def told(left: list[Thing], lost: list[Thing], refused: bool = False, before: Any = None) -> dict[str, tuple[str, ...]]:
    namespace = Thing({"metadata": {"name": "n"}, "status": {"conditions": before}})
    rows = namespaces.conditions(namespace, left, lost, refused, NOW)
    return {row["type"]: (row["status"], row["reason"], row["message"], row["lastTransitionTime"]) for row in rows}


CASES = [
    ([], [], False, {}),
    (
        [thing("pods/a"), thing("pods/b"), thing("deployments.apps/a", "x.y/z")],
        [],
        False,
        {
            "NamespaceContentRemaining": "Some resources are remaining: deployments.apps has 1 resource instances, "
            "pods. has 2 resource instances",
            "NamespaceFinalizersRemaining": "Some content in the namespace has finalizers remaining: x.y/z in 1 "
            "resource instances",
        },
    ),
    (
        [],
        [service("metrics.k8s.io", "v1beta1"), service("a.b")],
        False,
        {
            "NamespaceDeletionDiscoveryFailure": "Discovery failed for some groups, 2 failing: unable to retrieve the "
            "complete list of server APIs: a.b/v1: stale GroupVersion discovery: a.b/v1, metrics.k8s.io/v1beta1: stale "
            "GroupVersion discovery: metrics.k8s.io/v1beta1",
        },
    ),
    (
        [thing("secrets/a")],
        [],
        True,
        {
            "NamespaceDeletionContentFailure": "Failed to delete all resource types, 1 remaining: the API server "
            "denies a deletion",
            "NamespaceContentRemaining": "Some resources are remaining: secrets. has 1 resource instances",
        },
    ),
]


@pytest.mark.parametrize(("left", "lost", "refused", "wrong"), CASES)
def test_conditions_of_a_namespace_that_ends(
    left: list[Thing], lost: list[Thing], refused: bool, wrong: dict[str, str]
) -> None:
    found = told(left, lost, refused)
    assert list(found) == list(namespaces.FINE)
    for type_, (status, reason, message, since) in found.items():
        assert since == STAMP
        if type_ in wrong:
            assert (status, message) == ("True", wrong[type_])
        else:
            assert ("False", reason, message) == (status, *namespaces.FINE[type_])


def test_conditions_keep_their_time_while_their_status_stays_and_others_stay() -> None:
    old = "2020-01-01T00:00:00Z"
    before = [
        {
            "type": "NamespaceContentRemaining",
            "status": "True",
            "reason": "r",
            "message": "m",
            "lastTransitionTime": old,
        },
        {"type": "Mine", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": old},
        {"type": "NamespaceFinalizersRemaining", "status": "True", "lastTransitionTime": old},
    ]
    found = told([thing("pods/a")], [], before=before)
    assert found["NamespaceContentRemaining"][3] == old and "pods." in found["NamespaceContentRemaining"][2]
    assert found["Mine"] == ("True", "r", "m", old)
    assert found["NamespaceFinalizersRemaining"][0::3] == ("False", STAMP)


def test_the_bundle_of_a_certificate() -> None:
    assert rootca.bundle("pem") == {"ca.crt": "pem"}
    assert rootca.description().startswith("Contains a CA bundle that can be used to verify the kube-apiserver")
