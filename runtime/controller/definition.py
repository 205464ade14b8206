"""CustomResourceDefinitions of the kinds that a spec declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dashpot.model import types as t
from dashpot.model.objects.registry import builtin
from dashpot.model.program import Program, Resource
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.definition_rules import Cel, NoCel
from dashpot.runtime.controller.definition_schema import ITEMS, confine, fill, side_schema
from dashpot.runtime.controller.paths import Entry, Path
from dashpot.runtime.controller.views import View, Views

Object = dict[str, Any]


@frozen
class Definition:
    """A definition, and what of the spec it cannot say: one sentence each."""

    json: Object
    untold: tuple[str, ...]


def custom(program: Program, module: str = "") -> list[Resource]:
    """The kinds of the program's own file, or of a module that it uses, that are of no built-in group."""
    groups = {resource.group for resource in builtin().resources}
    return [
        declared
        for declared in program.resources
        if declared.module == (module or program.main)
        and not (declared.manifold or declared.answers)
        and declared.api_version.rpartition("/")[0] not in groups
    ]


def definitions(program: Program, constants: Mapping[str, Any] | None = None, module: str = "") -> list[Definition]:
    """The definitions of all kinds that are custom, of the program's own file or of a module that it uses."""
    views = Views(program, constants=constants)
    return [definition(views[declared.kind], views.constants) for declared in custom(program, module)]


def definition(view: View, constants: dict[str, Any]) -> Definition:
    """The definition of one kind."""
    resource, declared = view.resource, view.declared
    root = side_schema(view, "spec", constants)
    for name, part in side_schema(view, "status", constants)["properties"].items():
        root["properties"].setdefault(name, part)
    fill(root)
    rules, untold = _rules(view, constants, root)
    if rules:
        root["x-kubernetes-validations"] = rules
    root["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    if declared.status:
        version["subresources"] = {"status": {}}
    if declared.columns:
        version["additionalPrinterColumns"] = [*(_column(view, name) for name in declared.columns), AGE]
    json: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "plural": resource.plural,
                "singular": resource.singular,
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version],
        },
    }
    return Definition(json, tuple(untold))


AGE: Object = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _rules(view: View, constants: Mapping[str, Any], root: Object) -> tuple[list[Object], list[str]]:
    """The rules, and what is not told; what they walk through is confined in the schema."""
    cel = Cel(view, constants)
    rules: list[Object] = []
    untold: list[str] = []
    for rule in view.declared.rules:
        try:
            rules.append({"rule": cel.text(rule.expr), "message": rule.message})
        except NoCel as problem:
            untold.append(f'{view.kind}: the rule "{rule.message}" has no CEL: it uses {problem}')
    for name, path in cel.walked.items():
        confine(root, path)
        untold.append(
            f"{view.kind}: {name} takes at most {ITEMS} items, since the rules over it would cost too much else"
        )
    for side in ("spec", "status"):
        for field in view.declared.spec if side == "spec" else view.declared.status:
            if not (field.immutable or field.monotone):
                continue
            path = view.path(side, field.name)
            plain = all(isinstance(step, str) for step in path) and path[0] != "metadata"
            if isinstance(field.type, t.Opaque) or not plain:
                untold.append(f"{view.kind}: that {field.name} is {_word(field.immutable)} has no CEL")
            elif field.immutable and not field.required and field.default is None:
                # a rule at the field is not asked when the field comes or goes
                message = f"{field.name} is immutable"
                rules.append({"rule": f"{_there('self', path)} == {_there('oldSelf', path)}", "message": message})
    return rules, untold


def _word(immutable: bool) -> str:
    return "immutable" if immutable else "monotone"


def _there(root: str, path: Path) -> str:
    tests = [f"has({'.'.join([root, *map(str, path[: n + 1])])})" for n in range(len(path))]
    return f"({' && '.join(tests)})"


def _column(view: View, name: str) -> Object:
    side = "spec" if any(field.name == name for field in view.declared.spec) else "status"
    path = view.path(side, name)
    match wide.bare(view.field(side, name).type):
        case t.Int() | t.Generation():
            kind = "integer"
        case t.Bool() if not any(isinstance(step, Entry) for step in path):
            kind = "boolean"
        case t.Time():
            kind = "date"
        case _:
            kind = "string"
    return {"name": name[0].upper() + name[1:], "type": kind, "jsonPath": _json_path(path)}


def _json_path(path: Path) -> str:
    steps = []
    for step in path:
        if isinstance(step, Entry):
            steps.append(f'[?(@.{step.key}=="{step.value}")]')
        elif isinstance(step, int):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{step}")
    return "".join(steps)
