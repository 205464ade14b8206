"""The verbs of the API: what each call does to the store, and which error it answers with."""

from __future__ import annotations

from attrs import define

from dashpot.model import types as t
from dashpot.model.automaton import Call, Operation
from dashpot.model.core import Node
from dashpot.model.expr import Assignment
from dashpot.model.fault import SpecError
from dashpot.model.kernel import budgets, incarnations, lost, ownership
from dashpot.model.kernel.equality import contains, equal
from dashpot.model.kernel.fields import assign, dotted, list_map, merged
from dashpot.model.kernel.folds import only, whole
from dashpot.model.kernel.layout import frozen_copy
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import Draft, admit, bump, draft_of, finish, held_by_finalizers, in_grace, submit
from dashpot.model.kernel.schema import FOREGROUND, GRACE_OVER, ORPHAN
from dashpot.model.kernel.terms import Env, Terms
from dashpot.model.kernel.values import Items, Maybe, Nothing, Object, Record, Scalar, Table, Value
from dashpot.model.kernel.widen import fit
from dashpot.model.kernel.world import BOUND, World, Writer

UNDEFINED = "undefined"
"""Outcome of a call whose arguments are undefined: a panic of the body, no call is made."""


@define(eq=False)
class Answer:
    """What a call came back with: "ok" or an error, and the object or list for the local that takes it."""

    outcome: str
    value: Value | None = None
    about: str = ""


def perform(world: World, path: Path, writer: Writer, call: Call, env: Env) -> Answer:
    """One API call as one atomic step."""
    match call.verb:
        case "get":
            return _get(world, path, writer, call, env)
        case "list":
            return _list(world, path, writer, call, env)
        case "create":
            return _create(world, path, writer, call, env)
        case _:
            return _write(world, path, writer, call, env)


# ---------------------------------------------------------------------- reads
def _get(world: World, path: Path, writer: Writer, call: Call, env: Env) -> Answer:
    terms = world.terms(path, writer.actor)
    assert call.name is not None
    name, ok = terms.value(call.name, env)
    if not path.branch(ok):
        return Answer(UNDEFINED)
    found = terms.by_name(world.stored(path, call.kind), call.kind, name)
    if isinstance(found, Nothing):
        return Answer("ok", found)
    assert isinstance(found, Maybe)
    if not path.branch(found.some):
        return Answer("ok", Nothing(), call.kind)
    copy = only(terms, found.value)
    assert isinstance(copy, Object)
    return Answer("ok", _fresh(world, copy), world.schema.object_text(copy.kind, copy.slot))


def _list(world: World, path: Path, writer: Writer, call: Call, env: Env) -> Answer:
    terms = world.terms(path, writer.actor)
    items: list[tuple[Node, Value]] = []
    for present, copy in world.stored(path, call.kind):
        inside = present
        if call.where is not None and call.var is not None:
            inside = world.g.and_(present, terms.test(call.where, {**env, call.var: copy}))
        items.append((inside, _fresh(world, copy)))
    return Answer("ok", Items(items), call.kind)


def _fresh(world: World, copy: Object) -> Object:
    return frozen_copy(world.schema, copy, world.g.true)


# ---------------------------------------------------------------------- create
def _create(world: World, path: Path, writer: Writer, call: Call, env: Env) -> Answer:
    schema = world.schema
    terms = world.terms(path, writer.actor)
    slot = _slot_for(world, path, terms, call, env, writer)
    if slot is None:
        return Answer("Denied", None, call.kind)
    leaves = new_leaves(world, path, call.kind)
    name = schema.object_text(call.kind, slot)
    draft = Draft("create", call.kind, slot, leaves, None, {}, writer, ["*"])
    if not _fill(world, path, terms, draft, call.fields, env, call):
        return Answer(UNDEFINED)
    taken = path.get(world.store[call.kind][slot]["present"])
    # AlreadyExists is found at the write, after admission (ruling 12).
    exists = path.branch(taken)
    if exists:
        outcome = _denied(world, path, draft) or "AlreadyExists"
        return Answer(outcome, None, name)
    leaves["incarnation"] = incarnations.new(world, call.kind)
    ownership.created(world, path, draft, call)
    path.created.append((call.kind, slot))
    outcome = submit(world, path, draft, call.span)
    return Answer(outcome, draft.copy(world) if outcome == "ok" else None, name)


