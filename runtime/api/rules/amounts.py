"""Rules about amounts and requests that fit no common form: ratios, whole numbers, certificate requests, time zones.

Sources: pkg/apis/core/validation, pkg/apis/certificates/validation, pkg/apis/batch/validation, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from cryptography import x509

from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import invalid_value
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]

WHOLE = frozenset(
    "pods services replicationcontrollers resourcequotas secrets configmaps persistentvolumeclaims services.nodeports"
    " services.loadbalancers".split()
)
"""Resources that are counted (upstream: IsIntegerResourceName, with every extended one and count/…)."""
_ZONE = re.compile(r"[-A-Za-z._0-9+]{1,14}")
_PEM = "CERTIFICATE REQUEST"


def _amount(text: Any) -> Fraction | None:
    try:
        return Fraction(parse(str(text)).milli, 1000)
    except QuantityError:
        return None


def _ratios(entry: Object) -> Check:
    """An item of a LimitRange: a ratio is at least 1, and not more than max over min."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for name, text in (value.get("maxLimitRequestRatio") or {}).items():
            ratio = _amount(text)
            low, high = _amount((value.get("min") or {}).get(name)), _amount((value.get("max") or {}).get(name))
            where = spelled(trail, f"maxLimitRequestRatio[{name}]")
            if ratio is not None and ratio < 1:
                scene.causes.append(invalid_value(where, str(text), f"ratio {text} is less than 1"))
            elif ratio is not None and low and high is not None and ratio > high / low:
                told = f"ratio {text} is greater than max/min = {float(high / low):f}"
                scene.causes.append(invalid_value(where, str(text), told))

    return check


def _whole(entry: Object) -> Check:
    """A ResourceQuota counts objects in whole numbers."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for name, text in (value.get("hard") or {}).items():
            counted = name in WHOLE or name.startswith("count/") or ("/" in name and "hugepages" not in name)
            amount = _amount(text) if counted else None
            if amount is not None and amount.denominator != 1:
                scene.causes.append(invalid_value(spelled(trail, f"hard[{name}]"), str(text), "must be an integer"))

    return check


def _certificate_request(entry: Object) -> Check:
    """`request` is base64 of one PEM block with a certificate request that its own key has signed."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        text = value.get("request")
        if type(text) is str and text and scene.old is None:
            why = request_error(text)
            if why:
                scene.causes.append(invalid_value(spelled(trail, "request"), text, why))

    return check


def request_error(text: str) -> str:
    """What is wrong with the base64 of a certificate request; empty: nothing."""
    try:
        pem = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "illegal base64 data"
    if not all(f"-----{word} {_PEM}-----".encode() in pem for word in ("BEGIN", "END")):
        return f"PEM block type must be {_PEM}"
    try:
        request = x509.load_pem_x509_csr(pem)
    except (ValueError, TypeError):
        return "asn1: structure error: malformed certificate request"
    return "" if request.is_signature_valid else "x509: certificate request signature is invalid"


def time_zone(text: str) -> list[str]:
    """What is wrong with a time zone's name: at most one text."""
    if not text:
        return ["timeZone must be nil or non-empty string"]
    if any(part in (".", "..") or part.startswith("-") or not _ZONE.fullmatch(part) for part in text.split("/")):
        return [f"unknown time zone {text}"]
    if text.lower() == "local":
        return ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]
    try:
        ZoneInfo(text)
    except (OSError, ValueError, LookupError):
        return [f"unknown time zone {text}"]
    return []


AMOUNT_CALLS: dict[str, Callable[[Object], Check]] = {
    "ratios": _ratios,
    "wholeAmounts": _whole,
    "certificateRequest": _certificate_request,
}
