"""Two API servers on one etcd, with one folder of keys, are one cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from attrs import frozen
from tests.clients.running import Running
from tests.histories.clients import Client, context_of, run
from tests.histories.kit import expect_sound, observed, told
from tests.histories.traffic import NAMESPACES
from tests.store.servers import Server, connected

Object = dict[str, Any]

SEED = int(os.environ.get("DASHPOT_SEED", "1"))
SOON_S = 1.0
"""Within it, a change through one server holds at the other."""


@frozen
class Two:
    """Two servers and the etcd behind them."""

    etcd: Server
    servers: tuple[Running, Running]

    def doors(self) -> list[tuple[str, Any]]:
        """Both addresses, with the same credentials."""
        return [(server.url, context_of(self.servers[0].kubeconfig)) for server in self.servers]


@pytest.fixture(scope="module")
def two(etcd_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Both start at once on an empty store and an empty folder."""
    folder = tmp_path_factory.mktemp("two")
    etcd = Server(etcd_program, folder / "etcd")
    etcd.start()
    with ExitStack() as stack:
        stack.callback(etcd.stop)
        servers = []
        for name in ("a", "b"):
            way_in = folder / f"kubeconfig-{name}"
            options = ("--store", f"etcd://{etcd.endpoint}", "--kubeconfig", str(way_in))
            run(_there(etcd.endpoint))
            server = Running(folder / "data", *options)
            server.kubeconfig = way_in
            servers.append(server)
        for server in servers:
            stack.enter_context(server)
        yield Two(etcd, (servers[0], servers[1]))
        for server in servers:
            assert "mistake" not in server.errors(), server.errors()


async def _there(endpoint: str) -> None:
    await (await connected([endpoint])).close()


def both(two: Two, test: Callable[[Client, Client], Awaitable[None]]) -> None:
    """Runs a test with a client of each."""

    async def main() -> None:
        a, b = (Client(url, context) for url, context in two.doors())
        try:
            await test(a, b)
        finally:
            await a.close()
            await b.close()

    run(main())


async def soon(test: Callable[[], Awaitable[bool]], within: float = SOON_S) -> None:
    """Waits for something that has to come about."""
    end = time.monotonic() + within
    while not await test():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.01)


