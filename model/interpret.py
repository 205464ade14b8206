"""The core IR read the plain way: the reference that every backend is held against in tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dashpot.model.core import Node, truncated


def evaluate(node: Node, cells: Callable[[int], int], memo: dict[int, int] | None = None) -> int:
    """The value of a node, the plain way: the reference that every backend is held against.

    `cells` gives the value of a cell in the pre-state.
    """
    memo = {} if memo is None else memo
    if node.id in memo:
        return memo[node.id]
    op = node.op
    if op == "const":
        return node.value
    if op == "cell":
        return cells(node.value)
    if op == "ite":
        test = evaluate(node.args[0], cells, memo)
        result = evaluate(node.args[1 if test else 2], cells, memo)
        memo[node.id] = result
        return result
    args = [evaluate(a, cells, memo) for a in node.args]
    match op:
        case "not":
            result = 1 - args[0]
        case "and":
            result = int(all(args))
        case "or":
            result = int(any(args))
        case "eq":
            result = int(args[0] == args[1])
        case "lt":
            result = int(args[0] < args[1])
        case "add":
            result = args[0] + args[1]
        case "sub":
            result = args[0] - args[1]
        case "mul":
            result = args[0] * args[1]
        case "div":
            result = truncated(args[0], args[1])
        case "mod":
            result = args[0] - args[1] * truncated(args[0], args[1])
        case "min":
            result = min(args)
        case "max":
            result = max(args)
        case "table":
            result = node.values[args[0]]
        case _:
            raise AssertionError(f"no operation {op}")
    memo[node.id] = result
    return result


def reads(roots: Iterable[Node], weak: bool = False) -> Iterator[int]:
    """The cells that some nodes read, each once; weak reads only where asked for."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.op == "cell" and (weak or not node.values):
            yield node.value
        stack.extend(node.args)
