"""Random requests to everything that a server says it serves, and what must be true of each answer."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections import Counter
from copy import deepcopy
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from attrs import define, field, frozen

from tests.fuzz import custom, proto
from tests.fuzz.excuses import excused
from tests.fuzz.shapes import NAMES, NASTY, Shapes
from tests.fuzz.wire import PATIENCE_S, Answer, Wire
from tests.tree import ROOT

Object = dict[str, Any]

GROUP = "fuzz.example.com"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BASES: dict[str, Object] = msgspec.json.decode((ROOT / "tests" / "api" / "rule_cases.json").read_bytes())["bases"]
"""A valid object of each kind."""
BASES |= {f"{GROUP}/gadgets": {"spec": custom.SPEC}, f"{GROUP}/globes": {"spec": custom.SPEC}}
_METHODS = ("get", "put", "post", "patch", "delete")
_PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_ODD_TYPES = (
    "",
    "text/plain",
    "application/cbor",
    "application/json; charset=utf-8",
    "multipart/form-data",
    "é",
    "*/*",
)
_ACCEPTS = (
    "application/json", "application/yaml", "*/*", "", "application/vnd.kubernetes.protobuf,application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=Table;v=v9;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json;q=0.9",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json", "text/html", ";;;,,q=x",
    "application/json;q=0", "application/json;q=nan",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
)  # fmt: skip
_SPEAKING: dict[str, tuple[str, ...]] = {
    "watch": ("true", "1", "false", "TRUE", "x"),
    "timeoutSeconds": ("1", "0", "-1", "9999999999999999999", "x"),
    "limit": ("1", "2", "0", "-1", "500", "99999999999999999999", "x"),
    "continue": ("x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0"),
    "resourceVersion": ("0", "1", "5", "-1", "18446744073709551616", "x"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "sendInitialEvents": ("true", "false"),
    "allowWatchBookmarks": ("true",),
    "labelSelector": ("a=b", "a in (b,c)", "!a", "a!=b,app", "a in", "((", "a=b=c", "x.io/y>1"),
    "fieldSelector": ("metadata.name=a", "metadata.namespace!=b", "spec.x=1", "status.phase=Running", "=", "a\\,b=c"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "fieldManager": ("me", "", "x" * 200, "\u0000"),
    "force": ("true", "false", "x"),
    "dryRun": ("All", "x", ""),
    "pretty": ("true", "x"),
    "includeObject": ("None", "Object", "Metadata", "x"),
    "propagationPolicy": ("Foreground", "Background", "Orphan", "x"),
    "gracePeriodSeconds": ("0", "1", "-1", "x", "99999999999999999999"),
    "orphanDependents": ("true", "false"),
    "ignoreStoreReadErrorWithClusterBreakingPotential": ("true", "false"),
    "timeout": ("1s", "0s", "-1s", "x", "1ms", "1e9h"),
    "container": ("a",),
    "command": ("sh",),
    "follow": ("true",),
}
_FIELDS = {"f:data": {"f:a": {}}, "f:spec": {"f:replicas": {}}, "f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
_STAMPS: dict[str, tuple[Any, ...]] = {
    "uid": ("", "00000000-0000-4000-8000-000000000000"),
    "resourceVersion": ("", "0", "1", "300", "99999999"),
    "generation": (1, 2),
    "creationTimestamp": (None, "2020-01-01T00:00:00Z"),
    "deletionTimestamp": ("2020-01-01T00:00:00Z",),
    "selfLink": ("/x",),
    "managedFields": (
        [],
        [{"manager": "me", "operation": "Apply", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z",
          "fieldsType": "FieldsV1", "fieldsV1": _FIELDS}],
        [{"manager": "you", "operation": "Update", "apiVersion": "v1", "subresource": "status",
          "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}],
    ),
}  # fmt: skip


@frozen
class Target:
    """One operation of the served OpenAPI."""

    path: str
    method: str
    kind: str
    api_version: str
    schema: Object
    shapes: Shapes

    @property
    def base(self) -> str:
        """`apps/deployments`: where the corpus has an object of this kind."""
        parts = [part for part in self.path.split("/") if part]
        group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            rest = rest[2:]
        return "/".join(part for part in (group, rest[0] if rest else "") if part)


@define
class Found:
    """What went wrong, and what was asked in all."""

    codes: Counter[int] = field(factory=Counter)
    slowest: float = 0.0
    wrong: list[str] = field(factory=list)
    excuses: Counter[str] = field(factory=Counter)
    """Why answers of 500 and above were none of the server's faults."""


