"""Every name on /metrics counts what happens, or says why it never will."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from tests.api.admit_kit import Authority, configuration, webhook
from tests.api.crd_kit import INT, definition, of

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import LOOPBACK, Response, User
from dashpot.runtime.api.flow_levels import Shape
from dashpot.runtime.api.metrics_table import rows
from dashpot.runtime.api.settings import Settings

Object = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/example.com/v1/namespaces/default/foos"

ELSEWHERE = {
    "apiserver_admission_match_condition_evaluation_errors_total": "test_admit_webhooks",
    "apiserver_authorization_webhook_duration_seconds": "below",
    "apiserver_authorization_webhook_evaluations_fail_open_total": "below",
    "apiserver_authorization_webhook_evaluations_total": "below",
    "authentication_token_cache_active_fetch_count": "below",
    "authentication_token_cache_fetch_total": "below",
    "authentication_token_cache_request_duration_seconds": "below",
    "authentication_token_cache_request_total": "below",
    "apiserver_authentication_jwt_authenticator_latency_seconds": "test_auth_oidc",
    "apiserver_certificates_registry_csr_honored_duration_total": "test_auth_csr",
    "apiserver_certificates_registry_csr_requested_duration_total": "test_auth_csr",
    "apiserver_client_certificate_expiration_seconds": "test_auth_authn",
    "node_authorizer_graph_actions_duration_seconds": "test_auth_node",
    "serviceaccount_valid_tokens_total": "test_auth_tokens",
    "apiserver_audit_error_total": "test_audit_sinks",
    "apiserver_current_inqueue_requests": "test_flow",
    "apiserver_flowcontrol_current_inqueue_requests": "test_flow",
    "apiserver_flowcontrol_current_inqueue_seats": "test_flow",
    "apiserver_flowcontrol_current_r": "test_flow_levels",
    "apiserver_flowcontrol_dispatch_r": "test_flow_levels",
    "apiserver_flowcontrol_latest_s": "test_flow_levels",
    "apiserver_flowcontrol_request_dispatch_no_accommodation_total": "test_flow",
    "apiserver_flowcontrol_request_queue_length_after_enqueue": "test_flow",
    "apiserver_request_aborts_total": "test_server",
    "apiserver_storage_list_evaluated_objects_total": "test_lists: what the cache cannot tell",
    "apiserver_storage_list_fetched_objects_total": "test_lists",
    "apiserver_storage_list_returned_objects_total": "test_lists",
    "apiserver_terminated_watchers_total": "test_watching",
    "etcd_request_errors_total": "a store that fails: test_storage",
    "pod_security_errors_total": "labels in the store that were never let in",
    "apiserver_mutating_admission_policy_check_duration_seconds": "test_admit_policy_mutating: not served yet",
    "apiserver_mutating_admission_policy_check_total": "test_admit_policy_mutating: not served yet",
    "apiserver_stream_translator_requests_total": "test_streams",
    "apiserver_stream_tunnel_requests_total": "test_streams",
    "etcd_lease_object_counts": "a second lease of events, after a minute",
    "etcd_bookmark_counts": "test_conformance: a store's notes come in their own time",
}
"""Names that what is done here does not reach."""


class At:
    """A server and how it is asked."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api

    async def ask(
        self, line: str, body: Any = None, *, user: User | None = LOOPBACK, content: str = "application/json"
    ) -> Response:
        method, _, path = line.partition(" ")
        data = msgspec.json.encode(body) if body is not None else b""
        sent = {"content-type": content, "content-length": str(len(data))} if data else {}
        return await self.api.local.request(method, path, data, user=user, headers=sent)

    async def done(self, line: str, body: Any = None, **options: Any) -> Object:
        answer = await self.ask(line, body, **options)
        assert answer.code < 300, answer.body
        found: Object = msgspec.json.decode(answer.body)
        return found

    async def until(self, line: str, body: Any, code: int) -> None:
        """Asks again until what was written before has come into force."""
        async with asyncio.timeout(10):
            while (await self.ask(line, body)).code != code:
                await asyncio.sleep(0.01)

    async def moved(self) -> set[str]:
        """The names of which any series is not 0."""
        page = (await self.ask("GET /metrics")).body.decode()
        found: set[str] = set()
        for family in text_string_to_metric_families(page):
            if any(sample.value for sample in family.samples):
                found.update((family.name, f"{family.name}_total"))
        return {row.name for row in rows()} & found


