"""Which cells nodes read, as bit sets over cell indices."""

from __future__ import annotations

from collections.abc import Iterable

from dashpot.model.core import Node


class Reading:
    """Bit i of the answer is set when the node reads cell i. Remembered, since nodes are shared."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, node: Node) -> int:
        """What one node reads."""
        known = self._known
        found = known.get(node.id)
        if found is not None:
            return found
        stack = [node]
        while stack:
            top = stack[-1]
            found = 1 << top.value if top.op == "cell" else 0
            missing = []
            for arg in top.args:
                part = known.get(arg.id)
                if part is None:
                    missing.append(arg)
                else:
                    found |= part
            if missing:
                stack.extend(missing)
            else:
                stack.pop()
                known[top.id] = found
        return known[node.id]

    def all(self, nodes: Iterable[Node]) -> int:
        """What some nodes read."""
        found = 0
        for node in nodes:
            found |= self.of(node)
        return found
