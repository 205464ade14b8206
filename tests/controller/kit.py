"""What tests of the engine share: a small world of objects in memory, frames over it, calls that are only noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from dashpot.grammar.load import load_text
from dashpot.model.automaton import Automaton
from dashpot.model.objects.status import StatusError
from dashpot.model.program import Program, State
from dashpot.runtime.controller.body import Body, Outcome
from dashpot.runtime.controller.calls import Answer, ApiError
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.terms import Term, compile_term
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import Views

Object = dict[str, Any]
NOW = 1_800_000_000_000
"""Milliseconds: 2027-01-15T08:00:00Z."""


class World:
    """A reader over objects that a test made; `asked` tells which indexes were used."""

    def __init__(self, views: Views, *objects: Object) -> None:
        self.views = views
        self.rows: list[Obj] = [found for json in objects if (found := views.obj(json)) is not None]
        self.asked: list[tuple[str, Any]] = []

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        return next((o for o in self.all(kind, namespace) if o.name == name), None)

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        rows = [o for o in self.rows if o.view.kind == kind and (not namespace or o.namespace == namespace)]
        if index is None:
            return rows
        self.asked.append((index, value))
        key = self.views[kind].index(index)
        return [o for o in rows if key(o) == value]


@define
class Noting:
    """A caller that notes requests and answers with what is sent, or with what a test says."""

    answers: dict[str, Any] = field(factory=dict)
    """verb → an Answer, or an ApiError to raise"""
    requests: list[ApiRequest] = field(factory=list)
    notes: list[tuple[str, str, str, str]] = field(factory=list)

    async def perform(self, request: ApiRequest) -> Answer:
        self.requests.append(request)
        if request.verb in self.answers:
            found = self.answers[request.verb]
            if isinstance(found, ApiError):
                raise found
            return found  # type: ignore[no-any-return]
        if isinstance(request.body, dict) and request.verb in ("create", "update"):
            return Obj(request.view, request.body)
        return request.target

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        self.notes.append((about.name, kind, reason, message))


def failing(name: str) -> ApiError:
    """A call that fails with an error of that name."""
    return ApiError(name, StatusError(name if name != "Denied" else "Forbidden", f"it is {name}"))


def spec(text: str) -> Program:
    """A program; a semicolon stands for a new line."""
    return load_text(text.replace(";", "\n"))


def frame(views: Views, *objects: Object, namespace: str = "", **locals_: Any) -> Frame:
    """A frame over some objects at NOW."""
    return Frame(
        constants=views.constants,
        reader=World(views, *objects),
        now=lambda: NOW,
        namespace=namespace,
        locals={name: views.obj(v) if isinstance(v, dict) and "kind" in v else v for name, v in locals_.items()},
    )


def property_term(program: Program, views: Views, name: str) -> Term:
    """The body of a property of states, compiled."""
    (found,) = (p for p in program.properties if p.name == name and p.module == program.main)
    assert isinstance(found.formula, State)
    return compile_term(found.formula.body, views)


def value_of(term: Term, at: Frame) -> Any:
    """The value, or "undefined"."""
    try:
        return term(at)
    except Undefined:
        return "undefined"


def asked(text: str, *objects: Object, head: str = "") -> Any:
    """The value of a term over a world of objects of kind Box (`b` is any of them, where there is one)."""
    program = spec(f"{head}\nproperty p = always {text}")
    views = Views(program)
    return value_of(property_term(program, views, "p"), frame(views, *objects))


def reconcile(program: Program) -> Automaton:
    """The body of the only controller of the main module."""
    (found,) = (c for c in program.controllers if c.module == program.main)
    return found.reconcile


def ran(
    program: Program,
    caller: Noting,
    *objects: Object,
    prepare: Callable[[Frame], None] = lambda frame: None,
    **locals_: Any,
) -> tuple[Outcome, Frame]:
    """One pass of the only controller."""
    views = Views(program)
    at = frame(views, *objects, namespace="n", **locals_)
    prepare(at)
    return asyncio.run(Body(reconcile(program), views).run(at, caller)), at