class Barrage:
    """Requests from one seed against one server."""

    def __init__(self, wire: Wire, seed: int) -> None:
        self.chance = random.Random(seed)
        self.wire = wire
        self.found = Found()
        self.targets: list[Target] = []
        self.digest = hashlib.sha256()
        """Of all requests sent: a seed gives the same ones on every server."""
        self._sent: dict[str, Any] = {}
        self._define()
        self.documents: dict[str, Object] = {}
        for name, row in sorted(wire.ask("GET", "/openapi/v3").json["paths"].items()):
            self.documents[name] = wire.ask("GET", row["serverRelativeURL"]).json
            self._learn(self.documents[name])
        self._weights = [_weight(target) for target in self.targets]

    def plant(self) -> None:
        """Makes an object of each kind, so that there is something to meet, and what pods need (no controller does)."""
        account = b'{"metadata":{"name":"default"}}'
        self.send("POST", "/api/v1/namespaces/default/serviceaccounts", account, [("Content-Type", _TYPES[0])])
        for target in self.targets:
            if target.method == "post" and target.base in BASES and target.path.endswith(target.base.split("/")[-1]):
                value = {"kind": target.kind, "apiVersion": target.api_version, **deepcopy(BASES[target.base])}
                value["metadata"] = {**(value.get("metadata") or {}), "name": self.chance.choice(NAMES[:3])}
                path = target.path.replace("{namespace}", "default")
                self._sent[f"{path}/{value['metadata']['name']}"] = value
                self.send("POST", path, msgspec.json.encode(value), [("Content-Type", _TYPES[0])])

    def _define(self) -> None:
        """Two custom resources, waited for until they are served."""
        for plural, kind, scope in (("gadgets", "Gadget", "Namespaced"), ("globes", "Globe", "Cluster")):
            crd = msgspec.json.encode(custom.definition(GROUP, plural, kind, scope=scope))
            assert self.wire.ask("POST", _CRDS, crd, {"Content-Type": _TYPES[0]}).code in (201, 409)
        until = time.monotonic() + 10
        while "globes" not in self.wire.ask("GET", f"/apis/{GROUP}/v1").body.decode():
            assert time.monotonic() < until, "the custom resource is not served"

    def _learn(self, document: Object) -> None:
        shapes = Shapes(document, self.chance)
        for path, operations in sorted(document["paths"].items()):
            for method in _METHODS:
                operation = operations.get(method)
                if operation is None:
                    continue
                gvk = operation.get("x-kubernetes-group-version-kind") or {}
                group, version = gvk.get("group", ""), gvk.get("version", "v1")
                content = (operation.get("requestBody") or {}).get("content") or {}
                schema = next((row["schema"] for row in content.values() if "$ref" in row.get("schema", {})), None)
                if schema is None:
                    for other in ("put", "post"):
                        content = ((operations.get(other) or {}).get("requestBody") or {}).get("content") or {}
                        schema = schema or next((row.get("schema") for row in content.values()), None)
                api_version = f"{group}/{version}" if group else version
                self.targets.append(Target(path, method, gvk.get("kind", ""), api_version, schema or {}, shapes))

    def fire(self, count: int) -> None:
        """Sends so many requests; sees to it that the server can go on (what would refuse all else is removed)."""
        for number in range(count):
            if number % 40 == 39:
                self.calm()
            if number % 400 == 0:
                self.plant()
            self.one()

    def calm(self) -> None:
        """Webhooks, policies, quotas and flow control that were made at random would refuse everything."""
        for path in _BARRIERS:
            self._judge("DELETE", path, None, [], self.wire.ask("DELETE", path))

    def one(self) -> None:
        """One random request."""
        chance = self.chance
        target = chance.choices(self.targets, self._weights)[0]
        path = target.path
        for word in re.findall(r"\{[^}]+\}", path):
            path = path.replace(word, quote(self._word(word), safe="") or "x", 1)
        method = target.method.upper()
        if chance.random() < 0.04:
            method = chance.choice(("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "QUX"))
        query = self._query()
        headers = [("Accept", chance.choice(_ACCEPTS))] if chance.random() < 0.5 else []
        body = None
        if method in ("PUT", "POST", "PATCH") or (method == "DELETE" and chance.random() < 0.2):
            body, media = self._body(method, target, path)
            if media:
                headers.append(("Content-Type", media))
            if media == _PATCHES[3] and chance.random() < 0.9:
                query += ("&" if query else "?") + "fieldManager=me"
        self.send(method, path + query, body, headers)

    def send(self, method: str, path: str, body: bytes | None, headers: list[tuple[str, str]]) -> Answer | None:
        """One request, and its answer judged."""
        self.digest.update(msgspec.json.encode([method, path, headers]) + (body or b""))
        try:
            answer = self.wire.ask(method, path, body, headers)
        except OSError as error:
            self.wire.drop()
            self._wrong(method, path, body, headers, f"no answer: {error!r}")
            return None
        self._judge(method, path, body, headers, answer)
        return answer

    def _word(self, word: str) -> str:
        chance = self.chance
        if chance.random() < 0.03:
            return str(chance.choice(NASTY))
        if word == "{namespace}":
            return chance.choice(("default",) * 8 + ("kube-system", "nowhere"))
        return chance.choice(NAMES[:2] if chance.random() < 0.8 else NAMES)

    def _query(self) -> str:
        chance = self.chance
        names = [name for name in _SPEAKING if chance.random() < 0.02]
        pairs = []
        for name in names:
            value = str(chance.choice(_SPEAKING[name]) if chance.random() < 0.9 else chance.choice(NASTY))
            pairs.append(f"{name}={quote(value, safe='')}")
        if chance.random() < 0.02:
            pairs.append(chance.choice(("%zz", "&&", "=", "a", "%00=%ff", "a=%ed%a0%80", ";", "?")))
        return "?" + "&".join(pairs) if pairs else ""

    def _object(self, target: Target, path: str) -> Any:
        """An object for a path: mostly near to a valid one, or to the one that is there (as far as the sender knows:
        to ask the server would make requests depend on its answers)."""
        chance, shapes = self.chance, target.shapes
        base = BASES.get(target.base)
        what = chance.random()
        value: Any = None
        if what < 0.2 and path in self._sent:
            value = deepcopy(self._sent[path])
            value["metadata"] = {**(value.get("metadata") or {}), **self._stamped()}
        if value is None and base is not None and what < 0.75:
            value = {"kind": target.kind, "apiVersion": target.api_version, "metadata": shapes.metadata()}
            value.update(deepcopy(base))
        if value is None:
            value = shapes.object(target.schema, target.kind, target.api_version)
        name = path.split("/")[-1 if target.path.endswith("{name}") else -2]
        if "{name}" in target.path and isinstance(value, dict) and chance.random() < 0.9:
            value["metadata"] = {**(value.get("metadata") or {}), "name": unquote(name)}
        return shapes.wrecked(value) if chance.random() < 0.6 else value

    def _stamped(self) -> Object:
        """What a server adds to metadata, true or not."""
        chance, found = self.chance, {}
        for name, values in _STAMPS.items():
            if chance.random() < 0.4:
                found[name] = deepcopy(chance.choice(values))
        return found

    def _body(self, method: str, target: Target, path: str) -> tuple[bytes, str]:
        chance, shapes = self.chance, target.shapes
        if method == "DELETE":
            value: Any = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            value = shapes.wrecked(value) if chance.random() < 0.5 else value
        else:
            value = self._object(target, path)
        media = chance.choice(_TYPES if method != "PATCH" else _PATCHES)
        if media == _TYPES[2]:
            raw = proto.body(target.kind, target.api_version, chance)
            if raw is not None:
                return (shapes.flipped(raw) if chance.random() < 0.3 else raw), media
            media = _TYPES[0]
        if media == _PATCHES[0]:
            value = shapes.json_patch(value)
        elif media in _PATCHES[1:3] and isinstance(value, dict) and chance.random() < 0.8:
            value.pop("metadata", None)
        if chance.random() < 0.02:
            value = chance.choice(NASTY)
        raw = shapes.text(value, media)
        return raw, media if chance.random() < 0.97 else chance.choice(_ODD_TYPES)

    def _judge(
        self, method: str, path: str, body: bytes | None, headers: list[tuple[str, str]], answer: Answer
    ) -> None:
        self.found.codes[answer.code] += 1
        self.found.slowest = max(self.found.slowest, answer.seconds)
        if answer.code >= 500 and (excuse := excused(method, path, answer)) is not None:
            self.found.excuses[f"{excuse.code}: {excuse.why}"] += 1
        for why in problems(method, path, answer):
            self._wrong(method, path, body, headers, why)

    def _wrong(self, method: str, path: str, body: bytes | None, headers: list[tuple[str, str]], why: str) -> None:
        self.found.wrong.append(f"{method} {path} {headers} {body!r:.3000}\n   {why}")


_BARRIERS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/api/v1/namespaces/default/resourcequotas",
    "/api/v1/namespaces/default/limitranges",
)


def _weight(target: Target) -> float:
    """Writes find more than reads, and a deletion takes away what they could meet."""
    if target.method == "delete":
        return 0.5 if "{name}" in target.path else 0.05
    return {"get": 1.0, "put": 3.0, "post": 3.0, "patch": 5.0}[target.method]


def problems(method: str, path: str, answer: Answer) -> list[str]:
    """Why an answer is none that Kubernetes would give."""
    found = []
    if answer.seconds > PATIENCE_S:
        found.append(f"took {answer.seconds:.1f} s")
    if answer.code >= 400 and method != "HEAD":
        found += _no_status(answer)
    if answer.code >= 500 and method != "HEAD" and excused(method, path, answer) is None:
        found.append(f"an unexplained {answer.code}: {answer.message[:500]}")
    media = answer.headers.get("content-type", "")
    if (
        answer.code < 300
        and answer.code != 204
        and media.startswith("application/json")
        and "transfer-encoding" not in answer.headers
    ):
        try:
            if method != "HEAD" and not isinstance(answer.json, dict):
                found.append("the answer is no object")
        except msgspec.DecodeError as error:
            found.append(f"no JSON: {error}")
    return found


def _no_status(answer: Answer) -> list[str]:
    try:
        status = answer.json
    except msgspec.DecodeError:
        return [f"{answer.code} without a Status: {answer.body[:200]!r}"]
    if not isinstance(status, dict) or status.get("kind") != "Status" or status.get("apiVersion") != "v1":
        return [f"{answer.code} without a Status: {answer.body[:200]!r}"]
    if status.get("code") != answer.code or status.get("status") != "Failure":
        return [f"{answer.code} with a Status of {status.get('code')} {status.get('status')}"]
    return [] if status.get("message") else [f"{answer.code} without a message"]