async def hooked(at: At, authority: Authority) -> None:
    """A webhook with a match condition that excludes one object; it fails for another."""

    async def answer(request: Object) -> Any:
        name = request["object"]["metadata"]["name"]
        if name == "broken":
            return web.Response(status=500)
        return {"allowed": name != "refused"}

    async with webhook(authority, answer) as port:
        made = configuration(
            "Validating",
            authority,
            port,
            matchConditions=[{"name": "c", "expression": "object.metadata.name != 'passed'"}],
            rules=[{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        )
        await at.done(f"POST {HOOKS}/validatingwebhookconfigurations", made)
        await at.until(f"POST {MAPS}?dryRun=All", {"metadata": {"name": "refused"}}, 400)
        for name, code in (("passed", 201), ("asked", 201), ("broken", 500)):
            assert (await at.ask(f"POST {MAPS}", {"metadata": {"name": name}})).code == code
        one = made["webhooks"][0]
        made["webhooks"] = [{**one, "failurePolicy": "Ignore"}]
        place = f"{HOOKS}/validatingwebhookconfigurations/{made['metadata']['name']}"
        await at.done(f"PUT {place}", {**made, "metadata": {"name": made["metadata"]["name"]}})
        await at.until(f"POST {MAPS}", {"metadata": {"name": "broken"}}, 201)
        await at.done(f"DELETE {place}")


async def judged(at: At) -> None:
    """Policies, validating and mutating."""
    matches = {
        "resourceRules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}
        ]
    }
    spec: Object = {"matchConstraints": matches, "failurePolicy": "Fail"}
    rules = [{"expression": "object.metadata.name != 'no'"}]
    await at.done(
        f"POST {HOOKS}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": {**spec, "validations": rules}}
    )
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    await at.done(f"POST {HOOKS}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound})
    place = "/api/v1/namespaces/default/secrets"
    await at.until(f"POST {place}?dryRun=All", {"metadata": {"name": "no"}}, 422)
    await at.done(f"POST {place}", {"metadata": {"name": "yes"}})


async def converted(at: At, authority: Authority) -> None:
    """A definition with a rule and a second version that a webhook makes."""

    async def convert(request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read())["request"]
        objects = [{**one, "apiVersion": asked["desiredAPIVersion"]} for one in asked["objects"]]
        response = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        told = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
        return web.Response(body=msgspec.json.encode(told), content_type="application/json")

    app = web.Application()
    app.router.add_post("/convert", convert)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=authority.context).start()
    try:
        port = runner.addresses[0][1]
        rule = {"rule": "self.a > 0", "message": "a is positive"}
        schema = of({"spec": {**of({"a": INT}), "x-kubernetes-validations": [rule]}})
        made = definition(schema)
        versions = made["spec"]["versions"]
        versions.append({**versions[0], "name": "v2", "storage": False})
        config = {"url": f"https://127.0.0.1:{port}/convert", "caBundle": authority.bundle}
        made["spec"]["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]},
        }
        await at.done(f"POST {DEFINITIONS}", made)
        await at.until(f"GET {FOOS}", None, 200)
        kind = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "x"}}
        await at.done(f"POST {FOOS}", {**kind, "spec": {"a": 1}})
        assert (await at.ask(f"POST {FOOS}", {**kind, "metadata": {"name": "y"}, "spec": {"a": 0}})).code == 422
        found = await at.done(f"GET {FOOS.replace('/v1/', '/v2/')}/x")
        assert found["apiVersion"] == "example.com/v2"
    finally:
        await runner.cleanup()


