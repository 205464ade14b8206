"""The tables of one world: which kinds, slots, names, symbols and ages a check's run can reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from dashpot.model import types as t
from dashpot.model.automaton import Assign, Call, Operation
from dashpot.model.core import Graph
from dashpot.model.expr import Assignment, Binary, Const, Element, Expr, Literal, Local, Member, Memory
from dashpot.model.fault import SpecError
from dashpot.model.kernel import clock
from dashpot.model.kernel.domain import Finite, scalar
from dashpot.model.kernel.names import Naming, created, deleted
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.scalarsets import interchangeable, scalarsets
from dashpot.model.kernel.schema import FOREGROUND, ORPHAN, OWNING, KindInfo, Schema
from dashpot.model.kernel.specialise import specialised
from dashpot.model.kernel.terms import Look, Terms
from dashpot.model.kernel.values import Scalar
from dashpot.model.kernel.walk import calls, kinds_named, parts, properties_of
from dashpot.model.kernel.world import Declaration
from dashpot.model.program import (
    Admission,
    Check,
    Controller,
    Environment,
    Field,
    GivenObject,
    NoLostUpdates,
    Process,
    Program,
    Resource,
)

MOST_TICKS = 1_000
"""Ages that a stored time may have."""

Values = dict[str, int | bool | str]
Scope = dict[str, int | bool | str | tuple[str, ...]]


def declarations(program: Program, check: Check) -> list[Declaration]:
    """Actors of the run, in its order; nothing named: everything that the file declares."""
    every: list[Declaration] = [*program.controllers, *program.processes, *program.environments]
    known = {d.name: d for d in every}
    return [known[n] for n in check.run if n in known]


def hooks(program: Program, check: Check) -> list[Admission]:
    """Admission hooks of the run, in its order."""
    return [a for name in check.run for a in program.admissions if a.name == name]


def pieces(program: Program, check: Check) -> list[object]:
    """All declarations whose terms matter to this check."""
    return [*declarations(program, check), *hooks(program, check), *check.given, *properties_of(program, check)]


def constants(program: Program, check: Check) -> Values:
    """Every constant with the value that the check's scope gives it, else its own."""
    values = {k.name: k.value for k in program.constants}
    for name, value in check.scope:
        if name in values and not isinstance(value, tuple):
            values[name] = value
    return values


def on(values: Values, term: Expr | None) -> bool:
    """Whether an `if CONST` clause is switched on."""
    if term is None:
        return True
    g = Graph()
    look = Look(lambda kind, where: [], lambda name: Scalar(g.false, t.Bool()))
    terms = Terms(Schema(Finite(g, values, {}), {}), Path(g, [], []), look)
    value, _ = terms.value(term, {})
    return bool(scalar(value).value)


def generations_counted(everything: list[object]) -> bool:
    """Whether a generation is held against a number, or reckoned with."""
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Binary):
                types = [type(p.left.type), type(p.right.type)]
                if t.Generation in types and (t.Int in types or p.op in "+-*/%"):
                    return True
    return False


def generations_cross(everything: list[object]) -> bool:
    """Whether generations of different kinds meet: in memory, in a comparison, in a field of another kind."""
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Field) and isinstance(p.type, t.Generation) and isinstance(piece, Controller | Process):
                return True
            if isinstance(p, Binary) and isinstance(p.left.type, t.Generation):
                if len(_generation_kinds(p)) != 1:
                    return True
            if isinstance(p, Call):
                for f in p.fields:
                    if isinstance(f.value.type, t.Generation) and _generation_kinds(f.value) != {p.kind}:
                        return True
    return False


def _generation_kinds(x: Expr) -> set[str]:
    """Kinds whose objects the generations in a term come from ("" where it is not plain)."""
    out: set[str] = set()
    for p in parts(x):
        if isinstance(p, Member) and isinstance(p.type, t.Generation):
            base = p.base.base if isinstance(p.base, Member) and p.base.name in ("spec", "status") else p.base
            ty = base.type.inner if isinstance(base.type, t.Optional) else base.type
            out.add(ty.kind if isinstance(ty, t.Object) else "")
        elif isinstance(p, Local | Memory) and isinstance(p.type, t.Generation):
            out.add("")
    return out


def place_of(decl: Declaration) -> str | None:
    """The enum or kind at whose members or objects instances of an actor stand."""
    place = None if isinstance(decl, Environment) else decl.place
    return place.of if place is not None else None


