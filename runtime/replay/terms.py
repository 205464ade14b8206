"""Properties of a spec, asked of the real objects by the runtime's own terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from dashpot.model.expr import Expr
from dashpot.model.program import Converges, LeadsTo, OnWrite, Property, State
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.vocabulary import terms_of
from dashpot.runtime.loop import virtual_clock
from dashpot.runtime.replay.stage import NAMESPACE, Stage

World = Mapping[tuple[str, str], Obj]


@define(eq=False)
class Truth:
    """A reader of the store itself."""

    world: World

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """One object."""
        return self.world.get((kind, name))

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        """The objects of a kind."""
        rows = [obj for (of, _), obj in self.world.items() if of == kind]
        if index is None:
            return rows
        return [obj for obj in rows if (index == "name" and obj.name == value) or obj.view.index(index)(obj) == value]


@define(eq=False)
class Asker:
    """Asks terms of the world as it is, or was."""

    stage: Stage

    def holds(self, term: Expr, world: World, **bound: Any) -> bool:
        """Whether a term is true there; what is undefined is false."""
        return bool(self.value(term, world, **bound))

    def value(self, term: Expr, world: World, **bound: Any) -> Any:
        """The value of a term there; None if it is undefined."""
        site = self.stage.manager.site
        assert site is not None
        clock = virtual_clock()
        frame = Frame(
            self.stage.views.constants, Truth(world), lambda: int(clock.now() * 1000), NAMESPACE, locals=dict(bound)
        )
        try:
            return terms_of(self.stage.views, site.externs).term(term)(frame)
        except Undefined:
            return None

    def instances(self, asked: Property, world: World) -> list[tuple[Obj | None, dict[str, Any]]]:
        """The objects that a property is about there, each with what it binds."""
        if asked.each is None:
            return [(None, {})]
        var, kind = asked.each
        return [(obj, {var: obj}) for (of, _), obj in world.items() if of == kind]

    def state(self, asked: Property, world: World, bound: dict[str, Any]) -> bool:
        """Whether what a property says of single states holds there, for the objects that it binds."""
        match asked.formula:
            case State(op="never", body=body):
                return not self.holds(body, world, **bound)
            case State(body=body):
                return self.holds(body, world, **bound)
            case Converges(premise=premise, goal=goal):
                idle = premise is not None and not self.holds(premise, world, **bound)
                return idle or self.holds(goal, world, **bound)
            case LeadsTo(goal=goal):
                return self.holds(goal, world, **bound)
        return True

    def write(self, formula: OnWrite, before: World, old: Obj | None, new: Obj | None, actor: Any) -> bool:
        """Whether a write is as `on … require` wants it; the truth is the one just before it."""
        bound: dict[str, Any] = {formula.var: new if new is not None else old, "old": old}
        if formula.me is not None:
            bound[formula.me] = getattr(actor, "me", None)
        return self.holds(formula.require, before, **bound)
