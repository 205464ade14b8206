"""A write on its way through the API server: admission, schema, immutability, rules, the store.

Order as in Kubernetes: mutating admission in the order of `run`, then schema, immutability and CEL
rules, then validating admission; a write that changes nothing bumps nothing and tells nobody.
"""

from __future__ import annotations

from attrs import define, field

from dashpot.model import types as t
from dashpot.model.automaton import Assign
from dashpot.model.core import Node
from dashpot.model.kernel.equality import equal
from dashpot.model.kernel.fields import differing
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.schema import GRACE_OVER
from dashpot.model.kernel.terms import Env
from dashpot.model.kernel.values import Items, Object, Record
from dashpot.model.kernel.world import World, Write, Writer
from dashpot.model.program import Admission
from dashpot.model.span import Span


@define(eq=False)
class Draft:
    """An object about to be stored: its leaves so far, beside the version in the store (None: create)."""

    verb: str
    kind: str
    slot: int
    leaves: dict[str, Node]
    old: Object | None
    old_leaves: dict[str, Node]
    writer: Writer
    fields: list[str]
    now: set[str] = field(factory=set)  # fields set to now(), which is a change even at age 0
    said: dict[str, Items] = field(factory=dict)  # what an apply says of list maps, by path

    def copy(self, world: World) -> Object:
        incarnation = self.leaves.get("incarnation", world.g.const(0))
        return Object(self.kind, self.slot, self.leaves.__getitem__, incarnation, world.g.true, "new")


def submit(world: World, path: Path, draft: Draft, span: Span) -> str:
    """Take a draft through the pipeline. "ok", "Invalid" or "Denied"; commits when something changed."""
    error = admit(world, path, draft, mutating=True)
    if error:
        return error
    if draft.verb not in ("delete", "evict") and not valid(world, path, draft):
        return "Invalid"
    error = admit(world, path, draft, mutating=False)
    if error:
        return error
    if draft.old is not None and not _changed(world, path, draft):
        path.detail.append("nothing to change")
        return "ok"
    finish(world, path, draft, span)
    return "ok"


def finish(world: World, path: Path, draft: Draft, span: Span) -> None:
    """Store a draft that changed: properties of writes, generation, removal when nothing holds it."""
    g = world.g
    if draft.old is not None:
        spec_changed = differing((draft.old_leaves, draft.leaves), "spec", world.terms(path, None))
        if any(name.split(".")[0] == "spec" for name in draft.now):
            spec_changed = g.true
        bump(world, path, draft, spec_changed)
    _remove_if_free(world, path, draft)
    gone = path.resolve(draft.leaves["present"]) is g.false
    verb = draft.verb
    new = None if gone and verb in ("delete", "evict") else draft.copy(world)
    write = Write(verb, draft.kind, draft.slot, draft.old, new, draft.writer, span)
    for observe in world.onwrite:
        observe(path, world, write)
    for f in sorted(dict.fromkeys(draft.fields), key=lambda f: f not in draft.now):
        if _moves(world, path, draft, f):
            path.changes.append((draft.kind, f))
    world.commit(path, draft.kind, draft.slot, dict(draft.leaves), draft.writer)


def _moves(world: World, path: Path, draft: Draft, name: str) -> bool:
    """Whether this field changes; told apart only for kinds with a waived field, where it matters which."""
    if name == "*" or draft.old is None or name in draft.now:
        return True
    moved = path.resolve(differing((draft.old_leaves, draft.leaves), name, world.terms(path, None)))
    if not any(w.kind == draft.kind for w in world.check.waives):
        return moved is not world.g.false
    return path.branch(moved)


def bump(world: World, path: Path, draft: Draft, test: Node) -> None:
    """The generation grows where `test` holds; a number too large to be told apart is a bound."""
    g, top = world.g, world.schema.finite.highest_generation
    now = draft.leaves["generation"]
    if not world.ranked:
        about = (world.schema.object_text(draft.kind, draft.slot), "generation")
        world.spill(
            path, g.and_(test, g.eq(now, g.const(top))), about, f"generations of {draft.kind}", world.check.span
        )
    draft.leaves["generation"] = g.ite(test, g.min_(g.add(now, g.const(1)), g.const(top)), now)


def _remove_if_free(world: World, path: Path, draft: Draft) -> None:
    """A terminating object goes with the write that takes its last finalizer (ruling 7)."""
    if draft.old is None or draft.verb in ("delete", "evict"):
        return
    g = world.g
    held = held_by_finalizers(world, draft.leaves)
    was_held = held_by_finalizers(world, draft.old_leaves)
    ending = g.and_(
        g.ne(draft.leaves["deletionTimestamp"], g.const(0)), g.not_(in_grace(world, draft.old, draft.leaves))
    )
    freed = path.resolve(g.and_(ending, was_held, g.not_(held)))
    if freed is not g.false and path.branch(freed):
        draft.leaves["present"] = g.false
        draft.fields.append("*")


def in_grace(world: World, copy: Object, leaves: dict[str, Node]) -> Node:
    """A bound pod whose kubelet has not stopped it yet (registry/generic/registry/store.go: grace must be 0)."""
    g, schema = world.g, world.schema
    if not schema.graceful(schema.info(copy.kind)):
        return g.false
    bound = schema.bound(copy)
    return g.and_(bound, g.not_(leaves[GRACE_OVER])) if GRACE_OVER in leaves else bound


