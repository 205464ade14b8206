"""Which names can occur in a world: every text that `given`, literals and constructors reach.

An abstract interpretation over sets of texts, run to a fixed point. A name is a *term*; the checker
interns them all beforehand, so that a name is a small number in the state.
"""

from __future__ import annotations

from attrs import define, field

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.automaton import Assign, Automaton, Bind, Call, Loop
from dashpot.model.fault import SpecError
from dashpot.model.kernel.walk import automata, calls, parts
from dashpot.model.program import Controller, GivenObject, Process, Resource

MOST_NAMES = 200
MOST_ROUNDS = 12


@define
class Naming:
    """The texts found so far.

    kinds    kind → names its objects may have; fields  (kind, path) → texts of a Name field
    memory   variable → texts; sizes  kind → slots, for the range of counts
    """

    pieces: list[object]
    constants: dict[str, int | bool | str]
    symbols: list[str]
    sizes: dict[str, int]
    kinds: dict[str, set[str]] = field(factory=dict)
    fields: dict[tuple[str, str], set[str]] = field(factory=dict)
    memory: dict[str, set[str]] = field(factory=dict)
    loose: set[str] = field(factory=set)
    locals: dict[str, set[str]] = field(factory=dict)
    bounds: dict[str, tuple[int, int]] = field(factory=dict)
    generated: set[str] = field(factory=set)
    largest: int = 3

    def run(self, given: list[GivenObject]) -> None:
        """Find every name; raises when they do not close."""
        for g in given:
            self.kinds.setdefault(g.kind, set()).add(g.name)
        for _ in range(MOST_ROUNDS):
            before = self._size()
            for piece in self.pieces:
                self._piece(piece)
            for g in given:
                self._assignments(g.kind, [(i.path, i.value) for i in g.items])
            if self._size() == before:
                return
            if before > MOST_NAMES:
                break
        raise SpecError(
            "D310",
            "the names that this spec builds do not close: each is made from another one that was built",
            fix="build names from the names of a bounded kind and from ranges only",
        )

    def _size(self) -> int:
        groups = (self.kinds, self.fields, self.memory, self.locals)
        return len(self.loose) + sum(len(v) for group in groups for v in group.values())

    def all(self) -> set[str]:
        out = set(self.loose)
        for group in (self.kinds, self.fields, self.memory, self.locals):
            for texts in group.values():
                out |= texts
        return out

    # ------------------------------------------------------------------ bodies
    def _piece(self, piece: object) -> None:
        for p in parts(piece):
            if isinstance(p, e.Literal) and isinstance(p.value, str) and isinstance(p.type, t.Name):
                self.loose.add(p.value)
            elif isinstance(p, e.Builtin | e.Binary) and isinstance(p.type, t.Name):
                self.loose |= self.texts(p)
            elif isinstance(p, e.ObjectLiteral) and isinstance(p.type, t.MapOf):
                self.loose |= {i.path[0] for i in p.items if isinstance(i.path[0], str)}  # keys of a map
            elif isinstance(p, e.Fold) and p.var:
                self._bind(p.var, p.base, element=True)
            elif isinstance(p, e.Let):
                self._bind(p.name, p.value)
        for body in automata(piece):
            self._body(body)
        if isinstance(piece, Controller | Process):
            for f in piece.memory:
                if f.default is not None:
                    self.memory.setdefault(f.name, set()).update(self.elements(f.default))
        if isinstance(piece, Resource):
            for side, declared in (("spec", piece.spec), ("status", piece.status)):
                self._assignments(piece.kind, [((side, f.name), f.default) for f in declared if f.default is not None])

    def _body(self, body: Automaton) -> None:
        for node in body.nodes:
            match node:
                case Bind(name=name, value=value):
                    self._bind(name, value)
                case Loop(var=var, over=over):
                    self._bind(var, over, element=True)
                case Assign(scope="memory", path=path, value=value):
                    assert isinstance(path[0], str)
                    self.memory.setdefault(path[0], set()).update(self.elements(value))
                case Call():
                    self._call(node)
                case _:
                    pass

    def _call(self, call: Call) -> None:
        self._assignments(call.kind, [(f.path, f.value) for f in call.fields])
        if call.verb == "bind" and call.to is not None:
            self.fields.setdefault((call.kind, "spec.nodeName"), set()).update(self.texts(call.to))
        for op in call.ops:
            if op.value is not None:
                self._assignments(call.kind, [(op.path, op.value)])
        if call.verb == "create":
            named = [f for f in call.fields if f.path == ("name",)]
            if named:
                self.kinds.setdefault(call.kind, set()).update(self.texts(named[0].value))
            else:
                self.generated.add(call.kind)

    def _assignments(self, kind: str, items: list[tuple[tuple[str | e.Expr, ...], e.Expr]]) -> None:
        for path, value in items:
            heads = [p for p in path if isinstance(p, str)]
            self.fields.setdefault((kind, ".".join(heads[:2])), set()).update(self.elements(value))

    def _bind(self, name: str, value: e.Expr, element: bool = False) -> None:
        texts = self.elements(value)
        if texts:
            self.locals.setdefault(name, set()).update(texts)
        lo, hi = self.interval(value)
        before = self.bounds.get(name, (lo, hi))
        self.bounds[name] = (min(lo, before[0]), max(hi, before[1]))

    # ------------------------------------------------------------------ texts
    def elements(self, x: e.Expr) -> set[str]:
        """Texts in a value of any shape."""
        match x:
            case e.ListLiteral(items=items):
                return set().union(*[self.elements(i) for i in items])
            case e.ObjectLiteral(items=pairs):
                return set().union(*[self.elements(i.value) for i in pairs])
            case e.Binary(op="+", left=a, right=b) if not isinstance(x.type, t.Name):
                return self.elements(a) | self.elements(b)
            case e.Fold(op="filter" | "sortBy", base=base):
                return self.elements(base)
            case e.Fold(op="map", body=body) if body is not None:
                return self.texts(body)
            case e.Method(op="take" | "drop", base=base):
                return self.elements(base)
            case e.Any(base=base):
                return self.elements(base)
            case e.Extern(abstract=abstract):
                return self.elements(abstract)
            case e.Ternary(then=a, other=b):
                return self.elements(a) | self.elements(b)
            case _:
                return self.texts(x)

    def texts(self, x: e.Expr) -> set[str]:
        """Texts that a scalar term can be."""
        match x:
            case e.Literal(value=str() as s):
                return {s} if isinstance(x.type, t.Name) else set()
            case e.Local(name=name):
                if isinstance(x.type, t.Object):
                    return self._names(x.type.kind)
                return self.locals.get(name, set()) | self._by_type(x.type)
            case e.Memory(name=name):
                return self.memory.get(name, set())
            case e.Given(name=name):
                return {name}
            case e.Member(base=base, name="name") if not isinstance(_inner(base.type), t.Struct):
                return self._name_of(base)
            case e.Member():
                return self._field(x)
            case e.Element(base=base):
                return self.elements(base)
            case e.Ternary(then=a, other=b):
                return self.texts(a) | self.texts(b)
            case e.Let(body=body):
                return self.texts(body)
            case e.Binary(op="+", left=a, right=b):
                return {x + y for x in self._text_parts(a) for y in self._text_parts(b)}
            case e.Builtin(op="hash", args=(arg, *_)):
                return {"#" + s for s in self._text_parts(arg)}
            case e.Builtin(op="string", args=(arg, *_)):
                return self._text_parts(arg)
            case e.Extern(abstract=abstract):
                return self.texts(abstract)
            case e.Any(base=base) | e.Fold(op="first", base=base):
                return self.elements(base)
            case _:
                return self._by_type(getattr(x, "type", None))

    def _by_type(self, ty: t.Type | None) -> set[str]:
        if isinstance(ty, t.Name) and ty.kind:
            return self._names(ty.kind)
        if isinstance(ty, t.Object):
            return self._names(ty.kind)
        return set()

    def _names(self, kind: str) -> set[str]:
        out = set(self.kinds.get(kind, set()))
        if kind in self.generated:
            out |= {f"{kind}~{i}" for i in range(self.sizes.get(kind, 1))}
        return out

    def _name_of(self, base: e.Expr) -> set[str]:
        ty = base.type
        if isinstance(ty, t.Optional):
            ty = ty.inner
        if isinstance(ty, t.Object):
            return self._names(ty.kind)
        return set().union(*[self._names(k) for k in self.kinds.keys() | self.generated])

    def _field(self, x: e.Member) -> set[str]:
        base, path = x.base, x.name
        if isinstance(base, e.Member) and base.name in ("spec", "status"):
            path, base = f"{base.name}.{x.name}", base.base
        ty = base.type.inner if isinstance(base.type, t.Optional) else base.type
        if isinstance(ty, t.Object):
            return self.fields.get((ty.kind, path), set()) | self._by_type(_inner(x.type))
        # A member of a struct: one of the texts that the struct holds, wherever it lies.
        return self.texts(base) | self._by_type(_inner(x.type)) if isinstance(_inner(x.type), t.Name) else set()

    def _text_parts(self, x: e.Expr) -> set[str]:
        """Texts of one side of a concatenation: names, numbers, symbols, members."""
        ty = _inner(x.type)
        if isinstance(x, e.Literal) and isinstance(x.value, str):
            return {x.value}
        if isinstance(ty, t.Int):
            lo, hi = self.interval(x)
            return {str(n) for n in range(lo, min(hi, lo + 50) + 1)}
        if isinstance(ty, t.Opaque):
            return set(self.symbols)
        if isinstance(ty, t.Enum):
            return set(ty.members)
        return self.texts(x)

    # ------------------------------------------------------------------ intervals
    def interval(self, x: e.Expr) -> tuple[int, int]:
        """Bounds of an integer term; of a collection, of its elements."""
        wide = (0, self.largest)
        match x:
            case e.Literal(value=bool()):
                return wide
            case e.Literal(value=int() as n):
                return (n, n)
            case e.Const(name=name):
                value = self.constants.get(name)
                return (value, value) if isinstance(value, int) else wide
            case e.Local(name=name) if name in self.bounds:
                return self.bounds[name]
            case e.Range(lo=lo, hi=hi):
                return (self.interval(lo)[0], self.interval(hi)[1])
            case e.Binary(op="+" | "-" as op, left=a, right=b):
                (x1, y1), (x2, y2) = self.interval(a), self.interval(b)
                return (x1 + x2, y1 + y2) if op == "+" else (x1 - y2, y1 - x2)
            case e.Any(base=base) | e.Fold(op="filter" | "sortBy" | "first", base=base):
                return self.interval(base)
            case e.Method(op="size") | e.Fold(op="count"):
                return (0, max(self.sizes.values(), default=self.largest))
            case _:
                return self._typed_interval(_inner(getattr(x, "type", None)), wide)

    def _typed_interval(self, ty: t.Type | None, wide: tuple[int, int]) -> tuple[int, int]:
        if isinstance(ty, t.Int) and ty.lo is not None and ty.hi is not None:
            return (self.interval(ty.lo)[0], self.interval(ty.hi)[1])
        return wide


def _inner(ty: t.Type | None) -> t.Type | None:
    return ty.inner if isinstance(ty, t.Optional) else ty


def created(pieces: list[object]) -> set[str]:
    """Kinds that somebody in the run creates."""
    return {c.kind for p in pieces for c in calls(p) if c.verb in ("create", "apply")}


def deleted(pieces: list[object]) -> set[str]:
    """Kinds that somebody in the run may remove by a call."""
    return {c.kind for p in pieces for c in calls(p) if c.verb in ("delete", "evict")}
