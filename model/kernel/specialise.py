"""A program as one check sees it: code that a constant switches off is gone before anything is laid out.

One spec is buggy or fixed by a constant; what the other variant writes, reads or names must cost nothing here.
"""

from __future__ import annotations

import attrs

from dashpot.model import expr as e
from dashpot.model.automaton import Automaton, Branch, End
from dashpot.model.kernel.flow import successors
from dashpot.model.program import Action, Controller, Environment, Process, Program

Values = dict[str, int | bool | str]


def specialised(program: Program, values: Values) -> Program:
    """The program with every body reduced to what its constants leave reachable."""
    return attrs.evolve(
        program,
        controllers=tuple(_controller(c, values) for c in program.controllers),
        processes=tuple(_process(p, values) for p in program.processes),
        environments=tuple(_environment(x, values) for x in program.environments),
        admissions=tuple(attrs.evolve(a, body=reduced(a.body, values)) for a in program.admissions),
    )


def _controller(c: Controller, values: Values) -> Controller:
    gone = None if c.gone is None else reduced(c.gone, values)
    return attrs.evolve(c, reconcile=reduced(c.reconcile, values), gone=gone)


def _process(p: Process, values: Values) -> Process:
    return attrs.evolve(p, actions=tuple(_action(a, values) for a in p.actions if not _off(a, values)))


def _environment(x: Environment, values: Values) -> Environment:
    return attrs.evolve(x, actions=tuple(_action(a, values) for a in x.actions if not _off(a, values)))


def _action(a: Action, values: Values) -> Action:
    return attrs.evolve(a, body=reduced(a.body, values))


def _off(a: Action, values: Values) -> bool:
    return a.when is not None and constant(a.when, values) is False


def reduced(body: Automaton, values: Values) -> Automaton:
    """The body with its unreachable nodes blanked; indices stay."""
    reached: set[int] = set()
    stack = [0]
    while stack:
        at = stack.pop()
        if at in reached:
            continue
        reached.add(at)
        node = body.nodes[at]
        test = constant(node.test, values) if isinstance(node, Branch) else None
        if isinstance(node, Branch) and test is not None:
            stack.append(node.then if test else node.other)
        else:
            stack += successors(node)
    if len(reached) == len(body.nodes):
        return body
    nodes = tuple(node if i in reached else End(span=node.span) for i, node in enumerate(body.nodes))
    return attrs.evolve(body, nodes=nodes)


def constant(x: e.Expr, values: Values) -> int | bool | str | None:
    """The value of a term that constants alone decide, `false && …` included; None: they do not."""
    match x:
        case e.Literal(value=value):
            return value
        case e.Const(name=name):
            return values.get(name)
        case e.Unary(op="!", operand=inner):
            value = constant(inner, values)
            return None if value is None else not value
        case e.Binary(op="&&" | "||" as op, left=a, right=b):
            decides = op == "||"
            sides = constant(a, values), constant(b, values)
            if decides in sides:
                return decides
            return None if None in sides else not decides
        case e.Binary(op=op, left=a, right=b):
            left, right = constant(a, values), constant(b, values)
            return None if left is None or right is None else _compare(op, left, right)
        case _:
            return None


def _compare(op: str, left: int | bool | str, right: int | bool | str) -> bool | None:
    if op in ("==", "!="):
        return (left == right) == (op == "==")
    if isinstance(left, str) or isinstance(right, str):
        return None
    match op:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            return None
