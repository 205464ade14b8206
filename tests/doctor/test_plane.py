"""Incidents on a whole plane, planted with its own parts: controllers, scheduler, nodes; variants; what is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dashpot.grammar.load import load_text
from dashpot.model.objects.status import StatusError
from dashpot.runtime.clock import rfc3339_micro
from dashpot.runtime.controller.manager import Manager
from dashpot.runtime.doctor.diagnosis import Diagnosis
from dashpot.runtime.doctor.placing import unfit
from dashpot.runtime.doctor.reading import Reading
from tests.controller.running import until
from tests.doctor.kit import Object, Ward, run, until_late

ZONE = "topology.kubernetes.io/zone"


def workload(kind: str, name: str, replicas: int = 1, told: dict[str, str] | None = None, **spec: Any) -> Object:
    """A workload whose pods have the label app=NAME. `spec`: of its pods."""
    labels = {"app": name}
    annotations = {f"fake.dashpot.dev/{key}": value for key, value in (told or {}).items()}
    containers = [{"name": "c", "image": "example.com/x:1"}]
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }
    more: Object = {"replicas": replicas} if kind != "DaemonSet" else {}
    if kind == "StatefulSet":
        more["serviceName"] = name
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more},
    }


async def settled(ward: Ward, plural: str, name: str, space: str, field: str, wanted: int) -> None:
    """Waits until a number of its status is there."""

    async def reached() -> bool:
        found = await ward.client.get(plural, name, space)
        return bool(found["status"].get(field, 0) == wanted)

    await until(reached, 120)


async def space(ward: Ward, name: str) -> None:
    """Makes a namespace that can hold pods."""
    await ward.client.create("namespaces", {"metadata": {"name": name}})

    async def reached() -> bool:
        return any(
            one["metadata"]["name"] == "default" for one in (await ward.client.list("serviceaccounts", name)).items
        )

    await until(reached)


def well(found: Diagnosis) -> None:
    """Nothing is wrong."""
    assert not found.sick, found


# -- rollouts that get on -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "plural"), [("Deployment", "deployments"), ("StatefulSet", "statefulsets")])
def test_a_slow_rollout_is_well_at_every_moment(kind: str, plural: str) -> None:
    async def test(ward: Ward) -> None:
        resource = f"{plural}.apps"
        made = workload(kind, "web", 6, {"ready-after": "20s"})
        service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
        await ward.client.create("services", service, "default")
        await ward.client.create(resource, made, "default")
        for _ in range(12):
            well(await ward.examine())
            await asyncio.sleep(7)
        await settled(ward, resource, "web", "default", "readyReplicas", 6)
        fresh = {"spec": {"template": {"metadata": {"annotations": {"x": "y"}}}}}
        await ward.client.patch(resource, "web", fresh, "default")
        for _ in range(15):
            well(await ward.examine())
            await asyncio.sleep(7)
        await settled(ward, resource, "web", "default", "updatedReplicas", 6)

    run(test)


def test_a_rollout_that_stands_still_is_told() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("deployments.apps", workload("Deployment", "web", 2), "default")
        await settled(ward, "deployments.apps", "web", "default", "readyReplicas", 2)
        fresh = {"spec": {"template": {"metadata": {"annotations": {"fake.dashpot.dev/ready-after": "never"}}}}}
        await ward.client.patch("deployments.apps", "web", fresh, "default")
        await until_late()
        found = await ward.examine()
        assert found.first == (
            "not-settled: Deployment default/web: deployment-controller waits for 2 pods to be of the newest template "
            "(1 are)"
        )

    run(test)


def test_probes_have_the_time_that_they_ask_for() -> None:
    async def test(ward: Ward) -> None:
        probe = {"tcpSocket": {"port": 80}, "periodSeconds": 10, "failureThreshold": 12}
        containers = [{"name": "c", "image": "example.com/x:1", "startupProbe": probe}]
        await ward.client.create(
            "pods",
            {
                "metadata": {"name": "slow", "annotations": {"fake.dashpot.dev/ready-after": "never"}},
                "spec": {"containers": containers},
            },
            "default",
        )
        await until_late(100)
        well(await ward.examine())
        await until_late(100)
        assert (await ward.examine()).first.startswith("not-settled: Pod default/slow: kubelet of node-")

    run(test)


def test_a_claim_that_waits_for_a_consumer_is_well() -> None:
    async def test(ward: Ward) -> None:
        late = {
            "metadata": {"name": "late"},
            "provisioner": "dashpot.dev/hostpath",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await ward.client.create("storageclasses.storage.k8s.io", late)
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        for name, chosen in (("idle", "late"), ("lost", "none")):
            claim = {"metadata": {"name": name}, "spec": {**asked, "storageClassName": chosen}}
            await ward.client.create("persistentvolumeclaims", claim, "default")
        await until_late()
        assert [one.name for one in (await ward.examine()).stuck] == ["default/lost"]

    run(test)


# -- controllers by their figures -----------------------------------------------------------------------------------


def test_a_quota_that_leaves_no_room() -> None:
    async def test(ward: Ward) -> None:
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
        await ward.client.create("resourcequotas", quota, "default")
        await asyncio.sleep(5)
        await ward.client.create("statefulsets.apps", workload("StatefulSet", "db", 2), "default")
        await until_late()
        found = await ward.examine()
        assert found.first == (
            "quota-exhausted: quota default/small: it leaves no pods for the next pod of StatefulSet default/db"
        )
        await ward.client.delete("resourcequotas", "small", "default")
        await settled(ward, "statefulsets.apps", "db", "default", "readyReplicas", 2)
        well(await ward.examine())

    run(test)


def test_a_controller_that_fails_is_named_with_key_and_error() -> None:
    async def test(ward: Ward) -> None:
        away = {
            "name": "guard.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"service": {"name": "guard", "namespace": "default"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
        hooks = "validatingwebhookconfigurations.admissionregistration.k8s.io"
        await ward.client.create(hooks, {"metadata": {"name": "guard"}, "webhooks": [away]})
        await ward.client.create("replicasets.apps", workload("ReplicaSet", "web", 2), "default")
        await until_late()
        found = await ward.examine()
        assert found.first.startswith("webhook-away: webhook guard.example.com (guard): "), found
        (failing,) = [one for one in found.causes if one.code == "controller-failing"]
        assert failing.object == "controller replicaset-controller"
        assert failing.text.startswith("it has failed on default/web for ")
        assert 'failed calling webhook "guard.example.com"' in failing.text
        (stuck,) = found.stuck
        assert stuck.controller == "replicaset-controller" and "guard.example.com" in stuck.error
        await ward.client.delete(hooks, "guard")
        await settled(ward, "replicasets.apps", "web", "default", "readyReplicas", 2)
        well(await ward.examine())

    run(test)


def test_a_controller_that_does_not_run_is_named() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("deployments.apps", workload("Deployment", "web", 2), "default")
        await until_late()
        (stuck,) = (await ward.examine()).stuck
        assert (stuck.kind, stuck.controller) == ("Deployment", "deployment-controller")
        assert stuck.error == "deployment-controller does not run: /metrics has no queue of it"

    run(test, controllers=["*", "-deployment-controller"])


def test_two_controllers_that_fight_are_told_with_what_they_fight_over() -> None:
    def fighter(name: str) -> str:
        return f"""
