"""Flow control in a running server: where requests go, what they are told, and that a flood delays nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import msgspec
import pytest
from tests.api.views import DictView

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import flow_bootstrap, flow_status, route
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.exchange import LOOPBACK, Exchange, Request, Response, User
from dashpot.runtime.api.flow import LEVEL_UID, SCHEMA_UID, FlowControl
from dashpot.runtime.api.local import whole
from dashpot.runtime.api.settings import Settings

Object = dict[str, Any]

API = "/apis/flowcontrol.apiserver.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ALL = "system:authenticated"


def user(name: str, *groups: str) -> User:
    return User(name, (*groups, ALL))


def account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return user(f"system:serviceaccount:{namespace}:{name}", *groups)


NODE = user("system:node:n1", "system:nodes")
BOB = user("bob")


async def _no_body() -> bytes:
    return b""


def exchange(line: str, who: User) -> Exchange:
    """`GET /api/v1/pods` of a user."""
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    pairs = [tuple(pair.split("=", 1)) for pair in query.split("&") if pair]
    request = Request(method, path, pairs, {}, _no_body)  # type: ignore[arg-type]
    return Exchange(request, route.info(method, path, request.query), 0.0, who)


TABLE = [
    (LOOPBACK, "POST /api/v1/namespaces/n/pods", "exempt"),
    (user("root", "system:masters"), "GET /api/v1/secrets", "exempt"),
    (BOB, "GET /healthz", "probes"),
    (BOB, "GET /livez", "probes"),
    (BOB, "GET /livez/etcd", "global-default"),
    (BOB, "POST /healthz", "global-default"),
    (user("system:kube-scheduler"), f"PUT {LEASES}/l", "system-leader-election"),
    (user("system:kube-scheduler"), "PATCH /api/v1/namespaces/kube-system/configmaps/l", "kube-scheduler"),
    (
        user("system:kube-controller-manager"),
        "PUT /api/v1/namespaces/kube-system/endpoints/l",
        "system-leader-election",
    ),
    (user("system:kube-controller-manager"), "PUT /api/v1/namespaces/n/endpoints/e", "endpoint-controller"),
    (user("system:kube-controller-manager"), "GET /api/v1/pods", "kube-controller-manager"),
    (account("kube-system", "endpoint-controller"), "POST /api/v1/namespaces/n/endpoints", "endpoint-controller"),
    (account("kube-system", "x"), f"PUT {LEASES}/l", "system-leader-election"),
    (account("kube-system", "x"), "PUT /api/v1/namespaces/n/configmaps/l", "workload-leader-election"),
    (account("kube-system", "x"), "DELETE /api/v1/namespaces/n/configmaps/l", "kube-system-service-accounts"),
    (account("n", "x"), f"PUT {LEASES}/l", "service-accounts"),
    (account("n", "x"), "GET /metrics", "service-accounts"),
    (NODE, f"PUT {LEASES}/n1", "system-node-high"),
    (NODE, "PATCH /api/v1/nodes/n1/status", "system-node-high"),
    (NODE, "GET /api/v1/nodes/n1", "system-node-high"),
    (NODE, "GET /api/v1/nodes/n1/proxy", "system-nodes"),
    (NODE, "GET /api/v1/pods", "system-nodes"),
    (BOB, "GET /api/v1/pods", "global-default"),
    (User("system:anonymous", ("system:unauthenticated",)), "GET /api/v1/pods", "global-default"),
    (User("stranger"), "GET /api/v1/pods", "catch-all"),
]


@pytest.mark.parametrize(("who", "line", "schema"), TABLE)
def test_requests_belong_to_upstreams_schemas(who: User, line: str, schema: str) -> None:
    """Of the objects of release 1.34: the first that matches, by precedence."""
    flow = FlowControl(DictView())
    found = exchange(line, who)
    assert flow.find(found.info, found.user).lane.schema == schema


def test_flows_are_told_apart_by_user_or_namespace() -> None:
    flow = FlowControl(DictView())

    def key(line: str, who: User) -> str:
        found = exchange(line, who)
        return flow.find(found.info, found.user).key

    assert key("GET /api/v1/pods", BOB) != key("GET /api/v1/pods", user("eve"))
    assert key("GET /api/v1/pods", BOB) == key("POST /api/v1/namespaces/n/pods", BOB)
    manager = user("system:kube-controller-manager")
    pods = "GET /api/v1/namespaces/{}/pods"
    assert key(pods.format("a"), manager) != key(pods.format("b"), manager)


async def server(**settings: Any) -> ApiServer:
    found = Settings(store="memory", authorization=("AlwaysAllow",), **settings)
    return await ApiServer.start(found, listen=False, complain=pytest.fail)


async def ask(api: ApiServer, line: str, who: User = LOOPBACK, body: Object | None = None, **headers: str) -> Response:
    method, _, path = line.partition(" ")
    data = msgspec.json.encode(body) if body is not None else b""
    return await api.local.request(method, path, data, user=who, headers=headers)


def decoded(response: Response) -> Any:
    return msgspec.json.decode(whole(response))


def test_answers_name_schema_and_level() -> None:
    async def main() -> None:
        api = await server()
        try:
            for who, line, schema, level in (
                (BOB, "GET /api/v1/pods", "global-default", "global-default"),
                (NODE, f"GET {LEASES}/none", "system-node-high", "node-high"),
                (LOOPBACK, "GET /version", "exempt", "exempt"),
            ):
                headers = (await ask(api, line, who)).headers
                found = decoded(await ask(api, f"GET {API}/flowschemas/{schema}"))
                assert headers[SCHEMA_UID] == found["metadata"]["uid"]
                found = decoded(await ask(api, f"GET {API}/prioritylevelconfigurations/{level}"))
                assert headers[LEVEL_UID] == found["metadata"]["uid"]
        finally:
            await api.stop()

    asyncio.run(main())


def schema(name: str, level: str, precedence: int, who: str) -> Object:
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    return {
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [{"kind": "User", "user": {"name": who}}], "resourceRules": [rule]}],
        },
    }


def level(name: str, shares: int, response: Object) -> Object:
    limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "borrowingLimitPercent": 0}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


async def _until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_objects_of_users_are_respected_and_a_full_level_answers_429() -> None:
    async def main() -> None:
        api = await server(seats=10)
        try:
            made = await ask(api, f"POST {API}/flowschemas", body=schema("mine", "tight", 50, "bob"))
            assert made.code == 201, made.body
            assert api.flow.find(exchange("GET /api/v1/pods", BOB).info, BOB).lane.schema == "global-default"
            made = await ask(api, f"POST {API}/prioritylevelconfigurations", body=level("tight", 0, {"type": "Reject"}))
            assert made.code == 201, made.body
            pods = exchange("GET /api/v1/pods", BOB)
            await _until(lambda: api.flow.find(pods.info, BOB).lane.schema == "mine")

            await api.flow.gate(pods)  # the level's only seat is taken
            refused = await ask(api, "GET /api/v1/pods", BOB)
            assert refused.code == 429
            assert refused.headers["Retry-After"] == "1"
            assert SCHEMA_UID in refused.headers
            told = decoded(refused)
            assert (told["reason"], told["message"]) == (
                "TooManyRequests",
                "Too many requests, please try again later.",
            )
            assert told["details"]["retryAfterSeconds"] == 1
            while pods.closers:
                pods.closers.pop()()
            assert (await ask(api, "GET /api/v1/pods", BOB)).code == 200

            await ask(api, f"DELETE {API}/flowschemas/mine")
            await _until(lambda: api.flow.find(pods.info, BOB).lane.schema == "global-default")
        finally:
            await api.stop()

    asyncio.run(main())


def test_schemas_say_whether_their_level_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_status, "EVERY_S", 0.001)

    async def main() -> None:
        api = await server()

        async def dangling(name: str) -> tuple[str, str]:
            found = decoded(await ask(api, f"GET {API}/flowschemas/{name}"))
            for one in (found.get("status") or {}).get("conditions") or ():
                if one["type"] == "Dangling":
                    return one["status"], one["reason"]
            return "", ""

        async def becomes(name: str, status: str, reason: str) -> None:
            async with asyncio.timeout(10):
                while await dangling(name) != (status, reason):
                    await asyncio.sleep(0.001)

        try:
            for one in flow_bootstrap.schemas():
                assert await dangling(one["metadata"]["name"]) == ("False", "Found")
            await ask(api, f"POST {API}/flowschemas", body=schema("mine", "tight", 50, "bob"))
            await becomes("mine", "True", "NotFound")
            await ask(api, f"POST {API}/prioritylevelconfigurations", body=level("tight", 1, {"type": "Reject"}))
            await becomes("mine", "False", "Found")
        finally:
            await api.stop()

    asyncio.run(main())


def test_what_every_server_must_have_is_there_though_its_objects_are_not() -> None:
    async def main() -> None:
        api = await server()
        try:
            for name in ("exempt", "catch-all", "global-default"):
                assert (await ask(api, f"DELETE {API}/flowschemas/{name}")).code == 200
                assert (await ask(api, f"DELETE {API}/prioritylevelconfigurations/{name}")).code == 200
            info = exchange("GET /api/v1/pods", BOB).info
            await _until(lambda: api.flow.find(info, BOB).lane.schema == "catch-all")
            assert api.flow.find(info, LOOPBACK).lane.schema == "exempt"
            assert api.flow.find(info, LOOPBACK).level.shape.exempt
        finally:
            await api.stop()

    asyncio.run(main())


def test_a_watch_gives_its_seats_back_when_it_has_begun() -> None:
    async def main() -> None:
        api = await server()
        try:
            await ask(api, "POST /api/v1/namespaces/default/configmaps", body={"metadata": {"name": "a"}})
            for query in ("watch=1", "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"):
                query += "&allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=60"
                watch = await ask(api, f"GET /api/v1/namespaces/default/configmaps?{query}", BOB)
                lane = api.flow.lanes["global-default", "global-default"]
                assert watch.chunks is not None and lane.executing == 1
                lines = watch.chunks.__aiter__()
                await lines.__anext__()
                following = asyncio.ensure_future(lines.__anext__())
                await _until(lambda lane=lane: lane.executing == 0)
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                assert api.flow.pool.levels["global-default"].used == 0
        finally:
            await api.stop()

    asyncio.run(main())


def test_streams_take_no_seats() -> None:
    async def main() -> None:
        flow = FlowControl(DictView())
        for path in ("log", "exec", "attach", "portforward"):
            found = exchange(f"GET /api/v1/namespaces/n/pods/p/{path}", BOB)
            await flow.gate(found)
            assert not found.closers

    asyncio.run(main())


COSTS = [
    ("GET /api/v1/pods", 90, 1),
    ("GET /api/v1/pods", 250, 3),
    ("GET /api/v1/pods", 1_000_000, 8),  # 15 % of the level's 49 seats
    ("GET /api/v1/pods?limit=100", 10_000, 1),
    ("GET /api/v1/pods?limit=500", 10_000, 5),
    ("GET /api/v1/pods?limit=500&labelSelector=a", 10_000, 8),
    ("GET /api/v1/pods?limit=0", 10_000, 8),
    ("GET /api/v1/pods?limit=junk", 10_000, 8),
    ("GET /api/v1/pods?fieldSelector=metadata.name=p", 10_000, 1),
    ("GET /api/v1/pods?watch=1", 10_000, 1),
    ("GET /api/v1/pods?watch=1&sendInitialEvents=true", 10_000, 8),
    ("GET /api/v1/namespaces/n/pods/p", 10_000, 1),
    ("DELETE /api/v1/namespaces/n/pods", 10_000, 1),
    ("GET /version", 10_000, 1),
]


@pytest.mark.parametrize(("line", "objects", "seats"), COSTS)
def test_lists_cost_seats_by_the_objects_they_look_at(line: str, objects: int, seats: int) -> None:
    async def main() -> None:
        flow = FlowControl(DictView(), lambda group, plural: objects)
        found = exchange(line, BOB)
        await flow.gate(found)
        assert flow.pool.levels["global-default"].used == seats
        for closer in found.closers:
            closer()
        assert flow.pool.levels["global-default"].used == 0

    asyncio.run(main())


def test_who_waits_too_long_is_refused() -> None:
    async def main() -> None:
        flow = FlowControl(DictView(), seats=1, patience_s=0.0)
        running = [exchange("GET /api/v1/pods", BOB) for _ in range(flow.pool.levels["global-default"].nominal)]
        for one in running:
            await flow.gate(one)
        with pytest.raises(StatusError) as refused:
            await flow.gate(exchange("GET /api/v1/pods", BOB))
        assert (refused.value.code, refused.value.retry_after) == (429, 1)
        lane = flow.lanes["global-default", "global-default"]
        assert (lane.refused, lane.waiting, lane.no_room) == ({"time-out": 1}, 0, 1)
        assert flow.kinds["readOnly"].look() == (1, 1)

    asyncio.run(main())


@pytest.mark.parametrize("accept", ["application/json;as=Table;v=v1;g=meta.k8s.io", "application/json"])
def test_leases_are_renewed_in_time_while_one_client_floods_lists(accept: str) -> None:
    """200 lists of 1,000 objects in flight all the time: no renewal of a node's lease takes a second."""

    async def main() -> None:
        api = await server()
        try:
            for index in range(1_000):
                body = {"metadata": {"name": f"c{index}"}, "data": {"k": "v" * 500}}
                await ask(api, "POST /api/v1/namespaces/default/configmaps", body=body)
            await ask(api, f"POST {LEASES}", body={"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}})
            stop = asyncio.Event()
            flooder = account("default", "flood")

            async def flood() -> None:
                while not stop.is_set():
                    answer = await ask(api, "GET /api/v1/configmaps", flooder, accept=accept)
                    assert answer.code == 200
                    await asyncio.sleep(0)

            tasks = [asyncio.create_task(flood()) for _ in range(200)]
            lane = ("service-accounts", "workload-low")
            await _until(lambda: lane in api.flow.lanes and api.flow.lanes[lane].waiting > 100)
            slowest = 0.0
            for _ in range(25):
                began = time.monotonic()
                lease = decoded(await ask(api, f"GET {LEASES}/n1", NODE))
                lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
                assert (await ask(api, f"PUT {LEASES}/n1", NODE, lease)).code == 200
                slowest = max(slowest, time.monotonic() - began)
                await asyncio.sleep(0.01)
            assert api.flow.lanes[lane].waiting > 100, "the flood has ended before the leases were renewed"
            stop.set()
            await asyncio.gather(*tasks)
            assert slowest < 1.0
            assert all(one.used == 0 for one in api.flow.pool.levels.values())
        finally:
            await api.stop()

    asyncio.run(main())


def test_a_watch_that_nobody_reads_gives_its_seats_back() -> None:
    """Its client has gone before the head of the answer was sent."""

    async def main() -> None:
        api = await server()
        try:
            watch = await ask(api, "GET /api/v1/configmaps?watch=1", BOB)
            assert api.flow.pool.levels["global-default"].used == 1
            close = watch.chunks.aclose  # type: ignore[union-attr]
            await close()
            await close()
            assert api.flow.pool.levels["global-default"].used == 0
        finally:
            await api.stop()

    asyncio.run(main())


def test_a_seat_costs_less_than_10_microseconds() -> None:
    """CPU of the gate and of giving the seat back, the best of many rounds: the machine has other work."""
    flow = FlowControl(DictView())
    one = exchange("POST /api/v1/namespaces/n/pods", BOB)
    rounds = []
    for _ in range(40):
        began = time.process_time()
        for _ in range(500):
            gate = flow.gate(one)
            with contextlib.suppress(StopIteration):
                gate.send(None)
            one.closers.pop()()
        rounds.append((time.process_time() - began) / 500)
    assert min(rounds) < 10e-6