async def space(client: Client, name: str) -> str:
    """A namespace with its account; its path."""
    await client.done("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    await client.done("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    return f"/api/v1/namespaces/{name}"


def test_history(two: Two) -> None:
    async def main() -> None:
        store = await connected([two.etcd.endpoint])
        before = await store.revision()
        record = await observed(two.doors(), SEED, 1.5)
        expect_sound(record, SEED, await told(store, before))
        await store.close()

    run(main())


ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group: str) -> Object:
    """Things of a group."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": f"things.{group}"}, "spec": spec}


def test_definition(two: Two) -> None:
    """Served by both within a second, and gone from both."""

    async def test(a: Client, b: Client) -> None:
        for number, (one, other) in enumerate(((a, b), (b, a))):
            group = f"g{number}.example.com"
            path = f"/apis/{group}/v1/things"
            await one.done("POST", ROOT, definition(group))
            assert (await one.ask("GET", path))[0] == 200

            async def served(other: Client = other, path: str = path) -> bool:
                return (await other.ask("GET", path))[0] == 200

            async def gone(other: Client = other, path: str = path) -> bool:
                return (await other.ask("GET", path))[0] == 404

            await soon(served)
            await other.done("POST", path, {"metadata": {"name": "t"}, "spec": {"size": 3}})
            assert (await one.done("GET", f"{path}/t"))["spec"] == {"size": 3}
            code, answer = await other.ask("POST", path, {"metadata": {"name": "u"}, "spec": {"size": "x"}})
            assert code == 422, answer
            await one.done("DELETE", f"{ROOT}/things.{group}")
            await soon(gone)
            assert (await one.ask("GET", f"{ROOT}/things.{group}"))[0] == 404

    both(two, test)


def test_addresses(two: Two) -> None:
    """No ClusterIP and no node port twice, whoever gives them."""

    async def test(a: Client, b: Client) -> None:
        path = f"{await space(a, 'services')}/services"

        def service(name: str, **spec: Any) -> Object:
            return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}], **spec}}

        made = await asyncio.gather(
            *(client.done("POST", path, service(f"s{n}{c}")) for n in range(30) for c, client in enumerate((a, b)))
        )
        assert set(Counter(one["spec"]["clusterIP"] for one in made).values()) == {1}
        assert set(Counter(one["spec"]["ports"][0]["nodePort"] for one in made).values()) == {1}
        for number in range(10):
            wanted = service("x", clusterIP=f"10.100.0.{number}", ports=[{"port": 80, "nodePort": 30000 + number}])
            answers = await asyncio.gather(
                *(
                    client.ask("POST", path, {**wanted, "metadata": {"name": f"w{number}{c}"}})
                    for c, client in enumerate((a, b))
                )
            )
            assert sorted(code for code, _ in answers) == [201, 422], answers
        # what one gave, the other takes back
        await asyncio.gather(*(b.ask("DELETE", f"{path}/w3{c}") for c in (0, 1)))
        await a.done("POST", path, service("again", clusterIP="10.100.0.3", ports=[{"port": 80, "nodePort": 30003}]))

    both(two, test)


def test_quota(two: Two) -> None:
    """Creates on both never exceed a quota, and use it up."""

    async def test(a: Client, b: Client) -> None:
        path = await space(a, "quotas")
        hard = {"count/configmaps": "10", "count/secrets": "0"}
        used = {"count/configmaps": "0", "count/secrets": "0"}
        quota = await a.done("POST", f"{path}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        # what the controller of quotas does, which is no part of an API server
        await a.done("PUT", f"{path}/resourcequotas/q/status", {**quota, "status": {"hard": hard, "used": used}})
        for client in (a, b):

            async def ready(client: Client = client) -> bool:
                return (await client.ask("POST", f"{path}/secrets", {"metadata": {"name": "none"}}))[0] == 403

            await soon(ready)
        answers = await asyncio.gather(
            *(
                client.ask("POST", f"{path}/configmaps", {"metadata": {"name": f"c{n}{c}"}})
                for n in range(20)
                for c, client in enumerate((a, b))
            )
        )
        codes = Counter(code for code, _ in answers)
        listed = await b.done("GET", f"{path}/configmaps")
        quota = await a.done("GET", f"{path}/resourcequotas/q")
        assert codes[201] == len(listed["items"]) == 10, (codes, quota["status"])
        assert quota["status"]["used"] == {**used, "count/configmaps": "10"}
        assert codes == {201: 10, 403: 30}

    both(two, test)


def test_tokens_and_roles(two: Two) -> None:
    """A token of one holds at the other; a role given or taken through one holds at the other within a second."""

    async def test(a: Client, b: Client) -> None:
        path = await space(a, "roles")
        answer = await a.done("POST", f"{path}/serviceaccounts/default/token", {"spec": {}})
        context = context_of(two.servers[1].kubeconfig, certificate=False)
        holder = Client(b.url, context, answer["status"]["token"])
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/roles/rolebindings"
        try:
            assert (await holder.ask("GET", f"{path}/configmaps"))[0] == 403
            subject = {"kind": "ServiceAccount", "name": "default", "namespace": "roles"}
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
            await a.done("POST", rbac, {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": role})

            async def allowed() -> bool:
                return (await holder.ask("GET", f"{path}/configmaps"))[0] == 200

            async def refused() -> bool:
                return (await holder.ask("GET", f"{path}/configmaps"))[0] == 403

            await soon(allowed)
            await a.done("DELETE", f"{rbac}/r")
            await soon(refused)
            await a.done("DELETE", f"{path}/serviceaccounts/default")

            async def unknown() -> bool:
                return (await holder.ask("GET", f"{path}/configmaps"))[0] == 401

            await soon(unknown)
        finally:
            await holder.close()

    both(two, test)


def test_webhook(two: Two) -> None:
    """A webhook that is set up through one is called by the other."""

    async def test(a: Client, b: Client) -> None:
        path = await space(a, "hooked")
        root = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        hook = {
            "name": "down.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "hooked"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        names = iter(range(1_000_000))

        async def code() -> int:
            return (await b.ask("POST", f"{path}/configmaps", {"metadata": {"name": f"c{next(names)}"}}))[0]

        async def called() -> bool:
            return await code() == 500

        async def free() -> bool:
            return await code() == 201

        assert await free()
        await a.done("POST", root, {"metadata": {"name": "down"}, "webhooks": [hook]})
        await soon(called)
        await a.done("DELETE", f"{root}/down")
        await soon(free)

    both(two, test)


def test_leader(two: Two) -> None:
    """Of two that write a Lease over the same version through different servers, one succeeds."""

    async def test(a: Client, b: Client) -> None:
        await space(a, "leading")
        path = "/apis/coordination.k8s.io/v1/namespaces/leading/leases"
        lease = await a.done("POST", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "nobody"}})
        for turn in range(20):
            answers = await asyncio.gather(
                *(
                    client.ask("PUT", f"{path}/l", {**lease, "spec": {"holderIdentity": f"{name}{turn}"}})
                    for name, client in (("a", a), ("b", b))
                )
            )
            assert sorted(code for code, _ in answers) == [200, 409]
            lease = next(answer for code, answer in answers if code == 200)
            for client in (a, b):
                assert await client.done("GET", f"{path}/l") == lease

    both(two, test)


def test_namespace_at_once(two: Two) -> None:
    """What is made through one can be used through the other at once; nothing gets into a namespace that ends."""

    async def test(a: Client, b: Client) -> None:
        for number in range(10):
            one, other = (a, b) if number % 2 else (b, a)
            await one.done("POST", "/api/v1/namespaces", {"metadata": {"name": f"n{number}"}})
            path = f"/api/v1/namespaces/n{number}"
            await other.done("POST", f"{path}/configmaps", {"metadata": {"name": "c"}})
            assert (await one.done("GET", f"{path}/configmaps"))["items"]

    both(two, test)


def test_bootstrap_once(two: Two) -> None:
    """Both made what every cluster has; each object is there once and was written once."""

    async def test(a: Client, b: Client) -> None:
        roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        first, second = await a.done("GET", roles), await b.done("GET", roles)
        assert first["items"] == second["items"]
        service = await a.done("GET", "/api/v1/namespaces/default/services/kubernetes")
        assert service["spec"]["clusterIP"] == "10.96.0.1"
        still = [await a.done("GET", roles) for _ in range(2)]
        assert [item["metadata"]["resourceVersion"] for item in still[0]["items"]] == [
            item["metadata"]["resourceVersion"] for item in first["items"]
        ]

    both(two, test)


def test_definition_after_an_outage(two: Two) -> None:
    """etcd was away for some rounds of trying again: both follow it again, and each other through it."""

    async def test(a: Client, b: Client) -> None:
        two.etcd.stop()
        ends = time.monotonic() + 1.5
        while time.monotonic() < ends:
            assert (await b.ask("GET", "/readyz"))[0] == 500
            await asyncio.sleep(0.1)
        two.etcd.start()
        for client in (a, b):

            async def ready(client: Client = client) -> bool:
                return (await client.ask("GET", ROOT))[0] == 200 and (await client.ask("GET", "/readyz"))[0] == 200

            await soon(ready, 10)
        for number, (one, other) in enumerate(((a, b), (b, a))):
            group = f"after{number}.example.com"
            await one.done("POST", ROOT, definition(group))

            async def served(other: Client = other, group: str = group) -> bool:
                return (await other.ask("GET", f"/apis/{group}/v1/things"))[0] == 200

            await soon(served, 5)

    both(two, test)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(400, 403))
def test_long(two: Two, seed: int) -> None:
    async def main() -> str:
        (url, context), _ = two.doors()
        client = Client(url, context)
        for namespace in NAMESPACES:  # nothing is left of the one before, whose history is not told again
            await client.ask("DELETE", f"/api/v1/namespaces/{namespace}/configmaps")
        await client.close()
        store = await connected([two.etcd.endpoint])
        before = await store.revision()
        record = await observed(two.doors(), seed, 20)
        figures = expect_sound(record, seed, await told(store, before))
        await store.close()
        return figures

    print(run(main()))
