"""ServiceAccount: a pod runs as an account that exists, and finds its token where clients look for it.

Source: kubernetes plugin/pkg/admission/serviceaccount, release 1.34.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.view import View
from dashpot.runtime.clock import Clock, rfc3339

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME = "kube-api-access"
MIRROR = "kubernetes.io/config.mirror"
ENFORCE = "kubernetes.io/enforce-mountable-secrets"
TOKEN_SECONDS = 3607
"""An hour and a bit: the odd number tells tokens of this volume from those that somebody asked for."""
CONTAINERS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
DEFAULT_WAIT_S = 1.0
"""How long a pod waits for `default`, which a controller makes after each namespace."""
YOUNG_S = 30.0
"""Seconds after which a namespace that still has no `default` will not get one by waiting."""
DEFAULT_POLL_S = 0.05


class ServiceAccount(Plugin):
    """Names the account, mounts its token, adds its pull secrets."""

    name = "ServiceAccount"

    def __init__(self, view: View, clock: Clock, chance: random.Random | None = None) -> None:
        self._view, self._clock = view, clock
        self._chance = chance or random.Random()

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """New pods, and containers that are added to one to debug it."""
        if resource.group or resource.plural != "pods":
            return False
        return (operation, subresource) in ((CREATE, ""), (UPDATE, "ephemeralcontainers"))

    async def mutate(self, attributes: Attributes) -> None:
        """Fills in; refuses an account that does not exist."""
        if attributes.operation != CREATE:
            return
        pod = attributes.object or {}
        spec = pod.get("spec") or {}
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._check_mirror(attributes, spec)
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes.namespace, name)
        if account is None:
            raise refuse(
                attributes,
                f'error looking up service account {attributes.namespace}/{name}: serviceaccount "{name}" not found',
            )
        if _automount(account, spec):
            _mount(spec, self._chance)
        pulls = account.get("imagePullSecrets")
        if pulls and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(pull) for pull in pulls]

    async def validate(self, attributes: Attributes) -> None:
        """Refuses secrets that the account does not list, where the account says so."""
        pod = attributes.object or {}
        spec = pod.get("spec") or {}
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._check_mirror(attributes, spec)
            return
        account = self._view.get("", "serviceaccounts", attributes.namespace, spec.get("serviceAccountName", ""))
        annotations = (account or {}).get("metadata", {}).get("annotations") or {}
        if account is not None and annotations.get(ENFORCE) in ("1", "t", "T", "true", "TRUE", "True"):
            _limit_secrets(attributes, account, spec)

    @staticmethod
    def _check_mirror(attributes: Attributes, spec: Object) -> None:
        if spec.get("serviceAccountName"):
            raise refuse(attributes, "a mirror pod may not reference service accounts")
        if any(True for _ in _secret_names(spec)):
            raise refuse(attributes, "a mirror pod may not reference secrets")
        for volume in spec.get("volumes") or ():
            for source in (volume.get("projected") or {}).get("sources") or ():
                if "serviceAccountToken" in source:
                    raise refuse(attributes, "a mirror pod may not use ServiceAccountToken volume projections")

    async def _account(self, namespace: str, name: str) -> Object | None:
        found = self._view.get("", "serviceaccounts", namespace, name)
        if found is None:
            found = await self._view.fresh("", "serviceaccounts", namespace, name)
        if found is None and name == "default" and self._young(namespace):
            loop = asyncio.get_running_loop()
            end = loop.time() + DEFAULT_WAIT_S
            while found is None and loop.time() < end:
                await asyncio.sleep(DEFAULT_POLL_S)
                found = self._view.get("", "serviceaccounts", namespace, name)
        return found

    def _young(self, namespace: str) -> bool:
        found = self._view.get("", "namespaces", "", namespace)
        made = str((found or {"metadata": {}})["metadata"].get("creationTimestamp") or "")
        return made >= rfc3339(self._clock.now() - YOUNG_S)


def _automount(account: Object, spec: Object) -> bool:
    """The pod decides, then the account; by default the token is mounted."""
    for said in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if said is not None:
            return bool(said)
    return True


def _mount(spec: Object, chance: random.Random) -> None:
    volumes = spec.get("volumes") or []
    present = next((v["name"] for v in volumes if str(v.get("name", "")).startswith(f"{VOLUME}-")), None)
    name = present or f"{VOLUME}-{''.join(chance.choices(LETTERS, k=5))}"
    needed = False
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            mounts = container.get("volumeMounts") or []
            if all(mount.get("mountPath") != MOUNT_PATH for mount in mounts):
                container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
                needed = True
    if needed and present is None:
        spec["volumes"] = [*volumes, _volume(name)]


def _volume(name: str) -> Object:
    """Token, CA and namespace in one directory."""
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        },
    }


def _secret_names(spec: Object) -> Iterator[str]:
    """Every Secret that a pod names."""
    for pull in spec.get("imagePullSecrets") or ():
        yield pull.get("name", "")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            for env in container.get("env") or ():
                if (key := (env.get("valueFrom") or {}).get("secretKeyRef")) is not None:
                    yield key.get("name", "")
            for source in container.get("envFrom") or ():
                if (whole := source.get("secretRef")) is not None:
                    yield whole.get("name", "")
    for volume in spec.get("volumes") or ():
        if (secret := volume.get("secret")) is not None:
            yield secret.get("secretName", "")
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (projected := source.get("secret")) is not None:
                yield projected.get("name", "")
        for driver in ("azureFile", "cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos", "csi"):
            about = volume.get(driver) or {}
            ref = about.get("secretRef") or about.get("nodePublishSecretRef")
            if ref:
                yield ref.get("name", "")
            if driver == "azureFile" and about.get("secretName"):
                yield about["secretName"]


def _limit_secrets(attributes: Attributes, account: Object, spec: Object) -> None:
    """The old way to fence secrets in, by the annotation `kubernetes.io/enforce-mountable-secrets`."""
    who = account["metadata"]["name"]
    mountable = {secret.get("name") for secret in account.get("secrets") or ()}
    for volume in spec.get("volumes") or ():
        secret = (volume.get("secret") or {}).get("secretName")
        if secret and secret not in mountable:
            raise refuse(
                attributes,
                f'volume with secret.secretName="{secret}" is not allowed because service account {who} does not '
                "reference that secret",
            )
    for kind, called in CONTAINERS:
        for container in spec.get(kind) or ():
            for env in container.get("env") or ():
                key = (env.get("valueFrom") or {}).get("secretKeyRef")
                if key is not None and key.get("name") not in mountable:
                    raise refuse(
                        attributes,
                        f"{called} {container.get('name')} with envVar {env.get('name')} referencing "
                        f'secret.secretName="{key.get("name")}" is not allowed because service account {who} does '
                        "not reference that secret",
                    )
    pulls = {pull.get("name") for pull in account.get("imagePullSecrets") or ()}
    for index, pull in enumerate(spec.get("imagePullSecrets") or ()):
        if pull.get("name") not in pulls:
            raise refuse(
                attributes,
                f'imagePullSecrets[{index}].name="{pull.get("name")}" is not allowed because service account {who} '
                "does not reference that imagePullSecret",
            )
