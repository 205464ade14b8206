"""Volumes that are made for claims, and claims that are made for pods, run from their spec."""

from __future__ import annotations

from typing import Any

import pytest

from dashpot.model.objects.status import StatusError
from tests.library.volume_kit import (
    ALL,
    CLAIMS,
    PROVISIONER,
    VOLUMES,
    annotation,
    claim,
    claim_is,
    have,
    pod,
    storage_class,
    told,
    volume,
    volume_is,
    volume_of,
    volumes,
)
from tests.library.workload_kit import Live, Object, live


# ---------------------------------------------------------------- provisioning
def test_a_volume_is_made_for_a_claim_and_goes_with_it() -> None:
    async def test(at: Live) -> None:
        await have(at, storage_class(mountOptions=["noatime"]), claim(size="3Gi", storageClassName="fast"))
        await claim_is(at, "Bound")
        uid = (await at.one(CLAIMS, "data"))["metadata"]["uid"]
        name = await volume_of(at)
        assert name == f"pvc-{uid}"
        made = await at.one(VOLUMES, name)
        spec = made["spec"]
        assert made["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "dashpot.dev/hostpath"
        assert spec["capacity"] == {"storage": "3Gi"} and spec["accessModes"] == ["ReadWriteOnce"]
        assert spec["persistentVolumeReclaimPolicy"] == "Delete" and spec["storageClassName"] == "fast"
        assert spec["hostPath"]["path"].endswith(f"/{name}") and spec["mountOptions"] == ["noatime"]
        assert spec["claimRef"]["uid"] == uid and "nodeAffinity" not in spec
        for key in ("volume.kubernetes.io", "volume.beta.kubernetes.io"):
            assert await annotation(at, CLAIMS, "data", f"{key}/storage-provisioner") == "dashpot.dev/hostpath"
        await told(at, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")
        await told(at, "Provisioning", 'External provisioner is provisioning volume for claim "default/data"')
        await at.client.delete(CLAIMS, "data")
        await volume_is(at, name, "")

    live("volumes", ALL, test)


def test_what_is_made_under_retain_stays() -> None:
    async def test(at: Live) -> None:
        await have(at, storage_class(reclaimPolicy="Retain"), claim(storageClassName="fast"))
        await claim_is(at, "Bound")
        name = await volume_of(at)
        await at.client.delete(CLAIMS, "data")
        await volume_is(at, name, "Released")

    live("volumes", ALL, test)


@pytest.mark.parametrize(
    ("classes", "asked", "reason", "message"),
    [
        ([], "slow", "ProvisioningFailed", 'storageclass.storage.k8s.io "slow" not found'),
        (
            [storage_class("local", "kubernetes.io/no-provisioner")],
            "local",
            "ProvisioningFailed",
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        (
            [storage_class("other", "csi.example.com")],
            "other",
            "ExternalProvisioning",
            "Waiting for a volume to be created either by the external provisioner 'csi.example.com' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered.",
        ),
    ],
    ids=["no-class", "no-plugin", "somebody-else"],
)
def test_a_claim_that_nobody_provisions_waits(classes: list[Object], asked: str, reason: str, message: str) -> None:
    async def test(at: Live) -> None:
        await have(at, *classes, claim(storageClassName=asked))
        await told(at, reason, message)
        await claim_is(at, "Pending")
        assert await volumes(at) == {}

    live("volumes", PROVISIONER, test)


def test_a_class_that_comes_later_serves_claims_that_wait() -> None:
    async def test(at: Live) -> None:
        asked = claim()
        del asked["spec"]["storageClassName"]
        await have(at, asked, claim("named", storageClassName="fast"))
        await told(at, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        await have(at, storage_class(default=True))
        await claim_is(at, "Bound")
        await claim_is(at, "Bound", "named")
        assert (await at.one(CLAIMS, "data"))["spec"]["storageClassName"] == "fast"

    live("volumes", PROVISIONER, test)


def test_a_class_of_its_own_is_not_replaced_by_the_default() -> None:
    async def test(at: Live) -> None:
        await have(at, storage_class(default=True), claim())
        await told(at, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
        assert (await at.one(CLAIMS, "data"))["spec"]["storageClassName"] == ""
        with pytest.raises(StatusError, match="spec is immutable after creation"):
            await at.patch(CLAIMS, {"spec": {"storageClassName": "fast"}}, "data")

    live("volumes", PROVISIONER, test)


def test_a_claim_waits_for_its_first_consumer() -> None:
    async def test(at: Live) -> None:
        # a static volume would do at once, but nobody knows yet whether the pod can stand where it is
        late: Any = storage_class(volumeBindingMode="WaitForFirstConsumer")
        await have(at, late, volume("v1", storageClassName="fast"), claim(storageClassName="fast"))
        await told(at, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        await have(at, pod())
        await told(at, "WaitForPodScheduled", "waiting for pod web-0 to be scheduled")
        assert await volume_of(at) == ""
        await at.client.delete(VOLUMES, "v1")
        await volume_is(at, "v1", "")
        chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "east"}}}
        await at.patch(CLAIMS, chosen, "data")
        await claim_is(at, "Bound")
        spec = (await at.one(VOLUMES, await volume_of(at)))["spec"]
        (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["east"]}]}

    live("volumes", ALL, test)


def test_a_claim_grows_where_its_class_lets_it() -> None:
    async def test(at: Live) -> None:
        await have(at, storage_class(allowVolumeExpansion=True), claim(storageClassName="fast"))
        await claim_is(at, "Bound")
        await at.patch(CLAIMS, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, "data")

        async def grown() -> bool:
            return bool((await at.status(CLAIMS, "data"))["capacity"] == {"storage": "2Gi"})

        await at.settles(grown)
        assert (await at.one(VOLUMES, await volume_of(at)))["spec"]["capacity"] == {"storage": "2Gi"}
        await told(at, "VolumeResizeSuccessful", "Resize volume succeeded")

    live("volumes", PROVISIONER, test)


# ---------------------------------------------------------------- ephemeral volumes
SCRATCH: Object = {
    "metadata": {"labels": {"kind": "scratch"}, "annotations": {"note": "x"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def scratching() -> Object:
    """A pod with an ephemeral volume."""
    made = pod()
    made["spec"]["volumes"] = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": SCRATCH}}]
    return made


def test_an_ephemeral_volume_has_a_claim_of_its_pod() -> None:
    async def test(at: Live) -> None:
        await have(at, volume("v1"), scratching())
        await claim_is(at, "Bound", "web-0-tmp")
        found = await at.one(CLAIMS, "web-0-tmp")
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "web-0", True)
        assert owner["uid"] == (await at.one("pods", "web-0"))["metadata"]["uid"]
        assert found["metadata"]["labels"] == {"kind": "scratch"} and found["metadata"]["annotations"]["note"] == "x"

    live("volumes", [*ALL, "EphemeralVolumes"], test)


def test_a_claim_of_somebody_else_is_not_taken() -> None:
    async def test(at: Live) -> None:
        await have(at, claim("web-0-tmp"), scratching())
        why = "PVC default/web-0-tmp was not created for pod default/web-0 (pod is not owner)"
        await told(at, "FailedBinding", f"ephemeral volume web-0-tmp: {why}")
        assert not (await at.one(CLAIMS, "web-0-tmp"))["metadata"].get("ownerReferences")

    live("volumes", [*ALL, "EphemeralVolumes"], test)
