"""Field selectors: `spec.nodeName=n1,status.phase!=Failed` over the few fields that each kind lets one ask for.

Values are compared as text; an absent field is the empty text (numbers and booleans: `0`, `false`). A backslash escapes
a comma, an equals sign or itself. Source: apimachinery pkg/fields/selector.go; the AddFieldLabelConversionFunc calls
and SelectableFields functions of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from attrs import field, frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Object, StatusError, bad_request

Extract = Callable[[Object], str]
"""What an object has in a field, as text."""
Predicate = Callable[[Object], bool]

LONGEST = 4 * 1024
"""Characters of a field selector in a request."""


@frozen
class Term:
    """One comparison; `equal` False for `!=`."""

    path: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        return f"{self.path}{'=' if self.equal else '!='}{escape(self.value)}"


@frozen
class FieldSelector:
    """Terms joined by and; `matches(obj)` is compiled."""

    terms: tuple[Term, ...] = ()
    extracts: tuple[Extract, ...] = field(default=(), eq=False, repr=False)
    matches: Predicate = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "matches", _compiled(self.terms, self.extracts))

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.terms

    def exact(self, path: str) -> str | None:
        """The one value that a field must have, if the selector asks for one: `metadata.name` makes a list a get."""
        return next((term.value for term in self.terms if term.path == path and term.equal), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def _compiled(terms: Sequence[Term], extracts: Sequence[Extract]) -> Predicate:
    if len(terms) == 1:
        extract, value, equal = extracts[0], terms[0].value, terms[0].equal
        return lambda obj: (extract(obj) == value) is equal
    rows = tuple((extract, term.value, term.equal) for extract, term in zip(extracts, terms, strict=True))
    return lambda obj: all((extract(obj) == value) is equal for extract, value, equal in rows)


def text(value: Any) -> str:
    """A value as selectors compare it."""
    if value.__class__ is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _at(path: str, absent: str = "") -> Extract:
    """Reads a path of names; `absent` is the text of a zero value."""
    keys = path.split(".")
    if len(keys) == 2:
        first, second = keys

        def pair(obj: Object) -> str:
            part = obj.get(first)
            value = part.get(second) if isinstance(part, dict) else None
            return absent if value is None else text(value)

        return pair

    def walk(obj: Object) -> str:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
            if value is None:
                return absent
        return text(value)

    return walk


def _pod_ips(obj: Object) -> str:
    """Upstream joins them with commas; the first stands for all when it is asked for alone."""
    return ",".join(entry.get("ip", "") for entry in (obj.get("status") or {}).get("podIPs") or ())


def _event_source(obj: Object) -> str:
    return (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""


def _fields(*paths: str, **special: Extract) -> dict[str, Extract]:
    return {path: _at(path) for path in paths} | special


_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

FIELDS: Final[dict[tuple[str, str], dict[str, Extract]]] = {
    ("", "Pod"): _fields(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    | {"status.podIPs": _pod_ips, "spec.hostNetwork": _at("spec.hostNetwork", "false")},
    ("", "Node"): {"spec.unschedulable": _at("spec.unschedulable", "false")},
    ("", "Namespace"): _fields("status.phase"),
    ("", "Secret"): _fields("type"),
    ("", "Service"): _fields("spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): {"status.replicas": _at("status.replicas", "0")},
    ("", "Event"): {
        **{f"involvedObject.{name}": _at(f"involvedObject.{name}") for name in _INVOLVED},
        **_fields("reason", "reportingComponent", "type", source=_event_source),
    },
    ("events.k8s.io", "Event"): {
        **{f"regarding.{name}": _at(f"regarding.{name}") for name in _INVOLVED},
        **_fields("reason", "reportingController", "type"),
    },
    ("apps", "ReplicaSet"): {"status.replicas": _at("status.replicas", "0")},
    ("batch", "Job"): {"status.successful": _at("status.succeeded", "0")},
    ("certificates.k8s.io", "CertificateSigningRequest"): _fields("spec.signerName"),
    ("certificates.k8s.io", "ClusterTrustBundle"): _fields("spec.signerName"),
    ("certificates.k8s.io", "PodCertificateRequest"): _fields("spec.signerName", "spec.podName", "spec.nodeName"),
    ("networking.k8s.io", "IPAddress"): _fields(
        "spec.parentRef.group", "spec.parentRef.resource", "spec.parentRef.namespace", "spec.parentRef.name"
    ),
    ("resource.k8s.io", "ResourceSlice"): _fields("spec.nodeName", "spec.driver"),
}
"""By group and kind: what can be asked for beside name and namespace."""

_ALIASES: Final = {("", "Pod", "spec.host"): "spec.nodeName"}
_NO_NAMESPACE: Final = frozenset((("", "Node"), ("", "Namespace")))
_META: Final = {"metadata.name": _at("metadata.name"), "metadata.namespace": _at("metadata.namespace")}


def custom_fields(paths: Sequence[str]) -> dict[str, Extract]:
    """The selectable fields of a custom resource: JSON paths (`.spec.color`) to extractors."""
    return {path.lstrip("."): _at(path.lstrip(".")) for path in paths}


def parse(resource: Resource, query: str, custom: Mapping[str, Extract] | None = None) -> FieldSelector:
    """The `fieldSelector` of a request; `custom` are a CRD's selectable fields. StatusError 400 in upstream's words."""
    terms: list[Term] = []
    extracts: list[Extract] = []
    key = (resource.group, resource.kind)
    known: Mapping[str, Extract] = custom or {} if resource.custom else FIELDS.get(key, {})
    for term in terms_of(query):
        path = _ALIASES.get((*key, term.path), term.path)
        extract = known.get(path) or _meta(resource, path)
        if extract is None:
            raise _unknown(resource, term.path, known)
        terms.append(Term(path, term.value, term.equal))
        extracts.append(extract)
    return FieldSelector(tuple(terms), tuple(extracts))


def _meta(resource: Resource, path: str) -> Extract | None:
    if path == "metadata.namespace":
        # upstream's kinds without a function of their own take it even where there is no namespace
        own = (resource.group, resource.kind) in _NO_NAMESPACE or (resource.custom and not resource.namespaced)
        return None if own else _META[path]
    return _META.get(path)


def _unknown(resource: Resource, path: str, known: Mapping[str, Extract]) -> StatusError:
    if known or resource.custom:
        return bad_request(f"field label not supported: {path}")
    return bad_request(f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"')


@lru_cache(maxsize=1024)
def terms_of(query: str) -> tuple[Term, ...]:
    """The comparisons of a text, in order of text. StatusError 400 if it cannot be read."""
    if len(query) > LONGEST:
        raise bad_request("the field selector is too long")
    return tuple(_term(part, query) for part in sorted(_parts(query)) if part)


def _parts(query: str) -> list[str]:
    """The text between commas that are not escaped."""
    parts, start, escaped = [], 0, False
    for at, char in enumerate(query):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            parts.append(query[start:at])
            start = at + 1
    return [*parts, query[start:]]


def _term(part: str, query: str) -> Term:
    for at in range(len(part)):
        for operator in ("!=", "==", "="):
            if part.startswith(operator, at):
                return Term(part[:at], unescape(part[at + len(operator) :]), operator != "!=")
    raise bad_request(f"invalid selector: '{query}'; can't understand '{part}'")


def unescape(value: str) -> str:
    """A value without its backslashes. StatusError 400 for a bare comma or equals sign, or another escape."""
    if not any(char in value for char in "\\,="):
        return value
    found: list[str] = []
    escaped = False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{char}")
            found.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            found.append(char)
    if escaped:
        raise bad_request("invalid field selector: invalid escape sequence: \\")
    return "".join(found)


def escape(value: str) -> str:
    """A value as it may stand in a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
