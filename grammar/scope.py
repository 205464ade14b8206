"""What names mean: declarations of all modules, and the bindings around one term."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from attrs import define, evolve, field, frozen
from lark import Token

from dashpot.grammar.notes import Notes
from dashpot.grammar.tree import Part, Rule, place
from dashpot.model import types as t
from dashpot.model.expr import Expr, Literal
from dashpot.model.program import Constant, Resource
from dashpot.model.span import NOWHERE, Span


@define(eq=False)
class Declared:
    """A name that a module declares at its top level. what: const enum struct kind fun extern actor."""

    name: str
    what: str
    tree: Rule
    module: Module
    span: Span
    constant: Constant | None = None
    enum: t.Enum | None = None
    struct: t.Struct | None = None
    resource: Resource | None = None
    fun: Function | None = None
    busy: bool = False


@frozen
class Function:
    """A `fun` or `extern fun` once typed. `params`: names and types; `body`: over its parameters as locals."""

    name: str
    params: tuple[tuple[str, t.Type], ...]
    result: t.Type
    body: Expr
    extern: bool
    kinds: tuple[str, ...]


@frozen
class Use:
    """`use module (names)`; no names: all of them."""

    module: str
    names: dict[str, Span]
    span: Span


@define(eq=False)
class Module:
    """One file. own: what it declares; visible: what its text may name; properties: its own, by name."""

    name: str
    file: str
    text: str
    tree: Rule
    uses: list[Use] = field(factory=list)
    own: dict[str, Declared] = field(factory=dict)
    visible: dict[str, Declared] = field(factory=dict)
    properties: dict[str, Rule] = field(factory=dict)


@define(eq=False)
class Universe:
    """All modules of a load, the main one last, with the notes taken."""

    notes: Notes
    modules: dict[str, Module] = field(factory=dict)
    names: dict[str, Declared] = field(factory=dict)

    def of(self, what: str) -> list[Declared]:
        """All declarations of one sort in all modules, in order of loading."""
        return [d for m in self.modules.values() for d in m.own.values() if d.what == what]

    def resource(self, kind: str) -> Resource | None:
        found = self.names.get(kind)
        return found.resource if found is not None else None


@frozen
class Bound:
    """A local: its type, and the name it has in the automaton (equal to the written one unless reused)."""

    type: t.Type
    name: str
    span: Span


Facts: TypeAlias = frozenset[Expr]
"""Terms known not to be null where we stand."""


@frozen
class Scope:
    """The bindings around a term.

    look    what a bare kind means: "truth", "cache", or "" where it has to say so itself
    body    what kind of body this is ("reconcile", "gone", "action", "environment", "admission", "handler",
            "scenario") or "" outside of bodies
    facts   terms that are not null here
    choice  whether `any` may stand here
    """

    universe: Universe
    module: Module
    look: str = "truth"
    locals: dict[str, Bound] = field(factory=dict)
    memory: dict[str, t.Type] = field(factory=dict)
    givens: dict[str, str] = field(factory=dict)
    body: str = ""
    facts: Facts = frozenset()
    choice: bool = False

    @property
    def notes(self) -> Notes:
        return self.universe.notes

    def span(self, part: Part) -> Span:
        return place(part, self.module.file)

    def quote(self, part: Part) -> str:
        """The text of a part, if it lies on one line; else `x`."""
        span = self.span(part)
        lines = self.module.text.removeprefix("\ufeff").split("\n")
        if span.line != span.end_line or span.line > len(lines):
            return "x"
        return lines[span.line - 1][span.column - 1 : span.end_column - 1] or "x"

    def error(self, code: str, part: Part, text: str, fix: str = "") -> Literal:
        """Report, and stand in for the term that is not there."""
        span = self.span(part)
        self.notes.error(code, span, text, fix)
        return Literal(None, t.Bottom(), span)

    def with_local(self, name: Token, ty: t.Type, as_name: str = "") -> Scope:
        """This scope and one more local; reports what it would hide."""
        text, span = str(name), self.span(name)
        self.check_new(text, span)
        return self.knowing(text, ty, as_name, span)

    def knowing(self, name: str, ty: t.Type, as_name: str = "", span: Span = NOWHERE) -> Scope:
        """This scope and one more local, without a check (`self`, `old`)."""
        return evolve(self, locals={**self.locals, name: Bound(ty, as_name or name, span)})

    def with_facts(self, facts: Iterable[Expr]) -> Scope:
        more = frozenset(facts)
        return self if more <= self.facts else evolve(self, facts=self.facts | more)

    def check_new(self, name: str, span: Span) -> None:
        """Report if `name` is taken here: nothing is shadowed."""
        what = self.taken(name)
        if what is None:
            return
        kind, where = what
        code = "D114" if kind == "a member of an enum" else "D104"
        notes = ((where, "It is declared here:"),) if where is not None and where.line else ()
        self.notes.error(
            code,
            span,
            f"`{name}` is already {kind}; names are not shadowed.",
            f"give this one another name, such as `{name}2`",
            notes,
        )

    def taken(self, name: str) -> tuple[str, Span | None] | None:
        """What already has this name, in words, and where."""
        if name in self.locals:
            return "a name of this body", self.locals[name].span
        if name in self.memory:
            return "memory of this actor", None
        found = self.module.visible.get(name)
        if found is not None and found.what in WORDS:
            return WORDS[found.what], found.span
        if name in self.givens:
            return "a given object", None
        for d in self.module.visible.values():
            if d.enum is not None and name in d.enum.members:
                return "a member of an enum", d.span
        return None

    def known(self) -> list[str]:
        """Every name that a term here may use, for suggestions."""
        names = [*self.locals, *self.memory, *self.givens]
        for name, d in self.module.visible.items():
            if d.what != "actor":
                names.append(name)
            if d.enum is not None:
                names += d.enum.members
        return names


WORDS = {
    "const": "a constant",
    "enum": "an enum",
    "struct": "a struct",
    "kind": "a kind",
    "fun": "a function",
    "extern": "a function",
}
"""Sorts of declarations whose names live with those of terms, in words."""
