"""A program as one check sees it: code that a constant switches off is gone before anything is laid out.

One spec is buggy or fixed by a constant; what the other variant writes, reads or names must cost nothing here.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.automaton import Automaton, Branch, Call, End, Loop, Node, Note
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
    """The body without its events and with its unreachable nodes blanked; indices stay."""
    body = _without_notes(body)
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


def _without_notes(body: Automaton) -> Automaton:
    """The body with a way around each event, of which the world knows nothing."""
    if not any(isinstance(node, Note) for node in body.nodes):
        return body

    def beyond(at: int) -> int:
        node = body.nodes[at]
        while isinstance(node, Note):
            at = node.next
            node = body.nodes[at]
        return at

    entry = beyond(0)
    nodes = [_led(node, beyond) for node in body.nodes]
    if entry:
        # the entry is node 0: an event there gives its place to a test that leads on
        nodes[0] = Branch(e.Literal(True, t.Bool()), entry, entry, body.nodes[0].span)
    return attrs.evolve(body, nodes=tuple(nodes))


def _led(node: Node, beyond: Callable[[int], int]) -> Node:
    match node:
        case Branch():
            return attrs.evolve(node, then=beyond(node.then), other=beyond(node.other))
        case Loop():
            return attrs.evolve(node, body=beyond(node.body), next=beyond(node.next))
        case Call():
            handlers = tuple((error, beyond(at)) for error, at in node.handlers)
            return attrs.evolve(node, next=beyond(node.next), handlers=handlers)
        case End():
            return node
        case _:
            return attrs.evolve(node, next=beyond(node.next))


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
