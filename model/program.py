"""A Program: everything a spec file and the library modules it uses declare, resolved and typed."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from dashpot.model.automaton import Automaton, Call
from dashpot.model.expr import Assignment, Expr
from dashpot.model.span import Span, span_field
from dashpot.model.types import Type


@frozen
class Field:
    """A declared field, memory or index variable. `at`: JSON path from the object's root, if not the default."""

    name: str
    type: Type
    default: Expr | None = None
    immutable: bool = False
    required: bool = False
    monotone: bool = False
    at: str | None = None
    span: Span = span_field()


@frozen
class Rule:
    """A CEL rule over `self` (and `oldSelf` on updates, see `transition`); undefined denies."""

    expr: Expr
    message: str
    transition: bool
    span: Span = span_field()


@frozen
class Resource:
    """A kind: `spec` and `status` fields, rules, printer columns. `wide`: its objects are in no namespace (of kinds
    that the server knows, the server says that)."""

    kind: str
    api_version: str
    spec: tuple[Field, ...]
    status: tuple[Field, ...]
    rules: tuple[Rule, ...]
    columns: tuple[str, ...]
    module: str
    wide: bool = False
    span: Span = span_field()

    @property
    def manifold(self) -> bool:
        """Whether it stands for many kinds: `"*"` for every one, `"*/scale"` for a part of those that have it."""
        return self.api_version == "*" or bool(self.part)

    @property
    def answers(self) -> bool:
        """Whether it is what the server answers at a path: its version is where the path begins, `"/apis"`."""
        return self.api_version.startswith("/")

    @property
    def part(self) -> str:
        """The subresource of objects of any kind that it is a view of, or ""."""
        return self.api_version[2:] if self.api_version.startswith("*/") else ""


@frozen
class Wake:
    """A reason to reconcile: events of `kind` wake `keys` of the controller's own kind.

    source    "for" | "owns" | "watches"
    var       the changed object; `old` is the version before in `when`
    keys      term for "watches": name, object of the controller's kind, set of either, or null; None for for/owns
    new_only  keys from the new version only
    when      filters updates only; None wakes always
    only_if   a constant term that switches the clause on
    """

    source: str
    kind: str
    var: str
    keys: Expr | None = None
    new_only: bool = False
    when: Expr | None = None
    only_if: Expr | None = None
    span: Span = span_field()


@frozen
class CacheMode:
    """`cache Kind mode [if CONST]`; mode: lagging | read_own_writes | live."""

    kind: str
    mode: str
    only_if: Expr | None = None
    span: Span = span_field()


@frozen
class Index:
    """Memory kept by event handlers of one kind. Handlers: event ("add"|"update"|"delete"), body.

    Parameters of the automata: add and delete one object, update (old, new). Bodies hold only Branch,
    Bind, Assign (scope "memory") and End.
    """

    field: Field
    kind: str
    handlers: tuple[tuple[str, Automaton], ...]
    span: Span = span_field()


@frozen
class Place:
    """`at me in Seat`: one instance for each member of an enum or each object of a kind (`of` its name)."""

    var: str
    of: str
    span: Span = span_field()


@frozen
class Controller:
    """A reconcile loop. `wakes` starts with its `for` clause."""

    name: str
    kind: str
    place: Place | None
    wakes: tuple[Wake, ...]
    caches: tuple[CacheMode, ...]
    memory: tuple[Field, ...]
    indexes: tuple[Index, ...]
    workers: int
    reconcile: Automaton
    gone: Automaton | None
    module: str
    span: Span = span_field()


@frozen
class Action:
    """`action f(params) when e at most N fair { … }`. Parameters range over kinds (Object), enums and ranges."""

    name: str
    params: tuple[tuple[str, Type], ...]
    when: Expr | None
    limit: int | None
    fair: bool
    body: Automaton
    span: Span = span_field()


@frozen
class Process:
    """An actor that is no reconcile loop; its actions are fair, one body at a time."""

    name: str
    place: Place | None
    caches: tuple[CacheMode, ...]
    memory: tuple[Field, ...]
    indexes: tuple[Index, ...]
    actions: tuple[Action, ...]
    module: str
    span: Span = span_field()


@frozen
class Fault:
    """A fault and its budget.

    `target`: dotted name of an actor, a kind, or None; `by`: the `for A` of relist and drop.
    """

    name: str
    target: str | None
    limit: int
    by: str | None = None
    span: Span = span_field()


@frozen
class Environment:
    """Users, clouds, weather: actions that need not happen, and faults."""

    name: str
    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]
    module: str
    span: Span = span_field()


