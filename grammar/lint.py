"""Smells: what is well-formed, and what experience with controllers says will bite.

The rules look at the text alone: each is a guess, cheap and often right. Whether it bites in this spec is what a
check finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

from dashpot.grammar.flow import Flow, flow, names, terms
from dashpot.grammar.inline import walk
from dashpot.grammar.load import examine_text
from dashpot.grammar.report import Message, SpecRejected
from dashpot.model import types as t
from dashpot.model.automaton import Call, End
from dashpot.model.expr import Any, Binary, Builtin, Cached, Expr, ListLiteral, Literal, Member
from dashpot.model.program import Controller, Environment, Process, Program

_BUILT_IN = ("foregroundDeletion", "orphan")
"""Finalizers that the API server's own collector removes."""


@frozen
class _Body:
    """A body of the file that is linted: its actor and what flows in it."""

    actor: Controller | Process | Environment
    flow: Flow


def lint_text(text: str, file: str) -> tuple[Message, ...]:
    """All that is to be said about a text, in the order of their places: its errors or, if it has none, its smells.

    `file` is its name; `use` looks beside it.
    """
    try:
        loaded = examine_text(text, file, Path(file).parent)
    except SpecRejected as rejected:
        return rejected.messages
    found = [*loaded.warnings, *lint(loaded.program)]
    return tuple(sorted(found, key=lambda m: (m.span.file, m.span.line, m.span.column, m.code)))


def lint(program: Program) -> tuple[Message, ...]:
    """The smells of a program's main file, rule by rule."""
    found = [message for rule in RULES for body in _bodies(program) for message in rule(body)]
    found += _finalizers(program)
    return tuple(dict.fromkeys(found))


def _bodies(program: Program) -> Iterator[_Body]:
    for controller in program.controllers:
        if controller.module == program.main:
            yield from (_Body(controller, flow(a)) for a in (controller.reconcile, controller.gone) if a is not None)
    others: tuple[Process | Environment, ...] = (*program.processes, *program.environments)
    for actor in others:
        if actor.module == program.main:
            yield from (_Body(actor, flow(action.body)) for action in actor.actions)


def _smell(code: str, call: Call, text: str, fix: str) -> Message:
    return Message(code, call.span, text, fix, severity="warning")


# ---------------------------------------------------------------- deletes and conflicts
def _stale_deletes(body: _Body) -> Iterator[Message]:
    """L401: what is deleted, and whether, comes from a cached read alone."""
    if not isinstance(body.actor, Controller):
        return
    for index, call in body.flow.calls():
        if call.verb not in ("delete", "evict"):
            continue
        reads = set(body.flow.of(call.target)).union(*map(body.flow.of, body.flow.deciders(index)))
        live = {read.kind for read in reads if read.look == "live"}
        kinds = {read.kind for read in reads if read.look == "cached"} - live
        if call.guard:
            kinds.discard(call.kind)  # its own age is what the guard asks about
        if not kinds or call.kind in live:
            continue
        shown = " and ".join(sorted(kinds))
        text = f"What this {call.verb}s is decided by a cached read of {shown}, which may be old."
        fix = (
            "add `if unchanged`, so that the API server refuses when the object is another than the one read."
            if kinds == {call.kind} and call.verb == "delete"
            else f"read {shown} once more, live, before what cannot be undone."
        )
        yield _smell("L401", call, text, fix)


def _conflicts(body: _Body) -> Iterator[Message]:
    """L402: a write of a controller that carries a version, and no `on Conflict`."""
    if not isinstance(body.actor, Controller):
        return
    for _, call in body.flow.calls():
        versioned = (call.verb == "update" and not call.force) or call.guard == "unchanged"
        if versioned and "Conflict" not in {error for error, _ in call.handlers}:
            text = f"This {call.verb} fails with Conflict if somebody else was first, and does not say what then."
            fix = "add `on Conflict { requeue }` to try again with a newer copy (unhandled, it counts as an error)."
            yield _smell("L402", call, text, fix)


# ---------------------------------------------------------------- lists and status
def _list_patches(body: _Body) -> Iterator[Message]:
    """L403: a merge patch that sends a list made from the one that was read.

    Users mean what they write, and the first call of a process's action reads the truth in the same step.
    """
    if isinstance(body.actor, Environment):
        return
    for nth, (_, call) in enumerate(body.flow.calls()):
        if nth == 0 and isinstance(body.actor, Process):
            continue
        if call.verb != "patch" or call.dialect == "json" or call.guard == "unchanged":
            continue
        for item in call.fields:
            path = tuple(step for step in item.path if isinstance(step, str))
            read = [part.type for part in walk(item.value) if names(part)[1:] == path]
            by_key = call.dialect == "strategic" and any(isinstance(ty, t.ListOf) and ty.key for ty in read)
            if read and isinstance(item.value.type, t.ListOf | t.SetOf) and not by_key:
                shown = ".".join(path)
                text = f"A merge patch replaces `{shown}` whole, and what it sends was computed from an earlier read."
                fix = "add `if unchanged`, or send one entry by `patch json x { add … }` or `apply`."
                yield Message("L403", item.span, text, fix, severity="warning")


