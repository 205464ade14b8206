"""Kinds of texts that rules name: each answers what is wrong with a text, in upstream's words.

Source: k8s.io/apimachinery pkg/util/validation, release 1.34.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Sequence

from dashpot.model.objects import names
from dashpot.runtime.api.rules.amounts import time_zone
from dashpot.runtime.api.rules.schedule import schedule_errors

_PORT = re.compile(r"[-a-z0-9]*")
_LETTER = re.compile(r"[a-z]")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_ENV = re.compile(r"[ -<>-~]+")
_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_HEADER = re.compile(r"[-A-Za-z0-9]+")
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = re.compile(rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*")
_URL_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def _port_name(text: str) -> list[str]:
    wrong: list[str] = []
    if len(text) > 15:
        wrong.append("must be no more than 15 characters")
    if not _PORT.fullmatch(text):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(text):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in text:
        wrong.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def _config_key(text: str) -> list[str]:
    wrong: list[str] = []
    if len(text) > 253:
        wrong.append("must be no more than 253 characters")
    if not _KEY.fullmatch(text):
        told = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(names.pattern_text(told, "[-._a-zA-Z0-9]+", "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        wrong.append(f"must not be '{text}'")
    elif text.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def _env_name(text: str) -> list[str]:
    if _ENV.fullmatch(text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def plain(text: str) -> str:
    """An address without zeros in front of its numbers, which Go took until 1.17 and Kubernetes takes still."""
    return _ZEROS.sub("", text) if "." in text else text


def _ip(text: str) -> list[str]:
    try:
        if "%" in text:
            raise ValueError
        ipaddress.ip_address(plain(text))
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def _cidr(text: str) -> list[str]:
    try:
        if "/" not in text:
            raise ValueError
        ipaddress.ip_interface(text)
    except ValueError:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    return []


def _cidr_padded(text: str) -> list[str]:
    return _cidr(text.strip())


def _cname(text: str) -> list[str]:
    return list(names.dns_subdomain(text.removesuffix(".")))


def _url_path(text: str) -> list[str]:
    return [] if _URL_PATH.fullmatch(text) else [names.pattern_text("Invalid path", _URL_PATH.pattern)]


def _wildcard(text: str) -> list[str]:
    if text.startswith("*."):
        rest = names.dns_subdomain(text[2:])
        if not rest:
            return []
        told = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must"
        tail = "consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        return [names.pattern_text(f"{told} {tail}", r"\*\." + names._SUBDOMAIN, "*.example.com")]
    return names.dns_subdomain(text)


def _absolute(text: str) -> list[str]:
    return [] if text.startswith("/") else ["must be an absolute path"]


def _no_steps_back(text: str) -> list[str]:
    return ["must not contain '..'"] if ".." in text.split("/") else []


def _descending(text: str) -> list[str]:
    absolute = ["must be a relative path"] if text.startswith("/") else []
    return [*absolute, *_no_steps_back(text)] if "/" in text or ".." in text else absolute


def _local(text: str) -> list[str]:
    wrong = _descending(text)
    if text.startswith("..") and not text.startswith("../"):
        wrong.append("must not start with '..'")
    return wrong


def _search(text: str) -> list[str]:
    bare = text.removesuffix(".")
    if text == "." or (_SEARCH.fullmatch(bare) and len(bare) <= names.SUBDOMAIN_LENGTH):
        return []
    wrong = [f"must be no more than {names.SUBDOMAIN_LENGTH} bytes"] if len(bare) > names.SUBDOMAIN_LENGTH else []
    if not _SEARCH.fullmatch(bare):
        told = names.SUBDOMAIN_TEXT.replace("characters, '-'", "characters, '_', '-'")
        wrong.append(names.pattern_text(told, _SEARCH.pattern, "example.com"))
    return wrong


def _http_header(text: str) -> list[str]:
    if _HEADER.fullmatch(text):
        return []
    told = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [names.pattern_text(told, _HEADER.pattern, "X-Header-Name")]


def _blank(text: str) -> list[str]:
    return ["must not have leading or trailing whitespace"] if text != text.strip() else []


_QUOTA = frozenset(
    "cpu memory ephemeral-storage requests.cpu requests.memory requests.storage requests.ephemeral-storage limits.cpu"
    " limits.memory limits.ephemeral-storage pods resourcequotas services replicationcontrollers secrets"
    " persistentvolumeclaims configmaps services.nodeports services.loadbalancers".split()
)


def _quota_resource(text: str) -> list[str]:
    if "/" in text or text in _QUOTA or text.startswith(("hugepages-", "requests.hugepages-")):
        return []
    return ["must be a standard resource for quota"]


TEXTS: dict[str, Callable[[str], Sequence[str]]] = {
    "dns-label": names.dns_label,
    "dns-subdomain": names.dns_subdomain,
    "qualified": names.qualified,
    "label-value": names.label_value,
    "port-name": _port_name,
    "config-key": _config_key,
    "env-name": _env_name,
    "ip": _ip,
    "cidr": _cidr,
    "cidr-padded": _cidr_padded,
    "cname": _cname,
    "url-path": _url_path,
    "host": _wildcard,
    "absolute-path": _absolute,
    "descending-path": _descending,
    "local-path": _local,
    "search-path": _search,
    "http-header": _http_header,
    "no-steps-back": _no_steps_back,
    "trimmed": _blank,
    "schedule": schedule_errors,
    "time-zone": time_zone,
    "quota-resource": _quota_resource,
}
