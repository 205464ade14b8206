"""The manager runs controllers of the library against an API server, on virtual time."""

from __future__ import annotations

from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from tests.client.serving import on_server
from tests.controller.running import Object, library, managed, until

ACCOUNT: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def replica_set(replicas: int) -> Object:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }


def test_a_replica_set_gets_its_pods_and_loses_them() -> None:
    async def main(server: ApiServer, client: Client) -> None:
        complaints: list[str] = []
        await client.create("serviceaccounts", ACCOUNT)

        async def ready(count: int) -> bool:
            pods = (await client.list("pods", "default")).items
            status = (await client.get("replicasets", "web")).get("status") or {}
            return len(pods) == count and status.get("readyReplicas", 0) == count

        async with managed(library("kubernetes.replicaset"), client, complaints=complaints):
            await client.create("replicasets", replica_set(3))
            await until(lambda: ready(3))
            await client.patch("replicasets", "web", {"spec": {"replicas": 1}})
            await until(lambda: ready(1))
        assert complaints == []

    on_server(main)
