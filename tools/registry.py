"""Makes model/objects/data/registry.json.gz: every served resource and the schema of every type it reaches.

    python tools/registry.py [--check]

Sources, both installed from the package index: `kubernetes-validate` (Apache-2.0; the definitions of Kubernetes'
OpenAPI document, one file a release) and `lightkube-models` (MIT; plural names, verbs, subresources). What neither
says is written here by hand, from the sources of Kubernetes 1.37: short names, categories, streams of pods, metrics.
`--check` compares with the file in the tree instead of writing it.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from registry_facts import (
    ALL_CATEGORY,
    API_EXTENSIONS_CATEGORY,
    BETA,
    GROUP_ORDER,
    LEFT_OUT,
    METRICS,
    METRICS_RESOURCES,
    SHORT_NAMES,
    STORED_AS,
    STREAMS,
)

Object = dict[str, Any]

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "model" / "objects" / "data" / "registry.json.gz"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
GA = re.compile(r"v\d+")
VERBS = {"post": "create", "put": "update", "global_list": "list", "global_watch": "watch"}
LEAF_REF = "#/components/schemas/"
FREE = ("RawExtension", "FieldsV1", "JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool")
FREE += ("JSONSchemaPropsOrStringArray",)


def newest() -> tuple[str, Object]:
    """The newest release in kubernetes-validate and its definitions."""
    package = importlib.import_module("kubernetes_validate")
    folder = Path(str(package.__file__)).parent / "kubernetes-json-schema"
    releases = [p for p in folder.iterdir() if re.fullmatch(r"v1\.\d+\.\d+-local", p.name)]
    best = max(releases, key=lambda p: int(p.name.split(".")[1]))
    found = json.loads((best / "_definitions.json").read_text(encoding="utf-8"))
    return best.name.removesuffix("-local").removeprefix("v").removesuffix(".0"), found["$defs"]


def plain(schema: Any) -> Any:
    """A schema as OpenAPI v3 has it: no null types, references to components, no enumeration of apiVersion and kind."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    new: Object = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, list):
            new[key] = next(name for name in value if name != "null")
        elif key == "$ref":
            new[key] = LEAF_REF + value.removeprefix("#/$defs/")
        elif key == "properties":
            new[key] = {name: plain(value[name]) for name in sorted(value)}
            for name in ("apiVersion", "kind"):
                new[key].get(name, {}).pop("enum", None)
        elif key == "required":
            new[key] = sorted(value)
        else:
            new[key] = plain(value)
    return new


