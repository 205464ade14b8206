"""Kubernetes' own values in CEL: quantities, semantic versions, URLs, IP addresses, CIDRs, named formats, authorizers.

Sources: k8s.io/apiserver pkg/cel/library/{quantity,semverlib,urls,ip,cidr,format,authz,jsonpatch}.go, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attrs import frozen

from dashpot.model.objects import names, quantity
from dashpot.runtime.api.cel.times import timestamp
from dashpot.runtime.api.cel.values import INT_MAX, INT_MIN, NOTHING, EvaluationError, Maybe, no_overload

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
SEMVER_TEXT = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


@frozen
class Amount:
    """A quantity."""

    cel_type = "kubernetes.Quantity"
    value: quantity.Quantity


@frozen
class Semver:
    """A semantic version; `pre` are the parts of the pre-release."""

    cel_type = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[str, ...]

    def order(self) -> Any:
        """A key that sorts as semver.org says."""
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, parts)


@frozen
class Url:
    """A URL, in its parts."""

    cel_type = "kubernetes.URL"
    text: str
    scheme: str
    host: str
    path: str
    query: str


@frozen
class IP:
    """An IP address."""

    cel_type = "net.IP"
    value: Address

    def __str__(self) -> str:
        return str(self.value)


@frozen
class CIDR:
    """A network, its address with the bits of a host."""

    cel_type = "net.CIDR"
    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def __str__(self) -> str:
        return str(self.value)


@frozen
class Format:
    """A named format."""

    cel_type = "kubernetes.NamedFormat"
    name: str


def _is(parse: Callable[..., Any]) -> Callable[..., bool]:
    def accepts(*values: Any) -> bool:
        try:
            parse(*values)
        except EvaluationError:
            return False
        return True

    return accepts


def _text(value: Any) -> str:
    if type(value) is not str:
        raise no_overload()
    return value


def amount(text: Any) -> Amount:
    """`quantity(text)`."""
    try:
        return Amount(quantity.parse(_text(text)))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _number(value: Any) -> quantity.Quantity:
    if type(value) is int:
        return quantity.whole(value)
    if type(value) is not Amount:
        raise no_overload()
    return value.value


def _is_integer(value: Any) -> bool:
    found = _number(value)
    return found.whole and INT_MIN <= found.value <= INT_MAX


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return _number(value).value


def semver(text: Any, normalize: bool = False) -> Semver:
    """`semver(text, normalize)`: normalising takes a `v` away, adds missing parts, drops leading zeros."""
    plain = _text(text)
    if normalize:
        plain = plain.strip().removeprefix("v")
        head, mark, tail = re.split(r"([-+])", plain, maxsplit=1) if re.search(r"[-+]", plain) else (plain, "", "")
        parts = [part.lstrip("0") or "0" for part in head.split(".")]
        plain = ".".join([*parts, "0", "0"][: max(3, len(parts))]) + mark + tail
    match = SEMVER_TEXT.fullmatch(plain)
    if match is None or max(len(match[at]) for at in (1, 2, 3)) > 19:
        raise EvaluationError(f"invalid semver: {text}")
    pre = tuple((match[4] or "").split(".")) if match[4] else ()
    if any(part.isdigit() and len(part) > 1 and part[0] == "0" for part in pre):
        raise EvaluationError("Numeric PreRelease version must not contain leading zeroes")
    return Semver(int(match[1]), int(match[2]), int(match[3]), pre)


def _compare(left: Any, right: Any) -> int:
    if type(left) is Amount and type(right) is Amount:
        a, b = left.value.nano, right.value.nano
    elif type(left) is Semver and type(right) is Semver:
        a, b = left.order(), right.order()
    else:
        raise no_overload()
    return int(a > b) - int(a < b)


def url(text: Any) -> Url:
    """`url(text)`: absolute, or a path that begins with a slash."""
    plain = _text(text)
    if any(ord(char) <= 32 or ord(char) == 127 for char in plain) or not plain:
        raise EvaluationError(
            f'URL parse error during conversion from string: parse "{plain}": invalid URI for request'
        )
    scheme = plain.split(":", 1)[0] if ":" in plain else ""
    if not plain.startswith("/") and not SCHEME.fullmatch(scheme):
        raise EvaluationError(
            f'URL parse error during conversion from string: parse "{plain}": invalid URI for request'
        )
    try:
        parts = urlsplit(plain.split("#", 1)[0])
        _ = parts.port
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None
    if re.search(r"%(?![0-9A-Fa-f]{2})", parts.path + parts.netloc):
        raise _bad_url(plain, "invalid URL escape")
    return Url(plain, parts.scheme, parts.netloc.rsplit("@", 1)[-1], parts.path, parts.query)


def _bad_url(text: str, why: str) -> EvaluationError:
    return EvaluationError(f'URL parse error during conversion from string: parse "{text}": {why}')


def _url(value: Any) -> Url:
    if type(value) is not Url:
        raise no_overload()
    return value


def _hostname(value: Any) -> str:
    host = _url(value).host
    if host.startswith("["):
        return host[1:].split("]", 1)[0]
    return host.split(":", 1)[0]


def _port(value: Any) -> str:
    rest = _url(value).host.rsplit("]", 1)[-1]
    return rest.split(":", 1)[1] if ":" in rest else ""


def ip(value: Any) -> IP:
    """`ip(text)` and `cidr.ip()`: no zones, no IPv4 inside IPv6."""
    if type(value) is CIDR:
        return IP(value.value.ip)
    text = _text(value)
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string') from None
    if found.version == 6 and (found.ipv4_mapped is not None or "%" in text):
        raise EvaluationError(f'IP Address "{text}" parse error: zones and IPv4-mapped IPv6 are not allowed')
    return IP(found)


def cidr(value: Any) -> CIDR:
    """`cidr(text)`."""
    text = _text(value)
    head, slash, bits = text.partition("/")
    if not slash or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        raise EvaluationError(f'network address parse error during conversion from string: "{text}"')
    ip(head)
    try:
        return CIDR(ipaddress.ip_interface(text))
    except ValueError:
        raise EvaluationError(f'network address parse error during conversion from string: "{text}"') from None


def _address(value: Any) -> Any:
    if type(value) is not IP:
        raise no_overload()
    return value.value


def _network(value: Any) -> Any:
    if type(value) is not CIDR:
        raise no_overload()
    return value.value


def _contains_ip(network: Any, value: Any) -> bool:
    return _address(ip(value) if type(value) is str else value) in _network(network).network


def _contains_cidr(network: Any, value: Any) -> bool:
    outer, inner = _network(network).network, _network(cidr(value) if type(value) is str else value).network
    return bool(outer.version == inner.version and inner.subnet_of(outer))


def _global(value: Any) -> bool:
    found = _address(value)
    special = found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local
    return not special and str(found) != "255.255.255.255"


def _masked(value: Any) -> CIDR:
    network = _network(value).network
    return CIDR(ipaddress.ip_interface(str(network)))


def _uri(text: str) -> list[str]:
    return [] if _is(url)(text) else [f'parse "{text}": invalid URI for request']


def _uuid(text: str) -> list[str]:
    return [] if UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return [] if _is(timestamp)(text) else ["invalid datetime"]


FORMATS: dict[str, Callable[[str], Sequence[str]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_label_1035,
    "qualifiedName": names.qualified,
    "dns1123LabelPrefix": lambda text: names.dns_label(names.masked(text)),
    "dns1123SubdomainPrefix": lambda text: names.dns_subdomain(names.masked(text)),
    "dns1035LabelPrefix": lambda text: names.dns_label_1035(names.masked(text)),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


def _named(name: Any) -> Maybe:
    return Maybe(True, Format(name)) if _text(name) in FORMATS else NOTHING


def _validate(form: Any, text: Any) -> Maybe:
    if type(form) is not Format:
        raise no_overload()
    wrong = FORMATS[form.name](_text(text))
    return Maybe(True, list(wrong)) if wrong else NOTHING


def _format(name: str) -> Callable[[], Format]:
    return lambda: Format(name)


def _method(name: str) -> Callable[..., Any]:
    """A function that the value brings itself: an authorizer, its checks and decisions."""

    def call(value: Any, *arguments: Any) -> Any:
        if not getattr(value, "cel_type", "").startswith("kubernetes.authorization."):
            raise no_overload()
        return getattr(value, f"cel_{name}")(*arguments)

    return call


AUTHORIZATION = (
    *("path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "fieldSelector"),
    *("labelSelector", "check", "errored", "error", "allowed", "reason"),
)
KUBE: dict[str, Callable[..., Any]] = {
    "quantity": amount,
    "isQuantity": _is(amount),
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _number(value).nano / 10**9,
    "sign": lambda value: (_number(value).nano > 0) - (_number(value).nano < 0),
    "add": lambda left, right: Amount(_number(left) + _number(right)),
    "sub": lambda left, right: Amount(_number(left) - _number(right)),
    "semver": semver,
    "isSemver": _is(semver),
    "major": lambda value: value.major,
    "minor": lambda value: value.minor,
    "patch": lambda value: value.patch,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "compareTo": _compare,
    "url": url,
    "isURL": _is(url),
    "getScheme": lambda value: _url(value).scheme,
    "getHost": lambda value: _url(value).host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: _url(value).path,
    "getQuery": lambda value: parse_qs(_url(value).query, keep_blank_values=True),
    "ip": ip,
    "isIP": _is(ip),
    "ip.isCanonical": lambda text: str(ip(text)) == text,
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": lambda value: _address(value).is_multicast and _link_local(_address(value)),
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": _global,
    "cidr": cidr,
    "isCIDR": _is(cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "masked": _masked,
    "prefixLength": lambda value: _network(value).network.prefixlen,
    **{f"format.{name}": _format(name) for name in FORMATS},
    "format.named": _named,
    "validate": _validate,
    "jsonpatch.escapeKey": lambda text: _text(text).replace("~", "~0").replace("/", "~1"),
    "strings.quote": lambda text: '"' + _text(text).replace("\\", "\\\\").replace('"', '\\"') + '"',
    **{name: _method(name) for name in AUTHORIZATION},
}


def _link_local(found: Address) -> bool:
    """Multicast that stays on its link: 224.0.0.0/24, ff02::/16."""
    if found.version == 4:
        return found in ipaddress.ip_network("224.0.0.0/24")
    return found in ipaddress.ip_network("ff02::/16")
