"""An automaton under construction: nodes in the order of the text, joined by labels that are bound later."""

from __future__ import annotations

from attrs import define, evolve, field

from dashpot.model import types as t
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Node, Note
from dashpot.model.span import Span


@define
class Builder:
    """Labels are negative numbers; `open` holds those that the next node will carry."""

    nodes: list[Node] = field(factory=list)
    open: list[int] = field(factory=lambda: [-1])
    bound: dict[int, int] = field(factory=dict)
    labels: int = 1
    loops: int = 0
    names: dict[str, t.Type] = field(factory=dict)

    def label(self) -> int:
        """A new place to jump to."""
        self.labels += 1
        return -self.labels

    @property
    def reachable(self) -> bool:
        """Whether the next statement can be reached at all."""
        return bool(self.open)

    def emit(self, node: Node, *after: int) -> int:
        """Append a node; execution goes on at `after`. Returns its index."""
        index = len(self.nodes)
        self.bind(index)
        self.nodes.append(node)
        self.open = list(after)
        return index

    def bind(self, index: int) -> None:
        """What was to be done next is node `index`."""
        for label in self.open:
            self.bound[label] = index
        self.open = []

    def local(self, name: str, ty: t.Type) -> str:
        """The name of a local in the automaton: another one if the name was used for another type before."""
        chosen, n = name, 2
        while self.names.setdefault(chosen, ty) != ty:
            chosen, n = f"{name}~{n}", n + 1
        return chosen

    def finish(self, params: tuple[str, ...], span: Span) -> Automaton:
        """The automaton; a body that runs to its end is done."""
        if self.open or not self.nodes:
            self.emit(End("done", span=span))
        return Automaton(tuple(self._joined(n) for n in self.nodes), params)

    def _joined(self, node: Node) -> Node:
        at = self.bound
        match node:
            case Bind() | Assign() | Note():
                return evolve(node, next=at[node.next])
            case Branch(then=then, other=other):
                return evolve(node, then=at[then], other=at[other])
            case Loop(body=body):
                return evolve(node, body=at[body], next=at[node.next])
            case Call(handlers=handlers):
                return evolve(node, next=at[node.next], handlers=tuple((e, at[n]) for e, n in handlers))
            case End():
                return node
