"""What names, labels and keys may look like, in upstream's words: each rule answers what is wrong.

Source: k8s.io/apimachinery pkg/api/validate/content (dns.go, kube.go, path.go), pkg/api/validation (name.go), and the
name rule of each kind in pkg/apis/*/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Final, Protocol

Rule = Callable[[str], Sequence[str]]
"""What is wrong with a text; nothing if it is fine."""

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253
_REMEMBERED = 320

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_label_1035 = re.compile(_LABEL_1035).fullmatch
_key = re.compile(_KEY).fullmatch
_value = re.compile(_VALUE).fullmatch

LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
LABEL_1035_TEXT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


def pattern_text(text: str, pattern: str, *examples: str) -> str:
    """How upstream tells that a pattern does not match: the odd blanks and commas are its own."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def _remembered(rule: Callable[[str], tuple[str, ...]]) -> Callable[[str], tuple[str, ...]]:
    """Keeps answers for texts of ordinary length: long ones would fill the memory at a client's will."""
    cached = lru_cache(maxsize=8192)(rule)

    @wraps(rule)
    def ask(text: str) -> tuple[str, ...]:
        return cached(text) if len(text) <= _REMEMBERED else rule(text)

    return ask


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _size(text: str) -> int:
    """Bytes of UTF-8, which is what upstream counts."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@_remembered
def dns_label(text: str) -> tuple[str, ...]:
    """A DNS-1123 label: `my-name`, at most 63 characters, no dots."""
    wrong = [_too_long(LABEL_LENGTH)] if _size(text) > LABEL_LENGTH else []
    if not _label(text):
        if _subdomain(text):
            wrong.append("must not contain dots")
        else:
            wrong.append(pattern_text(LABEL_TEXT, _LABEL, "my-name", "123-abc"))
    return tuple(wrong)


def dns_subdomain(text: str) -> list[str]:
    """A DNS-1123 subdomain: labels with dots between them, at most 253 characters."""
    if _subdomain(text) and len(text) <= SUBDOMAIN_LENGTH:
        return []
    wrong = [_too_long(SUBDOMAIN_LENGTH)] if _size(text) > SUBDOMAIN_LENGTH else []
    if not _subdomain(text):
        wrong.append(pattern_text(SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return wrong


def dns_label_1035(text: str) -> list[str]:
    """A DNS-1035 label: like a DNS-1123 one, but begins with a letter. Services are named so."""
    wrong = [_too_long(LABEL_LENGTH)] if _size(text) > LABEL_LENGTH else []
    if not _label_1035(text):
        wrong.append(pattern_text(LABEL_1035_TEXT, _LABEL_1035, "my-name", "abc-123"))
    return wrong


@_remembered
def qualified(text: str) -> tuple[str, ...]:
    """A qualified name, `example.com/MyName` or `MyName`: keys of labels and annotations, finalizers."""
    parts = text.split("/")
    wrong: list[str] = []
    if len(parts) > 2:
        told = pattern_text(KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        return (f"a qualified name {told} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    name = parts[-1]
    if len(parts) == 2:
        if not parts[0]:
            wrong.append("prefix part must be non-empty")
        else:
            wrong += [f"prefix part {found}" for found in dns_subdomain(parts[0])]
    if not name:
        wrong.append("name part must be non-empty")
    elif _size(name) > LABEL_LENGTH:
        wrong.append(f"name part {_too_long(LABEL_LENGTH)}")
    if not _key(name):
        wrong.append(f"name part {pattern_text(KEY_TEXT, _KEY, 'MyName', 'my.name', '123-abc')}")
    return tuple(wrong)


@_remembered
def label_value(text: str) -> tuple[str, ...]:
    """The value of a label: empty, or like the name part of a key."""
    wrong = [_too_long(LABEL_LENGTH)] if _size(text) > LABEL_LENGTH else []
    if not _value(text):
        wrong.append(pattern_text(VALUE_TEXT, _VALUE, "MyValue", "my_value", "12345"))
    return tuple(wrong)


def path_segment(text: str) -> list[str]:
    """A name that only has to fit into a URL: roles and bindings (`system:node`)."""
    for banned in (".", ".."):
        if text == banned:
            return [f"may not be '{banned}'"]
    return [f"may not contain '{banned}'" for banned in ("/", "%") if banned in text]


def ip_address(text: str) -> list[str]:
    """An IP address in its canonical form (the name of an IPAddress)."""
    import ipaddress

    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return [] if str(found) == text else [f'must be in canonical form ("{found}")']


def anything(text: str) -> list[str]:
    """Any name: certificate signing requests."""
    return []


def cron_job(text: str) -> list[str]:
    """A subdomain of at most 52 characters: 11 are for the suffix of the jobs."""
    wrong = dns_subdomain(text)
    return [*wrong, "must be no more than 52 characters"] if len(text) > 52 else wrong


def plural_of_group(text: str) -> list[str]:
    """`plural.group`: the names of CustomResourceDefinitions, whose parts their own rules compare."""
    return dns_subdomain(text)


_RULES: dict[tuple[str, str], Rule] = {
    ("", "namespaces"): dns_label,
    ("", "services"): dns_label_1035,
    ("apps", "statefulsets"): dns_label,
    ("batch", "cronjobs"): cron_job,
    ("certificates.k8s.io", "certificatesigningrequests"): anything,
    ("networking.k8s.io", "ipaddresses"): ip_address,
    ("rbac.authorization.k8s.io", "roles"): path_segment,
    ("rbac.authorization.k8s.io", "rolebindings"): path_segment,
    ("rbac.authorization.k8s.io", "clusterroles"): path_segment,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): path_segment,
    ("apiregistration.k8s.io", "apiservices"): path_segment,
}


def rule_of(group: str, plural: str) -> Rule:
    """How objects of a resource may be called: a DNS-1123 subdomain where upstream says nothing else."""
    return _RULES.get((group, plural), dns_subdomain)


def masked(prefix: str) -> str:
    """A generateName as its rule sees it: a trailing dash is no mistake, the suffix follows."""
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


class Choices(Protocol):
    """The part of `random.Random` that names need: whoever runs a plane from one seed hands in his own."""

    def choices(self, population: str, *, k: int) -> list[str]:
        """`k` characters, each drawn by itself."""
        ...


SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


def generate(prefix: str, random: Choices) -> str:
    """`web-` becomes `web-x7k2f`; the prefix is cut so that at most 63 characters come out.

    Source: k8s.io/apiserver pkg/storage/names/generate.go; the alphabet spells no words.
    """
    room = LABEL_LENGTH - SUFFIX_LENGTH
    return prefix[:room] + "".join(random.choices(SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
