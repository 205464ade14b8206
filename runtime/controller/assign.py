"""Assignments: to memory, and to the object that an admission hook looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashpot.model import types as t
from dashpot.model.automaton import Assign
from dashpot.model.program import Field
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.terms import Term, Terms
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import default_of


def assignment(node: Assign, terms: Terms) -> Callable[[Frame], int]:
    """The closure of an assignment; it gives the node that follows."""
    value, following = terms.term(node.value), node.next
    name = str(node.path[0])
    if node.scope == "object":
        return _to_object(node, value, terms)
    if len(node.path) == 1:

        def whole(frame: Frame) -> int:
            frame.memory[name] = value(frame)
            return following

        return whole
    steps: list[Term] = [_always(s) if isinstance(s, str) else terms.term(s) for s in node.path[1:]]

    def part(frame: Frame) -> int:
        new = value(frame)
        frame.memory[name] = _put(frame.memory[name], [step(frame) for step in steps], new, node)
        return following

    return part


def _always(value: Any) -> Term:
    return lambda frame: value


def _put(base: Any, steps: Sequence[Any], new: Any, node: Assign) -> Any:
    """A copy with a part replaced; null takes an entry of a map out."""
    key, rest = steps[0], steps[1:]
    if isinstance(key, Obj):
        key = key.name
    if isinstance(base, list):
        if not isinstance(key, int) or not 0 <= key < len(base):
            raise Undefined(f"there is no element {key}", node.span)
        rows = list(base)
        rows[key] = _put(rows[key], rest, new, node) if rest else new
        return rows
    if not isinstance(base, dict) or key is None:
        raise Undefined("an assignment to a part of null", node.span)
    made = dict(base)
    if rest:
        made[key] = _put(made.get(key, {}), rest, new, node)
    elif new is None:
        made.pop(key, None)
    else:
        made[key] = new
    return made


def _to_object(node: Assign, value: Term, terms: Terms) -> Callable[[Frame], int]:
    name, path, following = str(node.path[0]), tuple(node.path[1:]), node.next
    keys = [terms.term(step) for step in path if not isinstance(step, str)]

    def assign(frame: Frame) -> int:
        obj = frame.locals[name]
        if not isinstance(obj, Obj):
            raise Undefined("an assignment to a part of null", node.span)
        new, found = value(frame), tuple(key(frame) for key in keys)
        frame.locals[name] = Obj(obj.view, obj.view.assign(obj.json, path, new, frame.now(), found))
        return following

    return assign


def memory_of(fields: Sequence[Field], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The memory (and index variables) of an actor that starts."""
    return {f.name: _fresh(default_of(f, constants), f.type) for f in fields}


def _fresh(value: Any, ty: t.Type) -> Any:
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value
