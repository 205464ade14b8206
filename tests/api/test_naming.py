"""Names of stored resources in options: where their keys lie, and what is refused."""

from __future__ import annotations

import pytest

from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.configured import overrides
from dashpot.runtime.api.naming import UnknownName, stored_prefix


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("pods", "/registry/pods/"),
        ("deployments", "/registry/deployments/"),
        ("deployments.apps", "/registry/deployments/"),
        ("apps/deployments", "/registry/deployments/"),
        ("leases.coordination.k8s.io", "/registry/leases/"),
        ("coordination.k8s.io/leases", "/registry/leases/"),
        ("nodes", "/registry/nodes/"),
        ("nodes.metrics.k8s.io", "/registry/metrics.k8s.io/nodes/"),
        ("widgets.example.com", "/registry/example.com/widgets/"),
        ("example.com/widgets", "/registry/example.com/widgets/"),
    ],
)
def test_where_the_keys_of_a_name_lie(name: str, prefix: str) -> None:
    assert stored_prefix(Catalog(), name) == prefix


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("pod", "write pods"),
        ("Pods", "write pods"),
        ("ingress", "write ingresses.networking.k8s.io"),
        ("deploymnts.apps", "write deployments.apps"),
        ("events.events.k8s.io", "write events"),
        ("widgets", "write PLURAL or PLURAL.GROUP"),
        ("pods/status", "'pods/status' is no resource that is stored"),
        (".example.com", "write PLURAL or PLURAL.GROUP"),
    ],
)
def test_names_that_nothing_has(name: str, cure: str) -> None:
    with pytest.raises(UnknownName) as refused:
        stored_prefix(Catalog(), name)
    assert cure in str(refused.value)


def test_two_stores_for_one_resource_are_refused() -> None:
    assert overrides(["events=memory", "leases=memory"]) == {
        "/registry/events/": "memory",
        "/registry/leases/": "memory",
    }
    with pytest.raises(UnknownName, match=r"'leases.coordination.k8s.io' is given two stores, memory and embedded:x"):
        overrides(["leases=memory", "leases.coordination.k8s.io=embedded:x"])
