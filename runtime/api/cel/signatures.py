"""The functions that Kubernetes adds to CEL, as the checker needs them: name, parameters, result.

One line a signature, `receiver.name(parameters) result`; `name(parameters) result` without a receiver. Sources:
k8s.io/apiserver pkg/cel/library (lists, regex, urls, ip, cidr, quantity, format, semverlib, authz, jsonpatch), cel-go
ext/strings.go and ext/sets.go, as of release 1.34.
"""

from __future__ import annotations

from functools import cache

IP, CIDR, URL = "net.IP", "net.CIDR", "kubernetes.URL"
QUANTITY, SEMVER, FORMAT = "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.NamedFormat"
AUTHORIZER = "kubernetes.authorization.Authorizer"
PATH_CHECK = "kubernetes.authorization.PathCheck"
GROUP_CHECK = "kubernetes.authorization.GroupCheck"
RESOURCE_CHECK = "kubernetes.authorization.ResourceCheck"
DECISION = "kubernetes.authorization.Decision"

FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)

Signature = tuple[str, tuple[str, ...], str, bool]
"""Name, parameters (the receiver first), result, whether there is a receiver."""


def _rows() -> list[Signature]:
    rows: list[Signature] = []

    def plain(name: str, result: str, *parameters: str) -> None:
        rows.append((name, parameters, result, False))

    def member(name: str, result: str, *parameters: str) -> None:
        rows.append((name, parameters, result, True))

    for item in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
        member("isSorted", "bool", f"list<{item}>")
        member("min", item, f"list<{item}>")
        member("max", item, f"list<{item}>")
    for item in ("int", "uint", "double", "duration"):
        member("sum", item, f"list<{item}>")
    for name in ("indexOf", "lastIndexOf"):
        member(name, "int", "list<dyn>", "dyn")
        member(name, "int", "string", "string")
        member(name, "int", "string", "string", "int")
    for name in ("contains", "equivalent", "intersects"):
        plain(f"sets.{name}", "bool", "list<dyn>", "list<dyn>")
    _strings(rows)
    plain("url", URL, "string")
    plain("isURL", "bool", "string")
    for name in ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath"):
        member(name, "string", URL)
    member("getQuery", "map<string, list<string>>", URL)
    _numbers(rows)
    _addresses(rows)
    for name in FORMATS:
        plain(f"format.{name}", FORMAT)
    plain("format.named", f"optional_type<{FORMAT}>", "string")
    member("validate", "optional_type<list<string>>", FORMAT, "string")
    plain("jsonpatch.escapeKey", "string", "string")
    _authorization(rows)
    return rows


def _strings(rows: list[Signature]) -> None:
    for name in ("lowerAscii", "upperAscii", "trim", "reverse"):
        rows.append((name, ("string",), "string", True))
    rows.append(("strings.quote", ("string",), "string", False))
    for name, result, *parameters in (
        ("charAt", "string", "int"),
        ("format", "string", "list<dyn>"),
        ("replace", "string", "string", "string"),
        ("replace", "string", "string", "string", "int"),
        ("split", "list<string>", "string"),
        ("split", "list<string>", "string", "int"),
        ("substring", "string", "int"),
        ("substring", "string", "int", "int"),
        ("find", "string", "string"),
        ("findAll", "list<string>", "string"),
        ("findAll", "list<string>", "string", "int"),
    ):
        rows.append((name, ("string", *parameters), result, True))
    rows.append(("join", ("list<string>",), "string", True))
    rows.append(("join", ("list<string>", "string"), "string", True))


def _numbers(rows: list[Signature]) -> None:
    rows.append(("quantity", ("string",), QUANTITY, False))
    rows.append(("isQuantity", ("string",), "bool", False))
    for name, result in (
        ("isInteger", "bool"),
        ("asInteger", "int"),
        ("asApproximateFloat", "double"),
        ("sign", "int"),
    ):
        rows.append((name, (QUANTITY,), result, True))
    for name in ("add", "sub"):
        rows.append((name, (QUANTITY, QUANTITY), QUANTITY, True))
        rows.append((name, (QUANTITY, "int"), QUANTITY, True))
    rows.append(("semver", ("string",), SEMVER, False))
    rows.append(("semver", ("string", "bool"), SEMVER, False))
    rows.append(("isSemver", ("string",), "bool", False))
    rows.append(("isSemver", ("string", "bool"), "bool", False))
    for name in ("major", "minor", "patch"):
        rows.append((name, (SEMVER,), "int", True))
    for kind in (QUANTITY, SEMVER):
        rows.append(("isLessThan", (kind, kind), "bool", True))
        rows.append(("isGreaterThan", (kind, kind), "bool", True))
        rows.append(("compareTo", (kind, kind), "int", True))


def _addresses(rows: list[Signature]) -> None:
    rows.append(("ip", ("string",), IP, False))
    rows.append(("isIP", ("string",), "bool", False))
    rows.append(("ip.isCanonical", ("string",), "bool", False))
    rows.append(("family", (IP,), "int", True))
    for name in ("Unspecified", "Loopback", "LinkLocalMulticast", "LinkLocalUnicast", "GlobalUnicast"):
        rows.append((f"is{name}", (IP,), "bool", True))
    rows.append(("cidr", ("string",), CIDR, False))
    rows.append(("isCIDR", ("string",), "bool", False))
    for other in (IP, "string"):
        rows.append(("containsIP", (CIDR, other), "bool", True))
    for other in (CIDR, "string"):
        rows.append(("containsCIDR", (CIDR, other), "bool", True))
    rows.append(("ip", (CIDR,), IP, True))
    rows.append(("masked", (CIDR,), CIDR, True))
    rows.append(("prefixLength", (CIDR,), "int", True))
    for kind in (IP, CIDR, "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"):
        rows.append(("string", (kind,), "string", False))


def _authorization(rows: list[Signature]) -> None:
    rows.append(("path", (AUTHORIZER, "string"), PATH_CHECK, True))
    rows.append(("group", (AUTHORIZER, "string"), GROUP_CHECK, True))
    rows.append(("serviceAccount", (AUTHORIZER, "string", "string"), AUTHORIZER, True))
    rows.append(("resource", (GROUP_CHECK, "string"), RESOURCE_CHECK, True))
    for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector"):
        rows.append((name, (RESOURCE_CHECK, "string"), RESOURCE_CHECK, True))
    for kind in (PATH_CHECK, RESOURCE_CHECK):
        rows.append(("check", (kind, "string"), DECISION, True))
    for name, result in (("errored", "bool"), ("error", "string"), ("allowed", "bool"), ("reason", "string")):
        rows.append((name, (DECISION,), result, True))


@cache
def signatures() -> tuple[Signature, ...]:
    """All of them; a name with several is overloaded."""
    return tuple(_rows())