async def watched(at: At) -> set[str]:
    """A streaming list, an event, a bookmark; then the client goes."""
    watch = await at.ask(
        f"GET {MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    )
    assert watch.chunks is not None
    lines = watch.chunks.__aiter__()
    coming = asyncio.ensure_future(lines.__anext__())
    await asyncio.sleep(0)
    await at.done(f"POST {MAPS}", {"metadata": {"name": "seen"}})
    told = await coming
    while b'"seen"' not in told:
        told += await lines.__anext__()
    open_ones = await at.moved()
    await lines.aclose()  # type: ignore[attr-defined]
    return open_ones


async def used(at: At) -> None:
    """Pods and services, and requests that fail or are not let in."""
    await at.done("POST /api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    spec: Object = {"containers": [{"name": "c", "image": "example.com/x:1"}]}
    await at.done("PATCH /api/v1/namespaces/default", _levels(), content="application/merge-patch+json")
    await at.done(f"POST {PODS}", {"metadata": {"name": "p"}, "spec": spec})
    assert (await at.ask(f"GET {PODS}/p/log")).code == 204
    worse = {**spec, "hostNetwork": True}
    assert (await at.ask(f"POST {PODS}", {"metadata": {"name": "q"}, "spec": worse})).code == 403
    ports = [{"port": 80, "nodePort": 30001}]
    made = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    await at.done(f"POST {SERVICES}", made)
    for other in ({"ports": ports, "type": "NodePort"}, {"ports": [{"port": 80}], "clusterIP": "192.168.0.1"}):
        assert (await at.ask(f"POST {SERVICES}", {"metadata": {"name": "t"}, "spec": other})).code == 422
    await at.done("GET /api/v1/namespaces/default/endpoints")
    await at.done(f"GET {MAPS}?limit=1")
    await at.done(f"PATCH {MAPS}/asked", {"data": {"k": "v"}}, content="application/merge-patch+json")
    assert (await at.ask(f"GET {MAPS}", user=User("bob", ("system:authenticated",)))).code == 403
    assert (await at.ask("GET /version", user=User("bob", ("system:authenticated",)))).code == 200
    assert (await at.ask(f"GET {MAPS}", user=None)).code == 401
    await at.ask("GET /healthz")
    level = at.api.flow.pool.levels["global-default"]
    level.configure(level.uid, Shape(shares=0, borrowing=0), 0)
    level.used = 1
    assert (await at.ask(f"GET {MAPS}", user=User("bob", ("system:authenticated",)))).code == 429
    level.used = 0


def _levels() -> Object:
    names = ("enforce", "audit", "warn")
    labels = {f"pod-security.kubernetes.io/{name}": "baseline" for name in names}
    return {"metadata": {"labels": labels}}


def test_every_name_counts_what_happens_or_says_why_not(tmp_path: Path) -> None:
    async def main() -> set[str]:
        settings = Settings(store="memory", audit_log=tmp_path / "audit.log")
        api = await ApiServer.start(settings, listen=False, complain=pytest.fail)
        at = At(api)
        authority = Authority(tmp_path)
        try:
            await hooked(at, authority)
            await judged(at)
            await converted(at, authority)
            await used(at)
            return await watched(at) | await at.moved()
        finally:
            with contextlib.suppress(asyncio.CancelledError):
                await api.stop()

    moved = asyncio.run(main())
    silent = {row.name for row in rows() if row.zero}
    assert moved & silent == set(), "says that it never counts, and did"
    assert sorted({row.name for row in rows()} - moved - silent - set(ELSEWHERE)) == []
    assert set(ELSEWHERE) <= {row.name for row in rows()} - silent


def test_webhooks_that_say_who_comes_and_what_they_may_do(tmp_path: Path) -> None:
    """The token cache and the authorization webhook: fetched once, then known; an answer, and none."""
    answers = {
        "TokenReview": {"authenticated": True, "user": {"username": "eve"}},
        "SubjectAccessReview": {"allowed": True},
    }
    broken = False

    async def answer(request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read())
        if broken:
            return web.Response(status=500)
        return web.Response(body=msgspec.json.encode({**review, "status": answers[review["kind"]]}))

    async def main() -> None:
        nonlocal broken
        app = web.Application()
        app.router.add_post("/{tail:.*}", answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        path = tmp_path / "hook.yaml"
        path.write_text(
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{runner.addresses[0][1]}/'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {}}]\n"
        )
        settings = Settings(
            store="memory", token_webhook=path, authorization=("RBAC", "Webhook"), authorization_webhook=path
        )
        api = await ApiServer.start(settings, listen=False, complain=pytest.fail)
        at = At(api)
        try:
            before = await figures(at)
            for _ in range(3):
                headers = {"authorization": "Bearer of-eve"}
                assert (await api.local.request("GET", PODS, headers=headers, user=None)).code == 200
            broken = True
            assert (await at.ask(f"GET {SERVICES}", user=User("mallory", ()))).code == 500
            after = await figures(at)
        finally:
            await api.stop()
            await runner.cleanup()
        grown = {name: value - before.get(name, 0.0) for name, value in after.items()}
        assert grown['authentication_token_cache_request_total{status="miss"}'] == 1
        assert grown['authentication_token_cache_request_total{status="hit"}'] == 2
        assert grown['authentication_token_cache_fetch_total{status="ok"}'] == 1
        assert grown['authentication_token_cache_request_duration_seconds_count{status="hit"}'] == 2
        assert after['authentication_token_cache_active_fetch_count{status="in_flight"}'] == 0
        hooks = "apiserver_authorization_webhook"
        assert grown[f'{hooks}_evaluations_total{{name="default",result="success"}}'] == 1
        assert grown[f'{hooks}_evaluations_total{{name="default",result="error"}}'] == 1
        assert grown[f'{hooks}_evaluations_fail_open_total{{name="default",result="error"}}'] == 1
        assert grown[f'{hooks}_duration_seconds_count{{name="default",result="success"}}'] == 1

    asyncio.run(main())


async def figures(at: At) -> dict[str, float]:
    """Each series of the page."""
    page = (await at.ask("GET /metrics")).body.decode()
    pairs = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}
