"""Defaults of pods and of everything that has a pod template. Source: pkg/apis/core/v1/defaults.go, release 1.34.

All functions fill in place. They expect objects as `schema.Shape.decode` leaves them: zero values that Go leaves out
are absent.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dashpot.model.objects.quantity import QuantityError, parse, total
from dashpot.model.objects.status import Object

_FILE_MODE = 0o644
_LONGEST_IMAGE = 640  # a name of 255 characters, a tag of 128, a digest
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:(?P<host>[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?)/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, named or not; IfNotPresent for others, digests and what is no image reference."""
    return _pull_policy(image) if len(image) <= _LONGEST_IMAGE else "IfNotPresent"


@lru_cache(maxsize=4096)
def _pull_policy(image: str) -> str:
    match = _REFERENCE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def pod(obj: Object) -> None:
    """A Pod: what only pods have, then what they share with templates."""
    spec = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    pod_spec(spec)
    for container in spec.get("containers") or ():
        _requests_from_limits(container["resources"])
    for container in spec.get("initContainers") or ():
        _requests_from_limits(container["resources"])
    if spec.get("resources"):
        _pod_level(spec)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                for port in container.get("ports") or ():
                    if not port.get("hostPort") and "containerPort" in port:
                        port["hostPort"] = port["containerPort"]
    status = obj.get("status")
    if status and status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]


def template(spec: Object) -> None:
    """The pod template of a workload's spec, if it has one."""
    found = spec.get("template")
    if found is not None:
        inner = found.get("spec")
        if inner is None:
            inner = found["spec"] = {}
        pod_spec(inner)


def pod_spec(spec: Object) -> None:
    """What pods and templates share."""
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # the old name of the field is served beside the new one
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for found in spec.get(key) or ():
            container(found)
    for found in spec.get("volumes") or ():
        volume(found)


def container(obj: Object) -> None:
    """One container of any sort."""
    get = obj.get
    if not get("imagePullPolicy"):
        obj["imagePullPolicy"] = pull_policy(get("image") or "")
    if not get("terminationMessagePath"):
        obj["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        obj["terminationMessagePolicy"] = "File"
    if get("resources") is None:
        obj["resources"] = {}
    for port in get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in get("env") or ():
        source = variable.get("valueFrom")
        if source is not None:
            _reference(source)
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        found = get(key)
        if found is not None:
            probe(found)
    hooks = get("lifecycle")
    if hooks:
        for hook in hooks.values():
            if isinstance(hook, dict) and hook.get("httpGet") is not None:
                _http(hook["httpGet"])


def probe(obj: Object) -> None:
    """A probe of any kind."""
    if not obj.get("timeoutSeconds"):
        obj["timeoutSeconds"] = 1
    if not obj.get("periodSeconds"):
        obj["periodSeconds"] = 10
    if not obj.get("successThreshold"):
        obj["successThreshold"] = 1
    if not obj.get("failureThreshold"):
        obj["failureThreshold"] = 3
    action = obj.get("httpGet")
    if action is not None:
        _http(action)
    action = obj.get("grpc")
    if action is not None and action.get("service") is None:
        action["service"] = ""


def _http(action: Object) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def _reference(source: Object) -> None:
    """A variable or file that is read from the pod itself."""
    found = source.get("fieldRef")
    if found is not None and not found.get("apiVersion"):
        found["apiVersion"] = "v1"
    found = source.get("resourceFieldRef")
    if found is not None and found.get("divisor") is None:
        found["divisor"] = "0"


def volume(obj: Object) -> None:
    """A volume of a pod."""
    if len(obj) == 1 and "name" in obj:
        obj["emptyDir"] = {}
        return
    for key in ("configMap", "secret", "downwardAPI", "projected"):
        source = obj.get(key)
        if source is not None:
            if source.get("defaultMode") is None:
                source["defaultMode"] = _FILE_MODE
            for item in source.get("items") or ():
                _reference(item)
            for projection in source.get("sources") or ():
                _projection(projection)
    source = obj.get("ephemeral")
    if source is not None:
        claim = (source.get("volumeClaimTemplate") or {}).get("spec")
        if claim is not None and claim.get("volumeMode") is None:
            claim["volumeMode"] = "Filesystem"
    source = obj.get("image")
    if source is not None and not source.get("pullPolicy"):
        source["pullPolicy"] = pull_policy(source.get("reference") or "")
    volume_source(obj)


def _projection(projection: Object) -> None:
    token = projection.get("serviceAccountToken")
    if token is not None and token.get("expirationSeconds") is None:
        token["expirationSeconds"] = 3600
    for item in (projection.get("downwardAPI") or {}).get("items") or ():
        _reference(item)


_SOURCES: dict[str, Object] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def volume_source(obj: Object) -> None:
    """The source of a volume, in a pod or in a PersistentVolume."""
    for key in obj:
        wanted = _SOURCES.get(key)
        if wanted is not None:
            source = obj[key]
            for name, value in wanted.items():
                if source.get(name) is None:
                    source[name] = value


def _requests_from_limits(resources: Object) -> None:
    """A pod (not a template) that has limits requests as much, where it says nothing."""
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests")
        if requests is None:
            requests = resources["requests"] = {}
        for name, amount in limits.items():
            if name not in requests:
                requests[name] = amount


def _pod_level(spec: Object) -> None:
    """KEP-2837: what the pod as a whole requests, from its containers, then from its limits."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name in limits:
        supported = name in ("cpu", "memory") or name.startswith("hugepages-")
        if name in requests or not supported:
            continue
        asked = aggregate(spec, "requests", name) if not name.startswith("hugepages-") else None
        requests[name] = asked or limits[name]
    for name in ("cpu", "memory"):
        asked = aggregate(spec, "requests", name) if name not in requests else None
        if asked:
            requests[name] = asked
    if requests:
        resources["requests"] = requests


def aggregate(spec: Object, which: str, name: str) -> str | None:
    """What all containers need together of one resource: sidecars run beside the others, init containers before.

    None where no container says anything. Source: k8s.io/component-helpers/resource (AggregateContainerRequests).
    """
    amounts = [_amount(found, which, name) for found in spec.get("containers") or ()]
    sidecars: list[str] = []
    peak: str | None = None
    for found in spec.get("initContainers") or ():
        amount = _amount(found, which, name)
        if found.get("restartPolicy") == "Always":
            sidecars += [amount] if amount else []
            running = sidecars
        else:
            running = [*sidecars, *([amount] if amount else [])]
        peak = _larger(peak, _sum(running))
    return _larger(_sum([*(amount for amount in amounts if amount), *sidecars]), peak)


def _amount(found: Object, which: str, name: str) -> str | None:
    amount: str | None = ((found.get("resources") or {}).get(which) or {}).get(name)
    try:
        return amount if amount is None or parse(amount) is not None else None
    except QuantityError:
        return None


def _sum(amounts: list[str]) -> str | None:
    return str(total([parse(amount) for amount in amounts])) if amounts else None


def _larger(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    return one if parse(one) >= parse(other) else other
