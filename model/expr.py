"""Terms of the language after names are resolved and `fun` calls are inlined.

A term is what a person wrote, typed, with its place. It has two consumers: the kernel turns it into
core IR over a finite world (`model/kernel`), and the runtime evaluates it on real JSON. Total with
CEL's errors: a partial operation is *undefined*, and `&& || ?:` absorb it.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from dashpot.model.span import Span, span_field
from dashpot.model.types import Null, Type


@frozen
class Literal:
    """A constant: bool, int (also thousandths of a Quantity, milliseconds of a Duration), str, or None.

    An enum member is a str with an Enum type; a str with type Name is a term of its own; with type
    Opaque it is a symbol of the pool.
    """

    value: bool | int | str | None
    type: Type
    span: Span = span_field()


@frozen
class Local:
    """A binding of the enclosing body, comprehension, property or parameter list.

    `me`, `self`, `old` and `oldSelf` are locals too.
    """

    name: str
    type: Type
    span: Span = span_field()


@frozen
class Memory:
    """A memory or index variable of the actor whose body this is."""

    name: str
    type: Type
    span: Span = span_field()


@frozen
class Const:
    """A `const`: its value is the check's scope entry, else its declaration."""

    name: str
    type: Type
    span: Span = span_field()


@frozen
class Given:
    """An object bound by a `given` (`web` in scenarios and in later givens)."""

    kind: str
    name: str
    type: Type
    span: Span = span_field()


@frozen
class Kind:
    """All objects of a kind. `look`: "truth" (store), "cache" (the actor's own cache), see language.md 4."""

    kind: str
    look: str
    type: Type
    span: Span = span_field()


@frozen
class Domain:
    """All values of a finite type, as a set: an enum or a range type used as a set."""

    of: Type
    type: Type
    span: Span = span_field()


@frozen
class Cached:
    """A cached read inside a body: `get` (name term, result nullable) or `list` (optional filter)."""

    verb: str  # "get" | "list"
    kind: str
    name: Expr | None
    var: str | None
    where: Expr | None
    type: Type
    span: Span = span_field()


@frozen
class Member:
    """`base.name`: a field of an object, struct, owner reference; undefined on null.

    `spec` and `status` are written out: `p.status.ready` is Member(Member(p, "status"), "ready").
    """

    base: Expr
    name: str
    type: Type
    span: Span = span_field()


@frozen
class Element:
    """`base[key]`: of a list (int) or a map (key); undefined where there is none."""

    base: Expr
    key: Expr
    type: Type
    span: Span = span_field()


@frozen
class Unary:
    """`!e` or `-e`."""

    op: str
    operand: Expr
    type: Type
    span: Span = span_field()


@frozen
class Binary:
    """`&& || + - * / % == != < <= > >= in`; `+` also joins lists, unions sets and concatenates names."""

    op: str
    left: Expr
    right: Expr
    type: Type
    span: Span = span_field()


@frozen
class Ternary:
    """`c ? a : b`."""

    test: Expr
    then: Expr
    other: Expr
    type: Type
    span: Span = span_field()


@frozen
class Range:
    """`lo..hi` as an ordered collection of integers, empty if lo > hi."""

    lo: Expr
    hi: Expr
    type: Type
    span: Span = span_field()


@frozen
class Fold:
    """A fold with a bound variable over a collection.

    op: all exists exists_one filter map count sum min max first sortBy. `body` absent for the
    variable-free forms (`s.first()`, `s.sum()`, `s.min()`, `s.max()`, `s.count()`), `var` then "".
    """

    op: str
    base: Expr
    var: str
    body: Expr | None
    type: Type
    span: Span = span_field()


@frozen
class Method:
    """A method without a bound variable: size isEmpty take drop contains startsWith endsWith … (args evaluated)."""

    op: str
    base: Expr
    args: tuple[Expr, ...]
    type: Type
    span: Span = span_field()


@frozen
class Builtin:
    """now() since(t) hash(x) min(a, b) max(a, b) gone(x) has(e) string(x)."""

    op: str
    args: tuple[Expr, ...]
    type: Type
    span: Span = span_field()


@frozen
class Extern:
    """A call of an `extern fun`: the checker reads `abstract` (parameters already substituted).

    `module` and `file` are those of its declaration: they say where the function is computed at run time.
    """

    name: str
    args: tuple[Expr, ...]
    abstract: Expr
    type: Type
    module: str = ""
    file: str = ""
    span: Span = span_field()


@frozen
class Any:
    """`any e`: one element of a collection (or of a Domain), chosen by the checker.

    Nothing to choose disables the step.
    """

    base: Expr
    type: Type
    span: Span = span_field()


@frozen
class ListLiteral:
    """`[a, b]`; fits list and set types."""

    items: tuple[Expr, ...]
    type: Type
    span: Span = span_field()


@frozen
class Let:
    """`value` named inside `body`: how an inlined `fun` keeps its arguments evaluated once."""

    name: str
    value: Expr
    body: Expr
    type: Type
    span: Span = span_field()


@frozen
class Assignment:
    """`path: value` of an object literal or a write. Path steps are field names or key terms (`store[s]`)."""

    path: tuple[str | Expr, ...]
    value: Expr
    span: Span = span_field()


@frozen
class ObjectLiteral:
    """`{ a: 1, b.c: 2 }`: a struct, a map (string keys), or the content of a create."""

    items: tuple[Assignment, ...]
    type: Type
    span: Span = span_field()


Expr: TypeAlias = (
    Literal
    | Local
    | Memory
    | Const
    | Given
    | Kind
    | Domain
    | Cached
    | Member
    | Element
    | Unary
    | Binary
    | Ternary
    | Range
    | Fold
    | Method
    | Builtin
    | Extern
    | Any
    | ListLiteral
    | Let
    | ObjectLiteral
)

NULL = Literal(None, Null())
"""The literal null."""
