"""Fields of an object that a write sets: paths from the root, with their types and the rules of each verb."""

from __future__ import annotations

from attrs import frozen
from lark import Token, Tree

from dashpot.grammar.expressions import side, value
from dashpot.grammar.literals import map_key, pairs
from dashpot.grammar.scope import Scope
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.tree import Part, Rule, unquote
from dashpot.grammar.typing import bare, describe, nullable
from dashpot.model import types as t
from dashpot.model.expr import Assignment, Expr, Local, Member
from dashpot.model.program import Field

Path = tuple[str | Expr, ...]

CREATABLE: dict[str, t.Type] = {
    "name": t.Name(),
    "generateName": t.Name(),
    "namespace": t.Name(),
    "owner": t.METADATA["owner"],
    "owners": t.METADATA["owners"],
    "finalizers": t.METADATA["finalizers"],
    "labels": t.METADATA["labels"],
    "annotations": t.METADATA["annotations"],
}
"""Metadata that a create may set."""

CHANGEABLE = {name: CREATABLE[name] for name in ("owner", "owners", "finalizers", "labels", "annotations")}
"""Metadata that a later write may set."""


@frozen
class Target:
    """What a write goes to. side: "spec", "status" or "meta"; rest: the written steps behind the object."""

    object: Expr
    kind: str
    side: str
    rest: tuple[Token | Rule, ...] = ()


@frozen
class _Place:
    """Where the entries of a literal go: the path so far, its type (None at the root), and the verb's rules."""

    kind: str
    path: Path
    type: t.Type | None
    roots: dict[str, t.Type]
    partial: bool
    verb: str


def text(path: Path) -> str:
    """A path as people write it."""
    return ".".join(p if isinstance(p, str) else "[…]" for p in path)


def created(tree: Rule, kind: str, scope: Scope, verb: str) -> tuple[Assignment, ...]:
    """The content of a `create` (or `given`): required fields must be there, status only in `given`."""
    roots: dict[str, t.Type] = {**CREATABLE, "spec": side(kind, "spec", scope), "status": side(kind, "status", scope)}
    if verb == "given":
        for name in ("name", "generateName", "namespace"):
            del roots[name]
    items = _entries(tree, _Place(kind, (), None, roots, False, verb), scope)
    _once(items, scope)
    if verb == "create":
        _creatable(items, tree, kind, scope)
    resource = scope.universe.resource(kind)
    there = {i.path[:2] for i in items}
    for f in resource.spec if resource is not None else ():
        if f.required and f.default is None and ("spec", f.name) not in there:
            scope.error(
                "D207", tree, f"{kind} needs `spec.{f.name}`, which has no default.", f"add `spec: {{ {f.name}: … }}`"
            )
    return items


def _creatable(items: tuple[Assignment, ...], tree: Rule, kind: str, scope: Scope) -> None:
    for item in items:
        if item.path[0] == "status":
            scope.notes.error(
                "D209", item.span, "A create does not write the status; the API server drops it.",
                f"update it after the create: `let made = create {kind} {{ … }}`, then `update made.status {{ … }}`",
            )  # fmt: skip
            return
    if not any(i.path[0] in ("name", "generateName") for i in items) and not scope.notes.failed:
        scope.error("D207", tree, f"This {kind} gets no name.", "add `name: …` or `generateName: …`")


def changed(tree: Rule, to: Target, scope: Scope, verb: str, dialect: str) -> tuple[Assignment, ...]:
    """The fields that an update, patch or apply sets."""
    start = _start(to, scope, verb, dialect)
    if start is None:
        return ()
    items = _entries(tree, start, scope)
    _once(items, scope)
    _immutable(items, to, scope, verb)
    return items


def path(tree: Rule, to: Target, scope: Scope, verb: str) -> tuple[Path, t.Type] | None:
    """The path and type of one field below a target."""
    start = _start(to, scope, verb, "json")
    return _walk(list(tree.children), start, scope) if start is not None else None