def _denied(world: World, path: Path, draft: Draft) -> str:
    return admit(world, path, draft, mutating=True) or admit(world, path, draft, mutating=False)


def _slot_for(world: World, path: Path, terms: Terms, call: Call, env: Env, writer: Writer) -> int | None:
    """The slot that the new object takes: that of its name, or the first free one for generated names."""
    g, schema = world.g, world.schema
    info = schema.info(call.kind)
    named = [f for f in call.fields if f.path == ("name",)]
    if named:
        value, ok = terms.value(named[0].value, env)
        path.assume(ok)
        for slot in sorted(info.fixed):
            here = equal(schema, value, Scalar(g.const(schema.name_index(call.kind, slot)), t.Name()))
            if path.branch(here):
                return slot
        world.spill(path, g.true, (call.kind, "name"), f"names of {call.kind}", call.span)
        return None
    rows = world.store[call.kind]
    if call.kind in schema.finite.symmetric_kinds:
        return _any_free(world, path, call)
    for slot in range(info.size):
        if slot not in info.fixed and not path.branch(path.get(rows[slot]["present"])):
            return slot
    world.spill(path, g.true, (call.kind, ""), f"{call.kind} slots", call.span)
    return None


def _any_free(world: World, path: Path, call: Call) -> int | None:
    """Any free slot of interchangeable objects: a first one would tell them apart."""
    g = world.g
    taken = [path.resolve(path.get(row["present"])) for row in world.store[call.kind]]
    world.spill(path, g.and_(*taken), (call.kind, ""), f"{call.kind} slots", call.span)
    slot = path.choose(len(taken))
    path.assume(g.not_(taken[slot]))
    return slot


def new_leaves(world: World, path: Path, kind: str) -> dict[str, Node]:
    """A new object with its defaults: generation 1, age 0, present."""
    g, schema = world.g, world.schema
    info = schema.info(kind)
    leaves = {leaf.path: g.const(leaf.zero) for leaf in info.leaves}
    leaves.update(present=g.true, incarnation=g.const(0), generation=g.const(1), creationTimestamp=g.const(0))
    terms = world.terms(path, None)
    for side in ("spec", "status"):
        for f in info.declared(side):
            if f.default is not None:
                value, _ = terms.value(f.default, {})
                assign(terms, kind, leaves, (side, f.name), value, {})
    return leaves


def _fill(
    world: World,
    path: Path,
    terms: Terms,
    draft: Draft,
    fields: tuple[Assignment, ...],
    env: Env,
    call: Call,
) -> bool:
    """Assign the fields of a call; all values read the state before it. False where one is undefined."""
    values = [(f, *terms.value(f.value, env)) for f in fields if f.path[0] not in ("name", "generateName")]
    if not path.branch(world.g.and_(*[ok for _, _, ok in values])):
        return False
    for f, limited, _ in values:
        value = whole(terms, limited)
        if call.verb == "apply" and list_map(world.schema, draft.kind, dotted(f.path)):
            draft.said[dotted(f.path)] = value if isinstance(value, Items) else Items([])
        if call.dialect == "strategic" or dotted(f.path) in draft.said:
            value = merged(world.schema, draft.kind, draft.leaves, f.path, value)
        outside = _outside(world, draft, f, value)
        overflow = assign(terms, draft.kind, draft.leaves, f.path, value, env)
        about, what = (
            (world.schema.object_text(draft.kind, draft.slot), dotted(f.path)),
            f"{draft.kind}.{dotted(f.path)}",
        )
        world.spill(path, overflow, about, what, f.span)
        world.oblige(path, BOUND, world.g.not_(outside), about, what, f.span)
        if draft.fields != ["*"]:
            draft.fields.append(dotted(f.path))
        if path.branch(_moment(world, value)):
            draft.now.add(dotted(f.path))
        path.detail.append(f"{dotted(f.path)} = {world.schema.show(value)}")
    return True