# ---------------------------------------------------------------------- tables
def schema_of(program: Program, check: Check, raised: Mapping[str, int]) -> tuple[Schema, list[GivenObject]]:
    """Kinds, slots, names, symbols, ages: every table of the world."""
    values = constants(program, check)
    actors = declarations(program, check)
    run: list[object] = [*actors, *hooks(program, check)]
    scope = dict(check.scope)
    resources = {r.kind: r for r in program.resources}
    placed = {p for p in map(place_of, actors) if p is not None}
    kinds = _kinds(program, check, run, placed)
    given = list(check.given) + _implied(check, run, kinds, scope)
    everything = pieces(program, check)
    tick_ms, oldest = clock.scale(clock.durations([*everything], values))
    finite = Finite(Graph(), values, {x.name: x for x in program.enums if isinstance(x, t.Enum)})
    finite.symmetric, finite.asymmetric = scalarsets(
        list(finite.enums.values()), everything, [resources[k] for k in sorted(kinds)], placed
    )
    if oldest > MOST_TICKS:
        text = f"the durations of this run are too far apart: in steps of {tick_ms} ms an age goes up to {oldest}"
        raise SpecError("D319", text, check.span)
    finite.tick_ms, finite.oldest = tick_ms, oldest
    finite.symbols = _symbols(scope, everything)
    longest = scope.get("list")
    if isinstance(longest, int):
        finite.longest_list = longest
    mentioned = _mentioned([*everything, *[r.rules for r in resources.values()]])
    schema = Schema(finite, {k: KindInfo(_used(resources[k], mentioned)) for k in sorted(kinds)})
    finite.longest_list += max((n for what, n in raised.items() if not what.endswith(" slots")), default=0)
    sizes = {k: _size(k, scope, given) + raised.get(f"{k} slots", 0) for k in kinds}
    naming = _naming(everything + [resources[k] for k in kinds], values, sizes, given, finite.symbols)
    schema.crossing = generations_cross(everything)
    _slots(schema, naming, given, sizes, created(run))
    _fill_tables(schema, naming, everything, run, given)
    candidates = [k for k, info in schema.kinds.items() if info.size > 1 and not info.fixed]
    finite.symmetric_kinds, reasons = interchangeable(
        candidates, everything, [i.resource for i in schema.kinds.values()]
    )
    finite.asymmetric += reasons
    return schema, given


def _kinds(program: Program, check: Check, run: list[object], placed: set[str]) -> set[str]:
    """The kinds that something in the check speaks of."""
    known = {r.kind for r in program.resources}
    named = [p for p in properties_of(program, check) if any(p.name in x.names for x in check.expects)]
    kinds = set().union(*[kinds_named(x) for x in [*run, *check.given, *named]])
    return (kinds | dict(check.scope).keys() | placed) & known


def givens(program: Program, check: Check) -> list[GivenObject]:
    """All objects that are there at the start: those that are given, and those that are implied."""
    program = specialised(program, constants(program, check))
    actors = declarations(program, check)
    run: list[object] = [*actors, *hooks(program, check)]
    placed = {p for p in map(place_of, actors) if p is not None}
    return [*check.given, *_implied(check, run, _kinds(program, check, run, placed), dict(check.scope))]


def _implied(check: Check, run: list[object], kinds: set[str], scope: Scope) -> list[GivenObject]:
    """A kind of the scope that nobody creates and no `given` names is there from the start, with defaults."""
    made = created(run) | {g.kind for g in check.given}
    out: list[GivenObject] = []
    for kind in sorted(kinds):
        count = scope.get(kind)
        if kind not in made and isinstance(count, int):
            base = kind[0].lower() + kind[1:]
            out += [GivenObject(kind, base if count == 1 else f"{base}-{i}", False, ()) for i in range(count)]
    return out


def _mentioned(everything: Iterable[object]) -> set[str]:
    """Every name that a term or a write uses for a field."""
    out = {"nodeName", "app", "disruptionsAllowed", "phase"}  # read by the API itself: binding and eviction
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Member):
                out.add(p.name)
            if isinstance(p, Assign | Assignment | Operation):
                out |= {step for step in p.path if isinstance(step, str)}
            if isinstance(p, NoLostUpdates):
                out |= set(p.path)
    return out


def _used(resource: Resource, mentioned: set[str]) -> Resource:
    """The kind without fields that nothing in the run speaks of."""
    spec = tuple(f for f in resource.spec if f.name in mentioned)
    status = tuple(f for f in resource.status if f.name in mentioned)
    return evolve(resource, spec=spec, status=status)


