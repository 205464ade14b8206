"""An update's assignments as few operations on the packed state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field

from dashpot.model.core import Node
from dashpot.model.lower.layout import Layout
from dashpot.model.lower.printer import Printer, Uses

NESTED_CHOICES = 3
"""Choices inside choices are merged this deep; below, each value is chosen on its own (the text could explode)."""


@define
class Parts:
    """What is or-ed together for some cells.

    bits     constant bits in place
    copies   distance → mask: the masked bits of the old state, moved up by the distance
    values   (node, shift, lo): the value less lo, moved up by shift
    choices  (test, parts if it holds, parts if not)
    """

    bits: int = 0
    copies: dict[int, int] = field(factory=dict)
    values: list[tuple[Node, int, int]] = field(factory=list)
    choices: list[tuple[Node, Parts, Parts]] = field(factory=list)

    def use(self, uses: Uses, weight: float) -> None:
        """Tell which nodes are printed for these parts."""
        for node, _, _ in self.values:
            uses.add(node, weight)
        for test, then, other in self.choices:
            uses.add(test, weight)
            then.use(uses, weight)
            other.use(uses, weight)

    def terms(self, printer: Printer) -> list[str]:
        """The operands of the disjunction, as text."""
        texts: list[str] = []
        for distance, mask in self.copies.items():
            kept = f"s & {mask:#x}"
            if distance:
                kept = f"({kept}) {'<<' if distance > 0 else '>>'} {abs(distance)}"
            texts.append(kept)
        for node, shift, lo in self.values:
            text = printer.value(node)
            if lo:
                text = f"({text} {'-' if lo > 0 else '+'} {abs(lo)})"
            texts.append(f"{text} << {shift}" if shift else text)
        for test, then, other in self.choices:
            texts.append(f"({then.text(printer)} if {printer.test(test)} else {other.text(printer)})")
        if self.bits:
            texts.append(f"{self.bits:#x}")
        return texts

    def text(self, printer: Printer) -> str:
        """The disjunction as text, without outer brackets."""
        return " | ".join(self.terms(printer)) or "0"


@define
class Assembly:
    """The next state: `(s + bump) & keep | parts`.

    bump  what is added to cells whose change is a known constant (they stay in range, so nothing is carried)
    keep  mask of the cells that are not assembled from parts
    """

    bump: int
    keep: int
    parts: Parts
    whole: int

    def text(self, printer: Printer) -> str:
        """The next state as text."""
        base = "s"
        if self.bump:
            base = f"s {'+' if self.bump > 0 else '-'} {abs(self.bump):#x}"
        if self.keep == self.whole:
            return base
        terms = self.parts.terms(printer)
        if self.keep:
            terms.insert(0, f"({base}) & {self.keep:#x}" if self.bump else f"s & {self.keep:#x}")
        return " | ".join(terms) or "0"


def assemble(layout: Layout, assigns: Iterable[tuple[int, Node]], known: Mapping[int, int]) -> Assembly:
    """Plan the assignments of one update; `known`: values of cells that its guard has settled."""
    whole = keep = (1 << layout.bits) - 1
    bump = 0
    rest: list[tuple[int, Node]] = []
    for index, node in assigns:
        if layout.width[index] == 0 or (node.op == "cell" and node.value == index):
            continue
        step = _step(index, node, known)
        if step is not None:
            bump += step << layout.shift[index]
        else:
            keep &= ~layout.mask(index)
            rest.append((index, node))
    return Assembly(bump, keep, _parts(layout, rest, NESTED_CHOICES), whole)


def _step(index: int, node: Node, known: Mapping[int, int]) -> int | None:
    """By how much the cell changes, if that is a constant."""
    if node.op == "const" and index in known:
        return node.value - known[index]
    if node.op == "add" and node.args[1].op == "const":
        a, b = node.args
        if a.op == "cell" and a.value == index:
            return b.value
    return None


def _parts(layout: Layout, assigns: list[tuple[int, Node]], nested: int) -> Parts:
    parts = Parts()
    choices: dict[int, tuple[Node, list[tuple[int, Node]]]] = {}
    for index, node in assigns:
        shift, lo = layout.shift[index], layout.lo[index]
        if node.op == "const":
            parts.bits |= node.value - lo << shift
        elif node.op == "cell" and layout.lo[node.value] == lo:
            if layout.width[node.value]:
                distance = shift - layout.shift[node.value]
                # A wider source cell holds a value that fits the target: its high bits are zero.
                mask = layout.mask(node.value)
                if layout.width[node.value] > layout.width[index]:
                    mask &= (1 << layout.width[index]) - 1 << layout.shift[node.value]
                parts.copies[distance] = parts.copies.get(distance, 0) | mask
        elif node.op == "ite" and nested:
            choices.setdefault(node.args[0].id, (node.args[0], []))[1].append((index, node))
        else:
            parts.values.append((node, shift, lo))
    for test, group in choices.values():
        if len(group) == 1 and not _merges(group[0][1]):
            index, node = group[0]
            parts.values.append((node, layout.shift[index], layout.lo[index]))
            continue
        then = _parts(layout, [(index, node.args[1]) for index, node in group], nested - 1)
        other = _parts(layout, [(index, node.args[2]) for index, node in group], nested - 1)
        parts.choices.append((test, then, other))
    return parts


def _merges(node: Node) -> bool:
    return all(arm.op in ("const", "cell") for arm in node.args[1:])