def _status_loops(body: _Body) -> Iterator[Message]:
    """L404: an unfiltered controller writes into its own status what is different each time."""
    actor = body.actor
    if not isinstance(actor, Controller):
        return
    own = next(wake for wake in actor.wakes if wake.source == "for")
    for index, call in body.flow.calls():
        if call.kind != actor.kind or call.side != "status" or own.when is not None:
            continue
        asked = any("status" in names(part) for e in body.flow.deciders(index) for part in walk(e))
        for item in call.fields:
            if not asked and _always_new(item.value, item.path):
                text = f"{actor.name} writes something new into the status on each pass, and each write wakes it again."
                fix = (
                    "write only if something else changed, or filter: `for … as x when x.generation != old.generation`."
                )
                yield Message("L404", item.span, text, fix, severity="warning")


def _always_new(value: Expr, path: tuple[str | Expr, ...]) -> bool:
    """Whether writing the value is a change each time: the time, a choice, or the field itself and more."""
    parts = list(walk(value))
    if any(isinstance(p, Any) or (isinstance(p, Builtin) and p.op == "now") for p in parts):
        return True
    own = tuple(step for step in path if isinstance(step, str))
    return (
        isinstance(value, Binary) and value.op in "+-" and any(names(p)[1:] == own for p in (value.left, value.right))
    )


# ---------------------------------------------------------------- watches and owners
def _unwatched(body: _Body) -> Iterator[Message]:
    """L405: a reconcile reads a kind whose changes do not wake it, and does not come back by itself."""
    actor = body.actor
    if not isinstance(actor, Controller):
        return
    nodes = body.flow.automaton.nodes
    if any(isinstance(node, End) and node.how == "after" for node in nodes):
        return
    watched = {wake.kind for wake in actor.wakes} | {index.kind for index in actor.indexes}
    reads = [part for node in nodes for e in terms(node) for part in walk(e) if isinstance(part, Cached)]
    told: set[str] = set()
    for read in reads:
        if read.kind not in watched | told:
            told.add(read.kind)
            text = f"{actor.name} reads {read.kind}, but no change of one wakes it."
            fix = f"add `watches {read.kind} as x -> …` with the keys that depend on it, or `requeue after`."
            yield Message("L405", read.span, text, fix, severity="warning")


def _by_name(body: _Body) -> Iterator[Message]:
    """L407: an owner compared by its name."""
    for node in body.flow.automaton.nodes:
        for part in (p for e in terms(node) for p in walk(e)):
            if not isinstance(part, Binary) or part.op not in ("==", "!="):
                continue
            for one, other in ((part.left, part.right), (part.right, part.left)):
                owner = isinstance(one, Member) and one.name == "name" and isinstance(one.base, Member)
                if (
                    owner
                    and names(one)[-2:] == ("owner", "name")
                    and isinstance(other, Member)
                    and other.name == "name"
                ):
                    text = "An owner is compared by name: an object that was deleted and made anew has the same one."
                    whole = ".".join(names(one)[:-1]) or "p.owner"
                    against = ".".join(names(other)[:-1]) or "x"
                    fix = f"write `{whole} {part.op} {against}`, which compares uids."
                    yield Message("L407", part.span, text, fix, severity="warning")


def _finalizers(program: Program) -> Iterator[Message]:
    """L406: a finalizer that some body adds and none removes."""
    automata = [a for c in program.controllers for a in (c.reconcile, c.gone) if a is not None]
    others: tuple[Process | Environment, ...] = (*program.processes, *program.environments)
    automata += [action.body for actor in others for action in actor.actions]
    calls = [node for a in automata for node in a.nodes if isinstance(node, Call)]
    settled = {text for call in calls for text in _removed(call)}.union(_BUILT_IN)
    if any(_clears(call) for call in calls):
        return
    main = {id(call) for body in _bodies(program) for _, call in body.flow.calls()}
    for call in (call for call in calls if id(call) in main):
        for literal in _added(call):
            if literal.value not in settled:
                settled.add(literal.value)
                text = (
                    f"Nothing in this program removes the finalizer `{literal.value}`: a deleted object stays for ever."
                )
                fix = "on deletion, update `finalizers: x.finalizers.filter(f, f != …)` when the work is done."
                yield Message("L406", literal.span, text, fix, severity="warning")


def _values(call: Call) -> Iterator[Expr]:
    """What a call writes into finalizers."""
    yield from (item.value for item in call.fields if item.path[:1] == ("finalizers",))
    yield from (op.value for op in call.ops if op.path[:1] == ("finalizers",) and op.op != "test" and op.value)


def _added(call: Call) -> Iterator[Literal]:
    for value in _values(call):
        for part in walk(value):
            if isinstance(part, ListLiteral):
                yield from (item for item in part.items if isinstance(item, Literal))
        if isinstance(value, Literal):
            yield value


def _removed(call: Call) -> Iterator[object]:
    for part in (p for value in _values(call) for p in walk(value)):
        if isinstance(part, Binary) and part.op == "!=":
            yield from (side.value for side in (part.left, part.right) if isinstance(side, Literal))


def _clears(call: Call) -> bool:
    empty = any(isinstance(value, ListLiteral) and not value.items for value in _values(call))
    return empty or any(op.op == "remove" and op.path[:1] == ("finalizers",) for op in call.ops)


RULES: tuple[Callable[[_Body], Iterator[Message]], ...] = (
    _stale_deletes,
    _conflicts,
    _list_patches,
    _status_loops,
    _unwatched,
    _by_name,
)
"""The rules that look at one body; finalizers are a matter of the whole program."""