def _size(kind: str, scope: Scope, given: list[GivenObject]) -> int:
    count = scope.get(kind)
    there = sum(1 for g in given if g.kind == kind)
    return max(int(count), there) if isinstance(count, int) else max(1, there)


def _symbols(scope: Scope, everything: Iterable[object]) -> list[str]:
    pool = scope.get("opaque")
    out = list(pool) if isinstance(pool, tuple) else []
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Literal) and isinstance(p.type, t.Opaque) and isinstance(p.value, str):
                out.append(p.value)
    return list(dict.fromkeys(out)) or ["a"]


def _naming(
    everything: list[object],
    values: Values,
    sizes: dict[str, int],
    given: list[GivenObject],
    symbols: list[str],
) -> Naming:
    naming = Naming(everything, values, symbols, sizes)
    naming.largest = max([v for v in values.values() if isinstance(v, int) and v < 50] + list(sizes.values()) + [1])
    naming.run(given)
    return naming


def _slots(schema: Schema, naming: Naming, given: list[GivenObject], sizes: dict[str, int], makes: set[str]) -> None:
    """A slot for each name of a kind; the rest of its scope for generated names."""
    for kind, info in schema.kinds.items():
        there = [g.name for g in given if g.kind == kind]
        terms = sorted(naming.kinds.get(kind, set()) - set(there)) if kind in makes else []
        info.names = there + [n for n in terms if "~" not in n]
        info.fixed = set(range(len(info.names)))
        if kind in naming.generated:
            free = max(1, sizes[kind] - len(info.names))
            info.names += [f"{kind}~{i}" for i in range(free)]


def _fill_tables(
    schema: Schema, naming: Naming, everything: list[object], run: list[object], given: list[GivenObject]
) -> None:
    finite = schema.finite
    schema.finalizers = _finalizers(everything, finite.constants, naming)
    schema.labels = _labels(everything)
    words = naming.all() | {n for info in schema.kinds.values() for n in info.names}
    words |= set(schema.finalizers) | set(schema.labels) | set(schema.kinds)
    generated = [n for info in schema.kinds.values() for n in info.names if "~" in n]
    finite.names = ["", *sorted(w for w in words if w and w not in generated and "~" not in w), *generated]
    finite.owners = [(k, s) for k, info in schema.kinds.items() for s in range(info.size)]
    finite.owner_texts = [f"{k} {schema.kinds[k].names[s]}" for k, s in finite.owners]
    removed = deleted(run) | {g.kind for g in given if any(i.path[0] in OWNING for i in g.items)}
    for piece in run:
        for x in calls(piece):
            written = {f.path[0] for f in x.fields} | {o.path[0] for o in x.ops}
            if written & {*OWNING, "finalizers"}:
                removed.add(x.kind)
    finite.returning = frozenset(k for k in schema.kinds if k in created(run) and k in removed)


def _finalizers(everything: list[object], values: Values, naming: Naming) -> list[str]:
    """Finalizers that anybody sets or takes off: named on the spot, or by way of locals, memory and other fields."""
    out: list[str] = []
    how = {x.how for piece in everything for x in calls(piece)}
    out += [FOREGROUND] * ("foreground" in how) + [ORPHAN] * ("orphan" in how)
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Assignment) and p.path[:1] == ("finalizers",):
                out += [x.value for x in parts(p.value) if isinstance(x, Literal) and isinstance(x.value, str)]
                out += [str(values[x.name]) for x in parts(p.value) if isinstance(x, Const)]
    for (_, where), texts in sorted(naming.fields.items()):
        if where == "finalizers":
            out += sorted(texts - {""})
    return list(dict.fromkeys(out))


def _labels(everything: list[object]) -> list[str]:
    """Label and annotation keys that anybody names."""
    out: list[str] = []
    for piece in everything:
        for p in parts(piece):
            if isinstance(p, Assignment | Operation) and p.path[0] in ("labels", "annotations"):
                if len(p.path) > 1:
                    key = p.path[1]
                    out.append(key if isinstance(key, str) else str(getattr(key, "value", "")))
                out += [str(i.path[0]) for i in getattr(p.value, "items", ()) if isinstance(i, Assignment)]
            if isinstance(p, Element) and isinstance(p.base, Member) and p.base.name in ("labels", "annotations"):
                out.append(str(getattr(p.key, "value", "")))
            if isinstance(p, Member) and isinstance(p.base, Member) and p.base.name in ("labels", "annotations"):
                out.append(p.name)
    return list(dict.fromkeys(out))
