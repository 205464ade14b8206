"""The formats of strings that are checked; others are documentation.

Source: k8s.io/kube-openapi pkg/validation/strfmt and apiextensions-apiserver pkg/apiserver/validation/formats.go.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from dashpot.model.objects import names
from dashpot.runtime.api.cel.times import duration, timestamp
from dashpot.runtime.api.cel.values import EvaluationError

HOSTNAME = re.compile(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9])?)*\.?")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
MAC = re.compile(r"([0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}")
HEX = "[0-9a-fA-F]"
UUID = re.compile(rf"{HEX}{{8}}-?{HEX}{{4}}-?{HEX}{{4}}-?{HEX}{{4}}-?{HEX}{{12}}")
COLOR = re.compile(rf"#?({HEX}{{3}}|{HEX}{{6}})")
RGB = re.compile(r"rgb\(\s*\d{1,3}\s*,\s*\d{1,3}\s*,\s*\d{1,3}\s*\)")
ISBN10, ISBN13 = re.compile(r"\d{9}[\dX]"), re.compile(r"\d{13}")
SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
CARD = re.compile(r"\d{13,19}")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, EvaluationError, binascii.Error):
            return False
        return True

    return accepts


def _pattern(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme or text.startswith("/")) and " " not in text


def _version(number: int) -> Callable[[str], bool]:
    return lambda text: UUID.fullmatch(text) is not None and text.replace("-", "")[12] == str(number)


def _cidr(text: str) -> bool:
    return "/" in text and _parses(ipaddress.ip_interface)(text)


def _plain(text: str) -> bool:
    return len(text.replace("-", "").replace(" ", "")) in (10, 13) and (_isbn(ISBN10, text) or _isbn(ISBN13, text))


def _isbn(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.fullmatch(text.replace("-", "").replace(" ", "")) is not None


FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "date": lambda text: len(text) == 10 and _parses(date.fromisoformat)(text),
    "date-time": _parses(timestamp),
    "datetime": _parses(timestamp),
    "duration": _parses(duration),
    "email": _pattern(EMAIL),
    "hostname": lambda text: len(text) < 256 and HOSTNAME.fullmatch(text) is not None,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _cidr,
    "mac": _pattern(MAC),
    "uri": _uri,
    "uuid": _pattern(UUID),
    "uuid3": _version(3),
    "uuid4": _version(4),
    "uuid5": _version(5),
    "hexcolor": _pattern(COLOR),
    "rgbcolor": _pattern(RGB),
    "isbn": _plain,
    "isbn10": lambda text: _isbn(ISBN10, text),
    "isbn13": lambda text: _isbn(ISBN13, text),
    "ssn": _pattern(SSN),
    "creditcard": lambda text: CARD.fullmatch(text.replace("-", "").replace(" ", "")) is not None,
    "k8s-short-name": lambda text: not names.dns_label(text),
    "k8s-long-name": lambda text: not names.dns_subdomain(text),
}