def held_by_finalizers(world: World, leaves: dict[str, Node]) -> Node:
    """Some finalizer is left."""
    return world.g.or_(*[leaves[f"finalizers.{n}"] for n in world.schema.finalizers])


def _changed(world: World, path: Path, draft: Draft) -> bool:
    g = world.g
    if draft.now:
        return True
    differ = g.or_(*[g.ne(draft.old_leaves[leaf], node) for leaf, node in draft.leaves.items()])
    return path.branch(differ)


# ---------------------------------------------------------------------- validation
def valid(world: World, path: Path, draft: Draft) -> bool:
    """Schema, immutability and CEL rules; an undefined rule denies."""
    g, schema = world.g, world.schema
    info = schema.info(draft.kind)
    terms = world.terms(path, None)
    new, old = draft.copy(world), draft.old
    if old is not None:
        for side in ("spec", "status"):
            for f in info.declared(side):
                if f.immutable:
                    moved = differing((draft.old_leaves, draft.leaves), f"{side}.{f.name}", terms)
                    if path.branch(moved, f.span):
                        path.detail.append(f"{side}.{f.name} is immutable")
                        return False
        # No new finalizers once an object terminates.
        for name in schema.finalizers:
            leaf = f"finalizers.{name}"
            added = g.and_(
                g.ne(draft.old_leaves["deletionTimestamp"], g.const(0)),
                g.not_(draft.old_leaves[leaf]),
                draft.leaves[leaf],
            )
            if path.branch(added):
                path.detail.append("no new finalizers while it terminates")
                return False
    for side in ("spec", "status"):
        for f in info.declared(side):
            twice = _twice(world, draft, f"{side}.{f.name}", f.type)
            if path.branch(twice, f.span):
                path.detail.append(f"{side}.{f.name} has two entries of one key")
                return False
    for rule in info.resource.rules:
        if rule.transition and old is None:
            continue
        now = terms.test(rule.expr, _selves(new, old))
        if old is not None and not rule.transition and now is terms.test(rule.expr, _selves(old, old)):
            continue
        if not path.branch(now, rule.span):
            path.detail.append(rule.message or "a rule denies it")
            return False
    return True


def _twice(world: World, draft: Draft, path: str, ty: t.Type) -> Node:
    """A list map in which two entries have the same key (x-kubernetes-list-type: map)."""
    g, schema = world.g, world.schema
    if not isinstance(ty, t.ListOf) or ty.key is None:
        return g.false
    items = schema.finite.load(ty, path, draft.leaves.__getitem__)
    assert isinstance(items, Items)
    keys = [(inside, v.fields[ty.key]) for inside, v in items.items if isinstance(v, Record)]
    return g.or_(*[g.and_(i, j, equal(schema, a, b)) for n, (i, a) in enumerate(keys) for j, b in keys[:n]])


def _selves(new: Object, old: Object | None) -> Env:
    return {"self": new, "oldSelf": old if old is not None else new}


# ---------------------------------------------------------------------- admission
def admit(world: World, path: Path, draft: Draft, mutating: bool) -> str:
    """Run the admission hooks of this verb and kind; "" when all let it pass."""
    for name in world.check.run:
        for hook in world.program.admissions:
            if hook.name == name and _hooked(hook, draft) and _mutates(hook) == mutating:
                error = _one_hook(world, path, hook, draft)
                if error:
                    return error
    return ""


def _hooked(hook: Admission, draft: Draft) -> bool:
    """For the API server a patch and an apply are updates too."""
    verbs = {draft.verb, "write"} | ({"update"} if draft.verb in ("patch", "apply") else set())
    return hook.kind == draft.kind and not verbs.isdisjoint(hook.verbs)


def _mutates(hook: Admission) -> bool:
    return any(isinstance(n, Assign) and n.scope == "object" for n in hook.body.nodes)


def _one_hook(world: World, path: Path, hook: Admission, draft: Draft) -> str:
    from dashpot.model.kernel.bodies import admission_body

    terms = world.terms(path, None)
    env: Env = {hook.var: draft.copy(world)}
    if draft.old is not None:
        env["old"] = draft.old
    if hook.when is not None and not path.branch(terms.test(hook.when, env), hook.span):
        return ""
    if hook.needs is not None and not path.branch(terms.test(hook.needs[0], env), hook.span):
        if hook.needs[1] == "ignore":
            return ""
        path.detail.append(f"admission {hook.name} is not there to ask")
        return "Denied"
    message = admission_body(world, path, hook, draft)
    if message is None:
        return ""
    path.detail.append(message or f"admission {hook.name} denies it")
    return "Denied"


def draft_of(
    world: World, path: Path, verb: str, copy: Object, writer: Writer, fields: list[str] | None = None
) -> Draft:
    """A draft that starts from the object in the store."""
    row = world.store[copy.kind][copy.slot]
    leaves = {leaf: path.get(cell) for leaf, cell in row.items()}
    leaves.setdefault("incarnation", world.g.const(0))
    stored = dict(leaves)
    old = Object(copy.kind, copy.slot, stored.__getitem__, stored["incarnation"], world.g.true, "store")
    return Draft(verb, copy.kind, copy.slot, leaves, old, stored, writer, fields or [])
