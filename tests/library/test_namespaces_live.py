"""The controllers of namespaces, run from their specs: the end of a namespace, its default account, the root CA."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client, Delete
from tests.client.serving import on_server
from tests.controller.running import library, managed, until
from tests.library.workload_kit import Live, live, template

Object = dict[str, Any]
NAMESPACES = ["NamespaceController"]
BOX: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


async def gone(client: Client, resource: str, name: str, space: str = "") -> bool:
    """Whether an object is not there."""
    try:
        await client.get(resource, name, space)
    except StatusError as error:
        assert error.reason == "NotFound"
        return True
    return False


async def conditions(client: Client, name: str) -> dict[str, Object]:
    """The conditions of a namespace, by type."""
    status = (await client.get("namespaces", name))["status"]
    return {row["type"]: row for row in status.get("conditions") or ()}


def test_a_namespace_goes_with_all_that_it_holds() -> None:
    async def test(at: Live) -> None:
        client = at.client
        await client.create("namespaces", {"metadata": {"name": "far"}})
        await client.create("serviceaccounts", {"metadata": {"name": "default"}}, "far")
        await client.create("customresourcedefinitions", BOX)
        await asyncio.sleep(5)
        box = await client.resource("boxes")
        for name in "abc":
            await client.create("configmaps", {"metadata": {"name": name}}, "far")
            await client.create("pods", {"metadata": {"name": name}, "spec": template()["spec"]}, "far")
            body = {"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": name}}
            await client.create(box, body, "far")
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "far"}, "reason": "Some"}
        await client.create("events", event, "far")
        await client.create("configmaps", {"metadata": {"name": "kept"}}, "default")
        await client.delete("namespaces", "far")
        await until(lambda: gone(client, "namespaces", "far"), 10)
        for resource in (box, "configmaps", "pods", "serviceaccounts", "events"):
            assert (await client.list(resource, "far")).items == []
        assert not await gone(client, "configmaps", "kept", "default")

    live("namespaces", NAMESPACES, test)


def test_an_empty_namespace_goes_and_comes_again() -> None:
    async def test(at: Live) -> None:
        for _ in range(3):
            await at.client.create("namespaces", {"metadata": {"name": "far"}})
            await at.client.delete("namespaces", "far")
            await until(lambda: gone(at.client, "namespaces", "far"), 10)

    live("namespaces", NAMESPACES, test)


def test_what_holds_a_namespace_is_told() -> None:
    async def test(at: Live) -> None:
        client = at.client
        await client.create("namespaces", {"metadata": {"name": "far"}})
        held = {"name": "a", "finalizers": ["example.com/held"]}
        await client.create("configmaps", {"metadata": held}, "far")
        await client.create("leases.coordination.k8s.io", {"metadata": held}, "far")
        await client.create("configmaps", {"metadata": {"name": "b"}}, "far")
        await client.delete("namespaces", "far")
        await asyncio.sleep(5)
        told = await conditions(client, "far")
        assert {type_: row["status"] for type_, row in told.items()} == {
            "NamespaceDeletionDiscoveryFailure": "False",
            "NamespaceDeletionGroupVersionParsingFailure": "False",
            "NamespaceDeletionContentFailure": "False",
            "NamespaceContentRemaining": "True",
            "NamespaceFinalizersRemaining": "True",
        }
        assert told["NamespaceContentRemaining"]["reason"] == "SomeResourcesRemain"
        assert told["NamespaceContentRemaining"]["message"] == (
            "Some resources are remaining: configmaps. has 1 resource instances, "
            "leases.coordination.k8s.io has 1 resource instances"
        )
        assert told["NamespaceFinalizersRemaining"]["message"] == (
            "Some content in the namespace has finalizers remaining: example.com/held in 2 resource instances"
        )
        since = told["NamespaceContentRemaining"]["lastTransitionTime"]
        await client.patch("configmaps", "a", {"metadata": {"finalizers": None}}, "far")
        await asyncio.sleep(5)
        after = (await conditions(client, "far"))["NamespaceContentRemaining"]
        assert after["message"].endswith("remaining: leases.coordination.k8s.io has 1 resource instances")
        assert after["lastTransitionTime"] == since
        await client.patch("leases.coordination.k8s.io", "a", {"metadata": {"finalizers": None}}, "far")
        await until(lambda: gone(client, "namespaces", "far"), 10)

    live("namespaces", NAMESPACES, test)


def test_pods_go_first() -> None:
    async def test(at: Live) -> None:
        client = at.client
        await client.create("namespaces", {"metadata": {"name": "far"}})
        await client.create("serviceaccounts", {"metadata": {"name": "default"}}, "far")
        pod = {"metadata": {"name": "a", "finalizers": ["example.com/held"]}, "spec": template()["spec"]}
        await client.create("pods", pod, "far")
        await client.create("configmaps", {"metadata": {"name": "a"}}, "far")
        await client.delete("namespaces", "far")
        await asyncio.sleep(30)
        assert not await gone(client, "configmaps", "a", "far")
        assert (await client.get("pods", "a", "far"))["metadata"]["deletionTimestamp"]
        told = (await conditions(client, "far"))["NamespaceContentRemaining"]["message"]
        assert "configmaps. has 1 resource instances, pods. has 1 resource instances" in told
        await client.patch("pods", "a", {"metadata": {"finalizers": None}}, "far")
        await until(lambda: gone(client, "namespaces", "far"), 10)

    live("namespaces", NAMESPACES, test)


def test_apis_that_do_not_answer_hold_a_namespace() -> None:
    async def test(at: Live) -> None:
        client = at.client
        service = {
            "metadata": {"name": "v1.far.example.com"},
            "spec": {
                "group": "far.example.com",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 10,
                "service": {"name": "none", "namespace": "default"},
                "insecureSkipTLSVerify": True,
            },
        }
        made = await client.create("apiservices", service)
        status = [{"type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "none"}]
        await client.update("apiservices", {**made, "status": {"conditions": status}}, subresource="status")
        await client.create("namespaces", {"metadata": {"name": "far"}})
        await client.delete("namespaces", "far")
        await asyncio.sleep(60)
        told = (await conditions(client, "far"))["NamespaceDeletionDiscoveryFailure"]
        assert (told["status"], told["reason"]) == ("True", "DiscoveryFailed")
        assert told["message"].startswith(
            "Discovery failed for some groups, 1 failing: unable to retrieve the complete"
        )
        await client.delete("apiservices", "v1.far.example.com")
        await until(lambda: gone(client, "namespaces", "far"), 60)

    live("namespaces", NAMESPACES, test)


def test_a_deletion_that_is_refused_is_told_and_tried_again() -> None:
    async def test(at: Live) -> None:
        client = at.client
        policy = {
            "metadata": {"name": "keep"},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["secrets"]}
                    ]
                },
                "validations": [{"expression": "false", "message": "kept"}],
            },
        }
        await client.create("validatingadmissionpolicies", policy)
        binding = {"metadata": {"name": "keep"}, "spec": {"policyName": "keep", "validationActions": ["Deny"]}}
        await client.create("validatingadmissionpolicybindings", binding)
        await client.create("namespaces", {"metadata": {"name": "far"}})
        await client.create("secrets", {"metadata": {"name": "a"}}, "far")
        await client.create("configmaps", {"metadata": {"name": "a"}}, "far")
        await asyncio.sleep(2)
        await client.delete("namespaces", "far")
        await asyncio.sleep(20)
        told = (await conditions(client, "far"))["NamespaceDeletionContentFailure"]
        assert (told["status"], told["reason"]) == ("True", "ContentDeletionFailed")
        assert await gone(client, "configmaps", "a", "far")
        await client.delete("validatingadmissionpolicybindings", "keep")
        await until(lambda: gone(client, "namespaces", "far"), 60)

    live("namespaces", NAMESPACES, test)


def test_the_default_account_is_there_and_comes_again() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        actor = "ServiceAccountController"
        async with managed(library("serviceaccounts"), client, actor, complaints=complaints):

            async def there(space: str = "far") -> bool:
                return not await gone(client, "serviceaccounts", "default", space)

            await until(lambda: there("kube-system"), 5)
            await client.create("namespaces", {"metadata": {"name": "far"}})
            await until(there, 5)
            first = (await client.get("serviceaccounts", "default", "far"))["metadata"]["uid"]
            await client.delete("serviceaccounts", "default", "far")
            await until(there, 5)
            assert (await client.get("serviceaccounts", "default", "far"))["metadata"]["uid"] != first
            await client.delete("namespaces", "far")
            await client.delete("serviceaccounts", "default", "far")
            await asyncio.sleep(30)
            assert await gone(client, "serviceaccounts", "default", "far")
        assert complaints == []

    on_server(main)


@pytest.mark.parametrize("change", [
    {"data": {"ca.crt": "other"}},
    {"data": {"more": "x"}},
    {"metadata": {"annotations": None}},
])  # fmt: skip
def test_the_root_ca_is_published_and_put_right(change: Object) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        name = "kube-root-ca.crt"
        async with managed(
            library("rootca"), client, "RootCAPublisher", complaints=complaints, constants={"CA": "pem"}
        ):

            async def right() -> bool:
                if await gone(client, "configmaps", name, "default"):
                    return False
                found = await client.get("configmaps", name, "default")
                note = (found["metadata"].get("annotations") or {}).get("kubernetes.io/description") or ""
                return found["data"] == {"ca.crt": "pem"} and note.startswith("Contains a CA bundle")

            await until(right, 5)
            await client.patch("configmaps", name, change, "default")
            assert not await right()
            await until(right, 5)
            await client.delete("configmaps", name, "default")
            await until(right, 5)
        assert complaints == []

    on_server(main)


RESOURCES = ("configmaps", "secrets", "leases.coordination.k8s.io")
VERSIONS = {"configmaps": ("v1", "ConfigMap"), "secrets": ("v1", "Secret")}
VERSIONS["leases.coordination.k8s.io"] = ("coordination.k8s.io/v1", "Lease")


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 6), st.booleans()), max_size=6),
    st.sampled_from(["", "Foreground", "Orphan"]),
    st.integers(0, 3),
)
def test_whatever_is_in_it_a_namespace_ends(content: list[tuple[int, bool, int, bool]], way: str, before: int) -> None:
    """Objects that own each other, are held for a while, or are being deleted already."""

    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        async with (
            managed(library("namespaces"), client, *NAMESPACES, complaints=complaints) as manager,
            managed(library("collector"), client, "GarbageCollector", complaints=complaints),
        ):
            await client.create("namespaces", {"metadata": {"name": "far"}})
            made: list[tuple[str, Object]] = []
            for number, (resource, held, owner, block) in enumerate(content):
                meta: Object = {"name": f"o{number}"}
                if held:
                    meta["finalizers"] = ["example.com/held"]
                if owner < len(made):
                    version, kind = VERSIONS[made[owner][0]]
                    of = made[owner][1]["metadata"]
                    ref = {"apiVersion": version, "kind": kind, "name": of["name"], "uid": of["uid"]}
                    meta["ownerReferences"] = [{**ref, "blockOwnerDeletion": block}]
                made.append((RESOURCES[resource], await client.create(RESOURCES[resource], {"metadata": meta}, "far")))
            if made and way:
                plural, obj = made[before % len(made)]
                await client.delete(plural, obj["metadata"]["name"], "far", how=Delete(propagation=way))
            await client.delete("namespaces", "far")
            await asyncio.sleep(1)
            await manager.crash("NamespaceController")
            await asyncio.sleep(20)
            for plural, obj in made:
                name = obj["metadata"]["name"]
                if not await gone(client, plural, name, "far"):
                    now = (await client.get(plural, name, "far"))["metadata"]
                    assert now["deletionTimestamp"]
                    left = [f for f in now["finalizers"] if f != "example.com/held"]
                    await client.patch(plural, name, {"metadata": {"finalizers": left or None}}, "far")
            await until(lambda: gone(client, "namespaces", "far"), 30)
        assert complaints == []

    on_server(main)