@frozen
class Admission:
    """A hook of the API pipeline. `needs`: (term over the truth, "fail" | "ignore")."""

    name: str
    verbs: tuple[str, ...]
    kind: str
    var: str
    when: Expr | None
    needs: tuple[Expr, str] | None
    body: Automaton
    module: str
    span: Span = span_field()


@frozen
class State:
    """A property of states.

    `op`: always | never | sometimes | eventually | stabilizes (eventually always) | recurs (always
    eventually) | monotone.
    """

    op: str
    body: Expr


@frozen
class LeadsTo:
    """`trigger leads to goal`."""

    trigger: Expr
    goal: Expr


@frozen
class Converges:
    """`converges while premise to goal`."""

    premise: Expr | None
    goal: Expr


@frozen
class NoLostUpdates:
    """`no lost updates to Kind.spec.field` (or a whole side): path without the kind."""

    kind: str
    path: tuple[str, ...]


@frozen
class OnWrite:
    """`on verbs Kind x by Actor.action at me require e`; `old` names the object before the write."""

    verbs: tuple[str, ...]
    kind: str
    var: str
    actor: str | None
    me: str | None
    require: Expr


Formula: TypeAlias = State | LeadsTo | Converges | NoLostUpdates | OnWrite


@frozen
class Property:
    """A named property; `each`: (variable, kind) of `for x in Kind`."""

    name: str
    each: tuple[str, str] | None
    formula: Formula
    module: str
    span: Span = span_field()


@frozen
class GivenObject:
    """An object that exists at the start. `bound` is False for a quoted name, which binds nothing.

    `items`: assignments from the object's root (owner, finalizers, labels, annotations, spec…, status…).
    """

    kind: str
    name: str
    bound: bool
    items: tuple[Assignment, ...]
    span: Span = span_field()


@frozen
class Expect:
    """`expect names` or `expect violation of names as kind within n`."""

    names: tuple[str, ...]
    violation: bool
    kind: str | None
    within: int | None
    span: Span = span_field()


@frozen
class Waive:
    """`waive name for Kind.path "reason"`; `kind` and `path` absent: everywhere."""

    name: str
    kind: str | None
    path: tuple[str, ...]
    reason: str
    span: Span = span_field()


@frozen
class Check:
    """A question: which actors, in which scope, under which faults, and what should come out.

    scope    kind or constant or "lag" or "opaque" → int, bool, enum member/str, duration in ms, or tuple of str
    faults   None: the environment's; else replaces them
    resync   periodic resync; time "urgent" | "free"
    """

    name: str
    run: tuple[str, ...]
    scope: tuple[tuple[str, int | bool | str | tuple[str, ...]], ...]
    faults: tuple[Fault, ...] | None
    resync: bool
    time: str
    given: tuple[GivenObject, ...]
    expects: tuple[Expect, ...]
    waives: tuple[Waive, ...]
    module: str
    span: Span = span_field()


@frozen
class Step:
    """A line of a scenario. verb: write | settle | hold | release | tick | inject | assert.

    write: `call`; hold/release: `kind`, `actor`; tick: `count`; inject: `fault`, `target`; assert: `expr`.
    """

    verb: str
    call: Call | None = None
    kind: str | None = None
    actor: str | None = None
    count: int = 0
    fault: str | None = None
    target: str | None = None
    expr: Expr | None = None
    span: Span = span_field()


@frozen
class Scenario:
    """One schedule, step by step. Runs everything its file declares or uses."""

    name: str
    given: tuple[GivenObject, ...]
    steps: tuple[Step, ...]
    module: str
    span: Span = span_field()


@frozen
class Constant:
    """`const NAME = value`; the value is a literal after folding."""

    name: str
    value: int | bool | str
    type: Type
    span: Span = span_field()


@frozen
class Program:
    """All declarations of a file and of what it uses. Names are unique across it (clashes are reported).

    main     the module name of the file itself; checks, scenarios and properties of other modules are
             present too, and commands run those of `main` only
    sources  file name → text, for messages and stories
    """

    main: str
    constants: tuple[Constant, ...]
    enums: tuple[Type, ...]
    resources: tuple[Resource, ...]
    controllers: tuple[Controller, ...]
    processes: tuple[Process, ...]
    environments: tuple[Environment, ...]
    admissions: tuple[Admission, ...]
    properties: tuple[Property, ...]
    checks: tuple[Check, ...]
    scenarios: tuple[Scenario, ...]
    sources: tuple[tuple[str, str], ...]