def _outside(world: World, draft: Draft, f: Assignment, value: Value) -> Node:
    """Where a number is outside the range of its field."""
    if not isinstance(value, Scalar):
        return world.g.false
    path = dotted(f.path)
    own = {c.index for c in world.layout.cells if c.kind == draft.kind and c.path.endswith(path)}
    return fit(world.schema, draft.kind, path, value.node, own)


def _moment(world: World, value: Value) -> Node:
    """Where a value is now() of this step, or holds one: a field of a struct, an entry of a list or a map."""
    g = world.g
    match value:
        case Maybe():
            return g.and_(value.some, _moment(world, value.value))
        case Record():
            return g.or_(*[_moment(world, part) for part in value.fields.values()])
        case Items():
            return g.or_(*[g.and_(there, _moment(world, part)) for there, part in value.items])
        case Table():
            return g.or_(*[g.and_(there, _moment(world, part)) for there, part in value.entries.values()])
    fresh = value.fresh if isinstance(value, Scalar) else None
    return g.false if fresh is None else fresh


# ---------------------------------------------------------------------- writes to an object
def _write(world: World, path: Path, writer: Writer, call: Call, env: Env) -> Answer:
    g, schema = world.g, world.schema
    terms = world.terms(path, writer.actor)
    assert call.target is not None
    value, ok = terms.value(call.target, env)
    if isinstance(value, Maybe):
        ok, value = g.and_(ok, value.some), value.value
    if isinstance(value, Nothing) or not path.branch(ok):
        return Answer(UNDEFINED)
    copy = only(terms, value)
    assert isinstance(copy, Object), f"{call.span}: {copy}"
    name = schema.object_text(copy.kind, copy.slot)
    path.reads.append((copy.kind, copy.slot)) if copy.source == "cache" else None
    row = world.store[copy.kind][copy.slot]
    present = path.get(row["present"])
    same = g.true
    if schema.returns(copy.kind):
        same = g.eq(g.const(0), copy.incarnation)
    generated = copy.slot not in schema.info(copy.kind).fixed
    if not path.branch(g.and_(present, same) if generated else present):
        return Answer("NotFound", None, name)
    # A Binding carries the uid of the pod that was read (kube-scheduler's default binder sets it).
    conditional = call.guard or call.verb == "bind" or (call.verb == "update" and not call.force)
    if conditional:
        held = same if call.guard == "same" or call.verb == "bind" else g.and_(same, copy.current)
        if not path.branch(held):
            return Answer("Conflict", None, name)
    before = len(path.obligations)
    if not conditional and (not writer.actor or not writer.actor.blind):
        what = f"{call.verb} lands on another {copy.kind} of that name than the one that was read"
        world.oblige(path, "wrong_uid", same, (name, "uid"), what, call.span)
    outcome, stored = _do(world, path, writer, call, env, terms, copy)
    if outcome != "ok":  # a write that is refused lands nowhere and loses nothing
        path.obligations[before:] = [o for o in path.obligations[before:] if o.property == BOUND]
    elif not path.commits:  # one that changes nothing lands nowhere, but may keep another's value from coming back
        path.obligations[before:] = [o for o in path.obligations[before:] if o.property != "wrong_uid"]
    return Answer(outcome, stored if outcome == "ok" else None, name)


def _do(
    world: World, path: Path, writer: Writer, call: Call, env: Env, terms: Terms, copy: Object
) -> tuple[str, Value | None]:
    match call.verb:
        case "delete":
            return _delete(world, path, writer, call, copy), None
        case "evict":
            return _evict(world, path, writer, call, copy), None
        case "bind":
            return _bind(world, path, writer, call, env, terms, copy)
        case "apply":
            return _apply(world, path, writer, call, env, terms, copy)
        case _:
            return _change(world, path, writer, call, env, terms, copy)


