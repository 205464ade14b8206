"""Small matters in which an actor here and in the model are alike: names, values as texts, what a body writes."""

from __future__ import annotations

from typing import Any

from dashpot.model import types as t
from dashpot.model.automaton import Automaton, Call, End
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.body import Body
from dashpot.runtime.controller.controller import Running


def nothing(instance: Running) -> Body:
    """A body that ends at once."""
    return Body(Automaton((End(),)), instance.site.views, instance.site.externs)


def stamps(body: Body) -> bool:
    """Whether a body writes times."""
    views = body.terms.views
    for node in body.automaton.nodes:
        if isinstance(node, Call):
            for one in node.fields:
                side, name = (one.path[0], one.path[1]) if len(one.path) > 1 else ("", "")
                if side in ("spec", "status") and isinstance(name, str):
                    if isinstance(wide.bare(views[node.kind].field(str(side), name).type), t.Time):
                        return True
    return False


def text_of(value: Any) -> str:
    """A value as the language writes it: `true`, not `True`."""
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def runtime_name(actor: str) -> str:
    """An actor's name here: `C[a]` of the model is `C@a`."""
    name, bracket, place = actor.partition("[")
    return f"{name}@{place.rstrip(']')}" if bracket else name


def model_name(actor: str) -> str:
    """An actor's name in the model: `C@a` of the runtime is `C[a]`."""
    name, at, place = actor.partition("@")
    return f"{name}[{place}]" if at else name
