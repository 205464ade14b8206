"""Bodies at work: the nodes of an automaton, walked on real values.

    body = Body(controller.reconcile, views)
    outcome = await body.run(frame, caller)

Between two calls everything is local and instant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from dashpot.model import types as t
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Node, Note
from dashpot.model.expr import Local
from dashpot.model.objects.status import StatusError
from dashpot.model.span import NOWHERE, Span
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.assign import assignment
from dashpot.runtime.controller.calls import Answer, ApiError, Caller
from dashpot.runtime.controller.chance import shuffled
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.prepare import Prepare, preparation
from dashpot.runtime.controller.terms import Externs, no_externs
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import Views
from dashpot.runtime.controller.vocabulary import terms_of

CURSOR = "cursor:"
_END = object()


@frozen
class Outcome:
    """How a pass ended.

    how      done; requeue (with back-off); after (`delay_ms`); fail (an admission hook denies: `message`); error (a
             call failed and nothing handled it); panic (a term was undefined)
    error    the name of the failure (Conflict …), where it has one
    message  what went wrong
    span     where in the text
    node     the node that ended it
    retry_after_ms  what the server asked to wait, of an error
    """

    how: str
    delay_ms: int = 0
    error: str = ""
    message: str = ""
    span: Span = NOWHERE
    node: int = 0
    retry_after_ms: int = 0


Local_ = Callable[[Frame], "int | Outcome"]


@frozen(eq=False)
class _Call:
    """A call, ready to be made. `result` takes the answer; `empty`: it is null after a handled error; `keeps`: it stays
    what it was where the server answers with no object."""

    prepare: Prepare
    next: int
    handlers: dict[str, int]
    result: str | None
    keeps: bool
    where: Callable[[Frame, list[Obj]], list[Obj]] | None
    node: Call
    index: int


@frozen(eq=False)
class _Note:
    tell: Callable[[Frame], tuple[Obj, str]]
    kind: str
    reason: str
    next: int


class Body:
    """One compiled body. May be run many times at once: all that changes is in the frame."""

    def __init__(self, automaton: Automaton, views: Views, externs: Externs = no_externs) -> None:
        self.automaton = automaton
        self.terms = terms_of(views, externs)
        self._steps = [self._compiled(index, node) for index, node in enumerate(automaton.nodes)]

    async def run(self, frame: Frame, caller: Caller) -> Outcome:
        """One pass. The parameters are in the frame's locals. Only what is no failure of a call is raised."""
        at = 0
        steps = self._steps
        while True:
            step = steps[at]
            try:
                if isinstance(step, _Call):
                    found: int | Outcome = await self._call(step, frame, caller)
                elif isinstance(step, _Note):
                    about, message = step.tell(frame)
                    caller.note(about, step.kind, step.reason, message)
                    found = step.next
                else:
                    found = step(frame)
            except Undefined as problem:
                return self._panic(problem, at)
            if isinstance(found, Outcome):
                return found
            at = found

    def run_local(self, frame: Frame) -> Outcome:
        """A body without calls (handlers of events, admission hooks), at once."""
        at = 0
        while True:
            step = self._steps[at]
            if isinstance(step, _Call | _Note):
                raise ValueError("a body with calls needs a caller")
            try:
                found = step(frame)
            except Undefined as problem:
                return self._panic(problem, at)
            if isinstance(found, Outcome):
                return found
            at = found

    def _panic(self, problem: Undefined, at: int) -> Outcome:
        span = problem.span if problem.span != NOWHERE else self.automaton.nodes[at].span
        return Outcome("panic", message=problem.text, span=span, node=at)

    # ---------------------------------------------------------------- calls
    async def _call(self, step: _Call, frame: Frame, caller: Caller) -> int | Outcome:
        request = step.prepare(frame)
        try:
            answer = await caller.perform(request)
        except ApiError as problem:
            handler = step.handlers.get(problem.name)
            if handler is None:
                error = problem.error
                wait = error.retry_after * 1000 if isinstance(error, StatusError) else 0
                return Outcome("error", 0, problem.name, str(error), step.node.span, step.index, wait)
            if step.result is not None and not step.keeps:
                frame.locals[step.result] = None
            return handler
        self._answered(step, frame, answer)
        return step.next

    @staticmethod
    def _answered(step: _Call, frame: Frame, answer: Answer) -> None:
        if step.where is not None and isinstance(answer, list):
            answer = step.where(frame, answer)
        if step.result is not None and not (step.keeps and answer is None):
            frame.locals[step.result] = answer

    def _made(self, index: int, node: Call) -> _Call:
        own = node.target.name if isinstance(node.target, Local) else None
        keeps = node.result is not None and node.result == own
        where: Callable[[Frame, list[Obj]], list[Obj]] | None = None
        if node.verb == "list" and node.where is not None and node.var is not None:
            slot, inner = self.terms.bind(node.var, {})
            test = self.terms.term(node.where, inner)

            def chosen(frame: Frame, rows: list[Obj]) -> list[Obj]:
                kept = []
                for row in rows:
                    frame.locals[slot] = row
                    if test(frame):
                        kept.append(row)
                return kept

            where = chosen

        prepare = preparation(node, index, self.terms)
        return _Call(prepare, node.next, dict(node.handlers), node.result, keeps, where, node, index)

    # ---------------------------------------------------------------- local nodes
    def _compiled(self, index: int, node: Node) -> Local_ | _Call | _Note:
        match node:
            case Call():
                return self._made(index, node)
            case Note():
                return self._note(node)
            case Bind():
                return self._bind(node)
            case Assign():
                return assignment(node, self.terms)
            case Branch():
                test, then, other = self.terms.term(node.test), node.then, node.other
                return lambda frame: then if test(frame) else other
            case Loop():
                return _loop(node)
            case End():
                return self._end(index, node)

    def _bind(self, node: Bind) -> Local_:
        name, value, following = node.name, self.terms.term(node.value), node.next
        if name.startswith(CURSOR):
            return _cursor(node, value)

        def bind(frame: Frame) -> int:
            frame.locals[name] = value(frame)
            return following

        return bind

    def _note(self, node: Note) -> _Note:
        target, message = self.terms.term(node.target), self.terms.term(node.message)

        def tell(frame: Frame) -> tuple[Obj, str]:
            about = target(frame)
            if not isinstance(about, Obj):
                raise Undefined("an event about null", node.span)
            return about, str(message(frame))

        return _Note(tell, node.type, node.reason, node.next)

    def _end(self, index: int, node: End) -> Local_:
        if node.delay is None:
            outcome = Outcome(node.how, message=node.message, span=node.span, node=index)
            return lambda frame: outcome
        delay = self.terms.term(node.delay)

        def after(frame: Frame) -> Outcome:
            wait = delay(frame)
            if wait is None:
                raise Undefined("`requeue after` null", node.span)
            return Outcome(node.how, wait, span=node.span, node=index)

        return after


def _cursor(node: Bind, value: Callable[[Frame], Any]) -> Local_:
    """What a loop visits: sets and kinds in an order that is chosen, all else in its own."""
    name, following, span = node.name, node.next, node.span
    anyhow = isinstance(wide.bare(node.value.type), t.SetOf | t.MapOf)

    def begin(frame: Frame) -> int:
        rows = value(frame)
        if rows is None:
            raise Undefined("`for` over null", span)
        frame.locals[name] = iter(shuffled(rows, frame) if anyhow else list(rows))
        return following

    return begin


def _loop(node: Loop) -> Local_:
    name, var, body, following = f"{CURSOR}{node.id}", node.var, node.body, node.next

    def step(frame: Frame) -> int:
        row = next(frame.locals[name], _END)
        if row is _END:
            return following
        frame.locals[var] = row
        return body

    return step
