"""Running a body symbolically: from where it stands, over local code, through one call, to where it waits.

Cached reads, tests and assignments run in the step of the call that follows them; what comes after the last
call runs with that call, unless a cached read stands in between (ruling 4).
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, cursor, is_cursor
from dashpot.model.core import Node
from dashpot.model.expr import Cached
from dashpot.model.kernel.basis import note
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.fields import adapt, assign, replaced
from dashpot.model.kernel.flow import Region, region
from dashpot.model.kernel.folds import as_items, whole
from dashpot.model.kernel.layout import frozen_copy
from dashpot.model.kernel.path import Dead, Path
from dashpot.model.kernel.pipeline import Draft
from dashpot.model.kernel.terms import Env, Terms
from dashpot.model.kernel.values import Items, Maybe, Object, OneOf, Value, past
from dashpot.model.kernel.verbs import UNDEFINED, Answer, perform
from dashpot.model.kernel.walk import parts
from dashpot.model.kernel.world import Actor, World, Writer
from dashpot.model.program import Admission, Controller
from dashpot.model.span import Span


@define(eq=False)
class Stop:
    """Where a step of a body ended.

    at     node at which it waits for its next step, or -1 when the pass is over
    end    the End that was reached, None after an unhandled error or a panic
    error  the unhandled error, "panic", or ""
    """

    at: int
    env: Env
    end: End | None = None
    error: str = ""
    call: Call | None = None
    answer: Answer | None = None
    timeout: bool = False


@define(eq=False)
class Run:
    """One step of one body."""

    world: World
    path: Path
    actor: Actor
    writer: Writer
    body: Automaton
    env: Env
    fault_scope: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        decl = self.actor.decl
        self.indexes = frozenset(i.field.name for i in getattr(decl, "indexes", ()))

    indexes: frozenset[str] = frozenset()

    # ------------------------------------------------------------------ the step
    def step(self, at: int) -> Stop:
        """From node `at` to the next resting place."""
        stop = self._local(at, called=None)
        if stop.call is None:
            return stop
        return self._after(stop)

    def _after(self, stop: Stop) -> Stop:
        """The call has been made: go on to the end where that belongs to this step, else rest."""
        call, answer = stop.call, stop.answer
        assert call is not None and answer is not None
        if answer.outcome == UNDEFINED:
            return self._panic(stop, call.span)
        target = call.next if answer.outcome == "ok" else dict(call.handlers).get(answer.outcome, -1)
        if target < 0:
            return Stop(-1, stop.env, None, answer.outcome, call, answer, stop.timeout)
        if answer.outcome == "ok" and call.result is not None and answer.value is not None:
            stop.env[call.result] = answer.value
        ahead = region(self.body, target, self.indexes)
        if ahead.reads or (ahead.calls and ahead.chooses) or (ahead.calls and not ahead.ends):
            return Stop(target, stop.env, None, "", call, answer, stop.timeout)
        kept = dict(self.path.overlay)
        traces: list[list[Any]] = [self.path.obligations, self.path.detail, self.path.decided]
        marks = [len(t) for t in traces]
        tail = self._local(target, called=call, ahead=ahead)
        if tail.error != "panic":  # what is tested behind a call did not lead to it
            del self.path.decided[marks[2] :]
        if tail.at >= 0:
            self.path.overlay = kept
            for trace, mark in zip(traces, marks, strict=True):
                del trace[mark:]
            return Stop(target, stop.env, None, "", call, answer, stop.timeout)
        return Stop(-1, tail.env, tail.end, tail.error, call, answer, stop.timeout)

    def _local(self, at: int, called: Call | None, ahead: Region | None = None) -> Stop:
        """Local code from `at`: to the first call (made, if none was made yet) or the end."""
        env = dict(self.env)
        while True:
            node = self.body.nodes[at]
            terms = self.world.terms(self.path, self.actor)
            match node:
                case Bind(name=name, value=value, next=next_):
                    result, ok = terms.value(value, env)
                    if not self.path.branch(ok):
                        return self._panic(Stop(at, env), node.span)
                    env[name] = self._keep(result if is_cursor(name) else whole(terms, result))
                    note(self.world, env, name, value)
                    at = next_
                    if own_step(self.actor, node) and not isinstance(self.body.nodes[at], End):
                        return Stop(at, env)
                case Assign():
                    if not self._assign(terms, node, env):
                        return self._panic(Stop(at, env), node.span)
                    at = node.next
                case Branch(test=test, then=then, other=other):
                    result, ok = terms.value(test, env)
                    if not self.path.branch(ok):
                        return self._panic(Stop(at, env), node.span)
                    at = then if self.path.branch(scalar(result), node.span) else other
                case Loop():
                    if called is not None and not self._finished(terms, node, env):
                        return Stop(at, env)
                    at = self._loop(terms, node, env)
                case End():
                    return Stop(-1, env, node)
                case Call():
                    if called is not None:
                        return Stop(at, env)
                    self.env = env
                    return self._call(node, env)

    def _panic(self, stop: Stop, span: Span) -> Stop:
        about = (self.actor.name, "")
        self.world.oblige(self.path, "panic", self.world.g.false, about, "a term is undefined here", span)
        return Stop(-1, stop.env, None, "panic", stop.call, stop.answer)

    # ------------------------------------------------------------------ calls
    def _call(self, call: Call, env: Env) -> Stop:
        """Make the call; its answer may be lost, before or after it took effect."""
        lost = self._lost(call)
        if lost == "before":
            return Stop(-1, env, None, "", call, Answer("Timeout", None, call.kind), True)
        tests = len(self.path.decided)
        self.writer.heard = lost != "after"
        answer = perform(self.world, self.path, self.writer, call, env)
        env.update({name: past(value) for name, value in env.items()})
        if answer.outcome == "ok":  # what the API server tests explains only what it refuses
            del self.path.decided[tests:]
        if lost == "after":
            if answer.outcome != "ok" or not self.path.commits:
                raise Dead
            self.path.detail.append("answer lost after the write")
            return Stop(-1, env, None, "", call, Answer("Timeout", None, answer.about), True)
        return Stop(-1, env, None, "", call, answer)

    def _lost(self, call: Call) -> str:
        """ "" (answered), "before" or "after": uses a timeout budget, or is forced by a partition."""
        path, g = self.path, self.world.g
        for cell in self.actor.cut:
            if path.branch(g.ne(path.get(cell), g.const(0))):
                path.detail.append("cut off from the API server")
                return "before"
        budgets = [b for b in self.fault_scope if b in self.world.budgets]
        if not budgets:
            return ""
        writes = call.verb not in ("get", "list")
        pick = path.choose(1 + len(budgets) * (2 if writes else 1))
        if pick == 0:
            return ""
        self.world.spend(path, budgets[(pick - 1) % len(budgets)])
        if pick <= len(budgets):
            path.detail.append("request lost before the write" if writes else "request lost")
            return "before"
        return "after"

    # ------------------------------------------------------------------ local code
    def _keep(self, value: Value) -> Value:
        """A snapshot of what was read: later writes of the same step do not show in it."""
        match value:
            case Object(source="store" | "cache"):
                return frozen_copy(self.world.schema, value, value.current)
            case OneOf(choices=options):
                return OneOf([(c, o) for c, v in options for o in [self._keep(v)] if isinstance(o, Object)])
            case Maybe(some=some, value=inner):
                return Maybe(some, self._keep(inner))
            case Items(items=items, ranks=ranks, limit=limit):
                return Items([(i, self._keep(v)) for i, v in items], ranks, limit)
            case _:
                return value

    def _assign(self, terms: Terms, node: Assign, env: Env) -> bool:
        value, ok = terms.value(node.value, env)
        if not self.path.branch(ok):
            return False
        value = whole(terms, value)
        name = node.path[0]
        assert isinstance(name, str)
        if node.scope == "local":
            env[name] = value
            return True
        decl, row = self.actor.memory[name]
        now = self.world.schema.finite.load(decl.type, name, lambda leaf: self.path.get(row[leaf]))
        if len(node.path) > 1:
            value = replaced(terms, now, decl.type, node.path[1:], value, env)
        leaves, overflow = self.world.schema.finite.store(decl.type, name, adapt(self.world.schema, value, decl.type))
        about = (self.actor.name, name)
        self.world.spill(self.path, overflow, about, f"{self.actor.decl.name}.{name}", node.span)
        for leaf, cell in row.items():
            self.path.set(cell, leaves[leaf])
        return True

    # ------------------------------------------------------------------ loops
    def _items(self, terms: Terms, loop: Loop, env: Env) -> Items:
        items = env[cursor(loop.id)]
        return items if isinstance(items, Items) else as_items(terms, items)[0]

    def _finished(self, terms: Terms, loop: Loop, env: Env) -> bool:
        """Behind a call: only whether the loop is over belongs to this step, not what it visits next."""
        items = self._items(terms, loop, env)
        rest = self._busy(terms, loop, items, env)
        return not self.path.branch(self.world.g.or_(*rest))

    def _busy(self, terms: Terms, loop: Loop, items: Items, env: Env) -> list[Node]:
        """For each element: it is still to visit, and the visit does something."""
        g = self.world.g
        out = []
        for inside, value in items.items:
            if self.path.resolve(inside) is g.false:
                out.append(g.false)
                continue
            quiet = self._silent(terms, loop.body, {**env, loop.var: value}, loop)
            out.append(g.and_(inside, g.not_(quiet)))
        if items.limit is not None:
            more = g.lt(g.const(0), items.limit)
            out = [g.and_(more, node) for node in out]
        return out

    def _loop(self, terms: Terms, loop: Loop, env: Env) -> int:
        """Visit one more element, or leave the loop."""
        g, path = self.world.g, self.path
        items = self._items(terms, loop, env)
        busy = self._busy(terms, loop, items, env)
        if not path.branch(g.or_(*busy)):
            env.pop(cursor(loop.id), None)
            env.pop(loop.var, None)
            return loop.next
        candidates = [i for i, node in enumerate(busy) if path.resolve(node) is not g.false]
        pick = candidates[path.choose(len(candidates))]
        path.assume(busy[pick])
        ranks = items.ranks
        rest: list[tuple[Node, Value]] = []
        for j, (inside, value) in enumerate(items.items):
            if j == pick:
                inside = g.false
            elif ranks is not None:
                path.assume(g.not_(g.and_(busy[j], g.lt(ranks[j], ranks[pick]))))
                inside = g.and_(inside, g.not_(g.lt(ranks[j], ranks[pick])))
            rest.append((inside, value))
        limit = items.limit
        if limit is not None:
            skipped = [g.and_(i, g.not_(r)) for (i, _), (r, _) in zip(items.items, rest, strict=True)]
            limit = g.max_(g.sub(limit, g.sum(skipped)), g.const(0))
        env[cursor(loop.id)] = Items(rest, ranks, limit)
        env[loop.var] = items.items[pick][1]
        return loop.body

    def _silent(self, terms: Terms, at: int, env: Env, loop: Loop) -> Node:
        """A visit from `at` that comes back to the loop without a call, an assignment or an error."""
        g = self.world.g
        node = self.body.nodes[at]
        if node is loop:
            return g.true
        match node:
            case Branch(test=test, then=then, other=other):
                value, ok = terms.value(test, env)
                on = scalar(value)
                yes = g.false if on is g.false else self._silent(terms, then, env, loop)
                no = g.false if on is g.true else self._silent(terms, other, env, loop)
                return g.and_(ok, g.ite(on, yes, no))
            case Bind(name=name, value=value) if not region(self.body, at, self.indexes).chooses:
                result, ok = terms.value(value, env)
                return g.and_(ok, self._silent(terms, node.next, {**env, name: result}, loop))
            case _:
                return g.false


def own_step(actor: Actor, node: object) -> bool:
    """A cached read that is a step of its own: of a live cache, or beside other workers of the same controller.

    With one worker and a lagging cache a delivery in between commutes, and the read runs with the next call.
    """
    decl = actor.decl
    if not isinstance(node, Bind) or not isinstance(decl, Controller):
        return False
    reads = [p for p in parts(node.value) if isinstance(p, Cached)]
    if decl.workers > 1:
        return bool(reads)
    return any(r.kind not in actor.caches or actor.caches[r.kind].mode == "live" for r in reads)


# ---------------------------------------------------------------------- small bodies
def handle(world: World, path: Path, actor: Actor, body: Automaton, env: Env, test: Node) -> None:
    """An index handler where `test` holds: assignments to memory only, to its end."""
    run = Run(world, path, actor, Writer(actor), body, {**world.env(actor), **env})
    if test is world.g.true or not _straight(run, test):
        if path.branch(test):
            run._local(0, called=None)


def _straight(run: Run, test: Node) -> bool:
    """Run a handler of plain, defined assignments without a fork; False where it has tests or partial terms."""
    world, path, g = run.world, run.path, run.world.g
    cells = [cell for _, row in run.actor.memory.values() for cell in row.values()]
    before = dict(path.overlay)
    held = {cell: path.get(cell) for cell in cells}
    node, at = run.body.nodes[0], 0
    while isinstance(node, Assign):
        terms = world.terms(path, run.actor)
        value, ok = terms.value(node.value, run.env)
        if path.resolve(ok) is not g.true or _may_overflow(run, node, value):
            break
        run._assign(terms, node, run.env)
        at = node.next
        node = run.body.nodes[at]
    if not isinstance(node, End):
        path.overlay = before
        return False
    for cell, old in held.items():
        path.set(cell, g.ite(test, path.get(cell), old))
    return True


def _may_overflow(run: Run, node: Assign, value: Value) -> bool:
    name = str(node.path[0])
    decl, _ = run.actor.memory[name]
    schema = run.world.schema
    if len(node.path) > 1:
        return False
    return (
        run.path.resolve(schema.finite.store(decl.type, name, adapt(schema, value, decl.type))[1])
        is not run.world.g.false
    )


def admission_body(world: World, path: Path, hook: Admission, draft: Draft) -> str | None:
    """Run a hook over a draft: assignments change it, `fail` denies with its message; None lets it pass."""
    at = 0
    env: Env = {}
    while True:
        terms = world.terms(path, None)
        env[hook.var] = draft.copy(world)
        if draft.old is not None:
            env["old"] = draft.old
        node = hook.body.nodes[at]
        match node:
            case Branch(test=test, then=then, other=other):
                at = then if path.branch(terms.test(test, env), node.span) else other
            case Bind(name=name, value=value):
                result, ok = terms.value(value, env)
                path.assume(ok)
                env[name] = result
                at = node.next
            case Assign(path=steps, value=value):
                result, ok = terms.value(value, env)
                path.assume(ok)
                tail = steps[1:] if steps[0] == hook.var else steps
                assign(terms, draft.kind, draft.leaves, tail, result, env)
                at = node.next
            case End(how=how, message=message):
                return message or "" if how == "fail" else None
            case _:
                raise AssertionError("an admission hook makes no calls")
