"""Rules of a spec as rules of a CustomResourceDefinition, which say the same of every object.

A spec reads what is absent as its default or zero, and null as absent; CEL reads an error there. So each read of a
field that may be absent asks `has` first. Sources: KEP-2876 (CEL for CRDs), release 1.34.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.paths import Path
from dashpot.runtime.controller.views import View, default_of

RESERVED = frozenset("as break const continue else false for function if import in let loop namespace null package "
                     "return true var void while".split())  # fmt: skip
"""Identifiers that CEL escapes as __name__."""
FOLDS = ("all", "exists", "exists_one", "filter", "map")
METHODS = {"size": "size", "startsWith": "startsWith", "endsWith": "endsWith", "matches": "matches"}
TEXTS = (t.Name, t.Uid, t.Version)


class NoCel(Exception):
    """A term that has no equal in the CEL of a definition; the text says which and why."""


class Cel:
    """Writes terms over the objects of one kind."""

    def __init__(self, view: View, constants: Mapping[str, Any]) -> None:
        self._view = view
        self._constants = dict(constants)
        self.walked: dict[str, Path] = {}
        """The lists, sets and maps that the terms looked into, by name: where they lie."""

    def text(self, x: e.Expr, names: Mapping[str, str] | None = None) -> str:
        """The CEL of a term; NoCel."""
        return self._of(x, dict(names or {}))

    def _of(self, x: e.Expr, names: dict[str, str]) -> str:
        match x:
            case e.Literal(value=value, type=ty):
                return _literal(value, ty)
            case e.Const(name=name, type=ty):
                return _literal(self._constants[name], ty)
            case e.Local(name=name):
                return names.get(name, name)
            case e.Member():
                return self._member(x, names)
            case e.Unary(op=op, operand=operand):
                return f"{op}({self._of(operand, names)})"
            case e.Binary():
                return self._binary(x, names)
            case e.Ternary(test=test, then=then, other=other):
                return f"({self._of(test, names)} ? {self._of(then, names)} : {self._of(other, names)})"
            case e.Let(name=name, value=value, body=body):
                return self._of(body, {**names, name: self._of(value, names)})
            case e.ListLiteral(items=items):
                return f"[{', '.join(self._of(item, names) for item in items)}]"
            case e.Fold():
                return self._fold(x, names)
            case e.Method():
                return self._method(x, names)
            case e.Builtin(op="min" | "max" as op, args=(a, b)):
                left, right = self._of(a, names), self._of(b, names)
                return f"({left} {'<=' if op == 'min' else '>='} {right} ? {left} : {right})"
        raise NoCel(f"`{type(x).__name__.lower()}` at {x.span}")

    def _member(self, x: e.Member, names: dict[str, str]) -> str:
        base = x.base
        if isinstance(base, e.Member) and isinstance(base.base, e.Local) and base.name in ("spec", "status"):
            return self._field(names.get(base.base.name, base.base.name), base.name, x)
        if isinstance(base, e.Local) and x.name == "name" and isinstance(base.type, t.Object):
            return f"{names.get(base.name, base.name)}.metadata.name"
        if isinstance(wide.bare(base.type), t.Struct):
            inside, name = self._of(base, names), _escaped(x.name)
            if isinstance(x.type, t.Optional):
                raise NoCel(f"`{x.name}`, which may be null, at {x.span}")
            zero = _literal(wide.zero(x.type, self._constants), x.type)
            return f"(has({inside}.{name}) ? {inside}.{name} : {zero})"
        raise NoCel(f"`{x.name}` at {x.span}")

    def _field(self, root: str, side: str, x: e.Member) -> str:
        field = self._view.field(side, x.name)
        path, there = self._reached(root, self._view.path(side, x.name), x)
        ty = wide.bare(field.type)
        if isinstance(ty, t.ListOf | t.SetOf | t.MapOf):
            self.walked[x.name] = self._view.path(side, x.name)
        if isinstance(ty, t.Opaque | t.Quantity | t.OwnerRef | t.Time | t.Duration):
            raise NoCel(f"`{x.name}`, which CEL would compare otherwise, at {x.span}")
        if isinstance(field.type, t.Optional) or field.required:
            return path  # what is absent has no value, as null has none
        return f"({there} ? {path} : {_literal(default_of(field, self._constants), field.type)})"

    def _reached(self, root: str, path: Path, x: e.Expr) -> tuple[str, str]:
        """A path as CEL, and the test that something is there."""
        text, tests = root, []
        for step in path:
            if not isinstance(step, str) or path[0] == "metadata":
                raise NoCel(f"a field inside a list or the metadata, at {x.span}")
            text = f"{text}.{_escaped(step)}"
            tests.append(f"has({text})")
        return text, " && ".join(tests)

    def _present(self, x: e.Expr, names: dict[str, str]) -> str | None:
        """The test that a field that may be null has a value; None for a term that is no such field."""
        if not (isinstance(x, e.Member) and isinstance(x.base, e.Member) and isinstance(x.base.base, e.Local)):
            return None
        side, root = x.base.name, x.base.base.name
        if side not in ("spec", "status") or not isinstance(self._view.field(side, x.name).type, t.Optional):
            return None
        path, there = self._reached(names.get(root, root), self._view.path(side, x.name), x)
        return f"({there} && dyn({path}) != null)"

    def _binary(self, x: e.Binary, names: dict[str, str]) -> str:
        if x.op in ("==", "!="):
            return self._equality(x, names)
        if x.op in ("+", "-", "*", "/", "%") and not isinstance(wide.bare(x.type), t.Int | t.Name | t.ListOf):
            raise NoCel(f"`{x.op}` at {x.span}")
        if x.op in ("<", "<=", ">", ">=") and not isinstance(wide.bare(x.left.type), t.Int | t.Generation):
            raise NoCel(f"`{x.op}` over such values at {x.span}")
        return f"({self._of(x.left, names)} {x.op} {self._of(x.right, names)})"

    def _equality(self, x: e.Binary, names: dict[str, str]) -> str:
        sign = "" if x.op == "==" else "!"
        left, right = self._present(x.left, names), self._present(x.right, names)
        for one, other in ((left, x.right), (right, x.left)):
            if one is not None and isinstance(other, e.Literal) and other.value is None:
                return f"({'!' if x.op == '==' else ''}{one})"
        for part in (x.left, x.right):
            if isinstance(wide.bare(part.type), t.SetOf | t.Opaque | t.OwnerRef | t.Object | t.Struct):
                raise NoCel(f"`{x.op}` over such values at {x.span}")
        a, b = self._of(x.left, names), self._of(x.right, names)
        if left is None and right is None:
            return f"({a} {x.op} {b})"
        if left is not None and right is not None:
            return f"({sign}({left} ? ({right} && {a} == {b}) : !{right}))"
        return f"({sign}({left or right} && {a} == {b}))"

    def _fold(self, x: e.Fold, names: dict[str, str]) -> str:
        if not isinstance(wide.bare(x.base.type), t.ListOf | t.SetOf):
            raise NoCel(f"`{x.op}` over such values at {x.span}")
        base, var = self._of(x.base, names), _escaped(x.var)
        body = self._of(x.body, {**names, x.var: var}) if x.body is not None else ""
        if x.op in FOLDS and x.body is not None:
            return f"{base}.{x.op}({var}, {body})"
        if x.op == "count":
            return f"{base}.filter({var}, {body}).size()" if body else f"{base}.size()"
        if x.op == "sum":
            return f"{base}.map({var}, {body}).sum()" if body else f"{base}.sum()"
        raise NoCel(f"`{x.op}` at {x.span}")

    def _method(self, x: e.Method, names: dict[str, str]) -> str:
        base, args = self._of(x.base, names), [self._of(arg, names) for arg in x.args]
        collection = isinstance(wide.bare(x.base.type), t.ListOf | t.SetOf | t.MapOf)
        if x.op == "isEmpty":
            return f"({base}.size() == 0)"
        if x.op == "contains":
            return f"({args[0]} in {base})" if collection else f"{base}.contains({args[0]})"
        if x.op in METHODS:
            return f"{base}.{METHODS[x.op]}({', '.join(args)})"
        raise NoCel(f"`{x.op}` at {x.span}")


def _literal(value: Any, ty: t.Type) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int) and isinstance(wide.bare(ty), t.Int | t.Generation):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list | tuple) and not value:
        return "[]"
    if isinstance(value, dict) and not value:
        return "{}"
    raise NoCel(f"the value {value!r}")


def _escaped(name: str) -> str:
    """A property's name as CEL has it."""
    if name in RESERVED:
        return f"__{name}__"
    for sign, word in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(sign, word)
    return name
