"""The closures of operators and macros that depend on what their operands give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashpot.runtime.api.cel.functions import regex
from dashpot.runtime.api.cel.operators import picked
from dashpot.runtime.api.cel.values import BudgetExceeded, EvaluationError, Maybe, no_overload, spend

Frame = list[Any]
"""The steps left, then the variables."""
Run = Callable[[Frame], Any]
LONG = 1000
"""Characters of a text that are compared for one step."""


def charge(env: Frame, value: Any) -> None:
    """Takes steps for the size of an argument."""

    kind = type(value)
    if kind is str or kind is bytes:
        spend(env, 1 + len(value) // 10)
    elif kind is list or kind is dict:
        spend(env, 1 + len(value))
        if kind is list and value and type(value[0]) is str:
            spend(env, sum(len(item) for item in value if type(item) is str) // 10)


def has(operand: Run, name: str, typed: bool) -> Run:
    """`has(operand.name)`; in an object with a schema (`typed`) a null counts as absent."""

    def run(env: Frame) -> bool:
        value = operand(env)
        if type(value) is Maybe:
            if not value.present:
                return False
            value = value.value
        if not isinstance(value, Mapping):
            raise no_overload()
        return name in value and (not typed or value[name] is not None)

    return run


def field(operand: Run, name: str) -> Run:
    """`operand.name` of an object with a schema."""

    def run(env: Frame) -> Any:
        value = operand(env)
        if type(value) is not dict:
            return picked(value, name)
        found = value.get(name)
        if found is None:
            raise EvaluationError(f"no such key: {name}")
        return found

    return run


def direct(slot: int, name: str) -> Run:
    """`variable.name` of an object with a schema."""

    def run(env: Frame) -> Any:
        value = env[slot]
        if type(value) is not dict:
            return picked(value, name)
        found = value.get(name)
        if found is None:
            raise EvaluationError(f"no such key: {name}")
        return found

    return run


def read(operand: Run, name: str, reader: Callable[[Any], Any]) -> Run:
    """`operand.name`, converted from JSON."""

    def run(env: Frame) -> Any:
        found = picked(operand(env), name)
        if found is None:
            raise EvaluationError(f"no such key: {name}")
        charge(env, found)
        return reader(found)

    return run


def text_equal(left: Run, right: Run) -> Run:
    """`left == right` of two texts: charged where they are long."""

    def run(env: Frame) -> bool:
        value = left(env)
        if len(value) > LONG:
            spend(env, len(value) // LONG)
        return bool(value == right(env))

    return run


def all_of(left: Run, right: Run, stop: bool) -> Run:
    """`&&` (stop False) and `||` (stop True): the value that decides wins over an error of the other side."""
    go = not stop

    def run(env: Frame) -> bool:
        try:
            first = left(env)
        except EvaluationError:
            if right(env) is stop:
                return not go
            raise
        if first is stop:
            return not go
        second = right(env)
        if second is stop:
            return not go
        if type(first) is not bool or type(second) is not bool:
            raise no_overload()
        return go

    return run


def choice(condition: Run, yes: Run, no: Run) -> Run:
    """`condition ? yes : no`."""

    def run(env: Frame) -> Any:
        chosen = condition(env)
        if chosen is True:
            return yes(env)
        if chosen is False:
            return no(env)
        raise no_overload()

    return run


def framed(function: Callable[..., Any], args: list[Run]) -> Run:
    """A function that takes its steps itself."""

    def run(env: Frame) -> Any:
        values = [arg(env) for arg in args]
        for value in values:
            charge(env, value)
        return function(env, *values)

    return run


def negation(operand: Run) -> Run:
    """`!operand`."""

    def run(env: Frame) -> bool:
        value = operand(env)
        if type(value) is not bool:
            raise no_overload()
        return not value

    return run


def lenient(operand: Run) -> Run:
    """Whether a condition is not false: what a loop goes on with, errors included."""

    def run(env: Frame) -> bool:
        try:
            return bool(operand(env) is not False)
        except EvaluationError:
            return True

    return run


def matches(text: Run, pattern: str) -> Run:
    """`text.matches(pattern)` with a pattern that is known."""

    found = regex(pattern)
    size = 1 + len(pattern) // 4

    def run(env: Frame) -> bool:
        value = text(env)
        if type(value) is not str:
            raise no_overload()
        spend(env, 1 + len(value) * size // 10)
        return found.search(value) is not None

    return run


def otherwise(left: Run, right: Run, wrapped: bool) -> Run:
    """`or` (wrapped) and `orValue` of an optional."""

    def run(env: Frame) -> Any:
        value = left(env)
        if type(value) is not Maybe:
            raise no_overload()
        if not value.present:
            return right(env)
        return value if wrapped else value.value

    return run


def items(value: Any) -> Any:
    """What a loop goes over: the items of a list, the keys of a map."""

    if type(value) is list or isinstance(value, Mapping):
        return value
    raise no_overload()


def quantifier(source: Run, predicate: Run, item: int, cost: int, every: bool) -> Run:
    """`all` and `exists`: the round that decides wins over errors of others."""
    decisive = not every

    def run(env: Frame) -> bool:
        failed: EvaluationError | None = None
        for each in items(source(env)):
            env[item] = each
            env[0] -= cost
            if env[0] < 0:
                raise BudgetExceeded()
            try:
                holds = predicate(env)
            except EvaluationError as error:
                failed = error
                continue
            if holds is decisive:
                return not every
            if type(holds) is not bool:
                failed = no_overload()
        if failed is not None:
            raise failed
        return every

    return run


def only_one(source: Run, predicate: Run, item: int, cost: int) -> Run:
    """`exists_one`."""

    def run(env: Frame) -> bool:
        count = 0
        for each in items(source(env)):
            env[item] = each
            spend(env, cost)
            holds = predicate(env)
            if type(holds) is not bool:
                raise no_overload()
            count += holds
        return count == 1

    return run


def mapped(source: Run, predicate: Run | None, value: Run, item: int, cost: int) -> Run:
    """`map` and `filter`."""

    def run(env: Frame) -> list[Any]:
        made: list[Any] = []
        for each in items(source(env)):
            env[item] = each
            spend(env, cost)
            if predicate is None:
                made.append(value(env))
                continue
            holds = predicate(env)
            if type(holds) is not bool:
                raise no_overload()
            if holds:
                made.append(value(env))
        return made

    return run


def general(
    source: Run, start: Run, condition: Run, step: Run, result: Run, item: int, accumulator: int, cost: int
) -> Run:
    """Any other loop, step by step."""

    def run(env: Frame) -> Any:
        env[accumulator] = start(env)
        for each in items(source(env)):
            env[item] = each
            spend(env, cost)
            if condition(env) is not True:
                break
            env[accumulator] = step(env)
        return result(env)

    return run
