"""Types as written: names, ranges, lists, sets, maps, references."""

from __future__ import annotations

from lark import Token, Tree

from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.tree import Part, parts, tokens
from dashpot.grammar.typing import BUILTIN, bare, describe
from dashpot.model import types as t
from dashpot.model.expr import Const, Expr, Literal, Unary

FOREIGN = {
    "string": "say what the string is: `Name` (names are told apart) or `opaque` (only equality)",
    "str": "say what the string is: `Name` or `opaque`",
    "boolean": "write `bool`",
    "integer": "write a range such as `0..3`, or `int`",
    "int32": "write a range such as `0..3`, or `int`",
    "int64": "write a range such as `0..3`, or `int`",
    "time": "write `Time`",
    "duration": "write `Duration`",
    "any": "write `opaque`",
}
"""Types of other languages, and what to write for them."""


def type_of(tree: Part, scope: Scope, objects: bool = False) -> t.Type:
    """The type that `tree` writes; `objects` allows kinds (in parameters and results)."""
    assert isinstance(tree, Tree)
    match tree.data:
        case "named":
            return _named(tokens(tree)[0], scope, objects)
        case "optional":
            inner = type_of(parts(tree)[0], scope, objects)
            return inner if isinstance(inner, t.Optional | t.Bottom) else t.Optional(inner)
        case "list_of":
            return t.ListOf(type_of(parts(tree)[0], scope, objects))
        case "set_of":
            return t.SetOf(type_of(parts(tree)[0], scope, objects))
        case "map_of":
            key, value = parts(tree)
            return t.MapOf(_key(key, scope), type_of(value, scope, objects))
        case "range":
            lo, hi = (_bound(part, scope) for part in parts(tree))
            match lo, hi:
                case Literal(value=int() as low), Literal(value=int() as high) if low > high:
                    scope.error("D216", tree, f"The range {low}..{high} is empty.", f"write `{high}..{low}`")
                case _:
                    pass
            return t.Int(lo, hi)
        case _:
            kind = tokens(tree)[0]
            found = scope.module.visible.get(str(kind))
            if found is None or found.what != "kind":
                known = [d.name for d in scope.module.visible.values() if d.what == "kind"]
                scope.error(
                    "D113",
                    kind,
                    f"I know no kind `{kind}`.",
                    suggestion(scope, str(kind), known, "declare it as a resource"),
                )
                return t.Bottom()
            return t.Name(str(kind))


def _named(token: Token, scope: Scope, objects: bool) -> t.Type:
    text = str(token)
    found = scope.module.visible.get(text)
    if found is not None:
        if found.enum is not None:
            return found.enum
        if found.what == "struct":
            return found.struct if found.struct is not None else struct(text, token, scope)
        if found.what == "kind":
            if objects:
                return t.Object(text)
            scope.error(
                "D113",
                token,
                f"An object of kind {text} cannot be kept in a field or in memory.",
                f"keep its name: `ref {text}`",
            )
            return t.Bottom()
    if text in BUILTIN:
        return BUILTIN[text]
    known = [*BUILTIN, *(n for n, d in scope.module.visible.items() if d.what in ("enum", "struct", "kind"))]
    fix = FOREIGN.get(text.lower()) or suggestion(
        scope, text, known, "types are " + ", ".join(BUILTIN) + ", ranges, enums, structs"
    )
    scope.error("D113", token, f"I know no type `{text}`.", fix)
    return t.Bottom()


def struct(name: str, where: Part, scope: Scope) -> t.Type:
    """The struct of that name, made on first use; a struct that contains itself is reported."""
    found = scope.module.visible[name]
    if found.struct is None:
        if found.busy:
            scope.error("D111", where, f"The struct {name} contains itself.", "break the circle with a `ref` or a name")
            return t.Bottom()
        found.busy = True
        here = Scope(scope.universe, found.module)
        fields: dict[str, t.Type] = {}
        for field_tree in found.tree.find_data("field"):
            label, type_tree = tokens(field_tree, "NAME")[0], parts(field_tree)[1]
            if str(label) in fields:
                here.error("D103", label, f"{name} has two fields `{label}`.", "rename or remove one")
            fields[str(label)] = type_of(type_tree, here)
        found.struct = t.Struct(name, tuple(fields.items()))
        found.busy = False
    return found.struct


def _key(tree: Part, scope: Scope) -> t.Type:
    ty = type_of(tree, scope)
    if not isinstance(bare(ty), t.Enum | t.Int | t.Name | t.Bool | t.Bottom | t.Uid):
        scope.error(
            "D221", tree, f"The keys of a map are names, enums or ranges, not {describe(ty)}.", "use `map[Name]…`"
        )
        return t.Bottom()
    return ty


def _bound(tree: Part, scope: Scope) -> Expr:
    assert isinstance(tree, Tree)
    span = scope.span(tree)
    if tree.data == "int":
        return Literal(int(tokens(tree)[0]), t.Int(), span)
    if tree.data == "neg":
        inner = _bound(parts(tree)[0], scope)
        if isinstance(inner, Literal) and isinstance(inner.value, int):
            return Literal(-inner.value, t.Int(), span)
        return Unary("-", inner, t.Int(), span)
    token = tokens(tree)[0]
    found = scope.module.visible.get(str(token))
    if found is not None and found.constant is not None:
        if isinstance(found.constant.type, t.Int):
            return Const(found.constant.name, t.Int(), span)
        scope.error(
            "D215",
            token,
            f"The bound of a range is an integer, but {token} is {describe(found.constant.type)}.",
            "name an int",
        )
    elif found is None or found.what != "const":
        known = [n for n, d in scope.module.visible.items() if d.what == "const"]
        scope.error(
            "D215",
            token,
            f"I know no constant `{token}`.",
            suggestion(scope, str(token), known, f"declare it: `const {token} = 3`"),
        )
    return Literal(0, t.Int(), span)


def keyed(ty: t.Type, key: Token, scope: Scope) -> t.Type:
    """A list map: a list of structs of which one field identifies the entries."""
    match ty:
        case t.ListOf(element=t.Struct(fields=fields) as inner):
            if str(key) in dict(fields):
                return t.ListOf(inner, str(key))
            scope.error("D102", key, f"{inner.name} has no field `{key}`.", did_you_mean(str(key), dict(fields)))
        case t.ListOf(element=inner) if isinstance(inner, t.Bottom):
            return ty
        case _:
            scope.error(
                "D113",
                key,
                "`keyed` belongs to a list of structs.",
                "declare a struct, and the field as `[]TheStruct keyed f`",
            )
    return ty
