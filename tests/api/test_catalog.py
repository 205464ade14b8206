"""What is served: built-in resources, and custom ones that come and go."""

from __future__ import annotations

import pytest
from tests.api.recording import cron_tab

from dashpot.runtime.api.catalog import Catalog, version_order

SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"cron": {"type": "string"}}}}}


def test_custom_resource_comes_and_goes() -> None:
    catalog = Catalog()
    before = catalog.generation
    catalog.add("example.com", [cron_tab("v1"), cron_tab("v1beta1")], {"v1": SCHEMA})
    assert catalog.generation > before
    found = catalog.find("example.com", "v1", "crontabs")
    assert found is not None and found is catalog.by_kind("example.com", "v1", "CronTab")
    assert catalog.versions("example.com") == ("v1", "v1beta1")
    assert [r.version for r in catalog.all_versions("example.com", "crontabs")] == ["v1", "v1beta1"]
    properties = catalog.schema("example.com", "v1", "CronTab")["properties"]
    assert set(properties) == {"apiVersion", "kind", "metadata", "spec"}
    assert catalog.schema("example.com", "v1beta1", "CronTab")["x-kubernetes-preserve-unknown-fields"]
    catalog.remove("example.com", "crontabs")
    assert catalog.find("example.com", "v1", "crontabs") is None and not catalog.has("example.com", "v1", "CronTab")
    assert "example.com" not in catalog.groups()


def test_same_again_changes_nothing_and_another_schema_does() -> None:
    catalog = Catalog()
    catalog.add("example.com", [cron_tab("v1")], {"v1": SCHEMA})
    generation, stamp = catalog.generation, catalog.stamp("example.com", "v1")
    catalog.add("example.com", [cron_tab("v1")], {"v1": SCHEMA})
    assert catalog.generation == generation
    catalog.add("example.com", [cron_tab("v1")], {"v1": {**SCHEMA, "description": "new"}})
    assert catalog.generation > generation and catalog.stamp("example.com", "v1") > stamp


def test_version_that_is_no_longer_served_is_gone() -> None:
    catalog = Catalog()
    catalog.add("example.com", [cron_tab("v1"), cron_tab("v2")], {})
    catalog.add("example.com", [cron_tab("v2")], {})
    assert catalog.versions("example.com") == ("v2",) and not catalog.has("example.com", "v1", "CronTab")
    assert catalog.stamp("example.com", "v1") == catalog.generation


def test_change_of_one_group_leaves_the_stamps_of_others() -> None:
    catalog = Catalog()
    before = catalog.stamp("apps", "v1")
    catalog.add("example.com", [cron_tab("v1")], {})
    assert catalog.stamp("apps", "v1") == before


def test_removing_nothing_changes_nothing() -> None:
    catalog = Catalog()
    before = catalog.generation
    catalog.remove("example.com", "crontabs")
    assert catalog.generation == before


def test_memo_is_forgotten_with_a_change() -> None:
    catalog = Catalog()
    made: list[int] = []
    for _ in range(2):
        catalog.memo("x", lambda: made.append(1))
    assert len(made) == 1
    catalog.add("example.com", [cron_tab("v1")], {})
    catalog.memo("x", lambda: made.append(1))
    assert len(made) == 2


def test_groups_stand_in_order_of_priority() -> None:
    catalog = Catalog()
    catalog.add("b.example.com", [cron_tab("v1", "b.example.com")], {})
    catalog.add("a.example.com", [cron_tab("v1", "a.example.com")], {})
    groups = catalog.groups()
    assert groups[:3] == ("", "apiregistration.k8s.io", "apps")
    assert groups[-3:] == ("a.example.com", "b.example.com", "metrics.k8s.io")
    assert catalog.versions("autoscaling") == ("v2", "v1")


def test_a_custom_resource_may_stand_in_a_built_in_group() -> None:
    catalog = Catalog()
    catalog.add("apps", [cron_tab("v1", "apps")], {})
    assert [r.plural for r in catalog.of("apps", "v1")][:2] == ["controllerrevisions", "crontabs"]
    assert catalog.find("apps", "v1", "deployments") is not None


@pytest.mark.parametrize(
    "names",
    [["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]],
)
def test_versions_are_ordered_as_kubernetes_does(names: list[str]) -> None:
    assert sorted(reversed(names), key=version_order) == names


def test_no_version_at_all_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one version"):
        Catalog().add("example.com", [], {})
