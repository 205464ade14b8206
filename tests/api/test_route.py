"""URLs to what they ask for."""

from __future__ import annotations

import pytest

from dashpot.runtime.api.route import info


@pytest.mark.parametrize(
    ("method", "path", "verb", "group", "namespace", "resource", "name", "subresource", "rest"),
    [
        ("GET", "/api/v1/pods", "list", "", "", "pods", "", "", ""),
        ("GET", "/api/v1/namespaces", "list", "", "", "namespaces", "", "", ""),
        ("GET", "/api/v1/namespaces/n", "get", "", "n", "namespaces", "n", "", ""),
        ("PUT", "/api/v1/namespaces/n/finalize", "update", "", "n", "namespaces", "n", "finalize", ""),
        ("PUT", "/api/v1/namespaces/n/status", "update", "", "n", "namespaces", "n", "status", ""),
        ("POST", "/api/v1/namespaces/n/pods", "create", "", "n", "pods", "", "", ""),
        ("GET", "/api/v1/namespaces/n/pods/p/log", "get", "", "n", "pods", "p", "log", ""),
        ("GET", "/apis/apps/v1/namespaces/n/deployments/d/scale", "get", "apps", "n", "deployments", "d", "scale", ""),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            "deletecollection",
            "apps",
            "n",
            "deployments",
            "",
            "",
            "",
        ),
        (
            "GET",
            "/api/v1/namespaces/n/services/s:80/proxy/a/b%20c",
            "get",
            "",
            "n",
            "services",
            "s:80",
            "proxy",
            "a/b%20c",
        ),
        ("GET", "/api/v1/nodes/a/proxy/", "get", "", "", "nodes", "a", "proxy", "/"),
        ("PATCH", "/api/v1/nodes/a%2Fb", "patch", "", "", "nodes", "a/b", "", ""),
    ],
)
def test_resource_paths(
    method: str, path: str, verb: str, group: str, namespace: str, resource: str, name: str, subresource: str, rest: str
) -> None:
    found = info(method, path)
    assert found.resource_request
    assert (found.verb, found.group, found.namespace) == (verb, group, namespace)
    assert (found.resource, found.name, found.subresource, found.rest) == (resource, name, subresource, rest)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/apis", "/apis/apps", "/apis/apps/v1", "/api/v1", "/healthz", "/openapi/v3"]
)
def test_other_paths_keep_the_method(path: str) -> None:
    found = info("GET", path)
    assert not found.resource_request and found.verb == "get"


def test_watch_and_one_name() -> None:
    found = info("GET", "/api/v1/pods", [("watch", "true"), ("fieldSelector", "metadata.name=x,spec.nodeName=n")])
    assert (found.verb, found.name) == ("watch", "x")
    assert info("GET", "/api/v1/pods", [("watch", "false")]).verb == "list"
    assert info("GET", "/api/v1/pods", [("watch", "")]).verb == "watch"
