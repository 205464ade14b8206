"""The kinds of one world: slots, names, fields as leaves, and how an object's members are read."""

from __future__ import annotations

from attrs import define, field

from dashpot.model import types as t
from dashpot.model.core import Node
from dashpot.model.fault import SpecError
from dashpot.model.kernel.domain import Finite, Leaf
from dashpot.model.kernel.values import Items, Maybe, Nothing, Object, OneOf, Owner, Record, Scalar, Table, Value
from dashpot.model.program import Field, Resource

GRACE_OVER = "graceOver"
"""Leaf of pods that also have finalizers: their kubelet has stopped them (deletionGracePeriodSeconds is 0)."""

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
OWNING = ("owner", "owners")
"""Two names for one thing: the checker has the controlling owner, and `owners` is the set of it."""


@define
class KindInfo:
    """One kind of the world.

    names     what each slot's object is called; generated ones end in "~i"
    fixed     slots whose object has a name of its own (the others take generated names)
    """

    resource: Resource
    names: list[str] = field(factory=list)
    fixed: set[int] = field(factory=set)
    leaves: list[Leaf] = field(factory=list)

    @property
    def size(self) -> int:
        return len(self.names)

    def declared(self, side: str) -> tuple[Field, ...]:
        return self.resource.spec if side == "spec" else self.resource.status