def entry(tree: Part, ty: t.Type, scope: Scope) -> Expr:
    """The value of a JSON-patch `add`: a whole collection, or one more element of it."""
    match bare(ty):
        case t.ListOf(element=inner) | t.SetOf(element=inner) if isinstance(tree, Tree) and tree.data != "list_lit":
            before = len(scope.notes.messages)
            whole = value(tree, scope, ty, "The value to add")
            if isinstance(whole.type, t.Bottom):
                del scope.notes.messages[before:]
                return value(tree, scope, inner, "The element to add")
            return whole
        case _:
            return value(tree, scope, ty, "The value to add")


def _start(to: Target, scope: Scope, verb: str, dialect: str) -> _Place | None:
    spec, status = side(to.kind, "spec", scope), side(to.kind, "status", scope)
    partial = verb in ("patch", "apply") and dialect != "json"
    roots = {**CHANGEABLE, "spec": spec}
    place = _Place(to.kind, (), None, {**roots, "status": status} if to.side == "status" else roots, partial, verb)
    if verb == "apply":
        place = _Place(to.kind, (), None, {**CREATABLE, **place.roots}, partial, verb)
    if not to.rest:
        return place
    found = _walk(list(to.rest), place, scope)
    if found is None:
        return None
    steps, ty = found
    if not isinstance(bare(ty), t.Struct | t.MapOf):
        last = to.rest[-1]
        scope.error(
            "D212",
            last,
            f"`{text(steps)}` is {describe(ty)}, which has no fields to set.",
            "set it from the object: `{ field: value }`",
        )
        return None
    return _Place(to.kind, steps, bare(ty), {}, partial, verb)


def _entries(tree: Rule, at: _Place, scope: Scope) -> tuple[Assignment, ...]:
    items: list[Assignment] = []
    for key, part in pairs(tree):
        steps: list[Token | Rule] = [key] if isinstance(key, Token) else list(key.children)
        found = _walk(steps, at, scope)
        if found is None:
            continue
        steps_, ty = found
        inner = bare(ty)
        if _is_entry(steps, at, scope):
            ty = nullable(ty)  # null takes the entry out
        if isinstance(part, Tree) and part.data == "object" and isinstance(inner, t.Struct) and _opens(steps_, at):
            items += _entries(part, _Place(at.kind, steps_, inner, {}, at.partial, at.verb), scope)
        elif steps_ in (("spec",), ("status",)):
            fix = f"write `{steps_[0]}: {{ field: value }}`"
            scope.error("D201", part, f"The {steps_[0]} is written field by field.", fix)
        else:
            items.append(Assignment(steps_, value(part, scope, ty, f"`{text(steps_)}`"), scope.span(key)))
    return tuple(items)


def _is_entry(steps: list[Token | Rule], at: _Place, scope: Scope) -> bool:
    """Whether steps end at an entry of a map that need not have all keys."""
    if at.verb not in ("update", "patch"):
        return False
    above = at.type if len(steps) == 1 else (_walk(steps[:-1], at, scope) or ((), None))[1]
    inner = bare(above) if above is not None else None
    return isinstance(inner, t.MapOf) and isinstance(inner.key, t.Name)


def _opens(steps: Path, at: _Place) -> bool:
    """Whether a literal there sets fields one by one: spec and status always, structs where a write merges."""
    return len(steps) == 1 or at.partial


def _walk(steps: list[Token | Rule], at: _Place, scope: Scope) -> tuple[Path, t.Type] | None:
    """Follow steps from a place; None if one of them was reported."""
    found: list[str | Expr] = list(at.path)
    ty = at.type
    for step in steps:
        if ty is None:
            name = unquote(step) if isinstance(step, Token) and step.type == "STRING" else str(step)
            if name not in at.roots:
                _no_root(name, step, at, scope)
                return None
            found.append(name)
            ty = at.roots[name]
            continue
        nested = _step(step, ty, found, scope)
        if nested is None:
            return None
        one, ty = nested
        found.append(one)
    assert ty is not None
    return tuple(found), ty