def _change(
    world: World, path: Path, writer: Writer, call: Call, env: Env, terms: Terms, copy: Object
) -> tuple[str, Value | None]:
    """update and the patches."""
    draft = draft_of(world, path, call.verb, copy, writer)
    if call.verb == "update" and call.force:
        for leaf in draft.leaves:
            if lost.sent(leaf, call.side):
                draft.leaves[leaf] = copy.read(leaf)
    if call.dialect == "json":
        failed = _json_patch(world, path, terms, draft, call.ops, env, call)
        if failed:
            return failed, None
    elif not _fill(world, path, terms, draft, call.fields, env, call):
        return UNDEFINED, None
    if not call.guard and (call.verb == "patch" or call.force):
        lost.watch(world, path, writer, call, draft, copy, env)
    outcome = submit(world, path, draft, call.span)
    if outcome == "ok":
        ownership.updated(world, path, draft, writer)
    return outcome, draft.copy(world)


def _json_patch(
    world: World, path: Path, terms: Terms, draft: Draft, ops: tuple[Operation, ...], env: Env, call: Call
) -> str:
    """`test` fails as Invalid; add to a list appends, replace and remove need the path."""
    g, schema = world.g, world.schema
    for op in ops:
        now = draft.copy(world)
        current = _at(terms, now, op)
        if op.op in ("remove", "replace") and isinstance(current, Maybe) and not path.branch(current.some, op.span):
            return "Invalid"
        if op.op == "remove":
            default = new_leaves(world, path, draft.kind)
            for leaf in draft.leaves:
                if leaf == dotted(op.path) or leaf.startswith(dotted(op.path) + "."):
                    draft.leaves[leaf] = default[leaf]
        else:
            assert op.value is not None
            value, ok = terms.value(op.value, env)
            if not path.branch(ok):
                return UNDEFINED
            if op.op == "test":
                if not path.branch(equal(schema, current, value), op.span):
                    return "Invalid"
                continue
            if op.op == "add" and isinstance(current, Items) and not isinstance(value, Items):
                fresh = g.not_(contains(schema, current, value))
                value = Items([*current.items, (fresh, value)], current.ranks and [*current.ranks, g.const(99)])
            if path.branch(_moment(world, value)):
                draft.now.add(dotted(op.path))
            overflow = assign(terms, draft.kind, draft.leaves, op.path, value, env)
            about = (schema.object_text(draft.kind, draft.slot), dotted(op.path))
            world.spill(path, overflow, about, f"{draft.kind}.{dotted(op.path)}", op.span)
        draft.fields.append(dotted(op.path))
        path.detail.append(f"{op.op} {dotted(op.path)}")
    return ""


def _at(terms: Terms, copy: Object, op: Operation) -> Value:
    steps = op.path
    head = steps[0]
    assert isinstance(head, str)
    if head in ("spec", "status") and len(steps) > 1 and isinstance(steps[1], str):
        return terms.schema.side_field(copy, head, steps[1])
    return terms.schema.field(copy, head)


def _bind(
    world: World, path: Path, writer: Writer, call: Call, env: Env, terms: Terms, copy: Object
) -> tuple[str, Value | None]:
    """A pod is bound once, and not while it terminates; the node need not exist (ruling 17)."""
    if not any(f.name == "nodeName" for f in world.schema.info(copy.kind).declared("spec")):
        raise SpecError("D312", f"{copy.kind} has no spec.nodeName, so it cannot be bound", call.span)
    draft = draft_of(world, path, "bind", copy, writer, ["spec.nodeName"])
    if path.branch(world.g.ne(draft.leaves["deletionTimestamp"], world.g.const(0))):
        return "Conflict", None
    if path.branch(world.schema.bound(draft.copy(world))):
        return "Conflict", None
    assert call.to is not None
    value, ok = terms.value(call.to, env)
    if not path.branch(ok):
        return UNDEFINED, None
    assign(terms, copy.kind, draft.leaves, ("spec", "nodeName"), value, env)
    path.detail.append(f"nodeName = {world.schema.show(value)}")
    return submit(world, path, draft, call.span), draft.copy(world)


