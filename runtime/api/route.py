"""What a URL asks for: path and method to Info, by upstream's rules.

Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from dashpot.runtime.api.exchange import Info

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# /namespaces/NAME/<one of these> is a subresource of the namespace, not a resource in it
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


def info(method: str, path: str, query: Sequence[tuple[str, str]] = ()) -> Info:
    """Reads a request line; `path` is still percent-encoded. A path that names no resource keeps the method as verb."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts and parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Info(False, path, method.lower())
    found = [unquote(part) for part in rest]
    verb = _VERBS.get(method, method.lower())
    namespace = ""
    if found[0] == "namespaces":
        if len(found) > 1:
            namespace = found[1]
        if len(found) > 2 and found[2] not in _NAMESPACE_SUBRESOURCES:
            found = found[2:]
    resource = found[0]
    name = found[1] if len(found) > 1 else ""
    subresource = found[2] if len(found) > 2 else ""
    tail = "/".join(rest[-(len(found) - 3) :]) if len(found) > 3 else ""
    if path.endswith("/") and (tail or subresource == "proxy"):
        tail += "/"
    if not name:
        verb, name = _collection(verb, query)
    return Info(True, path, verb, group, version, namespace, resource, subresource, name, tail)


def _collection(verb: str, query: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The verb for a whole collection, and the one name that a field selector asks for (RBAC's resourceNames)."""
    if verb == "delete":
        verb = "deletecollection"
    elif verb == "get":
        watch = any(key == "watch" and value.lower() not in ("false", "0") for key, value in query)
        verb = "watch" if watch else "list"
    else:
        return verb, ""
    for key, value in query:
        if key == "fieldSelector":
            for term in value.split(","):
                field, _, wanted = term.partition("=")
                if field == "metadata.name" and wanted:
                    return verb, wanted.removeprefix("=")
    return verb, ""
