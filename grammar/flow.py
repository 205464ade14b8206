"""Where the values of a body come from and which tests decide what: static flow over an automaton."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from dashpot.grammar.inline import walk
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Node, Note
from dashpot.model.expr import Cached, Expr, Local, Member, Memory
from dashpot.model.span import Span


@frozen
class Read:
    """A read that a value comes from. look: "cached" or "live"."""

    look: str
    kind: str
    span: Span


@frozen
class Flow:
    """What is known about a body without running it.

    reads  local → the reads that flow into it
    """

    automaton: Automaton
    reads: dict[str, frozenset[Read]] = field(factory=dict)

    def of(self, e: Expr | None) -> frozenset[Read]:
        """The reads that flow into a term."""
        found: set[Read] = set()
        for part in walk(e) if e is not None else ():
            if isinstance(part, Cached):
                found.add(Read("cached", part.kind, part.span))
            elif isinstance(part, Local):
                found |= self.reads.get(part.name, frozenset())
        return frozenset(found)

    def deciders(self, index: int) -> Iterator[Expr]:
        """The tests and collections that decide whether the node at `index` is reached at all."""
        nodes = self.automaton.nodes
        for at, node in enumerate(nodes):
            if isinstance(node, Branch):
                ways, e = (node.then, node.other), node.test
            elif isinstance(node, Loop):
                ways, e = (node.body, node.next), node.over
            else:
                continue
            if any(self._reaches(way, index, at) for way in ways) and any(self._avoids(way, index) for way in ways):
                yield e

    def _reaches(self, start: int, goal: int, without: int) -> bool:
        return goal in self._from(start, without)

    def _avoids(self, start: int, goal: int) -> bool:
        """Whether the pass can end from `start` without the node `goal`."""
        return any(isinstance(self.automaton.nodes[i], End) for i in self._from(start, goal))

    def _from(self, start: int, without: int) -> set[int]:
        """The nodes that can be reached from `start` without passing the node `without`."""
        found: set[int] = set()
        stack = [start]
        while stack:
            index = stack.pop()
            if index != without and index not in found:
                found.add(index)
                stack += followers(self.automaton.nodes[index])
        return found

    def calls(self) -> Iterator[tuple[int, Call]]:
        """The API calls with their indices."""
        for index, node in enumerate(self.automaton.nodes):
            if isinstance(node, Call):
                yield index, node


def followers(node: Node) -> tuple[int, ...]:
    """The nodes that may come next."""
    match node:
        case Branch():
            return (node.then, node.other)
        case Loop():
            return (node.body, node.next)
        case Call():
            return (node.next, *(handler for _, handler in node.handlers))
        case End():
            return ()
        case _:
            return (node.next,)


def terms(node: Node) -> Iterator[Expr]:
    """The terms that a node evaluates, whole."""
    match node:
        case Bind() | Assign():
            yield node.value
        case Branch():
            yield node.test
        case Loop():
            yield node.over
        case Call():
            yield from (e for e in (node.target, node.name, node.where, node.to) if e is not None)
            yield from (item.value for item in node.fields)
            yield from (op.value for op in node.ops if op.value is not None)
        case Note():
            yield from (node.target, node.message)
        case End():
            if node.delay is not None:
                yield node.delay


def flow(automaton: Automaton) -> Flow:
    """The flow of a body: reads are followed through locals and loops until nothing new is found."""
    result = Flow(automaton)
    changed = True
    while changed:
        changed = False
        for node in automaton.nodes:
            name, reads = _bound(node, result)
            if name and not reads <= result.reads.get(name, frozenset()):
                result.reads[name] = result.reads.get(name, frozenset()) | reads
                changed = True
    return result


def _bound(node: Node, known: Flow) -> tuple[str, frozenset[Read]]:
    """The local that a node binds, and the reads that flow into it."""
    match node:
        case Bind():
            return node.name, known.of(node.value)
        case Loop():
            return node.var, known.of(node.over)
        case Call(verb="get" | "list", result=str() as result):
            return result, frozenset({Read("live", node.kind, node.span)})
        case _:
            return "", frozenset()


def names(e: Expr) -> tuple[str, ...]:
    """A chain of members as its names, the base's first: `x.spec.f` is ("x", "spec", "f"); () if it is no chain."""
    steps: list[str] = []
    while isinstance(e, Member):
        steps.append(e.name)
        e = e.base
    return (e.name, *reversed(steps)) if isinstance(e, Local | Memory) else ()
