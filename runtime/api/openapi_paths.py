"""The paths of an OpenAPI v3 document: which operations each resource has, with parameters, bodies and answers.

kubectl reads the `patch` of a kind for its `fieldValidation` parameter and each operation for
`x-kubernetes-group-version-kind`; generators of requests read the rest. Connections (exec, attach, portforward, proxy)
are left out: they are no exchanges of JSON. Source: apiserver pkg/endpoints/installer.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model.objects.registry import COMPONENTS
from dashpot.model.objects.resource import Resource, Subresource
from dashpot.runtime.api.catalog import META, Catalog

Object = dict[str, Any]

CONNECTIONS = ("attach", "exec", "portforward", "proxy")
BODIES = ("application/json", "application/yaml")
PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


def _parameter(name: str, kind: str, text: str, place: str = "query") -> Object:
    row: Object = {"name": name, "in": place, "description": text}
    if place == "path":
        row["required"] = True
    return {**row, "schema": {"type": kind, "uniqueItems": True}}


def _raw(*rows: Object) -> list[msgspec.Raw]:
    """Parameters as the bytes that many operations share."""
    return [msgspec.Raw(msgspec.json.encode(row)) for row in rows]


NAME = _parameter("name", "string", "Name of the object.", "path")
NAMESPACE = _parameter("namespace", "string", "Namespace of the object.", "path")
PRETTY = _parameter("pretty", "string", "If 'true', the answer is indented for people.")
DRY_RUN = _parameter("dryRun", "string", "'All': every stage is run, nothing is stored. No other value is allowed.")
MANAGER = _parameter("fieldManager", "string", "Who makes these changes; required for server-side apply.")
VALIDATION = _parameter(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields: Ignore drops them, Warn (the default) tells, Strict refuses.",
)
FORCE = _parameter("force", "boolean", "Server-side apply takes fields over from other managers.")
SELECTORS = (
    _parameter("labelSelector", "string", "Only objects with these labels."),
    _parameter("fieldSelector", "string", "Only objects with these fields."),
)
VERSIONS = (
    _parameter("resourceVersion", "string", "From which version on, or at which; resourceVersionMatch says which."),
    _parameter("resourceVersionMatch", "string", "NotOlderThan or Exact."),
)
PAGES = (
    _parameter("limit", "integer", "At most so many objects; `metadata.continue` of the answer asks for the rest."),
    _parameter("continue", "string", "Where the last page ended."),
)
TIMEOUT = _parameter("timeoutSeconds", "integer", "How long a list or watch may take.")
WATCHES = (
    _parameter("watch", "boolean", "Changes as they happen, in place of a list."),
    _parameter("allowWatchBookmarks", "boolean", "The watch may tell how far it is by BOOKMARK events."),
    _parameter("sendInitialEvents", "boolean", "The watch begins with all objects and a bookmark at their end."),
)
DELETES = (
    _parameter("gracePeriodSeconds", "integer", "How long the object may take to end; 0 is at once."),
    _parameter("propagationPolicy", "string", "Orphan, Background or Foreground: what becomes of dependents."),
)
LOG = (
    _parameter("container", "string", "Which container; may be left out if there is one."),
    _parameter("follow", "boolean", "The answer goes on while the container runs."),
    _parameter("limitBytes", "integer", "At most so many bytes."),
    _parameter("previous", "boolean", "Of the container that ran before the restart."),
    _parameter("sinceSeconds", "integer", "Only what is younger."),
    _parameter("tailLines", "integer", "Only the last lines."),
    _parameter("timestamps", "boolean", "Each line begins with its time."),
)

JSON_PATCH: Object = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["op", "path"],
        "properties": {
            "op": {"type": "string", "enum": ["add", "remove", "replace", "move", "copy", "test"]},
            "path": {"type": "string"},
            "from": {"type": "string"},
            "value": {},
        },
    },
}

LISTING = _raw(*SELECTORS, *VERSIONS, *PAGES, TIMEOUT, *WATCHES)
CREATING = _raw(DRY_RUN, MANAGER, VALIDATION)
PATCHING = _raw(DRY_RUN, MANAGER, VALIDATION, FORCE)
DELETING = _raw(DRY_RUN, *DELETES)
DELETING_MANY = _raw(DRY_RUN, *SELECTORS, *VERSIONS, *PAGES, TIMEOUT, *DELETES)
LOGGING = _raw(*LOG)
OF_CLUSTER, OF_NAMESPACE = _raw(PRETTY), _raw(NAMESPACE, PRETTY)
NAMED_CLUSTER, NAMED_NAMESPACE = _raw(NAME, PRETTY), _raw(NAME, NAMESPACE, PRETTY)


def reference(name: str) -> Object:
    """A `$ref` to a component."""
    return {"$ref": f"{COMPONENTS}{name}"}


class Paths:
    """The paths of one group version, and the names of the components that they mention.

    `named` gives the component of a kind (group, version, kind); empty if it has none.
    """

    def __init__(self, catalog: Catalog, group: str, version: str, named: Callable[[str, str, str], str]) -> None:
        self.base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        words = (group.split(".")[0] or "core", version)
        self.tag = "_".join(words)
        self.camel = "".join(word[:1].upper() + word[1:] for word in words)
        self.named = named
        self.paths: Object = {}
        self.used: set[str] = set()
        status = {"application/json": {"schema": self._ref(f"{META}Status")}}
        self.failure = {"description": "Failure: a Status with its reason", "content": status}
        for resource in catalog.of(group, version):
            self._resource(resource)

    def _ref(self, name: str) -> Object:
        self.used.add(name)
        return reference(name)

    def _kind(self, group: str, version: str, kind: str) -> Object:
        name = self.named(group, version, kind)
        return self._ref(name) if name else {"type": "object"}

    def _resource(self, resource: Resource) -> None:
        kind = self._kind(resource.group, resource.version, resource.kind)
        many = f"{self.base}/namespaces/{{namespace}}/{resource.plural}"
        if not resource.namespaced:
            many = f"{self.base}/{resource.plural}"
        scope = "Namespaced" if resource.namespaced else ""
        collection = self._collection(resource, kind, scope)
        if collection:
            self.paths[many] = {**collection, "parameters": OF_NAMESPACE if scope else OF_CLUSTER}
        if scope and "list" in resource.verbs:
            list_all = self._list(resource, f"list{self.camel}{resource.kind}ForAllNamespaces")
            self.paths[f"{self.base}/{resource.plural}"] = {"get": list_all, "parameters": OF_CLUSTER}
        one = self._one(resource, kind, scope)
        if one:
            self.paths[f"{many}/{{name}}"] = {**one, "parameters": NAMED_NAMESPACE if scope else NAMED_CLUSTER}
        for sub in resource.subresources:
            if sub.name not in CONNECTIONS:
                self.paths[f"{many}/{{name}}/{sub.name}"] = self._sub(resource, sub, scope)

    def _collection(self, resource: Resource, kind: Object, scope: str) -> Object:
        found: Object = {}
        tail = f"{self.camel}{scope}{resource.kind}"
        if "list" in resource.verbs:
            found["get"] = self._list(resource, f"list{tail}")
        if "create" in resource.verbs:
            found["post"] = self._operation(
                resource, "post", f"create{tail}", f"create {resource.kind}", kind, CREATING, (200, 201, 202), BODIES
            )
        if "deletecollection" in resource.verbs:
            status = self._ref(f"{META}Status")
            found["delete"] = self._operation(
                resource,
                "deletecollection",
                f"delete{self.camel}Collection{scope}{resource.kind}",
                f"delete a collection of {resource.kind}",
                status,
                DELETING_MANY,
                body=self._ref(f"{META}DeleteOptions"),
                needed=False,
            )
        return found

    def _list(self, resource: Resource, identity: str) -> Object:
        answer = self._kind(resource.group, resource.version, f"{resource.kind}List")
        return self._operation(resource, "list", identity, f"list or watch {resource.kind}", answer, LISTING)

    def _one(self, resource: Resource, kind: Object, scope: str) -> Object:
        found: Object = {}
        tail, what = f"{self.camel}{scope}{resource.kind}", resource.kind
        if "get" in resource.verbs:
            found["get"] = self._operation(resource, "get", f"read{tail}", f"read one {what}", kind, [])
        if "update" in resource.verbs:
            found["put"] = self._operation(
                resource, "put", f"replace{tail}", f"replace one {what}", kind, CREATING, (200, 201), BODIES
            )
        if "patch" in resource.verbs:
            found["patch"] = self._patch(resource, f"patch{tail}", f"change parts of one {what}", kind, resource.custom)
        if "delete" in resource.verbs:
            found["delete"] = self._operation(
                resource,
                "delete",
                f"delete{tail}",
                f"delete one {what}",
                self._ref(f"{META}Status"),
                DELETING,
                (200, 202),
                body=self._ref(f"{META}DeleteOptions"),
                needed=False,
            )
        return found

    def _patch(self, subject: Resource | Subresource, identity: str, text: str, kind: Object, custom: bool) -> Object:
        """Custom resources have no merge keys and so no strategic merge."""
        operation = self._operation(subject, "patch", identity, text, kind, PATCHING, (200, 201))
        content = {name: {"schema": self._ref(f"{META}Patch")} for name in (PATCHES[:3] if custom else PATCHES)}
        content["application/apply-patch+yaml"] = {"schema": kind}
        content["application/json-patch+json"] = {"schema": JSON_PATCH}
        operation["requestBody"] = {"content": content, "required": True}
        return operation

    def _sub(self, resource: Resource, sub: Subresource, scope: str) -> Object:
        kind = self._kind(sub.group, sub.version, sub.kind)
        tail = f"{self.camel}{scope}{resource.kind}{sub.name.capitalize()}"
        what = f"{sub.name} of one {resource.kind}"
        found: Object = {"parameters": NAMED_NAMESPACE if scope else NAMED_CLUSTER}
        if sub.name == "log":
            operation = self._operation(resource, "get", f"read{tail}", f"read {what}", {"type": "string"}, LOGGING)
            operation["responses"]["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
            return {**found, "get": operation}
        if "get" in sub.verbs:
            found["get"] = self._operation(sub, "get", f"read{tail}", f"read {what}", kind, [])
        if "create" in sub.verbs:
            found["post"] = self._operation(
                sub, "post", f"create{tail}", f"create {what}", kind, CREATING, (200, 201, 202), BODIES
            )
        if "update" in sub.verbs:
            found["put"] = self._operation(
                sub, "put", f"replace{tail}", f"replace {what}", kind, CREATING, (200, 201), BODIES
            )
        if "patch" in sub.verbs:
            found["patch"] = self._patch(sub, f"patch{tail}", f"change parts of {what}", kind, resource.custom)
        return found

    def _operation(
        self,
        subject: Resource | Subresource,
        action: str,
        identity: str,
        text: str,
        answer: Object,
        parameters: list[msgspec.Raw],
        codes: tuple[int, ...] = (200,),
        consumes: tuple[str, ...] = (),
        *,
        body: Object | None = None,
        needed: bool = True,
    ) -> Object:
        """One operation; with `consumes` its body is the kind itself unless `body` says what else."""
        content = {"application/json": {"schema": answer}}
        names = {200: "OK", 201: "Created", 202: "Accepted"}
        operation: Object = {
            "tags": [self.tag],
            "description": text,
            "operationId": identity,
            "parameters": parameters,
            "responses": {
                **{str(code): {"description": names[code], "content": content} for code in codes},
                "default": self.failure,
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {
                "group": subject.group,
                "version": subject.version,
                "kind": subject.kind,
            },
        }
        if body is not None or consumes:
            kinds = consumes or ("application/json",)
            schema = body or answer
            operation["requestBody"] = {"content": {kind: {"schema": schema} for kind in kinds}, "required": needed}
        return operation
