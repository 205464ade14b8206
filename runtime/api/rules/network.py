"""Rules of Ingresses, NetworkPolicies and of what webhooks and policies match that look at several fields at once.

Sources: pkg/apis/{networking,admissionregistration}/validation/validation.go, release 1.34.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

from dashpot.model.objects import names
from dashpot.model.objects.status import Cause, invalid_value, required
from dashpot.runtime.api.rules.place import Trail, find, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
CLASS = "kubernetes.io/ingress.class"
PORT = "must be between 1 and 65535, inclusive"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _backend(entry: Object) -> Check:
    """A backend of an Ingress: a service with a port, or a resource."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        path, service, resource = spelled(trail), value.get("service"), value.get("resource")
        if service is not None and resource is not None:
            scene.causes.append(invalid_value(path, "", "cannot set both resource and service backends"))
        elif service is not None:
            scene.causes.extend(_service(service, path))
        elif resource is not None:
            scene.causes.extend(_resource(resource, f"{path}.resource"))
        else:
            scene.causes.append(invalid_value(path, "", "resource or service backend is required"))

    return check


def _service(service: Object, path: str) -> list[Cause]:
    found, where = service.get("name") or "", f"{path}.service.name"
    causes = [] if found else [required(where)]
    if found:
        causes += [invalid_value(where, found, text) for text in names.dns_label_1035(found)]
    port = service.get("port") or {}
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        causes.append(invalid_value(path, "", "cannot set both port name & port number"))
    elif name:
        where = f"{path}.service.port.name"
        causes += [invalid_value(where, name, text) for text in TEXTS["port-name"](name)]
    elif not number:
        causes.append(required(path, "port name or number is required"))
    elif not 1 <= number <= 65535:
        causes.append(invalid_value(f"{path}.service.port.number", number, PORT))
    return causes


def _resource(resource: Object, path: str) -> list[Cause]:
    group = resource.get("apiGroup")
    causes: list[Cause] = []
    if group is not None:
        causes += [invalid_value(f"{path}.apiGroup", group, text) for text in names.dns_subdomain(group)]
    for name in ("kind", "name"):
        found = resource.get(name) or ""
        if not found:
            causes.append(required(f"{path}.{name}"))
        causes += [invalid_value(f"{path}.{name}", found, text) for text in names.path_segment(found) if found]
    return causes


def _class_twice(entry: Object) -> Check:
    """The old annotation and the field for the class of an Ingress say the same."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        noted = (find(value, "metadata.annotations") or {}).get(CLASS)
        named = find(value, "spec.ingressClassName")
        if noted is not None and named is not None and noted != named:
            text = "must match `ingressClassName` when both are specified"
            scene.causes.append(invalid_value(f"annotations.{CLASS}", noted, text))

    return check


def _end_port(entry: Object) -> Check:
    """A range of ports ends where it began, or later; a name begins none."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        port, end = value.get("port"), value.get("endPort")
        if end is None:
            return
        path = spelled(trail, "endPort")
        if port is None:
            scene.causes.append(invalid_value(path, end, "may not be specified when `port` is not specified"))
        elif type(port) is str:
            scene.causes.append(invalid_value(path, end, "may not be specified when `port` is non-numeric"))
        else:
            if end < port:
                scene.causes.append(invalid_value(path, end, "must be greater than or equal to `port`"))
            if not 1 <= end <= 65535:
                scene.causes.append(invalid_value(path, end, PORT))

    return check


def _except(entry: Object) -> Check:
    """What an ipBlock excepts lies in it."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        block = _network(value.get("cidr"))
        for at, text in enumerate(value.get("except") or ()):
            part = _network(text)
            if block is None or part is None:
                continue
            inside = part.version == block.version and part.network_address in block
            if not inside or block.prefixlen >= part.prefixlen:
                where = spelled(trail, f"except[{at}]")
                scene.causes.append(invalid_value(where, text, "must be a strict subset of `cidr`"))

    return check


def _network(text: Any) -> Network | None:
    if type(text) is not str or "/" not in text:
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _resources(entry: Object) -> Check:
    """The resources that a rule of a webhook or policy names: a wildcard stands in front of nothing that it covers.

    The order counts, as it does upstream: `*` behind a resource is let through.
    """

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        listed = value.get("resources") or []
        path = spelled(trail, "resources")
        whole: set[str] = set()
        anywhere: set[str] = set()
        named = False
        for at, text in enumerate(listed):
            where = f"{path}[{at}]"
            if not text:
                scene.causes.append(required(where))
                continue
            resource, slash, part = text.partition("/")
            if not slash:
                named = text != "*"
                continue
            for known, name in ((whole, resource), (anywhere, part)):
                if name in known:
                    wild = f"{name}/*" if known is whole else f"*/{name}"
                    told = f"if '{wild}' is present, must not specify {text}"
                    scene.causes.append(invalid_value(where, text, told))
            if part == "*":
                whole.add(resource)
            if resource == "*":
                anywhere.add(part)
        if len(listed) > 1 and "*/*" in listed:
            text = "if '*/*' is present, must not specify other resources"
            scene.causes.append(invalid_value(path, listed, text))
        if "*" in listed and named:
            text = "if '*' is present, must not specify other resources without subresources"
            scene.causes.append(invalid_value(path, listed, text))

    return check


def _domain_path(entry: Object) -> Check:
    """`field` is a path with a domain in front, `acme.io/foo`, of at most `most` bytes."""
    field, most, optional = entry["field"], entry["most"], entry.get("optional", False)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        text = value.get(field)
        if text is None or (text == "" and optional):
            return
        path = spelled(trail, field)
        if len(text.encode()) > most:
            scene.causes.append(Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong"))
        host, _, rest = text.partition("/")
        if not text:
            scene.causes.append(required(path))
        elif not host or not rest:
            told = 'must be a domain-prefixed path (such as "acme.io/foo")'
            scene.causes.append(invalid_value(path, text, told))
        else:
            scene.causes.extend(invalid_value(path, host, told) for told in names.dns_subdomain(host))
            scene.causes.extend(invalid_value(path, rest, told) for told in TEXTS["url-path"](rest))

    return check


NETWORK_CALLS: dict[str, Callable[[Object], Check]] = {
    "ingressBackend": _backend,
    "ingressClassTwice": _class_twice,
    "endPort": _end_port,
    "except": _except,
    "ruleResources": _resources,
    "domainPath": _domain_path,
}