def _step(step: Token | Rule, ty: t.Type, before: list[str | Expr], scope: Scope) -> tuple[str | Expr, t.Type] | None:
    match bare(ty), step:
        case t.Struct(fields=known) as struct, Token():
            name = unquote(step) if step.type == "STRING" else str(step)
            if name in dict(known):
                return name, dict(known)[name]
            scope.error("D102", step, f"{describe(struct)} has no field `{name}`.", _other_side(name, struct, scope))
            return None
        case t.MapOf() as mapping, Token():
            key = map_key(step, mapping, scope)
            return (key, mapping.value) if key is not None else None
        case t.MapOf() as mapping, _:
            return value(step, scope, mapping.key, "The key of this map"), mapping.value
        case t.ListOf(element=inner), Tree():
            return value(step, scope, t.Int(), "The index of a list"), inner
        case t.Bottom(), _:
            return None
        case other, _:
            scope.error(
                "D102",
                step,
                f"`{text(tuple(before))}` is {describe(other)}, which has no fields.",
                "end the path there",
            )
            return None


def _other_side(name: str, struct: t.Struct, scope: Scope) -> str:
    known = [n for n, _ in struct.fields]
    if "." in struct.name:
        kind, here = struct.name.split(".")
        other = "status" if here == "spec" else "spec"
        if any(n == name for n, _ in side(kind, other, scope).fields):
            return f"it lies in the {other}: write it with `update x.{other} {{ … }}`"
        if name in CHANGEABLE:
            return f"it is metadata, which lies beside {here}: write it without `.{here}`"
    return did_you_mean(name, known, "declare it" if known else f"{struct.name} declares no fields")


def _no_root(name: str, step: Part, at: _Place, scope: Scope) -> None:
    """Say why a first step is none: a field of spec, the status, metadata of the server, or a slip."""
    for which in ("spec", "status"):
        if name == which and at.verb not in ("create", "given"):
            fix = "write it by itself: `update x.status { … }`"
            scope.error("D209", step, f"The {which} is a subresource; this write cannot touch it.", fix)
            return
        if any(n == name for n, _ in side(at.kind, which, scope).fields):
            fix = (
                f"write `{which}: {{ {name}: … }}`"
                if at.verb in ("create", "given")
                else f"write `{at.verb} x.{which} {{ {name}: … }}`"
            )
            scope.error("D102", step, f"{at.kind} has no field `{name}` at its root.", fix)
            return
    if name in t.METADATA or name == "generateName":
        scope.error(
            "D208",
            step,
            f"`{name}` cannot be set here; the API server keeps it.",
            f"remove it; you can set {', '.join(at.roots)}",
        )
        return
    scope.error(
        "D102",
        step,
        f"{at.kind} has no field `{name}`.",
        did_you_mean(name, at.roots, f"you can set {', '.join(at.roots)}"),
    )


def _once(items: tuple[Assignment, ...], scope: Scope) -> None:
    seen: dict[Path, Assignment] = {}
    for item in items:
        if item.path in seen:
            words = ((seen[item.path].span, "It is set here first:"),)
            scope.notes.error("D218", item.span, f"`{text(item.path)}` is set twice.", "remove one of the two", words)
        seen[item.path] = item


def _immutable(items: tuple[Assignment, ...], to: Target, scope: Scope, verb: str) -> None:
    resource = scope.universe.resource(to.kind)
    if resource is None:
        return
    fixed = {("spec", f.name): f for f in resource.spec if f.immutable}
    for item in items:
        f = fixed.get((str(item.path[0]), str(item.path[1]))) if len(item.path) > 1 else None
        if f is not None and verb != "apply" and not _same(item, to, f):
            scope.notes.warn(
                "D232", item.span, f"`{f.name}` is immutable; the API server refuses this with Invalid if it changes.",
                "set it in the create only",
            )  # fmt: skip


def _same(item: Assignment, to: Target, f: Field) -> bool:
    """Whether the write says what the object says anyway."""
    match item.value:
        case Member(base=Member(base=Local() as base, name="spec"), name=name):
            return base == to.object and name == f.name
        case _:
            return False