def _apply(
    world: World, path: Path, writer: Writer, call: Call, env: Env, terms: Terms, copy: Object
) -> tuple[str, Value | None]:
    draft = draft_of(world, path, "apply", copy, writer)
    if not _fill(world, path, terms, draft, call.fields, env, call):
        return UNDEFINED, None
    changes = ownership.applied(world, path, draft, call, writer)
    if changes is None:
        return "Conflict", None
    outcome = submit(world, path, draft, call.span)
    for cell, owned in changes if outcome == "ok" else []:
        path.set(cell, owned)
    return outcome, draft.copy(world)


# ---------------------------------------------------------------------- delete, evict
def lingers(world: World, draft: Draft) -> Node:
    """A bound pod carries deletionTimestamp until its kubelet has stopped it (ruling 17)."""
    assert draft.old is not None
    return in_grace(world, draft.old, draft.old_leaves)


def _delete(world: World, path: Path, writer: Writer, call: Call, copy: Object) -> str:
    draft = draft_of(world, path, "delete", copy, writer)
    error = _denied(world, path, draft)
    if error:
        return error
    return remove(world, path, draft, call.how, call)


def _propagation(world: World, draft: Draft, how: str, terminating: Node) -> Node:
    """Set the collector's finalizers as a delete asks, and say whether that changes any of them.

    As upstream (registry/generic/registry/store.go, deletionFinalizersForGarbageCollection): a policy that is named
    replaces the one before, of an object that terminates too, unless its grace is still running.
    """
    g = world.g
    changes: list[Node] = []
    for finalizer, wanted in ((FOREGROUND, "foreground"), (ORPHAN, "orphan")):
        if finalizer in world.schema.finalizers and how in ("foreground", "orphan", "background"):
            leaf = f"finalizers.{finalizer}"
            before = draft.leaves[leaf]
            waits = g.and_(terminating, lingers(world, draft))
            draft.leaves[leaf] = g.ite(waits, before, g.truth(how == wanted))
            changes.append(g.ne(before, draft.leaves[leaf]))
    return g.or_(*changes)


def remove(world: World, path: Path, draft: Draft, how: str, call: Call) -> str:
    """Delete an object: at once, or by a deletionTimestamp where finalizers, grace or propagation hold it."""
    g = world.g
    terminating = g.ne(draft.leaves["deletionTimestamp"], g.const(0))
    again = _propagation(world, draft, how, terminating)
    held = held_by_finalizers(world, draft.leaves)
    if how != "now":
        held = g.or_(held, lingers(world, draft))
    over = GRACE_OVER in draft.leaves and how == "now"
    if path.branch(held):
        if over:
            draft.leaves[GRACE_OVER] = g.true
        if path.branch(terminating):
            ends = over and path.branch(g.not_(draft.old_leaves[GRACE_OVER]))
            if not ends and not path.branch(again):
                path.detail.append("terminates already")
                return "ok"
            draft.fields.append("deletionTimestamp" if ends else "finalizers")
        else:
            draft.leaves["deletionTimestamp"] = g.const(1)
            draft.fields.append("deletionTimestamp")
            path.detail.append("deletionTimestamp set")
            bump(world, path, draft, g.true)
    else:
        draft.leaves["present"] = g.false
        draft.fields.append("*")
    finish(world, path, draft, call.span)
    return "ok"


def _evict(world: World, path: Path, writer: Writer, call: Call, copy: Object) -> str:
    """Refused (429) while a PodDisruptionBudget that covers the pod allows no disruption; else it pays.

    As upstream (registry/core/pod/storage/eviction.go): a pod that is not running, or terminates already, costs
    nothing; a pod under two budgets is not evicted at all.
    """
    draft = draft_of(world, path, "evict", copy, writer)
    error = _denied(world, path, draft)  # admission looks at the eviction, before a budget is asked
    if not error and not budgets.free_to_go(world, path, copy):
        error = budgets.pay(world, path, writer, call, copy)
    return error or remove(world, path, draft, call.how, call)
