"""Rules of addresses behind and beside Services: what no client may send others to.

Sources: ValidateNonSpecialIP in pkg/apis/core/validation, pkg/apis/discovery/validation, release 1.34.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dashpot.model.objects import names
from dashpot.model.objects.status import Cause, invalid_value, required
from dashpot.runtime.api.rules.place import Trail, find, spelled
from dashpot.runtime.api.rules.texts import TEXTS, plain
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
LOOPBACK = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
LINK_LOCAL = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
MULTICAST = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
SERVICE_NAME = "kubernetes.io/service-name"
LONGEST = 64
"""Longer texts are no addresses, and are not remembered."""


@lru_cache(maxsize=16384)
def _judged(text: str) -> tuple[int, tuple[str, ...]]:
    """The family of an address (4, 6; 0: it is none), and what is special about it."""
    if TEXTS["ip"](text):
        return 0, ("must be a valid IP address",)
    found = ipaddress.ip_address(plain(text))
    mapped = getattr(found, "ipv4_mapped", None)
    address = found if mapped is None else mapped
    packed = address.packed
    told: list[str] = []
    if address.is_unspecified:
        told.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        told.append(LOOPBACK)
    if address.is_link_local:
        told.append(LINK_LOCAL)
    if packed[:3] == b"\xe0\0\0" if address.version == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2:
        told.append(MULTICAST)
    return address.version, tuple(told)


def judged(text: str) -> tuple[int, tuple[str, ...]]:
    """The family of an address (4, 6; 0: it is none), and what is special about it."""
    return _judged(text) if len(text) <= LONGEST else (0, ("must be a valid IP address",))


def _own(scene: Scene) -> bool:
    """Whether an object lists the API servers themselves, which may listen on a loopback address."""
    meta = scene.object.get("metadata") or {}
    name = (meta.get("labels") or {}).get(SERVICE_NAME) or meta.get("name")
    return bool(meta.get("namespace") == "default" and name == "kubernetes")


def _special(entry: Object) -> Check:
    """`field`, a text or a list of texts, holds no special address; one that is no address is another rule's."""
    field = entry["field"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = find(value, field)
        listed = found if type(found) is list else [found]
        for at, text in enumerate(listed):
            family, wrong = judged(text) if type(text) is str else (0, ())
            if wrong and family and not _own(scene):
                path = spelled(trail, f"{field}[{at}]" if listed is found else field)
                scene.causes.extend(invalid_value(path, text, told) for told in wrong)

    return check


def _listed(entry: Object) -> Check:
    """The addresses of an endpoint are of the type that its slice names."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        kind = scene.object.get("addressType")
        wanted = {"IPv4": 4, "IPv6": 6}.get(kind or "")
        for at, text in enumerate(value.get("addresses") or ()):
            if wanted is None and kind != "FQDN":
                continue
            family, wrong = judged(text) if wanted is not None else (0, ())
            if wanted is not None and family == wanted and (not wrong or _own(scene)):
                continue
            path = spelled(trail, f"addresses[{at}]")
            if wanted is None:
                scene.causes.extend(_full_name(text, path))
                continue
            if family != wanted:
                scene.causes.append(invalid_value(path, text, f"must be a valid {kind} address"))
            scene.causes.extend(invalid_value(path, text, told) for told in wrong)

    return check


def _full_name(text: str, path: str) -> list[Cause]:
    """What is wrong with a fully qualified domain name."""
    if not text:
        return [required(path)]
    name = text.removesuffix(".")
    wrong = names.dns_subdomain(name)
    if wrong:
        return [invalid_value(path, name, ",".join(wrong))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid_value(path, name, "should be a domain with at least two segments separated by dots")]
    return [invalid_value(path, label, ",".join(told)) for label in labels if (told := names.dns_label(label))]


ADDRESS_CALLS: dict[str, Callable[[Object], Check]] = {"specialAddress": _special, "sliceAddress": _listed}
