"""What an actor needs of a cluster: the kinds whose caches it reads, and the calls that it can make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from dashpot.grammar.inline import walk
from dashpot.model import types as t
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Note
from dashpot.model.expr import Assignment, Cached, Expr, Kind
from dashpot.model.program import Controller, Process, Program
from dashpot.runtime.controller.views import View, Views

Actor = Controller | Process

VERBS = {"get": "get", "list": "list", "create": "create", "update": "update", "patch": "patch", "apply": "patch"}
CACHE_VERBS = ("get", "list", "watch")


@frozen(order=True)
class Right:
    """A verb on a resource (`pods`, `pods/status`) of a group that an actor must be allowed."""

    group: str
    resource: str
    verb: str
    kind: str
    subresource: str = ""

    def __str__(self) -> str:
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{sub}{f'.{self.group}' if self.group else ''}"


def automata(actor: Actor) -> Iterator[Automaton]:
    """All bodies of an actor."""
    for index in actor.indexes:
        yield from (body for _, body in index.handlers)
    if isinstance(actor, Controller):
        yield actor.reconcile
        if actor.gone is not None:
            yield actor.gone
    else:
        yield from (action.body for action in actor.actions)


def _of_writes(items: Iterable[Assignment]) -> Iterator[Expr]:
    for item in items:
        yield item.value
        yield from (step for step in item.path if not isinstance(step, str))


def _of_call(node: Call) -> Iterator[Expr]:
    yield from (e for e in (node.target, node.name, node.where, node.to) if e is not None)
    yield from _of_writes(node.fields)
    for op in node.ops:
        yield from (step for step in op.path if not isinstance(step, str))
        if op.value is not None:
            yield op.value


def terms_in(automaton: Automaton) -> Iterator[Expr]:
    """The terms that stand in a body."""
    for node in automaton.nodes:
        match node:
            case Bind(value=value):
                yield value
            case Assign(path=path, value=value):
                yield value
                yield from (step for step in path if not isinstance(step, str))
            case Branch(test=test):
                yield test
            case Loop(over=over):
                yield over
            case Call():
                yield from _of_call(node)
            case Note(target=target, message=message):
                yield target
                yield message
            case End(delay=delay):
                if delay is not None:
                    yield delay


def kinds_in(e: Expr) -> set[str]:
    """The kinds whose cache a term reads."""
    return {x.kind for x in walk(e) if isinstance(x, Kind | Cached)}


def caches_of(actor: Actor, program: Program) -> set[str]:
    """The kinds of which an actor keeps caches."""
    found = {index.kind for index in actor.indexes}
    terms = [e for body in automata(actor) for e in terms_in(body)]
    if isinstance(actor, Controller):
        found.add(actor.kind)
        for wake in actor.wakes:
            found.add(wake.kind)
            terms += [e for e in (wake.keys, wake.when) if e is not None]
    else:
        for action in actor.actions:
            found |= {ty.kind for _, ty in action.params if isinstance(ty, t.Object)}
            terms += [action.when] if action.when is not None else []
    if actor.place is not None and any(r.kind == actor.place.of for r in program.resources):
        found.add(actor.place.of)
    for e in terms:
        found |= kinds_in(e)
    return found


def rights_of(actor: Actor, program: Program, views: Views) -> set[Right]:
    """What an actor must be allowed: get, list and watch for its caches, and each verb that its bodies may use. What it
    asks at paths cannot be told beforehand."""
    found = {_right(views[kind], verb) for kind in caches_of(actor, program) for verb in CACHE_VERBS}
    for body in automata(actor):
        for node in body.nodes:
            if isinstance(node, Call) and not views[node.kind].declared.answers:
                found.add(_of_node(node, views[node.kind]))
            elif isinstance(node, Note):
                found |= {Right("", "events", verb, "Event") for verb in ("create", "patch")}
    return found


def _of_node(node: Call, view: View) -> Right:
    if node.verb == "evict":
        return _right(view, "create", "eviction")
    if node.verb == "bind":
        return _right(view, "create", "binding")
    if view.part:
        return _right(view, VERBS.get(node.verb, node.verb), view.part)
    status = node.side == "status" and node.verb in ("update", "patch", "apply") and view.has_status()
    return _right(view, VERBS.get(node.verb, node.verb), "status" if status else "")


def _right(view: View, verb: str, subresource: str = "") -> Right:
    return Right(view.resource.group, view.resource.plural, verb, view.kind, subresource)
