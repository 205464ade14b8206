"""Terms of the language to symbolic values, with CEL's errors as a node beside each value.

`value(e, env)` gives the value and `ok`, a node that is true where the term is defined.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.core import Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.equality import equal
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.schema import Schema
from dashpot.model.kernel.values import (
    Items,
    Maybe,
    Nothing,
    Object,
    OneOf,
    Owner,
    Record,
    Scalar,
    Table,
    Value,
    choices,
    choose,
    positions,
)

Env = dict[str, Value]
Result = tuple[Value, Node]


@define(eq=False)
class Look:
    """Where a term looks: how it reads memory, and the objects that a kind stands for.

    objects   (kind, look) → guarded copies, one a slot; look "truth" | "cache"
    memory    name of a memory variable → its value
    """

    objects: Callable[[str, str], list[tuple[Node, Object]]]
    memory: Callable[[str], Value]


class Terms:
    """Evaluates terms within one step."""

    def __init__(self, schema: Schema, path: Path, look: Look) -> None:
        self.schema = schema
        self.finite = schema.finite
        self.g = schema.finite.g
        self.path = path
        self.look = look

    # ------------------------------------------------------------------ entry points
    def value(self, x: e.Expr, env: Env) -> Result:
        method = getattr(self, "_" + type(x).__name__.lower())
        result: Result = method(x, env)
        return result

    def test(self, x: e.Expr, env: Env) -> Node:
        """A condition at the top: undefined is false."""
        value, ok = self.value(x, env)
        return self.g.and_(ok, scalar(value))

    # ------------------------------------------------------------------ atoms
    def _literal(self, x: e.Literal, env: Env) -> Result:
        g = self.g
        match x.value, x.type:
            case None, _:
                return Nothing(), g.true
            case bool() as b, _:
                return Scalar(g.truth(b), t.Bool()), g.true
            case int() as n, _:
                return Scalar(g.const(n), x.type), g.true
            case str() as s, t.Enum(members=members):
                return Scalar(g.const(members.index(s)), x.type), g.true
            case str() as s, t.Opaque():
                return Scalar(g.const(self.finite.symbol(s)), x.type), g.true
            case str() as s, _:
                return Scalar(g.const(self.finite.name(s)), t.Name()), g.true
        raise AssertionError(x)

    def _local(self, x: e.Local, env: Env) -> Result:
        return env[x.name], self.g.true

    def _memory(self, x: e.Memory, env: Env) -> Result:
        return self.look.memory(x.name), self.g.true

    def _const(self, x: e.Const, env: Env) -> Result:
        value = self.finite.constants[x.name]
        if isinstance(value, bool):
            return Scalar(self.g.truth(value), t.Bool()), self.g.true
        if isinstance(value, int):
            return Scalar(self.g.const(value), x.type), self.g.true
        return self._literal(e.Literal(value, x.type, x.span), env)

    def _given(self, x: e.Given, env: Env) -> Result:
        slot = self.schema.slot_of(x.kind, x.name)
        present, copy = self.look.objects(x.kind, "truth")[slot]
        return copy, present

    def _kind(self, x: e.Kind, env: Env) -> Result:
        return Items([(present, copy) for present, copy in self.look.objects(x.kind, x.look)]), self.g.true

    def _domain(self, x: e.Domain, env: Env) -> Result:
        if isinstance(x.of, t.Object):
            return Items(list(self.look.objects(x.of.kind, "truth"))), self.g.true
        values = self.finite.elements(x.of, x.span)
        return Items([(self.g.true, v) for v in values], [self.g.const(i) for i in range(len(values))]), self.g.true

    def _cached(self, x: e.Cached, env: Env) -> Result:
        g = self.g
        rows = self.look.objects(x.kind, "cache")
        self.path.reads += [(x.kind, copy.slot) for present, copy in rows if present is not g.false]
        if x.verb == "get":
            assert x.name is not None
            name, ok = self.value(x.name, env)
            return self.by_name(rows, x.kind, name), ok
        if x.where is None or x.var is None:
            return Items(list(rows)), g.true
        items, oks = [], []
        for present, copy in rows:
            test, ok = self.value(x.where, {**env, x.var: copy})
            items.append((g.and_(present, ok, scalar(test)), copy))
            oks.append(g.or_(g.not_(present), ok))
        return Items(list(items)), g.and_(*oks)

    def by_name(self, rows: list[tuple[Node, Object]], kind: str, name: Value) -> Value:
        """The object of that name, or null."""
        g = self.g
        hits: list[tuple[Node, Object]] = []
        for present, copy in rows:
            here = g.and_(present, self.same_name(kind, copy, name))
            if here is not g.false:
                hits.append((here, copy))
        if not hits:
            return Nothing()
        return Maybe(g.or_(*[h for h, _ in hits]), hits[0][1] if len(hits) == 1 else OneOf(hits))

    def same_name(self, kind: str, copy: Object, name: Value) -> Node:
        match name:
            case Object() | OneOf():
                return equal(self.schema, copy, name)
            case Maybe(some=some, value=inner):
                return self.g.and_(some, self.same_name(kind, copy, inner))
            case Owner():
                # the name in the reference: whether it is the same incarnation is for the spec to ask
                slots = range(len(self.finite.owners))
                named = tuple(self.finite.owners[i] == (copy.kind, copy.slot) for i in slots)
                return self.g.table(named, name.node)
            case Record(fields=fields):
                name = fields["name"]
            case _:
                pass
        return equal(self.schema, Scalar(self.g.const(self.schema.name_index(kind, copy.slot)), t.Name()), name)

    # ------------------------------------------------------------------ members
    def _member(self, x: e.Member, env: Env) -> Result:
        if isinstance(x.base, e.Member) and x.base.name in ("spec", "status"):
            owner, ok = self.value(x.base.base, env)
            if _is_object(owner):
                value, there = self.side(owner, x.base.name, x.name)
                return value, self.g.and_(ok, there)
        base, ok = self.value(x.base, env)
        if ok is self.g.false:
            return base, ok  # undefined whatever it is: what stands for it has no members
        value, there = self.member(base, x.name, x)
        return value, self.g.and_(ok, there)

    def side(self, base: Value, side: str, name: str) -> Result:
        """`base.spec.name` without loading the whole side."""
        g = self.g
        if isinstance(base, Maybe):
            value, ok = self.side(base.value, side, name)
            return value, g.and_(base.some, ok)
        assert isinstance(base, Object | OneOf)
        options = choices(g, base)
        result = self.schema.side_field(options[-1][1], side, name)
        for guard, option in reversed(options[:-1]):
            result = choose(g, guard, self.schema.side_field(option, side, name), result)
        return result, g.true

    def member(self, base: Value, name: str, x: e.Expr) -> Result:
        g = self.g
        match base:
            case Maybe(some=some, value=inner):
                value, ok = self.member(inner, name, x)
                return value, g.and_(some, ok)
            case Nothing():
                return Scalar(g.false, t.Bool()), g.false
            case Object():
                return self.schema.field(base, name), g.true
            case OneOf(choices=options):
                result = self.schema.field(options[-1][1], name)
                for guard, option in reversed(options[:-1]):
                    result = choose(g, guard, self.schema.field(option, name), result)
                return result, g.true
            case Record(fields=fields):
                if name in fields:
                    return fields[name], g.true
                return Scalar(g.false, t.Bool()), g.false
            case Owner():
                return self.schema.owner_field(base, name), g.true
            case Table():
                return self.element(base, Scalar(g.const(self.finite.key_of(base.key, name)), base.key))
        raise SpecError("D306", f"the checker cannot read `.{name}` of this value", x.span)

    def _element(self, x: e.Element, env: Env) -> Result:
        base, ok = self.value(x.base, env)
        key, ok2 = self.value(x.key, env)
        value, there = self.element(base, key)
        return value, self.g.and_(ok, ok2, there)

    def element(self, base: Value, key: Value) -> Result:
        g = self.g
        if isinstance(base, Maybe):
            value, ok = self.element(base.value, key)
            return value, g.and_(base.some, ok)
        if isinstance(key, Maybe):
            value, ok = self.element(base, key.value)
            return value, g.and_(key.some, ok)
        index = scalar(key)
        if isinstance(base, Table):
            options = [(g.eq(index, g.const(k)), there, v) for k, (there, v) in base.entries.items()]
        elif isinstance(base, Items):
            places = positions(g, base)
            options = [
                (g.and_(inside, g.eq(place, index)), g.true, v)
                for (inside, v), place in zip(base.items, places, strict=True)
            ]
        else:
            return Scalar(g.false, t.Bool()), g.false
        options = [o for o in options if o[0] is not g.false]
        if not options:
            return Scalar(g.false, t.Bool()), g.false
        result = options[-1][2]
        for here, _, v in reversed(options[:-1]):
            result = choose(g, here, v, result)
        return result, g.or_(*[g.and_(here, there) for here, there, _ in options])

    # ------------------------------------------------------------------ operators
    def _unary(self, x: e.Unary, env: Env) -> Result:
        value, ok = self.value(x.operand, env)
        if x.op == "!":
            return Scalar(self.g.not_(scalar(value)), t.Bool()), ok
        return Scalar(self.g.sub(self.g.const(0), scalar(value)), x.type), ok

    def _binary(self, x: e.Binary, env: Env) -> Result:
        from dashpot.model.kernel.operators import binary

        return binary(self, x, env)

    def _ternary(self, x: e.Ternary, env: Env) -> Result:
        g = self.g
        test, ok = self.value(x.test, env)
        node = self.path.resolve(scalar(test))
        if node.is_const:
            value, ok2 = self.value(x.then if node.value else x.other, env)
            return value, g.and_(ok, ok2)
        then, ok_then = self.value(x.then, env)
        other, ok_other = self.value(x.other, env)
        return choose(g, node, then, other), g.and_(ok, g.ite(node, ok_then, ok_other))

    def _range(self, x: e.Range, env: Env) -> Result:
        g = self.g
        lo, ok = self.value(x.lo, env)
        hi, ok2 = self.value(x.hi, env)
        a, b = scalar(lo), scalar(hi)
        values = range(a.lo, b.hi + 1)
        items: list[tuple[Node, Value]] = [
            (g.and_(g.le(a, g.const(v)), g.le(g.const(v), b)), Scalar(g.const(v), t.Int())) for v in values
        ]
        return Items(items, [g.const(v - a.lo) for v in values]), g.and_(ok, ok2)

    def _fold(self, x: e.Fold, env: Env) -> Result:
        from dashpot.model.kernel.folds import fold

        return fold(self, x, env)

    def _method(self, x: e.Method, env: Env) -> Result:
        from dashpot.model.kernel.folds import method

        return method(self, x, env)

    def _builtin(self, x: e.Builtin, env: Env) -> Result:
        from dashpot.model.kernel.operators import builtin

        return builtin(self, x, env)

    def _extern(self, x: e.Extern, env: Env) -> Result:
        return self.value(x.abstract, env)

    def _any(self, x: e.Any, env: Env) -> Result:
        base, ok = self.value(x.base, env)
        self.path.assume(ok)
        return self.pick(base, x), self.g.true

    def pick(self, base: Value, x: e.Expr) -> Value:
        """One element, chosen; the choice is a detail of the step."""
        if isinstance(base, Maybe):
            self.path.assume(base.some)
            base = base.value
        if isinstance(base, Table):
            key = base.key
            base = Items([(there, Scalar(self.g.const(k), key)) for k, (there, _) in base.entries.items()])
        assert isinstance(base, Items), base
        inside, value = base.items[self.path.choose(len(base.items))]
        self.path.assume(inside)
        self.path.detail.append(f"any = {self.schema.show(value)}")
        return value

    # ------------------------------------------------------------------ literals
    def _listliteral(self, x: e.ListLiteral, env: Env) -> Result:
        g = self.g
        results = [self.value(item, env) for item in x.items]
        items: list[tuple[Node, Value]] = [(g.true, v) for v, _ in results]
        return Items(items, [g.const(i) for i in range(len(items))]), g.and_(*[ok for _, ok in results])

    def _let(self, x: e.Let, env: Env) -> Result:
        from dashpot.model.kernel.folds import whole

        value, ok = self.value(x.value, env)
        body, ok2 = self.value(x.body, {**env, x.name: whole(self, value)})
        return body, self.g.and_(ok, ok2)

    def _objectliteral(self, x: e.ObjectLiteral, env: Env) -> Result:
        fields: dict[str, Value] = {}
        oks = []
        for item in x.items:
            value, ok = self.value(item.value, env)
            oks.append(ok)
            here = fields
            for step in item.path[:-1]:
                assert isinstance(step, str)
                inner = here.setdefault(step, Record({}))
                assert isinstance(inner, Record)
                here = inner.fields
            last = item.path[-1]
            if isinstance(last, str):
                here[last] = value
        return Record(fields), self.g.and_(*oks)


def _is_object(value: Value) -> bool:
    return isinstance(value.value if isinstance(value, Maybe) else value, Object | OneOf)


def objects_of(terms: Terms, value: Value) -> list[tuple[Node, Object]]:
    """The objects in a collection or a nullable object, each with its guard."""
    g = terms.g
    match value:
        case Maybe(some=some, value=inner):
            return [(g.and_(some, c), o) for c, o in objects_of(terms, inner)]
        case Object() | OneOf():
            return choices(g, value)
        case Items(items=items):
            return [(g.and_(inside, c), o) for inside, v in items for c, o in objects_of(terms, v)]
        case _:
            return []
