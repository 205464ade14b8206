"""Discovery in its three forms, as old and new clients ask for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.api.recording import asked, cron_tab

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.discovery import MediaRange, answer, media_ranges
from dashpot.runtime.api.exchange import Response

V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V2BETA1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
KUBECTL = f"{V2},{V2BETA1},application/json"


def got(path: str, accept: str = "", catalog: Catalog | None = None, **headers: str) -> Response:
    found = answer(catalog or Catalog(), asked(path, accept=accept, **headers))
    assert found is not None
    return found


def body(path: str, accept: str = "", catalog: Catalog | None = None) -> Any:
    return msgspec.json.decode(got(path, accept, catalog).body)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (KUBECTL, V2),
        (f"{V2BETA1},{V2}", V2BETA1),
        (f"{V2BETA1},application/json", V2BETA1),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", "application/json"),
        (f"application/json,{V2}", "application/json"),
        (f"application/json;q=0.5,{V2}", V2),
        (f"application/vnd.kubernetes.protobuf,{V2}", V2),
        ("application/vnd.kubernetes.protobuf,*/*", "application/json"),
        ("application/json, */*", "application/json"),
        ("", "application/json"),
    ],
)
@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_first_form_that_the_client_names_is_answered(path: str, accept: str, content_type: str) -> None:
    response = got(path, accept)
    assert response.code == 200 and response.content_type == content_type
    assert response.headers["Vary"] == "Accept"


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"])
@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/json;q=0",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    ],
)
def test_what_json_does_not_satisfy_is_406(path: str, accept: str) -> None:
    with pytest.raises(StatusError) as caught:
        got(path, accept)
    assert caught.value.code == 406 and caught.value.reason == "NotAcceptable"


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1"])
def test_other_methods_are_405(path: str) -> None:
    with pytest.raises(StatusError) as caught:
        answer(Catalog(), asked(path, method="POST"))
    assert caught.value.code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/version",
        "/apisx",
        "/api/v2",
        "/api/v1/pods",
        "/apis/nope",
        "/apis/apps/v9",
        "/apis/apps/v1/deployments",
        "/apis/",
        "/apis//v1",
        "/apis//v9",
    ],
)
def test_other_paths_are_left_to_others(path: str) -> None:
    assert answer(Catalog(), asked(path)) is None


def test_plain_forms_name_their_kinds() -> None:
    assert body("/api") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }
    groups = body("/apis")
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    autoscaling = next(group for group in groups["groups"] if group["name"] == "autoscaling")
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert body("/apis/autoscaling") == {"kind": "APIGroup", "apiVersion": "v1", **autoscaling}
    apps, core = body("/apis/apps/v1"), body("/api/v1")
    assert (apps["kind"], apps["apiVersion"], apps["groupVersion"]) == ("APIResourceList", "v1", "apps/v1")
    assert (core["kind"], core["groupVersion"]) == ("APIResourceList", "v1") and "apiVersion" not in core


@pytest.mark.parametrize(
    ("path", "row"),
    [
        (
            "/api/v1",
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "shortNames": ["po"],
                "categories": ["all"],
            },
        ),
        (
            "/api/v1",
            {
                "name": "pods/eviction",
                "singularName": "",
                "namespaced": True,
                "group": "policy",
                "version": "v1",
                "kind": "Eviction",
                "verbs": ["create"],
            },
        ),
        (
            "/apis/apps/v1",
            {
                "name": "deployments/scale",
                "singularName": "",
                "namespaced": True,
                "group": "autoscaling",
                "version": "v1",
                "kind": "Scale",
                "verbs": ["get", "patch", "update"],
            },
        ),
        (
            "/apis/apps/v1",
            {
                "name": "deployments/status",
                "singularName": "",
                "namespaced": True,
                "kind": "Deployment",
                "verbs": ["get", "patch", "update"],
            },
        ),
    ],
)
def test_rows_of_a_resource_list(path: str, row: dict[str, Any]) -> None:
    assert row in body(path)["resources"]


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated_form(version: str) -> None:
    accept = V2 if version == "v2" else V2BETA1
    core, others = body("/api", accept), body("/apis", accept)
    assert core["kind"] == "APIGroupDiscoveryList" and core["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    assert len(core["items"]) == 1 and "name" not in core["items"][0]["metadata"]
    apps = next(item for item in others["items"] if item["metadata"]["name"] == "apps")
    assert apps["versions"][0]["freshness"] == "Current"
    deployments = next(r for r in apps["versions"][0]["resources"] if r["resource"] == "deployments")
    assert deployments["scope"] == "Namespaced" and deployments["singularResource"] == "deployment"
    assert deployments["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }


def test_both_forms_tell_the_same() -> None:
    catalog = Catalog()
    catalog.add("example.com", [cron_tab("v1"), cron_tab("v1beta1")], {})
    told = set()
    for path in ("/api", "/apis"):
        for item in body(path, V2, catalog)["items"]:
            for version in item["versions"]:
                for resource in version["resources"]:
                    names = [resource["resource"], *(s["subresource"] for s in resource.get("subresources", []))]
                    group = item["metadata"].get("name", "")
                    told |= {
                        (group, version["version"], "/".join([names[0], *([n] if n != names[0] else [])]))
                        for n in names
                    }
    plain = {("", "v1", row["name"]) for row in body("/api/v1", "", catalog)["resources"]}
    for group in body("/apis", "", catalog)["groups"]:
        for version in group["versions"]:
            rows = body(f"/apis/{version['groupVersion']}", "", catalog)["resources"]
            plain |= {(group["name"], version["version"], row["name"]) for row in rows}
    assert told == plain


def test_etag_answers_304_until_a_custom_resource_comes() -> None:
    catalog = Catalog()
    etag = got("/apis", V2, catalog).headers["ETag"]
    assert etag.startswith('"') and etag.endswith('"')
    same = got("/apis", V2, catalog, if_none_match=etag)
    assert (same.code, same.body, same.headers["ETag"]) == (304, b"", etag)
    assert got("/apis", V2BETA1, catalog, if_none_match=etag).code == 200
    catalog.add("example.com", [cron_tab("v1")], {})
    fresh = got("/apis", V2, catalog, if_none_match=etag)
    assert fresh.code == 200 and fresh.headers["ETag"] != etag
    catalog.remove("example.com", "crontabs")
    assert got("/apis", V2, catalog).headers["ETag"] == etag


def test_custom_resource_is_told_at_once() -> None:
    catalog = Catalog()
    assert answer(catalog, asked("/apis/example.com/v1")) is None
    catalog.add("example.com", [cron_tab("v1")], {})
    assert body("/apis/example.com/v1", "", catalog)["resources"][0]["shortNames"] == ["ct"]
    catalog.remove("example.com", "crontabs")
    assert answer(catalog, asked("/apis/example.com")) is None


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", []),
        (" , ;;", []),
        ("a/b", [MediaRange("a/b", {})]),
        ("A/B;Q=1;x=1", [MediaRange("a/b", {"Q": "1", "x": "1"})]),
        ("a/b;q=0.1, c/d;q=0.9, e/f", [MediaRange("e/f", {}), MediaRange("c/d", {}), MediaRange("a/b", {})]),
        ("a/b;q=0, c/d;q=x", [MediaRange("c/d", {})]),
    ],
)
def test_accept_header(accept: str, expected: list[MediaRange]) -> None:
    assert media_ranges(accept) == expected
