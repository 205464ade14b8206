"""Objects for the live tests of volumes."""

from __future__ import annotations

from typing import Any

from tests.library.workload_kit import Live, Object, thing

BINDER = ["ClaimBinder", "VolumeBinder"]
PROVISIONER = [*BINDER, "HostPathProvisioner", "HostPathDeleter"]
CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"
PROTECTION = ["ClaimProtection", "VolumeProtection"]
ALL = [*PROVISIONER, *PROTECTION]


def claim(name: str = "data", size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), **spec: Any) -> Object:
    """A claim of no class unless `storageClassName` says so."""
    asked = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, "storageClassName": "", **spec}
    return thing("v1", "PersistentVolumeClaim", asked, name)


def volume(
    name: str, size: str = "1Gi", modes: tuple[str, ...] = ("ReadWriteOnce",), labels: Object | None = None, **spec: Any
) -> Object:
    """A directory as a volume."""
    given = {"capacity": {"storage": size}, "accessModes": list(modes), "hostPath": {"path": f"/tmp/{name}"}, **spec}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": given,
    }


def storage_class(name: str = "fast", provisioner: str = "dashpot.dev/hostpath", **fields: Any) -> Object:
    """A storage class; `default` marks it as the one for claims that name none."""
    marked = {"storageclass.kubernetes.io/is-default-class": "true"} if fields.pop("default", False) else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": marked},
        "provisioner": provisioner,
        **fields,
    }


def pod(name: str = "web-0", claim_name: str = "data", **spec: Any) -> Object:
    """A pod that mounts a claim."""
    mounted = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    return thing("v1", "Pod", {"containers": [{"name": "c", "image": "a"}], "volumes": [mounted], **spec}, name)


async def phase(at: Live, name: str = "data") -> str:
    """The phase of a claim; "" where there is none."""
    found = [c for c in await at.all("persistentvolumeclaims") if c["metadata"]["name"] == name]
    return str((found[0].get("status") or {}).get("phase", "")) if found else ""


async def volume_of(at: Live, name: str = "data") -> str:
    """The name of the volume that a claim is bound to, or ""."""
    found: str = (await at.one("persistentvolumeclaims", name))["spec"].get("volumeName", "")
    return found


async def volumes(at: Live) -> dict[str, str]:
    """The phases of all volumes, by name."""
    found = (await at.client.list("persistentvolumes")).items
    return {v["metadata"]["name"]: v["status"].get("phase", "") for v in found}


async def claim_is(at: Live, wanted: str, name: str = "data", seconds: float = 60.0) -> None:
    """Waits until a claim is in a phase."""

    async def reached() -> bool:
        return await phase(at, name) == wanted

    await at.settles(reached, seconds)


async def volume_is(at: Live, name: str, wanted: str, seconds: float = 60.0) -> None:
    """Waits until a volume is in a phase; "" waits until it is gone."""

    async def reached() -> bool:
        return (await volumes(at)).get(name, "") == wanted

    await at.settles(reached, seconds)


async def told(at: Live, reason: str, message: str, seconds: float = 60.0) -> None:
    """Waits for an event in the namespace `default` or about a volume."""

    async def heard() -> bool:
        found = (await at.client.list("events")).items
        return message in [e["message"] for e in found if e["reason"] == reason]

    await at.settles(heard, seconds)


async def have(at: Live, *objects: Object) -> None:
    """Creates objects, each of its kind."""
    of = {"PersistentVolume": VOLUMES, "PersistentVolumeClaim": CLAIMS, "StorageClass": CLASSES, "Pod": "pods"}
    for one in objects:
        await at.client.create(of[one["kind"]], one)


async def annotation(at: Live, resource: str, name: str, key: str) -> str | None:
    """An annotation of an object, or None."""
    found: str | None = (await at.one(resource, name))["metadata"].get("annotations", {}).get(key)
    return found
