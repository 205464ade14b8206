"""Finite types: the tables of one world, and how a value of a type lies in cells.

A type becomes *leaves*: named bounded integers. The same leaves describe a field in the store, in every
cache, in an undelivered change and in a local, so copying an object is copying leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from attrs import define, evolve, field, frozen

from dashpot.model import types as t
from dashpot.model.core import Graph, Node
from dashpot.model.expr import Binary, Const, Expr, Literal, Unary
from dashpot.model.fault import SpecError
from dashpot.model.kernel.values import Items, Maybe, Nothing, Owner, Record, Scalar, Table, Value, choose, positions
from dashpot.model.span import NOWHERE, Span

LARGEST_DOMAIN = 4096
"""Values that a finite type may have when it is enumerated (sets, map keys, `any`)."""


@frozen
class Leaf:
    """One bounded integer of a value: path, inclusive range, what its values are called, start value.

    ranked: only the order among such leaves of one object matters. dims, ref, base: as in `system.Cell`.
    """

    path: str
    lo: int
    hi: int
    texts: tuple[str, ...] | None = None
    zero: int = 0
    ranked: bool = False
    dims: tuple[tuple[str, int], ...] = ()
    family: str = ""
    ref: str | None = None
    base: int = 0


@define
class Finite:
    """The tables of one world: constants, names, symbols, owners, list length, ages.

    names     every name that can occur; 0 is the empty name; generated ones last ("Pod~0")
    symbols   the pool of opaque values
    owners    (kind, slot) of everything that may own
    symmetric_kinds  kinds whose objects have generated names that nobody tells apart
    symmetric enums no member of which is told apart
    incarnations  how many incarnations of one slot are told apart (1 where no kind can return)
    oldest    age at which a time saturates, in ticks; tick in milliseconds
    """

    g: Graph
    constants: dict[str, int | bool | str]
    enums: dict[str, t.Enum]
    names: list[str] = field(factory=lambda: [""])
    symbols: list[str] = field(factory=list)
    owners: list[tuple[str, int]] = field(factory=list)
    owner_texts: list[str] = field(factory=list)
    returning: frozenset[str] = frozenset()
    incarnations: int = 4
    longest_list: int = 3
    oldest: int = 1
    tick_ms: int = 1000
    highest_generation: int = 7
    symmetric: frozenset[str] = frozenset()
    symmetric_kinds: frozenset[str] = frozenset()
    asymmetric: tuple[tuple[str, str], ...] = ()

    # ------------------------------------------------------------------ constants
    def bound(self, e: Expr | None, span: Span = NOWHERE) -> int:
        """The value of a range bound: integers, constants, arithmetic on them."""
        match e:
            case Literal(value=int() as n):
                return int(n)
            case Const(name=name):
                value = self.constants[name]
                if isinstance(value, int):
                    return int(value)
            case Unary(op="-", operand=inner):
                return -self.bound(inner, span)
            case Binary(op=op, left=a, right=b) if op in "+-*":
                x, y = self.bound(a, span), self.bound(b, span)
                return x + y if op == "+" else x - y if op == "-" else x * y
        raise SpecError(
            "D301",
            "this integer has no bounds, so the checker cannot enumerate it",
            span,
            "give it a range, such as `0..MAX`",
        )

    def limits(self, ty: t.Int, span: Span = NOWHERE) -> tuple[int, int]:
        return self.bound(ty.lo, span), self.bound(ty.hi, span)

    def name(self, text: str) -> int:
        if text not in self.names:
            raise SpecError("D302", f"no object of this world can have the name {text!r}")
        return self.names.index(text)

    def symbol(self, text: str) -> int:
        if text not in self.symbols:
            self.symbols.append(text)
        return self.symbols.index(text)

    # ------------------------------------------------------------------ domains
    def scalar_range(self, ty: t.Type, span: Span = NOWHERE) -> tuple[int, int] | None:
        """Inclusive range of a type that fits one leaf; None for composite types."""
        match ty:
            case t.Bool():
                return 0, 1
            case t.Int():
                return self.limits(ty, span)
            case t.Enum(members=members):
                return 0, len(members) - 1
            case t.Name():
                return 0, len(self.names) - 1
            case t.Opaque():
                return 0, max(0, len(self.symbols) - 1)
            case t.Time():
                return 0, self.oldest
            case t.Generation() | t.Version():
                return 0, self.highest_generation
            case t.Quantity() | t.Duration():
                raise SpecError("D303", "a quantity or duration that is stored has no finite form", span)
            case _:
                return None

    def texts(self, ty: t.Type) -> tuple[str, ...] | None:
        match ty:
            case t.Bool():
                return ("false", "true")
            case t.Enum(members=members):
                return members
            case t.Name():
                return tuple(n or '""' for n in self.names)
            case t.Opaque():
                return tuple(self.symbols) or ('""',)
            case t.Time():
                old = self.oldest
                if old == 0:
                    return ("set",)  # nothing in the run asks how long ago
                return (*(f"{i} tick{'s' * (i != 1)} ago" for i in range(old)), f"{old} ticks ago or more")
            case _:
                return None

    def elements(self, ty: t.Type, span: Span = NOWHERE) -> list[Value]:
        """Every value of a finite type, as constant values."""
        g = self.g
        if isinstance(ty, t.Optional):
            return [Nothing(), *self.elements(ty.inner, span)]
        if isinstance(ty, t.OwnerRef):
            return [Owner(g.const(i), g.const(0)) for i in range(len(self.owners))]
        if isinstance(ty, t.Struct):
            columns = [self.elements(f, span) for _, f in ty.fields]
            names = [n for n, _ in ty.fields]
            return [Record(dict(zip(names, row, strict=True))) for row in product(*columns)]
        limits = self.scalar_range(ty, span)
        if limits is None or limits[1] - limits[0] >= LARGEST_DOMAIN:
            raise SpecError("D304", "the values of this type cannot be listed one by one", span)
        return [Scalar(g.const(v), ty) for v in range(limits[0], limits[1] + 1)]

    def keys(self, ty: t.Type, span: Span = NOWHERE) -> list[int]:
        """The constants that index a set or map over `ty`."""
        limits = self.scalar_range(ty, span)
        if limits is None:
            raise SpecError("D304", "the keys of this set or map cannot be listed one by one", span)
        return list(range(limits[0], limits[1] + 1))

    # ------------------------------------------------------------------ leaves
    def leaves(self, ty: t.Type, path: str, span: Span = NOWHERE) -> Iterator[Leaf]:
        """How a value of type `ty` at `path` lies in bounded integers."""
        ty = kept_as(ty)
        limits = self.scalar_range(ty, span)
        if limits is not None:
            ranked = isinstance(ty, t.Generation)
            yield Leaf(path, *limits, self.texts(ty), _zero(ty, limits, self.oldest), ranked, ref=self.group(ty))
            return
        match ty:
            case t.Optional(inner=t.OwnerRef()):
                texts = ("null", *self.owner_texts)
                owning = [k for k, _ in self.owners if k in self.symmetric_kinds]
                base = 1 + next((i for i, (k, _) in enumerate(self.owners) if k in owning[:1]), 0)
                yield Leaf(path, 0, len(self.owners), texts, ref=owning[0] if owning else None, base=base)
                if self.returning & {k for k, _ in self.owners}:
                    yield Leaf(path + ".incarnation", 0, self.incarnations)
            case t.Optional(inner=inner):
                scalar = self.scalar_range(inner, span)
                if scalar is not None:
                    texts_ = self.texts(inner) or tuple(str(v) for v in range(scalar[0], scalar[1] + 1))
                    yield Leaf(path, 0, scalar[1] - scalar[0] + 1, ("null", *texts_), ref=self.group(inner), base=1)
                else:
                    yield Leaf(path + ".some", 0, 1)
                    yield from self.leaves(inner, path, span)
            case t.ListOf(element=element):
                yield Leaf(path + ".size", 0, self.longest_list)
                for i in range(self.longest_list):
                    yield from self.leaves(self.sparse(element), f"{path}.{i}", span)
            case t.SetOf(element=element):
                texts_ = self.texts(element) or ()
                for i, key in enumerate(self.keys(element, span)):
                    label = texts_[i] if texts_ else str(key)
                    yield Leaf(f"{path}.{label}", 0, 1, ("no", "yes"), dims=self.dims(element, key), family=f"{path}.*")
            case t.MapOf(key=key, value=value):
                names = self.texts(key)
                for i, k in enumerate(self.keys(key, span)):
                    here = f"{path}.{names[i] if names else k}"
                    dims = self.dims(key, k)
                    if not total(key):
                        yield Leaf(here + ".some", 0, 1, dims=dims, family=f"{path}.*.some")
                    for leaf in self.leaves(value, here, span):
                        family = f"{path}.*" + (leaf.family or leaf.path)[len(here) :]
                        yield evolve(leaf, dims=dims + leaf.dims, family=family if dims else leaf.family)
            case t.Struct(fields=fields):
                for name, f in fields:
                    yield from self.leaves(f, f"{path}.{name}", span)
            case t.Null() | t.Bottom():
                return
            case _:
                raise SpecError("D304", f"a value of this type ({type(ty).__name__}) cannot be kept in the state", span)

    # ------------------------------------------------------------------ symmetry
    def group(self, ty: t.Type) -> str | None:
        """The group of interchangeable elements that values of this type name."""
        return ty.name if isinstance(ty, t.Enum) and ty.name in self.symmetric else None

    def dims(self, key: t.Type, value: int) -> tuple[tuple[str, int], ...]:
        group = self.group(key)
        return ((group, value),) if group else ()

    def sparse(self, ty: t.Type) -> t.Type:
        """How an element of a list is kept: a place that is not used must name no interchangeable element."""
        if self.group(ty):
            return t.Optional(ty)
        if isinstance(ty, t.Struct):
            return t.Struct(ty.name, tuple((n, self.sparse(f)) for n, f in ty.fields))
        return ty

    def dense(self, ty: t.Type, value: Value) -> Value:
        """The element as its type has it, from how a list keeps it."""
        if self.group(ty) and isinstance(value, Maybe):
            return value.value
        if isinstance(ty, t.Struct) and isinstance(value, Record):
            return Record({n: self.dense(f, value.fields[n]) for n, f in ty.fields})
        return value

    # ------------------------------------------------------------------ load and store
    def load(self, ty: t.Type, path: str, read: Callable[[str], Node]) -> Value:
        """The value of type `ty` whose leaves `read` gives."""
        g = self.g
        ty = kept_as(ty)
        limits = self.scalar_range(ty)
        if limits is not None:
            return Scalar(read(path), ty)
        match ty:
            case t.Optional(inner=t.OwnerRef()):
                node = read(path)
                inc = self.returning & {k for k, _ in self.owners}
                owner = Owner(_shift(g, node, len(self.owners)), read(path + ".incarnation") if inc else g.const(0))
                return Maybe(g.ne(node, g.const(0)), owner)
            case t.Optional(inner=inner):
                scalar = self.scalar_range(inner)
                if scalar is not None:
                    node = read(path)
                    size = scalar[1] - scalar[0] + 1
                    return Maybe(
                        g.ne(node, g.const(0)), Scalar(g.add(_shift(g, node, size), g.const(scalar[0])), inner)
                    )
                return Maybe(read(path + ".some"), self.load(inner, path, read))
            case t.ListOf(element=element):
                length = read(path + ".size")
                items = [
                    (
                        g.lt(g.const(i), length),
                        self.dense(element, self.load(self.sparse(element), f"{path}.{i}", read)),
                    )
                    for i in range(self.longest_list)
                ]
                return Items(items, [g.const(i) for i in range(self.longest_list)])
            case t.SetOf(element=element):
                texts = self.texts(element)
                return Items(
                    [
                        (read(f"{path}.{texts[i] if texts else k}"), Scalar(g.const(k), element))
                        for i, k in enumerate(self.keys(element))
                    ]
                )
            case t.MapOf(key=key, value=value):
                texts = self.texts(key)
                entries: dict[int, tuple[Node, Value]] = {}
                for i, k in enumerate(self.keys(key)):
                    here = f"{path}.{texts[i] if texts else k}"
                    there = g.true if total(key) else read(here + ".some")
                    entries[k] = (there, self.load(value, here, read))
                return Table(entries, key)
            case t.Struct(fields=fields):
                return Record({n: self.load(f, f"{path}.{n}", read) for n, f in fields})
            case t.Null():
                return Nothing()
            case _:
                return Items([])

    def zero(self, ty: t.Type, path: str = "") -> dict[str, Node]:
        """The leaves of the zero of a type: false, lowest, first member, null, empty."""
        return {leaf.path: self.g.const(leaf.zero) for leaf in self.leaves(ty, path)}

    def store(self, ty: t.Type, path: str, value: Value) -> tuple[dict[str, Node], Node]:
        """The leaves of `value` as a `ty` at `path`, and whether it overflowed (a list too long)."""
        out = self.zero(ty, path)
        overflow = self._store(ty, path, value, out)
        return out, overflow

    def _store(self, ty: t.Type, path: str, value: Value, out: dict[str, Node]) -> Node:
        g = self.g
        ty = kept_as(ty)
        limits = self.scalar_range(ty)
        if limits is not None:
            return self._store_scalar(limits, path, value, out)
        match ty:
            case t.Optional(inner=inner):
                return self._store_optional(inner, path, value, out)
            case t.ListOf(element=element):
                assert isinstance(value, Items), value
                return self._store_list(element, path, value, out)
            case t.SetOf(element=element):
                assert isinstance(value, Items), value
                texts = self.texts(element)
                for i, k in enumerate(self.keys(element)):
                    hits = [g.and_(inside, g.eq(scalar(v), g.const(k))) for inside, v in value.items]
                    out[f"{path}.{texts[i] if texts else k}"] = g.or_(*hits)
                return g.false
            case t.MapOf(key=key, value=inner_type):
                return self._store_map(key, inner_type, path, value, out)
            case t.Struct(fields=fields):
                assert isinstance(value, Record), value
                spilled = [self._store(f, f"{path}.{n}", value.fields[n], out) for n, f in fields if n in value.fields]
                return g.or_(*spilled)
            case _:
                return g.false

    def _store_scalar(self, limits: tuple[int, int], path: str, value: Value, out: dict[str, Node]) -> Node:
        g = self.g
        if isinstance(value, Maybe):
            value = value.value
        node = scalar(value)
        out[path] = g.clamp(node, *limits)
        inside = g.and_(g.le(g.const(limits[0]), node), g.le(node, g.const(limits[1])))
        return g.not_(inside)

    def _store_optional(self, inner: t.Type, path: str, value: Value, out: dict[str, Node]) -> Node:
        g = self.g
        some, content = (value.some, value.value) if isinstance(value, Maybe) else (g.true, value)
        if isinstance(content, Nothing):
            return g.false
        if isinstance(inner, t.OwnerRef):
            assert isinstance(content, Owner), content
            out[path] = g.ite(some, g.add(content.node, g.const(1)), g.const(0))
            if path + ".incarnation" in out:
                out[path + ".incarnation"] = g.ite(some, content.incarnation, g.const(0))
            return g.false
        limits = self.scalar_range(inner)
        if limits is not None:
            node = scalar(content)
            out[path] = g.ite(some, g.add(g.clamp(node, *limits), g.const(1 - limits[0])), g.const(0))
            inside = g.and_(g.le(g.const(limits[0]), node), g.le(node, g.const(limits[1])))
            return g.and_(some, g.not_(inside))
        part = self.zero(inner, path)
        overflow = self._store(inner, path, content, part)
        for leaf, node in part.items():
            out[leaf] = g.ite(some, node, out[leaf])
        out[path + ".some"] = some
        return g.and_(some, overflow)

    def _store_list(self, element: t.Type, path: str, value: Items, out: dict[str, Node]) -> Node:
        """Pack guarded items to the front, each at its position."""
        g = self.g
        size = g.const(0)
        overflow = [g.false]
        slots: list[Value | None] = [None] * self.longest_list
        for (inside, item), position in zip(value.items, positions(g, value), strict=True):
            for at in range(self.longest_list):
                here = g.and_(inside, g.eq(position, g.const(at)))
                if here is not g.false:
                    before = slots[at]
                    slots[at] = item if before is None else choose(g, here, item, before)
            size = g.add(size, inside)
        overflow.append(g.lt(g.const(self.longest_list), size))
        size = g.clamp(size, 0, self.longest_list)
        out[path + ".size"] = size
        for at, item_ in enumerate(slots):
            if item_ is None:
                continue
            kept = self.sparse(element)
            part = self.zero(kept, f"{path}.{at}")
            overflow.append(g.and_(g.lt(g.const(at), size), self._store(kept, f"{path}.{at}", item_, part)))
            for leaf, node in part.items():
                out[leaf] = g.ite(g.lt(g.const(at), size), node, out[leaf])
        return g.or_(*overflow)

    def _store_map(self, key: t.Type, inner: t.Type, path: str, value: Value, out: dict[str, Node]) -> Node:
        g = self.g
        if isinstance(value, Record):
            entries = {self.key_of(key, name): (g.true, v) for name, v in value.fields.items()}
        elif isinstance(value, Table):
            entries = value.entries
        else:
            return g.false
        texts = self.texts(key)
        overflow = []
        for i, k in enumerate(self.keys(key)):
            if k not in entries:
                continue
            here = f"{path}.{texts[i] if texts else k}"
            there, content = entries[k]
            part = self.zero(inner, here)
            overflow.append(g.and_(there, self._store(inner, here, content, part)))
            for leaf, node in part.items():
                out[leaf] = g.ite(there, node, out[leaf])
            if not total(key):
                out[here + ".some"] = there
        return g.or_(*overflow)

    def key_of(self, ty: t.Type, text: str) -> int:
        match ty:
            case t.Enum(members=members):
                return members.index(text)
            case t.Int():
                return int(text)
            case _:
                return self.name(text)


def kept_as(ty: t.Type) -> t.Type:
    """A uid is kept as a reference to the object that it is of, null until it is set."""
    uid = isinstance(ty, t.Uid) or (isinstance(ty, t.Optional) and isinstance(ty.inner, t.Uid))
    return t.Optional(t.OwnerRef()) if uid else ty


def total(key: t.Type) -> bool:
    """Maps over enums, bools and ranges have an entry for every key."""
    return isinstance(key, t.Enum | t.Int | t.Bool)


def scalar(value: Value) -> Node:
    """The single node of a value that has one."""
    if isinstance(value, Maybe):
        return scalar(value.value)
    assert isinstance(value, Scalar | Owner), f"{type(value).__name__} where a scalar was expected"
    return value.node


def _shift(g: Graph, node: Node, size: int) -> Node:
    """The inner value of an optional leaf: null reads as the first value."""
    return g.table((0, *range(size)), node)


def _zero(ty: t.Type, limits: tuple[int, int], oldest: int) -> int:
    if isinstance(ty, t.Time):
        return oldest
    return limits[0] if limits[0] > 0 else max(limits[0], min(0, limits[1])) if isinstance(ty, t.Int) else 0
