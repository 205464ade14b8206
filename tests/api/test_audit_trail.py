"""The audit log of a running server: one event a stage, nothing secret in it, whoever asks and however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from dashpot.runtime.api import route
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.audit.policy import metadata_only
from dashpot.runtime.api.audit.trail import Trail
from dashpot.runtime.api.exchange import LOOPBACK, Exchange, Request, Response, User
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.clock import SystemClock

Object = dict[str, Any]

EVE = User("eve", ("dev", "system:authenticated"), "u-1", {"key": ("a", "b")})
MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


class Memory:
    """A sink that keeps events."""

    plugin = "memory"
    dropped = 0

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, event: bytes) -> None:
        self.lines.append(event)

    async def close(self) -> None:
        pass


class Log:
    """A server with an audit log, and what it wrote since the last look."""

    def __init__(self, api: ApiServer, path: Path) -> None:
        self.api = api
        self._path = path
        self._read = 0

    async def ask(
        self, line: str, body: Any = None, *, user: User | None = EVE, content: str = "application/json", **headers: str
    ) -> Response:
        method, _, path = line.partition(" ")
        data = body if isinstance(body, bytes) else msgspec.json.encode(body) if body is not None else b""
        sent = {"content-type": content, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await self.api.local.request(method, path, data, user=user, headers=sent)

    async def events(self) -> list[Object]:
        await asyncio.sleep(0)  # lines of one turn of the loop are written at its end
        await asyncio.sleep(0)
        lines = self._path.read_bytes().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [msgspec.json.decode(line) for line in new]

    async def event(self) -> Object:
        (found,) = await self.events()
        return found


def logging(
    folder: Path,
    test: Callable[[Log], Coroutine[Any, Any, None]],
    *rules: Object,
    complain: Any = pytest.fail,
    **policy: Any,
) -> None:
    """Runs a test on a server with such a policy."""

    async def main() -> None:
        file = folder / "policy.yaml"
        rule = [{"level": "None", "users": [LOOPBACK.name]}, *rules]
        file.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rule, **policy}))
        path = folder / "audit.log"
        settings = Settings(store="memory", authorization=("AlwaysAllow",), audit_policy=file, audit_log=path)
        api = await ApiServer.start(settings, listen=False, complain=complain)
        try:
            await test(Log(api, path))
        finally:
            await api.stop()

    asyncio.run(main())


QUIET = {"omitStages": ["RequestReceived"]}


def test_metadata_of_a_write(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        made = {"metadata": {"name": "a"}, "data": {"k": "v"}}
        answer = await log.ask(
            f"POST {MAPS}?fieldManager=m&x=a%20b", made, user_agent="kubectl/v1", x_forwarded_for="10.0.0.9, 10.0.0.8"
        )
        received, complete = await log.events()
        assert received["stage"] == "RequestReceived" and "responseStatus" not in received
        assert complete.pop("stageTimestamp") >= complete.pop("requestReceivedTimestamp") > "2020"
        assert complete.pop("auditID") == received["auditID"] == answer.headers["Audit-Id"]
        assert complete.pop("annotations") == {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "",
        }
        assert complete == {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "stage": "ResponseComplete",
            "requestURI": f"{MAPS}?fieldManager=m&x=a+b",
            "verb": "create",
            "user": {
                "username": "eve",
                "uid": "u-1",
                "groups": ["dev", "system:authenticated"],
                "extra": {"key": ["a", "b"]},
            },
            "sourceIPs": ["10.0.0.9", "10.0.0.8"],
            "userAgent": "kubectl/v1",
            "objectRef": {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
        }

    logging(tmp_path, test, {"level": "Metadata"})


def test_a_failure_is_told_with_its_reason(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.ask(f"GET {MAPS}/none")
        status = (await log.event())["responseStatus"]
        assert status["code"] == 404 and status["reason"] == "NotFound" and status["status"] == "Failure"
        assert status["message"] == 'configmaps "none" not found'
        assert status["details"] == {"name": "none", "kind": "configmaps"}

    logging(tmp_path, test, {"level": "Metadata"}, **QUIET)


def test_the_clients_id_is_kept_if_it_is_one(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.ask("GET /version", audit_id="mine")
        assert (await log.event())["auditID"] == "mine"
        await log.ask("GET /version", audit_id="x" * 65)
        assert len((await log.event())["auditID"]) == 36

    logging(tmp_path, test, {"level": "Metadata"}, **QUIET)


def test_level_none_writes_nothing_and_answers_carry_an_id(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        answer = await log.ask("GET /version")
        assert len(answer.headers["Audit-Id"]) == 36 and answer.headers["Audit-Id"][14] == "4"
        assert await log.events() == []

    logging(tmp_path, test, {"level": "None"})


def test_bodies_are_those_that_came_and_went(tmp_path: Path) -> None:
    """Not the object that defaults and admission made of the request."""

    async def test(log: Log) -> None:
        await log.ask(f"POST {ACCOUNTS}", {"metadata": {"name": "default"}}, user=LOOPBACK)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await log.ask("POST /api/v1/namespaces/default/pods", pod)
        event = await log.event()
        assert event["requestObject"] == pod
        assert event["responseObject"]["spec"]["restartPolicy"] == "Always"
        assert event["responseObject"]["metadata"]["uid"]
        event = await after(log, "PATCH /api/v1/namespaces/default/pods/p", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        assert event["requestObject"] == {"metadata": {"labels": {"a": "b"}}}
        steps = [{"op": "add", "path": "/metadata/labels/c", "value": "d"}]
        event = await after(log, "PATCH /api/v1/namespaces/default/pods/p", steps, "application/json-patch+json")
        assert event["requestObject"] == steps
        assert event["responseObject"]["metadata"]["labels"] == {"a": "b", "c": "d"}
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {k: v}\n"
        event = await after(log, f"PATCH {MAPS}/y?fieldManager=m", text, "application/apply-patch+yaml")
        assert event["requestObject"]["data"] == {"k": "v"}
        event = await after(
            log, f"DELETE {MAPS}/y", {"kind": "DeleteOptions", "gracePeriodSeconds": 0}, "application/json"
        )
        assert event["requestObject"]["gracePeriodSeconds"] == 0
        assert event["responseObject"]["kind"] == "Status"

    logging(tmp_path, test, {"level": "RequestResponse"}, **QUIET)


MERGE = "application/merge-patch+json"


async def after(log: Log, line: str, body: Any, content: str) -> Object:
    answer = await log.ask(line, body, content=content)
    assert answer.code < 300, answer.body
    return await log.event()


def test_level_request_has_no_answers(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.ask(f"POST {MAPS}", {"metadata": {"name": "a"}})
        event = await log.event()
        assert "requestObject" in event and "responseObject" not in event

    logging(tmp_path, test, {"level": "Request"}, **QUIET)


@pytest.mark.parametrize("encoding", ["", "gzip"])
@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
def test_long_lists_are_written_whole(tmp_path: Path, encoding: str, accept: str) -> None:
    """Also where the answer is in pieces or zipped."""

    async def test(log: Log) -> None:
        for index in range(120):
            body = {"metadata": {"name": f"c{index:03}"}, "data": {"k": "v" * 3_000}}
            await log.ask(f"POST {MAPS}", body, user=LOOPBACK)
        answer = await log.ask(f"GET {MAPS}?includeObject=Object", accept=accept, accept_encoding=encoding)
        assert (answer.headers.get("Content-Encoding") == "gzip") == bool(encoding)
        found = (await log.event())["responseObject"]
        rows = found.get("items") or [row["object"] for row in found["rows"]]
        assert [row["metadata"]["name"] for row in rows] == [f"c{index:03}" for index in range(120)]

    logging(tmp_path, test, {"level": "RequestResponse"}, **QUIET)


def test_managed_fields_are_left_out_where_the_policy_says_so(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.ask(f"POST {MAPS}", {"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert "managedFields" not in (await log.event())["responseObject"]["metadata"]
        await log.ask(f"GET {MAPS}")
        event = await log.event()
        (item,) = [item for item in event["responseObject"]["items"] if item["metadata"]["name"] == "a"]
        assert ("managedFields" in item["metadata"]) == (event["verb"] == "list")

    rules = ({"level": "RequestResponse", "verbs": ["list"], "omitManagedFields": False}, {"level": "RequestResponse"})
    logging(tmp_path, test, *rules, omitManagedFields=True, **QUIET)


def test_nothing_secret_is_ever_written(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        coded = "c2VzYW1l"  # sesame
        applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"data":{{"k":"{coded}"}}}}'}
        secret = {
            "metadata": {"name": "s", "annotations": applied},
            "data": {"k": coded},
            "stringData": {"x": "sesame"},
        }
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        ask = log.ask
        answers = [
            await ask(f"POST {SECRETS}", secret),
            await ask(f"GET {SECRETS}/s"),
            await ask(f"GET {SECRETS}/s?includeObject=Object", accept=table),
            await ask(f"GET {SECRETS}"),
            await ask(f"GET {SECRETS}?includeObject=Object", accept=table),
            await ask(f"PATCH {SECRETS}/s", {"stringData": {"x": "sesame"}}, content=MERGE),
            await ask(
                f"PATCH {SECRETS}/s",
                [{"op": "add", "path": "/data/k", "value": coded}],
                content="application/json-patch+json",
            ),
            await ask(
                f"PATCH {SECRETS}/s?fieldManager=m&force=true",
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": coded}},
                content="application/apply-patch+yaml",
            ),
            await ask(f"PUT {SECRETS}/s", {**secret, "metadata": {"name": "s"}}),
            await ask(f"DELETE {SECRETS}"),
        ]
        assert [answer.code for answer in answers] == [201, *([200] * 9)]
        await ask(f"POST {ACCOUNTS}", {"metadata": {"name": "sa"}}, user=LOOPBACK)
        issued = await ask(f"POST {ACCOUNTS}/sa/token", {"spec": {"audiences": ["x"]}})
        token = msgspec.json.decode(issued.body)["status"]["token"]
        review = {"spec": {"token": token, "audiences": ["x"]}}
        await ask("POST /apis/authentication.k8s.io/v1/tokenreviews", review)
        text = b"\n".join(msgspec.json.encode(event) for event in await log.events()).decode()
        assert "sesame" not in text and coded not in text and token not in text
        assert text.count("REDACTED") > 12

    logging(tmp_path, test, {"level": "RequestResponse"}, **QUIET)


def test_watches_have_a_stage_at_their_beginning(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        watch = await log.ask(f"GET {MAPS}?watch=1&timeoutSeconds=60")
        assert [event["stage"] for event in await log.events()] == ["RequestReceived", "ResponseStarted"]
        assert watch.chunks is not None
        lines = watch.chunks.__aiter__()
        coming = asyncio.ensure_future(lines.__anext__())
        await asyncio.sleep(0)
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        (end,) = await log.events()
        assert (end["stage"], end["verb"], end["responseStatus"]["code"]) == ("ResponseComplete", "watch", 200)
        await log.ask(f"GET {MAPS}")
        assert [event["stage"] for event in await log.events()] == ["RequestReceived", "ResponseComplete"]

    logging(tmp_path, test, {"level": "RequestResponse"})


def test_a_mistake_of_ours_is_the_last_stage(tmp_path: Path) -> None:
    told: list[str] = []

    async def test(log: Log) -> None:
        async def broken(exchange: Exchange) -> Response:
            raise RuntimeError("boom")

        log.api._pipeline.serve = broken
        assert (await log.ask(f"GET {MAPS}")).code == 500
        event = await log.event()
        assert (event["stage"], event["responseStatus"]["code"]) == ("Panic", 500)
        assert event["responseStatus"]["reason"] == "InternalError" and "boom" not in str(event)

    logging(tmp_path, test, {"level": "Metadata"}, complain=told.append, **QUIET)
    assert "boom" in told[0]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({}, "Authentication failed, no credentials provided"),
        ({"authorization": "Bearer nonsense"}, "Authentication failed, attempted: bearer"),
        ({"authorization": "Basic eDp5"}, "Authentication failed, attempted: basic"),
    ],
)
def test_who_is_nobody_is_written_down(tmp_path: Path, headers: dict[str, str], text: str) -> None:
    async def test(log: Log) -> None:
        answer = await log.ask(f"GET {MAPS}", user=None, **headers)
        assert answer.code == 401
        event = await log.event()
        assert event["stage"] == "ResponseStarted" and event["user"] == {}
        assert event["responseStatus"]["message"] == text
        assert event["responseStatus"]["code"] == 401 and "nonsense" not in str(event)
        assert event["auditID"] == answer.headers["Audit-Id"]

    logging(tmp_path, test, {"level": "Metadata"}, **QUIET)


def test_both_names_of_who_is_impersonated(tmp_path: Path) -> None:
    async def test(log: Log) -> None:
        await log.ask("GET /version", impersonate_user="bob", impersonate_group="ops")
        event = await log.event()
        assert event["user"]["username"] == "eve"
        assert event["impersonatedUser"]["username"] == "bob"
        assert event["impersonatedUser"]["groups"] == ["ops", "system:authenticated"]

    # the policy speaks of who really asks
    logging(tmp_path, test, {"level": "None", "users": ["bob"]}, {"level": "Metadata", "users": ["eve"]}, **QUIET)


def test_metadata_costs_less_than_25_microseconds() -> None:
    """CPU of all stages of one request, the best of many rounds: the machine has other work."""
    path = "/api/v1/namespaces/default/configmaps"
    info = route.info("POST", path)

    async def body() -> bytes:
        return b"{}"

    request = Request("POST", path, (("fieldManager", "kubectl"),), {"user-agent": "kubectl/v1"}, body, "127.0.0.1")
    sink = Memory()
    trail = Trail(metadata_only(), [sink], SystemClock(), random.SystemRandom())

    def once() -> None:
        exchange = Exchange(request, info, time.time(), EVE, request_object={"metadata": {"name": "x"}})
        for gate in (trail.identify(exchange), trail.gate(exchange)):
            with contextlib.suppress(StopIteration):
                gate.send(None)
        trail.ended(exchange, Response(201))

    rounds = []
    for _ in range(30):
        began = time.process_time()
        for _ in range(200):
            once()
        rounds.append((time.process_time() - began) / 200)
        sink.lines.clear()
    assert min(rounds) < 25e-6
