"""The types of the language, each with two readings: wide (run) and finite (checked).

A type is closed except for the bounds of its ranges, which may name constants (`0..MAX`): a check's
scope gives constants their values, so bounds are terms until a world is built for one check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

if TYPE_CHECKING:
    from dashpot.model.expr import Expr


@frozen
class Bool:
    """true or false."""


@frozen
class Int:
    """An integer; both bounds absent means wide, which only Z3 and the runtime can carry.

    Bounds are terms over integer literals and constants, inclusive on both sides.
    """

    lo: Expr | None = None
    hi: Expr | None = None


@frozen
class Enum:
    """A declared enumeration: its members are the values, in order; the first is the zero."""

    name: str
    members: tuple[str, ...]


@frozen
class Struct:
    """A declared record without identity."""

    name: str
    fields: tuple[tuple[str, Type], ...]


@frozen
class Optional:
    """A value or null."""

    inner: Type


@frozen
class ListOf:
    """A list: atomic under patches, or a list map when `key` names the field that identifies entries."""

    element: Type
    key: str | None = None


@frozen
class SetOf:
    """A set; also what a comprehension over a kind yields."""

    element: Type


@frozen
class MapOf:
    """A map. Over an enum or a range it is total (absent keys read as the zero); over names it is partial."""

    key: Type
    value: Type


@frozen
class Name:
    """An object's name; `kind` set for `ref Kind`."""

    kind: str | None = None


@frozen
class Uid:
    """The identity of one incarnation of an object."""


@frozen
class Generation:
    """A counter that only grows within one object's life; only order is meaningful."""


@frozen
class Version:
    """A resourceVersion: only equality is meaningful."""


@frozen
class Time:
    """A moment. The checker keeps its age, saturated above the largest threshold."""


@frozen
class Duration:
    """A span of time; literals are milliseconds."""


@frozen
class Quantity:
    """A Kubernetes quantity; literals are kept in thousandths of the unit."""


@frozen
class Opaque:
    """Any JSON at run time; in the checker a symbol of a scoped pool that knows only equality and hash()."""


@frozen
class OwnerRef:
    """The controlling ownerReference of an object (uid, kind, name), or null."""


@frozen
class Object:
    """An object of a kind: what a read returns, what a quantifier binds."""

    kind: str


@frozen
class Null:
    """The type of the literal null alone."""


@frozen
class Bottom:
    """The type of the elements of an empty literal `[]` or `{}`: fits everything."""


Type: TypeAlias = (
    Bool
    | Int
    | Enum
    | Struct
    | Optional
    | ListOf
    | SetOf
    | MapOf
    | Name
    | Uid
    | Generation
    | Version
    | Time
    | Duration
    | Quantity
    | Opaque
    | OwnerRef
    | Object
    | Null
    | Bottom
)

REFERENCE: dict[str, Type] = {
    "name": Name(),
    "uid": Uid(),
    "kind": Name(),
    "apiVersion": Name(),
    "controller": Bool(),
    "blockOwnerDeletion": Bool(),
}
"""What an ownerReference says."""

# Metadata that every object has without declaring it (language.md, "Metadata is built in").
# `owner` is typed OwnerRef | null when read; a write takes an object, a name with kind, or null.
METADATA: dict[str, Type] = {
    "name": Name(),
    "namespace": Name(),
    "uid": Uid(),
    "resourceVersion": Version(),
    "generation": Generation(),
    "creationTimestamp": Time(),
    "deletionTimestamp": Optional(Time()),
    "finalizers": SetOf(Name()),
    "owner": Optional(OwnerRef()),
    "owners": SetOf(OwnerRef()),
    "labels": MapOf(Name(), Opaque()),
    "annotations": MapOf(Name(), Opaque()),
}
