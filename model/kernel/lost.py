"""Lost updates: a write without a version over a value that another wrote since it was read.

A field that several actors write, one of them without a version, carries the tag of its last writer. The
basis of a written value is the field in the oldest read that flows into it, else in the written object.
"""

from __future__ import annotations

from dashpot.model.automaton import Call
from dashpot.model.core import Node
from dashpot.model.kernel.basis import basis_of, value_at
from dashpot.model.kernel.equality import contains, equal
from dashpot.model.kernel.fields import dotted
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import Draft
from dashpot.model.kernel.terms import Env
from dashpot.model.kernel.values import Items, Object, Value
from dashpot.model.kernel.walk import calls, properties_of
from dashpot.model.kernel.world import World, Write, Writer

Tags = dict[tuple[str, str], list[int]]


def tagged(world: World) -> list[tuple[str, str]]:
    """(kind, field) pairs that two actors write, one of them without a version."""
    said = [(a, c, _said(c)) for a in world.actors for c in calls(a.decl) if c.verb != "create"]
    named = dict.fromkeys((c.kind, field) for _, c, fields in said for field in fields)
    writers: dict[tuple[str, str], set[str]] = {}
    blind: set[tuple[str, str]] = set()
    for actor, call, fields in said:
        several = len(actor.dirty) > 1 or getattr(actor.decl, "place", None) is not None
        along = [f for kind, f in named if kind == call.kind and sends_along(call, f)]
        for name in (*fields, *along):
            field = (call.kind, name)
            writers.setdefault(field, set()).add(actor.name)
            if several:
                writers[field].add(actor.name + "'")
            if not actor.blind and not call.guard and (call.verb == "patch" or call.force):
                blind.add(field)
    return [f for f in named if len(writers[f]) > 1 and f in blind]


def _said(call: Call) -> list[str]:
    """The fields that a call names."""
    return [top(dotted(steps)) for steps in [*(f.path for f in call.fields), *(o.path for o in call.ops)]]


def sends_along(call: Call, leaf: str) -> bool:
    """Whether a call sends a field as it was read: an update without its version does, for the side it writes."""
    return call.verb == "update" and call.force and sent(leaf, call.side)


def sent(leaf: str, side: str) -> bool:
    """Whether an update of one side sends this field: metadata goes with the spec."""
    head = leaf.split(".")[0]
    if side == "status":
        return head == "status"
    return head in ("spec", "owner", "finalizers", "labels", "annotations")


def top(path: str) -> str:
    """The field that a path belongs to: spec.seeds of spec.seeds.0, finalizers of itself."""
    head, _, rest = path.partition(".")
    return f"{head}.{rest.split('.')[0]}" if head in ("spec", "status") and rest else head


def allocate(world: World) -> Tags:
    """A cell a slot for each tagged field: 0 nobody yet, else the writer's number."""
    numbers = writer_numbers(world)
    tags: Tags = {}
    texts = ("nobody", *numbers)
    for kind, path in tagged(world):
        if kind in world.store:
            tags[kind, path] = [
                world.layout.add("shadow", f"{path}@writer", 0, len(numbers), kind=kind, slot=s, texts=texts)
                for s in range(world.schema.info(kind).size)
            ]
    return tags


def writer_numbers(world: World) -> dict[str, int]:
    """A number from 1 for each (actor instance, key)."""
    out: dict[str, int] = {}
    for actor in world.actors:
        for key in range(max(1, len(actor.dirty))):
            out[f"{actor.name}/{key}"] = len(out) + 1
    return out


def mark_writer(tags: Tags, numbers: dict[str, int], path: Path, world: World, write: Write) -> None:
    """Remember who changed each tagged field with this write."""
    g = world.g
    if write.writer.actor is None:
        return
    me = g.const(numbers[f"{write.writer.name}/{max(0, write.writer.key)}"])
    for (kind, field), cells in tags.items():
        if kind != write.kind:
            continue
        cell = cells[write.slot]
        if write.old is None or write.new is None:
            path.set(cell, g.const(0))
            continue
        changed = g.not_(equal(world.schema, value_at(world, write.old, field), value_at(world, write.new, field)))
        path.set_if(changed, cell, me)


def watch(world: World, path: Path, writer: Writer, call: Call, draft: Draft, copy: Object, env: Env) -> None:
    """Oblige a write without a version not to lose what another wrote since the read."""
    tags: Tags = world.tags
    if writer.actor is None or writer.actor.blind or draft.old is None:
        return
    g, schema = world.g, world.schema
    me = writer_numbers(world)[f"{writer.name}/{max(0, writer.key)}"]
    written_to = [(f.path, f.value) for f in call.fields] + [(o.path, o.value) for o in call.ops if o.op != "test"]
    fields = [(top(dotted(steps)), term) for steps, term in written_to]
    known = {name for name, _ in fields}
    fields += [(f, None) for kind, f in tags if kind == draft.kind and f not in known and sends_along(call, f)]
    for name, term in fields:
        cells = tags.get((draft.kind, name))
        if cells is None:
            continue
        tag = path.get(cells[draft.slot])
        by_other = g.and_(g.ne(tag, g.const(0)), g.ne(tag, g.const(me)))
        stored = value_at(world, draft.old, name)
        written = value_at(world, draft.copy(world), name)
        basis, computed = basis_of(world, draft.kind, copy, name, term, env)
        loss = g.and_(by_other, loses(world, stored, basis, written, computed))
        about = (schema.object_text(draft.kind, draft.slot), name)
        what = f"{name}, written by another since it was read, is overwritten"
        for prop in ["lost_update", *_named(world, draft.kind, name)]:
            world.oblige(path, prop, g.not_(loss), about, what, call.span)


def loses(world: World, stored: Value, basis: Value, written: Value, computed: bool) -> Node:
    """The definition of semantics.md for scalars and, entry by entry, for collections."""
    g, schema = world.g, world.schema
    moved = g.not_(equal(schema, stored, basis))
    if isinstance(stored, Items) and isinstance(basis, Items) and isinstance(written, Items):
        added = [
            g.and_(i, g.not_(contains(schema, basis, v)), g.not_(contains(schema, written, v))) for i, v in stored.items
        ]
        removed = [g.and_(i, g.not_(contains(schema, stored, v)), contains(schema, written, v)) for i, v in basis.items]
        return g.and_(moved, g.or_(*added, *removed))
    if computed:
        return moved
    return g.and_(moved, g.not_(equal(schema, written, stored)))


def _named(world: World, kind: str, field: str) -> list[str]:
    from dashpot.model.program import NoLostUpdates

    out = []
    for p in properties_of(world.program, world.check):
        f = p.formula
        if isinstance(f, NoLostUpdates) and f.kind == kind:
            wanted = ".".join(f.path)
            if not wanted or field == wanted or field.startswith(wanted + ".") or wanted.startswith(field + "."):
                out.append(p.name)
    return out