@define
class Schema:
    """All kinds, and the finite tables they share.

    crossing         generations of different kinds are compared or copied from one to another
    pinned           numbers that count: they are not widened any more
    declared_ranges  what a widened field was declared as
    """

    finite: Finite
    kinds: dict[str, KindInfo]
    finalizers: list[str] = field(factory=list)
    labels: list[str] = field(factory=list)
    crossing: bool = False
    pinned: set[tuple[str, object, str]] = field(factory=set)
    declared_ranges: dict[tuple[str, str], tuple[int, int]] = field(factory=dict)

    def prepare(self) -> None:
        """Lay out every kind once all tables are known."""
        for info in self.kinds.values():
            info.leaves = list(self._leaves(info))

    def _leaves(self, info: KindInfo) -> list[Leaf]:
        f = self.finite
        out = list(f.leaves(t.Optional(t.Time()), "deletionTimestamp"))
        out += f.leaves(t.Optional(t.OwnerRef()), "owner")
        out += [Leaf(f"finalizers.{name}", 0, 1, ("no", "yes")) for name in self.finalizers]
        for section in ("labels", "annotations"):
            out += [leaf for key in self.labels for leaf in f.leaves(t.Optional(t.Opaque()), f"{section}.{key}")]
        if self.finalizers and self.graceful(info):
            out.append(Leaf(GRACE_OVER, 0, 1, ("no", "yes")))
        out += f.leaves(t.Generation(), "generation")
        out += f.leaves(t.Time(), "creationTimestamp")
        for side in ("spec", "status"):
            for decl in info.declared(side):
                out += f.leaves(decl.type, f"{side}.{decl.name}", decl.span)
        return out

    @staticmethod
    def graceful(info: KindInfo) -> bool:
        """Pods that can be bound stay for a grace period when deleted (ruling 17)."""
        return info.resource.kind == "Pod" and any(f.name == "nodeName" for f in info.resource.spec)

    def bound(self, copy: Object) -> Node:
        """A pod has a node: its nodeName is neither null nor empty."""
        value = self.side_field(copy, "spec", "nodeName")
        if isinstance(value, Maybe):
            return value.some
        assert isinstance(value, Scalar)
        return self.finite.g.ne(value.node, self.finite.g.const(0))

    # ------------------------------------------------------------------ names
    def info(self, kind: str) -> KindInfo:
        if kind not in self.kinds:
            raise SpecError(
                "D307",
                f"this check has no room for a {kind}",
                fix=f"add `{kind}: 1` to its `scope`, or an actor that creates one",
            )
        return self.kinds[kind]

    def slot_of(self, kind: str, name: str) -> int:
        return self.info(kind).names.index(name)

    def name_index(self, kind: str, slot: int) -> int:
        return self.finite.name(self.info(kind).names[slot])

    def slot_code(self, kind: str, slot: int) -> int:
        """How a cell that holds a slot says this one: of interchangeable objects 0 must name none."""
        return slot + (kind in self.finite.symmetric_kinds)

    def owner_index(self, kind: str, slot: int) -> int:
        return self.finite.owners.index((kind, slot))

    def returns(self, kind: str) -> bool:
        return kind in self.finite.returning

    # ------------------------------------------------------------------ members
    def field_type(self, kind: str, path: str) -> t.Type:
        """The type at a dotted path from the root, one level below spec or status."""
        head, _, rest = path.partition(".")
        if head in ("spec", "status"):
            for decl in self.info(kind).declared(head):
                if decl.name == rest:
                    return decl.type
        return t.METADATA[head]

    def side_field(self, copy: Object, side: str, name: str) -> Value:
        path = f"{side}.{name}"
        return self.finite.load(self.field_type(copy.kind, path), path, copy.read)

    def field(self, copy: Object, name: str) -> Value:
        """A member of an object, metadata or a whole side."""
        g = self.finite.g
        match name:
            case "spec" | "status":
                return Record(
                    {d.name: self.side_field(copy, name, d.name) for d in self.info(copy.kind).declared(name)}
                )
            case "name":
                return Scalar(g.const(self.name_index(copy.kind, copy.slot)), t.Name(copy.kind))
            case "namespace":
                return Scalar(g.const(0), t.Name())
            case "uid":
                return self.reference(copy)
            case "finalizers":
                return Items(
                    [
                        (copy.read(f"finalizers.{n}"), Scalar(g.const(self.finite.name(n)), t.Name()))
                        for n in self.finalizers
                    ]
                )
            case "labels" | "annotations":
                entries: dict[int, tuple[Node, Value]] = {}
                for key in self.labels:
                    value = self.finite.load(t.Optional(t.Opaque()), f"{name}.{key}", copy.read)
                    assert isinstance(value, Maybe)
                    entries[self.finite.name(key)] = (value.some, value.value)
                return Table(entries, t.Name())
            case "owners":
                owner = self.finite.load(t.METADATA["owner"], "owner", copy.read)
                assert isinstance(owner, Maybe)
                return Items([(owner.some, owner.value)])
            case "resourceVersion":
                raise SpecError("D308", "a resourceVersion is no value that the checker has")
            case _:
                return self.finite.load(t.METADATA[name], name, copy.read)

    def reference(self, copy: Object) -> Owner:
        return Owner(self.finite.g.const(self.owner_index(copy.kind, copy.slot)), copy.incarnation)

    def owner_field(self, owner: Owner, name: str) -> Value:
        g, f = self.finite.g, self.finite
        if name == "uid":
            return owner
        if name in ("controller", "blockOwnerDeletion"):
            return Scalar(g.true, t.Bool())  # the one owner that the checker has is the controlling one
        if name == "name":
            values = tuple(f.name(self.kinds[k].names[s]) for k, s in f.owners)
        elif name == "kind":
            values = tuple(f.name(k) for k, _ in f.owners)
        else:
            raise SpecError("D306", f"an owner reference has name, uid and kind, no {name}")
        return Scalar(g.table(values, owner.node), t.Name())

    # ------------------------------------------------------------------ text
    def object_text(self, kind: str, slot: int) -> str:
        return f"{kind} {self.info(kind).names[slot]}"

    def show(self, value: Value) -> str:
        """A constant value as a person would write it."""
        match value:
            case Nothing():
                return "null"
            case Scalar(node=node, type=ty):
                if not node.is_const:
                    return "…"
                texts = self.finite.texts(ty)
                limits = self.finite.scalar_range(ty) if texts else None
                return texts[node.value - limits[0]] if texts and limits else str(node.value)
            case Owner(node=node):
                kind, slot = self.finite.owners[node.value] if node.is_const else ("", 0)
                return self.object_text(kind, slot) if kind else "…"
            case Object(kind=kind, slot=slot):
                return self.object_text(kind, slot)
            case OneOf():
                return "…"
            case Record(fields=fields):
                return "{" + ", ".join(f"{n}: {self.show(v)}" for n, v in fields.items()) + "}"
            case Maybe(value=inner):
                return self.show(inner)
            case _:
                return "…"
