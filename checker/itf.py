"""Traces as Informal Trace Format (ITF), the JSON that Apalache, Quint and their viewers exchange.

One object: `#meta`, `vars`, `states`, and for a lasso `loop`, the index of the state that the last one leads
back to. Each state carries its index in `#meta` and one value a variable; integers outside ±(2^53 - 1) are
written as {"#bigint": "…"}. Source: apalache-mc.org, ADR-015.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from attrs import frozen

from dashpot.checker.runs import Column, Run

Value: TypeAlias = int | str | bool

BIG = 2**53 - 1
ACTION = "action"
"""The variable that names the step which led to a state; "init" in the first."""


class ItfError(Exception):
    """A text that is no trace in this format."""


@frozen
class Itf:
    """A trace: variables, one row of values a state, and where a lasso closes (None: it does not)."""

    vars: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    loop: int | None = None
    meta: tuple[tuple[str, str], ...] = ()


def itf_of(run: Run) -> Itf:
    """A saved run: the variables are its cells by name, values as the spec calls them, and `action`."""
    labels = ("init", *run.labels)
    rows = tuple(
        (label, *(_value(c, v) for c, v in zip(run.columns, state, strict=True)))
        for label, state in zip(labels, run.states, strict=True)
    )
    title = f"{run.property} of {run.check} in {run.spec}"
    meta = (("format", "ITF"), ("source", run.spec), ("description", title), ("run", run.id), ("verdict", run.kind))
    return _closed(Itf((ACTION, *(c.name for c in run.columns)), rows, run.loop, meta))


def _closed(itf: Itf) -> Itf:
    """A lasso without its last state, which repeats the one that it leads back to: `loop` says so instead."""
    if itf.loop is None or itf.loop >= len(itf.rows) - 1:
        return Itf(itf.vars, itf.rows, itf.loop, itf.meta)
    return Itf(itf.vars, itf.rows[:-1], itf.loop, itf.meta)


def _value(column: Column, value: int) -> Value:
    if column.texts is None:
        return value
    text = column.texts[value - column.lo]
    return {"true": True, "false": False}.get(text, text)


def encode(itf: Itf) -> str:
    """The trace as JSON, indented, variables in their order."""
    states: list[dict[str, Any]] = []
    for index, row in enumerate(itf.rows):
        state: dict[str, Any] = {"#meta": {"index": index}}
        state.update((name, _encoded(value)) for name, value in zip(itf.vars, row, strict=True))
        states.append(state)
    document: dict[str, Any] = {"#meta": dict(itf.meta), "vars": list(itf.vars), "states": states}
    if itf.loop is not None:
        document["loop"] = itf.loop
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _encoded(value: Value) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > BIG:
        return {"#bigint": str(value)}
    return value


def decode(text: str) -> Itf:
    """A trace of scalars from JSON. Raises ItfError for what is no such trace."""
    try:
        document = msgspec.json.decode(text.encode())
        names = tuple(str(name) for name in document["vars"])
        rows = tuple(tuple(_decoded(state[name]) for name in names) for state in document["states"])
        loop = document.get("loop")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ItfError(f"this is no trace in Informal Trace Format: {error!r}") from error
    if loop is not None and (not isinstance(loop, int) or not 0 <= loop < len(rows)):
        raise ItfError(f"its loop leads to state {loop}, and there are {len(rows)}")
    meta = document.get("#meta", {})
    return Itf(names, rows, loop, tuple((str(k), str(v)) for k, v in meta.items()) if isinstance(meta, dict) else ())


def _decoded(value: Any) -> Value:
    if isinstance(value, dict) and set(value) == {"#bigint"}:
        return int(value["#bigint"])
    if isinstance(value, bool | int | str):
        return value
    raise ItfError(f"only booleans, integers and strings are read, and this is {_kind(value)}")


def _kind(value: object) -> str:
    return "a list" if isinstance(value, Sequence) else "a record" if isinstance(value, dict) else repr(value)
