"""The updates of a system as nested tests: what several guards in a row share is tested once."""

from __future__ import annotations

from attrs import frozen

from dashpot.model.core import Node
from dashpot.model.lower.printer import subject
from dashpot.model.system import Update

DEEPEST = 24
"""Levels of nested tests; below, a guard is tested as a whole (Python allows 100 levels of indentation)."""

LOOKED_AT = 4
"""Conjuncts of a guard considered for sharing: the kernel puts the most shared first."""


@frozen
class Leaf:
    """One update, fired when the remaining conjuncts hold."""

    index: int
    update: Update
    guard: tuple[Node, ...]


@frozen
class Test:
    """Alternatives by the value of a subject: (value, the conjunct that demands it, the block under it)."""

    subject: Node
    alternatives: tuple[tuple[int, Node, Block], ...]


@frozen
class Block:
    """Leaves and tests one after the other."""

    children: tuple[Leaf | Test, ...]


Item = tuple[int, Update, tuple[Node, ...]]


def build(items: list[Item], depth: int = 0) -> Block:
    """Group updates (index, update, conjuncts still to test) that stand in a row and test one subject.

    The order in which updates fire is kept: alternatives exclude each other, so that only updates of one of them fire.
    """
    children: list[Leaf | Test] = []
    start = 0
    while start < len(items):
        length, chosen = _longest_run(items, start) if depth < DEEPEST else (1, None)
        if chosen is None or length < 2:
            index, update, guard = items[start]
            children.append(Leaf(index, update, guard))
            start += 1
            continue
        children.append(_split(items[start : start + length], chosen, depth))
        start += length
    return Block(tuple(children))


def _longest_run(items: list[Item], start: int) -> tuple[int, Node | None]:
    best, chosen = 0, None
    for conjunct in items[start][2][:LOOKED_AT]:
        wanted = subject(conjunct)[0]
        end = start + 1
        while end < len(items) and any(subject(c)[0] is wanted for c in items[end][2]):
            end += 1
        if end - start > best:
            best, chosen = end - start, wanted
    return best, chosen


def _split(items: list[Item], chosen: Node, depth: int) -> Test:
    by_value: dict[int, tuple[Node, list[Item]]] = {}
    for index, update, guard in items:
        tested = next(c for c in guard if subject(c)[0] is chosen)
        value = subject(tested)[1]
        rest = tuple(c for c in guard if c is not tested)
        by_value.setdefault(value, (tested, []))[1].append((index, update, rest))
    return Test(chosen, tuple((value, tested, build(group, depth + 1)) for value, (tested, group) in by_value.items()))