def refined(definitions: Object) -> Object:
    """All definitions in the form of v3, with the formats by which our own code knows the special leaves."""
    new = {name: plain(schema) for name, schema in definitions.items()}
    new["io.k8s.apimachinery.pkg.api.resource.Quantity"]["format"] = "quantity"
    leaf = new["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    leaf.update({"format": "int-or-string", "x-kubernetes-int-or-string": True})
    for name in new:
        if name.rsplit(".", 1)[1] in FREE:
            new[name]["x-kubernetes-preserve-unknown-fields"] = True
    new[APIEXTENSIONS + "CustomResourceSubresourceStatus"]["properties"] = {}
    new.update(METRICS)
    return new


def served(group: str, version: str) -> bool:
    """GA versions and the few others that clients want."""
    return (GA.fullmatch(version) is not None or (group, version) in BETA) and group not in LEFT_OUT


def verbs(info: Any) -> list[str]:
    """Verbs as discovery names them."""
    return sorted({VERBS.get(verb, verb) for verb in info.verbs})


def infos() -> list[tuple[Any, Any]]:
    """Every class of lightkube with what it says of its API."""
    resources = importlib.import_module("lightkube.resources")
    found = []
    for module in pkgutil.iter_modules(resources.__path__):
        loaded = importlib.import_module(f"lightkube.resources.{module.name}")
        for thing in vars(loaded).values():
            if isinstance(thing, type) and thing.__module__ == loaded.__name__ and hasattr(thing, "_api_info"):
                found.append((thing, thing._api_info))
    return found


def row(thing: Any, info: Any) -> Object:
    """One resource, without its subresources."""
    group, version, kind = info.resource
    plural = info.plural
    stored = STORED_AS.get((group, version, plural), (group, version))
    categories = ["all"] * ((group, plural) in ALL_CATEGORY)
    categories += ["api-extensions"] * (plural in API_EXTENSIONS_CATEGORY)
    return {
        "group": group,
        "version": version,
        "kind": kind,
        "plural": plural,
        "singular": kind.lower(),
        "namespaced": any(base.__name__.startswith("Namespaced") for base in thing.__mro__),
        "verbs": verbs(info),
        "short_names": SHORT_NAMES.get((group, plural), []),
        "categories": categories,
        "subresources": [],
        "storage_group": stored[0],
        "storage_version": stored[1],
    }


def resources() -> list[Object]:
    """All served resources in the order of discovery: groups by priority, newest version first, then plural names."""
    rows: dict[tuple[str, str, str], Object] = {}
    for thing, info in infos():
        group, version, _ = info.resource
        if info.action is None and served(group, version) and info.plural not in LEFT_OUT:
            rows[group, version, info.plural] = row(thing, info)
    for _, info in infos():
        if info.action is None or (info.parent.group, info.parent.version, info.plural) not in rows:
            continue
        group, version, kind = info.resource
        sub = {"name": info.action, "group": group, "version": version, "kind": kind, "verbs": verbs(info)}
        rows[info.parent.group, info.parent.version, info.plural]["subresources"].append(sub)
    for plural, name, kind, allowed in STREAMS:
        sub = {"name": name, "group": "", "version": "v1", "kind": kind, "verbs": allowed}
        rows["", "v1", plural]["subresources"].append(sub)
    for found in rows.values():
        found["subresources"].sort(key=lambda sub: sub["name"])
    every = [*rows.values(), *METRICS_RESOURCES]
    unknown = {r["group"] for r in every} - set(GROUP_ORDER)
    if unknown:
        raise SystemExit(f"say in GROUP_ORDER where these groups stand: {sorted(unknown)}")
    return sorted(every, key=lambda r: (GROUP_ORDER.index(r["group"]), -int(r["version"][1]), r["plural"]))


def kinds(definitions: Object, versions: set[tuple[str, str]]) -> dict[str, str]:
    """`apps/v1/Deployment` -> name of its definition; cuts the others out of x-kubernetes-group-version-kind."""
    found: dict[str, str] = {}
    for name, schema in definitions.items():
        kept = []
        for gvk in schema.pop("x-kubernetes-group-version-kind", []):
            group, version, kind = gvk["group"], gvk["version"], gvk["kind"]
            if (group, version) in versions:
                kept.append({"group": group, "kind": kind, "version": version})
                found[f"{group}/{version}/{kind}"] = name
        if kept:
            schema["x-kubernetes-group-version-kind"] = kept
    return found


def reached(definitions: Object, roots: list[str]) -> Object:
    """The definitions that can be come to from the roots, sorted by name."""
    seen: set[str] = set()
    todo = list(roots)

    def refer(schema: Any) -> None:
        if isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                todo.append(schema["$ref"].removeprefix(LEAF_REF))
            for value in schema.values():
                refer(value)
        elif isinstance(schema, list):
            for value in schema:
                refer(value)

    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            refer(definitions[name])
    return {name: definitions[name] for name in sorted(seen)}


def build() -> bytes:
    """The data file; equal bytes for equal sources."""
    release, raw = newest()
    definitions = refined(raw)
    rows = resources()
    versions = {(r["group"], r["version"]) for r in rows}
    named = kinds(definitions, versions)
    roots = [*named.values(), META + "Patch", "io.k8s.apimachinery.pkg.version.Info"]
    missing = {f"{r['group']}/{r['version']}/{r['kind']}" for r in rows} - set(named)
    if missing:
        raise SystemExit(f"no schema for {sorted(missing)}")
    whole = {
        "release": release,
        "resources": rows,
        "kinds": dict(sorted(named.items())),
        "definitions": reached(definitions, roots),
    }
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), 9, mtime=0)


def main() -> None:
    """Writes or compares the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the file in the tree is another one")
    check = parser.parse_args().check
    data = build()
    if check:
        same = TARGET.exists() and gzip.decompress(TARGET.read_bytes()) == gzip.decompress(data)
        sys.exit(0 if same else f"{TARGET.name} differs: run python tools/registry.py")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(data)
    print(f"{TARGET.relative_to(ROOT)}: {len(data)} bytes")


if __name__ == "__main__":
    main()