resource ConfigMap "v1" {{ spec {{ n: Name? at "data.n" }} }}
controller {name} for ConfigMap {{
  reconcile c {{
    if c.name != "ball" {{ return }}
    update c.spec {{ n: "{name.lower()}" }} if changed on Conflict {{ requeue }} on NotFound {{ }}
  }}
}}
"""

    async def test(ward: Ward) -> None:
        await space(ward, "games")
        await ward.client.create("configmaps", {"metadata": {"name": "ball"}}, "games")
        fighters = [
            Manager(load_text(fighter(name), "f.loop"), ward.named(f"{name.lower()}/1"), clock=ward.server.clock)
            for name in ("Ping", "Pong")
        ]
        try:
            for one in fighters:
                await one.start()
            found = await ward.examine()
        finally:
            for one in fighters:
                await one.stop()
        assert found.first.startswith("hot-loop: client pi") or found.first.startswith("hot-loop: client po"), found
        assert "requests a second: update configmaps: games/ball" in found.first
        well(await ward.examine())

    run(test)


def test_a_spec_that_two_decide_is_told_with_them() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("deployments.apps", workload("Deployment", "web", 2), "default")
        await settled(ward, "deployments.apps", "web", "default", "readyReplicas", 2)

        async def insist(who: str, replicas: int) -> None:
            client = ward.named(who)
            for _ in range(20):
                await client.patch("deployments.apps", "web", {"spec": {"replicas": replicas}}, "default")
                await asyncio.sleep(0.5)

        tasks = [asyncio.create_task(insist(who, n)) for who, n in (("one/1", 2), ("two/1", 5))]
        await asyncio.sleep(1)
        found = await ward.examine()
        await asyncio.gather(*tasks)
        assert found.first.startswith("hot-loop: deployment default/web: its spec changed "), found
        assert found.first.endswith("by one and two")
        await ward.client.patch("deployments.apps", "web", {"spec": {"replicas": 3}}, "default")
        await settled(ward, "deployments.apps", "web", "default", "readyReplicas", 3)
        well(await ward.examine())

    run(test)


# -- who should act -------------------------------------------------------------------------------------------------


def test_a_node_without_a_kubelet() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("nodes", {"metadata": {"name": "ghost"}})
        await until_late(100)
        found = await ward.examine()
        assert found.first.startswith("heartbeat-late: node ghost: it has no lease, and has said nothing for 1")
        await ward.client.delete("nodes", "ghost")
        await until_late()
        well(await ward.examine())

    run(test)


def test_a_node_that_comes_back_is_well() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("daemonsets.apps", workload("DaemonSet", "agent"), "default")
        await settled(ward, "daemonsets.apps", "agent", "default", "numberReady", 2)
        ward.plane.fleet.take_down("node-1")
        await until_late(90)
        found = await ward.examine()
        assert found.first.startswith("heartbeat-late: node node-1: its heartbeat is ")
        taints = (await ward.client.get("nodes", "node-1"))["spec"].get("taints") or []
        assert any(one["key"] == "node.kubernetes.io/unreachable" for one in taints)
        ward.plane.fleet.bring_up("node-1")
        await until_late()
        well(await ward.examine())

    run(test)


# -- dead ends ------------------------------------------------------------------------------------------------------


async def zones(ward: Ward, *names: str) -> None:
    """Puts the nodes into zones, one after the other."""
    for at, name in enumerate(names):
        await ward.client.patch("nodes", f"node-{at}", {"metadata": {"labels": {ZONE: name}}})


def spread(name: str) -> Object:
    return {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }


@pytest.mark.parametrize(("kind", "plural"), [("Deployment", "deployments.apps"), ("StatefulSet", "statefulsets.apps")])
def test_pods_that_must_be_spread_over_a_zone_that_takes_none(kind: str, plural: str) -> None:
    async def test(ward: Ward) -> None:
        await space(ward, "shop")
        await zones(ward, "a", "b")
        await ward.client.patch("nodes", "node-1", {"spec": {"unschedulable": True}})
        made = workload(kind, "web", 3, topologySpreadConstraints=[spread("web")])
        await ward.client.create(plural, made, "shop")
        await until_late()
        found = await ward.examine()
        assert found.first.startswith("spread-dead-end: pod shop/web-"), found
        assert "no node fits because of its topology spread constraints" in found.first
        assert "(but for that, node-0 would take it)" in found.first
        await ward.client.patch("nodes", "node-1", {"spec": {"unschedulable": None}})
        await settled(ward, plural, "web", "shop", "readyReplicas", 3)
        well(await ward.examine())

    run(test)


def test_the_rules_tell_the_reason_and_not_the_message() -> None:
    pods = [
        {
            "metadata": {"name": "p", "namespace": "d", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "topologySpreadConstraints": [spread("web")]},
            "status": {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable", "message": "no luck"}]},
        }
    ]
    seen = Reading(1.8e9, {"Pod": pods, "Node": [{"metadata": {"name": "n", "labels": {}}}]})
    (cause,) = unfit(seen, seen)
    assert (cause.code, cause.object) == ("spread-dead-end", "pod d/p")
    assert cause.text == "no node fits because of its topology spread constraints: no luck"


@pytest.mark.parametrize(("kind", "plural"), [("Deployment", "deployments.apps"), ("StatefulSet", "statefulsets.apps")])
def test_a_drain_that_a_budget_blocks_until_it_is_loosened(kind: str, plural: str) -> None:
    async def test(ward: Ward) -> None:
        await space(ward, "shop")
        await ward.client.create(plural, workload(kind, "web", 2), "shop")
        await ward.client.create("daemonsets.apps", workload("DaemonSet", "agent"), "shop")
        for name, selected in (("web", {"app": "web"}), ("agent", {"app": "agent"})):
            budget = {
                "metadata": {"name": name},
                "spec": {"minAvailable": "100%", "selector": {"matchLabels": selected}},
            }
            await ward.client.create("poddisruptionbudgets.policy", budget, "shop")
        await settled(ward, "poddisruptionbudgets.policy", "web", "shop", "currentHealthy", 2)
        well(await ward.examine())
        pods = (await ward.client.list("pods", "shop")).items
        pod = next(one for one in pods if one["metadata"]["labels"]["app"] == "web")
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        await ward.client.patch("nodes", node, {"spec": {"unschedulable": True}})
        await asyncio.sleep(1)
        where = f"/api/v1/namespaces/shop/pods/{name}/eviction"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        with pytest.raises(StatusError, match="disruption budget"):
            await ward.server.local.call("POST", where, eviction)
        found = await ward.examine()
        assert found.first.startswith(
            f"drain-blocked: node {node}: PodDisruptionBudget shop/web allows no disruption: 2 healthy, 2 wanted"
        ), found
        assert [one.code for one in found.causes] == ["drain-blocked"] * len(found.causes)
        assert not any("shop/agent" in one.text for one in found.causes)
        await ward.client.patch("poddisruptionbudgets.policy", "web", {"spec": {"minAvailable": 1}}, "shop")
        await asyncio.sleep(1)
        well(await ward.examine())

    run(test)


def test_an_endpoint_that_goes_and_comes_back() -> None:
    async def test(ward: Ward) -> None:
        await space(ward, "shop")
        await ward.client.create("statefulsets.apps", workload("StatefulSet", "db"), "shop")
        service = {"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "selector": {"app": "db"}}}
        await ward.client.create("services", service, "shop")
        await until_late()
        well(await ward.examine())
        await ward.client.patch("statefulsets.apps", "db", {"spec": {"replicas": 0}}, "shop")
        await until_late()
        assert (await ward.examine()).first == (
            "no-endpoints: service shop/db: no ready endpoint: no pod has the labels app=db; StatefulSet shop/db makes "
            "such pods, but is scaled to 0"
        )
        await ward.client.patch("statefulsets.apps", "db", {"spec": {"replicas": 1}}, "shop")
        well(await ward.examine())

    run(test)


def test_a_port_that_no_container_has() -> None:
    async def test(ward: Ward) -> None:
        await ward.client.create("deployments.apps", workload("Deployment", "web"), "default")
        port = {"port": 80, "targetPort": "http"}
        await ward.client.create(
            "services", {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [port]}}, "default"
        )
        await until_late()
        assert (await ward.examine()).first == (
            "no-endpoints: service default/web: no ready endpoint: no container of its pods has a port named http"
        )

    run(test)


def test_node_ports_run_out() -> None:
    async def test(ward: Ward) -> None:
        for at in range(3):
            service = {"metadata": {"name": f"s{at}"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
            await ward.client.create("services", service, "default")
        assert (await ward.examine()).first.startswith("range-exhausted: node port range: no port is left")
        await ward.client.delete("services", "s0", "default")
        await asyncio.sleep(1)
        well(await ward.examine())

    run(test, node_ports=(30000, 30002))


# -- two at once ----------------------------------------------------------------------------------------------------


def test_two_incidents_are_both_told() -> None:
    async def test(ward: Ward) -> None:
        now = rfc3339_micro(ward.server.clock.now())
        spec = {"holderIdentity": "op-1", "leaseDurationSeconds": 15, "renewTime": now, "acquireTime": now}
        await ward.client.create("leases.coordination.k8s.io", {"metadata": {"name": "op"}, "spec": spec}, "default")
        full = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "full"}
        await ward.client.patch(
            "nodes", "node-1", {"status": {"conditions": [full]}}, kind="strategic", subresource="status"
        )
        await until_late()
        found = await ward.examine()
        assert [(one.code, one.object) for one in found.causes] == [
            ("lease-paused", "lease default/op"),
            ("disk-full", "node node-1"),
        ]
        await ward.client.delete("leases.coordination.k8s.io", "op", "default")
        await ward.client.patch(
            "nodes",
            "node-1",
            {"status": {"conditions": [{**full, "status": "False"}]}},
            kind="strategic",
            subresource="status",
        )
        await asyncio.sleep(5)
        well(await ward.examine())

    run(test)
