"""Webhooks over real TLS on loopback: what they may answer, and what becomes of the write where they do not."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.api.admit_kit import (
    CONFIGMAPS,
    Authority,
    FakeView,
    Object,
    configmap,
    configuration,
    named,
    patch,
    webhook,
    write,
)
from tests.api.hook_kit import Metrics, admit, always, chain, refused, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import DELETE, UPDATE, Attributes, Plugin


def test_review_tells_the_whole_write(authority: Authority) -> None:
    seen: list[Object] = []

    async def answer(request: Object) -> Object:
        seen.append(request)
        return {"allowed": True}

    run(authority, "Validating", answer, write(configmap(a="1"), CONFIGMAPS))
    (request,) = seen
    assert request["kind"] == request["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["operation"] == "CREATE" and request["name"] == "cm" and request["namespace"] == "n"
    assert request["userInfo"] == {"username": "u", "groups": ["system:authenticated"]}
    assert request["object"]["data"] == {"a": "1"} and request["oldObject"] is None
    assert request["dryRun"] is False
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}


def test_delete_shows_the_old_object_alone(authority: Authority) -> None:
    seen: list[Object] = []

    async def answer(request: Object) -> Object:
        seen.append(request)
        return {"allowed": True}

    run(authority, "Validating", answer, write(None, CONFIGMAPS, DELETE, old=configmap(a="1")))
    assert seen[0]["object"] is None and seen[0]["oldObject"]["data"] == {"a": "1"}


def test_mutation_is_applied_and_annotated(authority: Authority) -> None:
    answer = always(patch({"op": "add", "path": "/data/hooked", "value": "yes"}))
    done = run(authority, "Mutating", answer, write(configmap(a="b"), CONFIGMAPS))
    assert done.object is not None and done.object["data"] == {"a": "b", "hooked": "yes"}
    notes = done.exchange.annotations
    assert notes["mutation.webhook.admission.k8s.io/round_0_index_0"] == (
        '{"configuration":"conf","webhook":"hook.example.com","mutated":true}'
    )
    assert notes["patch.webhook.admission.k8s.io/round_0_index_0"] == (
        '{"configuration":"conf","webhook":"hook.example.com",'
        '"patch":[{"op":"add","path":"/data/hooked","value":"yes"}],"patchType":"JSONPatch"}'
    )


def test_warnings_and_audit_annotations_reach_the_exchange(authority: Authority) -> None:
    answer = always({"allowed": True, "warnings": ["mind the gap"], "auditAnnotations": {"k": "v"}})
    done = run(authority, "Validating", answer)
    assert done.exchange.warnings == ["mind the gap"]
    assert done.exchange.annotations == {"hook.example.com/k": "v"}


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        ({"message": "no", "code": 403, "reason": "Forbidden"}, 403, "Forbidden", ": no"),
        ({"message": "no"}, 400, "", ": no"),
        ({"message": "no", "code": 200}, 400, "", ": no"),
        ({"reason": "Because"}, 400, "Because", ": Because"),
        (None, 400, "", " without explanation"),
    ],
)
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_denial(authority: Authority, kind: str, status: Object | None, code: int, reason: str, message: str) -> None:
    error = refused(lambda: run(authority, kind, always({"allowed": False, "status": status})))
    assert (error.code, error.reason) == (code, reason)
    assert error.message == f'admission webhook "hook.example.com" denied the request{message}'


BAD = [
    ({"uid": "other", "allowed": True}, "received invalid webhook response: expected response.uid="),
    (b"{]", "received invalid webhook response: couldn't get version/kind; json parse error: "),
    (
        b'{"apiVersion":"v1","kind":"Pod"}',
        "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
        "got v1, Kind=Pod",
    ),
    (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        "received invalid webhook response: webhook response was absent",
    ),
    ({"allowed": True, "patch": "W10="}, "received invalid webhook response: webhook returned response.patch but not"),
    (
        {"allowed": True, "patch": "W10=", "patchType": "Merge"},
        'received invalid webhook response: webhook returned invalid response.patchType of "Merge"',
    ),
    ({"allowed": True, "patch": "!", "patchType": "JSONPatch"}, "received invalid webhook response: response.patch is"),
    (b"x" * ((3 << 20) + 1), "failed to call webhook: http: response body too large"),
]


@pytest.mark.parametrize(("answer", "text"), BAD, ids=range(len(BAD)))
def test_bad_answers_fail_the_write(authority: Authority, answer: Any, text: str) -> None:
    error = refused(lambda: run(authority, "Mutating", always(answer)))
    assert (error.code, error.reason) == (500, "InternalError")
    told = 'Internal error occurred: failed calling webhook "hook.example.com": '
    assert error.message.startswith(told + text)


@pytest.mark.parametrize(("answer", "text"), BAD, ids=range(len(BAD)))
def test_ignore_lets_them_pass_and_tells(authority: Authority, answer: Any, text: str) -> None:
    metrics = Metrics()
    done = run(authority, "Mutating", always(answer), metrics=metrics, failurePolicy="Ignore")
    assert done.exchange.annotations == {
        "failed-open.mutation.webhook.admission.k8s.io/round_0_index_0": "hook.example.com"
    }
    assert ("failed_open", "hook.example.com", "admit") in metrics.seen


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (404, "the server could not find the requested resource"),
        (500, 'an error on the server ("boom") has prevented the request from succeeding'),
        (503, "the server is currently unable to handle the request"),
        (302, "the server responded with the status code 302 but did not return more information"),
    ],
)
def test_status_codes(authority: Authority, code: int, text: str) -> None:
    async def answer(request: Object) -> web.Response:
        return web.Response(status=code, text="boom", headers={"Location": "https://example.com/"})

    error = refused(lambda: run(authority, "Validating", answer))
    assert error.message.endswith(f'failed calling webhook "hook.example.com": failed to call webhook: {text}')


def test_validating_webhook_may_not_patch(authority: Authority) -> None:
    error = refused(lambda: run(authority, "Validating", always(patch({"op": "remove", "path": "/data"}))))
    assert "validating webhook may not return response.patch" in error.message


def test_patch_that_does_not_apply_fails_whatever_the_policy(authority: Authority) -> None:
    answer = always(patch({"op": "remove", "path": "/nothing"}))
    error = refused(lambda: run(authority, "Mutating", answer, failurePolicy="Ignore"))
    assert error.code == 500 and "does not apply" in error.message


def test_slow_webhook_costs_its_timeout(authority: Authority) -> None:
    async def answer(request: Object) -> Object:
        await asyncio.sleep(30)
        return {"allowed": True}

    error = refused(lambda: run(authority, "Validating", answer, timeoutSeconds=1))
    assert error.message.startswith('Internal error occurred: failed calling webhook "hook.example.com": failed to')
    assert error.message.endswith('/do?timeout=1s": context deadline exceeded')


def test_dead_webhook(authority: Authority) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        view = FakeView(configuration("Validating", authority, port))
        error = refused(lambda: asyncio.run(admit(chain(view), write(configmap(), CONFIGMAPS))))
    assert error.message == (
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: '
        f'Post "https://127.0.0.1:{port}/do?timeout=5s": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


def test_unknown_authority(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path)
    config = {"clientConfig": None}

    async def main() -> None:
        async with webhook(authority, always({"allowed": True})) as port:
            config["clientConfig"] = {"url": f"https://127.0.0.1:{port}/", "caBundle": other.bundle}  # type: ignore[assignment]
            view = FakeView(configuration("Validating", authority, port, **config))
            await admit(chain(view), write(configmap(), CONFIGMAPS))

    error = refused(lambda: asyncio.run(main()))
    assert error.message.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")


def service_view(authority: Authority, port: int) -> FakeView:
    config = {"service": {"name": "hook", "namespace": "n", "port": 443, "path": "do"}, "caBundle": authority.bundle}
    service = {"apiVersion": "v1", "kind": "Service", **named("hook", "n")}
    service["spec"] = {"clusterIP": "127.0.0.9", "ports": [{"port": 443}]}
    piece: Object = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    piece |= named("hook-1", "n", labels={"kubernetes.io/service-name": "hook"})
    piece["ports"] = [{"port": port}]
    piece["endpoints"] = [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    return FakeView(configuration("Validating", authority, port, clientConfig=config), service, piece)


def test_service_is_found_by_its_endpoints_and_named_in_tls(authority: Authority) -> None:
    async def main() -> None:
        async with webhook(authority, always({"allowed": True})) as port:
            await admit(chain(service_view(authority, port)), write(configmap(), CONFIGMAPS))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda view: view.objects["", "services"].clear(), 'service "hook" not found'),
        (
            lambda view: view.get("", "services", "n", "hook")["spec"].update(ports=[]),
            'no service port 443 found for service "hook"',
        ),
        (
            lambda view: view.get("discovery.k8s.io", "endpointslices", "n", "hook-1").update(endpoints=[]),
            'no endpoints available for service "hook"',
        ),
    ],
)
def test_service_that_is_not_there(authority: Authority, change: Callable[[Any], None], text: str) -> None:
    view = service_view(authority, 1)
    change(view)
    error = refused(lambda: asyncio.run(admit(chain(view), write(configmap(), CONFIGMAPS))))
    assert error.message.endswith(f"failed to call webhook: {text}")


def test_reinvocation(authority: Authority) -> None:
    """The first webhook looks again because the second changed the object after it; the second does not."""
    calls: list[str] = []

    def count(name: str) -> Callable[[Object], Awaitable[Object]]:
        async def answer(request: Object) -> Object:
            calls.append(name)
            if name == "b":
                return patch({"op": "add", "path": "/data/b", "value": str(len(calls))})
            return {"allowed": True}

        return answer

    class Plain(Plugin):
        name = "Plain"

        async def mutate(self, attributes: Attributes) -> None:
            calls.append("plain")

    async def main() -> Attributes:
        async with webhook(authority, count("a")) as first, webhook(authority, count("b")) as second:
            one = configuration("Mutating", authority, first, name="a.x.y", reinvocationPolicy="IfNeeded")
            two = configuration("Mutating", authority, second, name="b.x.y")
            one["webhooks"] += two["webhooks"]
            return await admit(chain(FakeView(one), Plain()), write(configmap(a="b"), CONFIGMAPS))

    done = asyncio.run(main())
    assert calls == ["plain", "a", "b", "plain", "a"]
    rounds = [key.rpartition("/")[2] for key in done.exchange.annotations if key.startswith("mutation")]
    assert rounds == ["round_0_index_0", "round_0_index_1", "round_1_index_0"]


def test_changed_configuration_is_seen_at_once(authority: Authority) -> None:
    async def main() -> list[int]:
        codes = []
        async with webhook(authority, always({"allowed": False})) as port:
            view = FakeView()
            built = chain(view)
            await built.validate(write(configmap(), CONFIGMAPS))
            view.put(
                "admissionregistration.k8s.io",
                "validatingwebhookconfigurations",
                configuration("Validating", authority, port),
            )
            for operation in ("CREATE", UPDATE):
                try:
                    await built.validate(write(configmap(), CONFIGMAPS, operation, old=configmap()))
                except StatusError as error:
                    codes.append(error.code)
            await built.close()
        return codes

    assert asyncio.run(main()) == [400, 400]


def test_faults_of_the_injector(authority: Authority) -> None:
    class Faults:
        async def before(self, configuration: str, webhook: str, url: str) -> str:
            return "EOF"

        def answer(self, configuration: str, webhook: str, body: bytes) -> bytes:
            return body

    error = refused(lambda: run(authority, "Validating", always({"allowed": True}), faults=Faults()))
    assert error.message.endswith('/do?timeout=5s": EOF')


def test_validating_webhooks_run_at_the_same_time(authority: Authority) -> None:
    arrived = 0
    both = asyncio.Event()

    async def answer(request: Object) -> Object:
        nonlocal arrived
        arrived += 1
        if arrived == 2:
            both.set()
        await both.wait()
        return {"allowed": True}

    async def main() -> None:
        async with webhook(authority, answer) as port:
            one = configuration("Validating", authority, port, name="a.x.y")
            one["webhooks"] += configuration("Validating", authority, port, name="b.x.y")["webhooks"]
            await admit(chain(FakeView(one)), write(configmap(), CONFIGMAPS))

    asyncio.run(main())
    assert arrived == 2


def test_figures(authority: Authority) -> None:
    metrics = Metrics()
    refused(lambda: run(authority, "Validating", always({"allowed": False}), metrics=metrics))
    assert metrics.seen == [
        ("duration", "hook.example.com", "validating", "CREATE", True),
        ("request", "hook.example.com", "validating", "CREATE", 400, True),
        ("rejection", "hook.example.com", "validating", "CREATE", "no_error", 400),
    ]


def test_webhook_that_was_restarted_is_asked_on_a_new_connection(authority: Authority) -> None:
    async def main() -> None:
        async with webhook(authority, always({"allowed": True})) as port:
            built = chain(FakeView(configuration("Validating", authority, port)))
            await built.validate(write(configmap(), CONFIGMAPS))
        async with webhook(authority, always({"allowed": True}), port):
            await built.validate(write(configmap(), CONFIGMAPS))
        await built.close()

    asyncio.run(main())


def test_webhook_that_hangs_up(authority: Authority) -> None:
    calls = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=authority.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await admit(chain(FakeView(configuration("Validating", authority, port))), write(configmap(), CONFIGMAPS))

    error = refused(lambda: asyncio.run(main()))
    assert error.message.endswith('/do?timeout=5s": EOF') and calls == 2


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}, 400),
        ({"op": "replace", "path": "/kind", "value": "Secret"}, 500),
        ({"op": "remove", "path": "/metadata"}, 500),
        ({"op": "replace", "path": "", "value": []}, 500),
    ],
)
def test_webhooks_do_not_move_objects(authority: Authority, operation: Object, code: int) -> None:
    assert refused(lambda: run(authority, "Mutating", always(patch(operation)))).code == code


DEEP = 100_000


@pytest.mark.parametrize(
    "answer",
    [
        b"[" * DEEP,
        b'{"response":' * DEEP,
        {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(b"[" * DEEP).decode()},
        {
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(
                b'[{"op":"add","path":"/data/a","value":' + b"[" * 900 + b"]" * 900 + b"}]"
            ).decode(),
        },
        {"allowed": 1},
        {"allowed": True, "warnings": {"a": 1}, "auditAnnotations": [1], "status": 7},
        b"",
        b"null",
    ],
    ids=range(8),
)
def test_hostile_answers_end_in_words(authority: Authority, answer: Any) -> None:
    try:
        run(authority, "Mutating", always(answer))
    except StatusError as error:
        assert error.code in (400, 500) and error.message


def test_warnings_fit_into_a_header(authority: Authority) -> None:
    answer = always({"allowed": True, "warnings": ["a\r\nSet-Cookie: x\x00", "w" * 10_000]})
    done = run(authority, "Validating", answer)
    assert done.exchange.warnings == ["aSet-Cookie: x", "w" * 256]
