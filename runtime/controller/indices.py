"""Index handlers at work: memory that is kept by the changes of a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dashpot.model.program import Index
from dashpot.runtime.controller.body import Body
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.terms import Externs
from dashpot.runtime.controller.views import Views


class Indices:
    """The index variables of one actor."""

    def __init__(self, indexes: Sequence[Index], views: Views, externs: Externs) -> None:
        self._handlers: dict[str, list[dict[str, Body]]] = {}
        for index in indexes:
            bodies = {event: Body(body, views, externs) for event, body in index.handlers}
            self._handlers.setdefault(index.kind, []).append(bodies)

    @property
    def kinds(self) -> list[str]:
        """The kinds that have handlers."""
        return list(self._handlers)

    def told(self, kind: str, old: Obj | None, new: Obj | None, frame: Callable[[str], Frame]) -> list[str]:
        """Runs the handlers of a change; what went wrong."""
        changed = [obj for obj in (old, new) if obj is not None]
        event = "update" if len(changed) == 2 else "delete" if new is None else "add"
        problems = []
        for bodies in self._handlers.get(kind, ()):
            body = bodies.get(event)
            if body is None:
                continue
            made = frame(changed[-1].namespace)
            made.locals.update(zip(body.automaton.params, changed, strict=True))
            outcome = body.run_local(made)
            if outcome.how == "panic":
                problems.append(f"{outcome.span}: {outcome.message}")
        return problems
