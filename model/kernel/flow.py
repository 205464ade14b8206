"""Static facts of an automaton: what lies between a point and the next call, and which locals are live."""

from __future__ import annotations

from attrs import frozen

from dashpot.model import expr as e
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Node, cursor
from dashpot.model.kernel.walk import locals_in, parts


@frozen
class Region:
    """What can be met from a node on without passing a call.

    calls    a call can be reached; ends: the end can be reached
    reads    a cached read (or a read of an index) is among the nodes
    chooses  a choice is among them: `any`, an unordered loop, ties
    """

    calls: bool
    ends: bool
    reads: bool
    chooses: bool


_REGIONS: dict[tuple[int, int, frozenset[str]], tuple[Automaton, Region]] = {}


def region(body: Automaton, at: int, indexes: frozenset[str] = frozenset()) -> Region:
    """The region that starts at node `at`; `indexes` are memory variables that deliveries change."""
    key = (id(body), at, indexes)
    if key not in _REGIONS:
        _REGIONS[key] = (body, _region(body, at, indexes))
    return _REGIONS[key][1]


def _region(body: Automaton, at: int, indexes: frozenset[str]) -> Region:
    seen: set[int] = set()
    stack = [at]
    calls = ends = reads = chooses = False
    while stack:
        index = stack.pop()
        if index in seen:
            continue
        seen.add(index)
        node = body.nodes[index]
        if isinstance(node, Call):
            calls = True
            continue
        if isinstance(node, End):
            ends = True
        for p in parts(_own_terms(node)):
            if isinstance(p, e.Cached) or (isinstance(p, e.Memory) and p.name in indexes):
                reads = True
            if isinstance(p, e.Any) or (isinstance(p, e.Fold) and p.op in ("first", "sortBy")):
                chooses = True
        stack += successors(node)
    return Region(calls, ends, reads, chooses)


def _own_terms(node: Node) -> tuple[object, ...]:
    match node:
        case Bind(value=value) | Assign(value=value):
            return (value,)
        case Branch(test=test):
            return (test,)
        case End(delay=delay):
            return (delay,)
        case _:
            return ()


def successors(node: Node) -> list[int]:
    """Nodes that may follow a node."""
    match node:
        case Bind(next=n) | Assign(next=n):
            return [n]
        case Branch(then=a, other=b):
            return [a, b]
        case Loop(body=a, next=b):
            return [a, b]
        case Call(next=n, handlers=handlers):
            return [n, *[h for _, h in handlers]]
        case _:
            return []


_LIVE: dict[int, tuple[Automaton, list[frozenset[str]]]] = {}


def needed(body: Automaton, at: int) -> frozenset[str]:
    """Names of locals (and "cursor:i" of loops) that a run from node `at` may read before it sets them."""
    if id(body) not in _LIVE:
        _LIVE[id(body)] = (body, _liveness(body))
    return _LIVE[id(body)][1][at]


def _liveness(body: Automaton) -> list[frozenset[str]]:
    """Per node, backwards to a fixed point: what it reads, and what is live behind it and not set by it."""
    live: list[frozenset[str]] = [frozenset()] * len(body.nodes)
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(body.nodes))):
            node = body.nodes[index]
            found = _reads(node)
            for after, sets in _edges(node):
                found |= live[after] - sets
            if found != live[index]:
                live[index] = found
                changed = True
    return live


def _reads(node: Node) -> frozenset[str]:
    if isinstance(node, Loop):
        return frozenset({cursor(node.id)})
    return frozenset(locals_in(node))


def _edges(node: Node) -> list[tuple[int, frozenset[str]]]:
    """(node that follows, locals that are set on the way)."""
    nothing: frozenset[str] = frozenset()
    match node:
        case Bind(name=name, next=n):
            return [(n, frozenset({name}))]
        case Loop(var=var, body=a, next=b):
            return [(a, frozenset({var})), (b, nothing)]
        case Call(result=result, next=n, handlers=handlers):
            answer = frozenset({result}) if result is not None else nothing
            return [(n, answer), *[(h, nothing) for _, h in handlers]]
        case _:
            return [(n, nothing) for n in successors(node)]
