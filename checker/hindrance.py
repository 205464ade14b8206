"""What keeps the steps that would help from happening: the part of an action's guard that is false.

A step helps if it would change what the failed part of a property reads, or what the guard of another step that
helps reads. Which steps those are, and which of their guards are false, is read from the world and its last state;
the words are the `when` of the action, and of it the one part that speaks of the fields that the false guard reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from dashpot.model.core import Node
from dashpot.model.interpret import evaluate, reads
from dashpot.model.span import Span
from dashpot.model.system import Cell, System, Update

DEPTH = 4
"""How many steps away from the property a blocked step may be."""

SHOWN = 3
"""Blocked actions that a story names, and arguments of each."""

_WORD = re.compile(r"[A-Za-z_]\w*")


@frozen
class _Blocked:
    """A step of an action, the guards of it that are false (none: it is possible), and where its action stands."""

    update: Update
    false: tuple[Node, ...]
    place: Span


def hindrances(
    system: System, failed: Sequence[Node], values: Sequence[int], sources: Mapping[str, str]
) -> tuple[str, ...]:
    """Sentences about blocked steps, those nearest to the property first."""
    groups: dict[tuple[str, str], list[_Blocked]] = {}
    for one in _helpful(system, failed, values):
        groups.setdefault((one.update.label.actor, one.update.label.action), []).append(one)
    lines = []
    for (actor, action), members in groups.items():
        least = min(len(one.false) for one in members)
        close = [one for one in members if len(one.false) == least]
        texts = dict.fromkeys(text for one in close for text in _texts(system, one, sources))
        if texts:
            what = " and ".join(f"`{text}`" for text in texts)
            given = dict.fromkeys(one.update.label.fairness[-1] for one in close)
            names = "; ".join([g for g in given if g][:SHOWN])
            lines.append(f"`{actor} {action}` cannot happen: {what} {'are' if len(texts) > 1 else 'is'} false"
                         + (f" ({names})." if names else "."))  # fmt: skip
    return tuple(lines[:SHOWN])


def _helpful(system: System, failed: Sequence[Node], values: Sequence[int]) -> Iterator[_Blocked]:
    """Blocked steps of processes that would help, breadth first."""
    memo: dict[int, int] = {}
    blocked = list(_blocked(system, values, memo))
    taken = {one.update.label.fairness[:2] for one in blocked if not one.false}
    blocked = [one for one in blocked if one.update.label.fairness[:2] not in taken]
    aims = _places(system, failed)
    for _ in range(DEPTH):
        found = [one for one in blocked if aims & _moved(system, one.update, values, memo)]
        if not found:
            return
        yield from found
        blocked = [one for one in blocked if one not in found]
        aims = _places(system, [node for one in found for node in one.false])


def _blocked(system: System, values: Sequence[int], memo: dict[int, int]) -> Iterator[_Blocked]:
    for what, place, indices in system.vacuity:
        for update in (system.updates[i] for i in indices):
            if not what.startswith("action ") or update.label.role != "step":
                continue
            false = tuple(n for n in update.guard if not evaluate(n, values.__getitem__, memo))
            there = all(n not in false for n in _arguments(system, update))
            if there and not any(n.is_const or _inner(system, n) for n in false):
                yield _Blocked(update, false, place)


def _arguments(system: System, update: Update) -> Iterator[Node]:
    """The guards that only say that the objects acted upon exist: they come first."""
    for node in update.guard:
        plain = node.op == "cell" and system.cells[node.value].path == "present"
        if plain:
            yield node
        elif not _inner(system, node):
            return


def _inner(system: System, node: Node) -> bool:
    """A guard of the machinery: where a body stands, a budget, a fault."""
    return all(system.cells[c].area in ("control", "budget", "local") for c in reads([node]))


def _place(cell: Cell) -> tuple[str, int, str, str]:
    """A field wherever it is kept: what a cache shows follows from the store."""
    return cell.kind, cell.slot, cell.path, cell.actor if cell.area == "memory" else ""


def _places(system: System, nodes: Sequence[Node]) -> set[tuple[str, int, str, str]]:
    return {_place(system.cells[c]) for c in reads(nodes)}


def _moved(
    system: System, update: Update, values: Sequence[int], memo: dict[int, int]
) -> set[tuple[str, int, str, str]]:
    """The fields that a step would change if it could happen."""
    cells = system.cells
    own = [(cells[i], node) for i, node in update.assigns if cells[i].area in ("store", "memory")]
    return {_place(c) for c, node in own if evaluate(node, values.__getitem__, memo) != values[c.index]}


def _texts(system: System, one: _Blocked, sources: Mapping[str, str]) -> list[str]:
    """The parts of the `when` that are false; more of it where it cannot be told which one."""
    parts = conditions(sources, one.place)
    spoken = [_spoken(part, sources) for part in parts]
    found: dict[str, None] = {}
    for node in one.false:
        cells = [system.cells[c] for c in reads([node])]
        fits = [k for k, words in enumerate(spoken) if all(_speaks(words, cell) for cell in cells)]
        if len(fits) > 1:  # guards and parts come in the same order
            fits = _between(system, one.update, node, spoken, fits)
        found[" && ".join(parts[k] for k in fits) if fits else " && ".join(parts)] = None
    return [text for text in found if text]


def _between(system: System, update: Update, node: Node, spoken: Sequence[set[str]], fits: list[int]) -> list[int]:
    """Of several parts those that stand between the parts of the guards before and behind."""
    at = update.guard.index(node)
    low, high = 0, len(spoken) - 1
    for position, other in enumerate(update.guard):
        cells = [system.cells[c] for c in reads([other])]
        mine = [k for k, words in enumerate(spoken) if cells and all(_speaks(words, cell) for cell in cells)]
        if len(mine) == 1 and position != at:
            low, high = (max(low, mine[0]), high) if position < at else (low, min(high, mine[0]))
    return [k for k in fits if low <= k <= high]


def _speaks(words: set[str], cell: Cell) -> bool:
    """Whether a part names the field that a cell holds, or the kind whose objects it counts."""
    if cell.path == "present":
        return cell.kind in words
    head, _, rest = cell.path.partition(".")
    return not words.isdisjoint(rest.split(".") if rest and head in ("spec", "status") else [head])


def _spoken(text: str, sources: Mapping[str, str], depth: int = DEPTH) -> set[str]:
    """The words of a condition, and of the functions that it calls."""
    words = set(_WORD.findall(text))
    for name in words.copy() if depth else ():
        for source in sources.values():
            body = re.search(rf"^fun\s+{name}\s*\(.*?(?=^\S|\Z)", source, re.MULTILINE | re.DOTALL)
            if body:
                words |= _spoken(body[0].partition("=")[2], sources, depth - 1)
    return words


def conditions(sources: Mapping[str, str], place: Span) -> list[str]:
    """The parts of an action's `when`, joined by && in the spec; `place` is where its name stands."""
    lines = sources.get(place.file, "").split("\n")
    if not 1 <= place.line <= len(lines):
        return []
    text = "\n".join([lines[place.line - 1][place.column - 1 :], *lines[place.line :]])
    parts: list[str] = []
    depth, start, at = 0, -1, 0
    while at < len(text):
        char = text[at]
        word = _WORD.match(text, at)
        if char in "\"'":
            at = max(text.find(char, at + 1), at)
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif depth == 0 and (char == "{" or (word and word[0] in ("at", "fair") and start >= 0)):
            break
        elif depth == 0 and start >= 0 and text.startswith("&&", at):
            parts.append(text[start:at])
            start = at + 2
        elif depth == 0 and word and word[0] == "when" and start < 0:
            start = word.end()
        at = word.end() if word else at + 1
    return [" ".join(part.split()) for part in [*parts, text[start:at]]] if start >= 0 else []
