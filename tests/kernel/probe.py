"""Small specs as text, and what the kernel makes of them: verdicts, reachable stores, labels of steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from dashpot.checker import explore
from dashpot.checker.verdict import Holds, Report, Unknown, Violated
from dashpot.grammar.load import load_text
from dashpot.model.kernel.build import build
from dashpot.model.lower.python import Backend, compile_system
from dashpot.model.program import Check, Program
from dashpot.model.system import Label, System


def spec(text: str) -> Program:
    """The program of a spec text in which a semicolon stands for a new line, so that tables stay short."""
    return load_text(text.replace(";", "\n"))


def asked(program: Program, name: str = "") -> Check:
    """The check of that name, or the only one."""
    mine = [c for c in program.checks if c.module == program.main and name in ("", c.name)]
    assert len(mine) == 1, [c.name for c in mine]
    return mine[0]


def told(verdict: object) -> str:
    """A verdict in a word: "holds", "safety 3", "unknown bound"."""
    match verdict:
        case Holds():
            return "holds"
        case Violated():
            return f"{verdict.kind} {verdict.steps}"
        case Unknown():
            return f"unknown {verdict.reason}"
    raise AssertionError(verdict)


def report(text: str, check: str = "") -> Report:
    """The report on a check of a spec."""
    program = spec(text)
    return explore.check(program, asked(program, check))


def verdicts(text: str, check: str = "") -> dict[str, str]:
    """property → verdict in a word; a property without a line holds."""
    return {r.property: told(r.verdict) for r in report(text, check).results}


class Probe:
    """The world of a check, explored without pruning, its states read by the names of things."""

    def __init__(self, text: str, check: str = "") -> None:
        self.program = spec(text)
        self.check = asked(self.program, check)
        self.system: System = build(self.program, self.check)

    @cached_property
    def backend(self) -> Backend:
        return compile_system(self.system, checked=True)

    @cached_property
    def edges(self) -> dict[int, list[tuple[int, int]]]:
        """state → (update, next state), all that is reachable."""
        first = self.backend.initial
        found: dict[int, list[tuple[int, int]]] = {first: []}
        queue = [first]
        for state in queue:
            flat = self.backend.successors(state)
            found[state] = list(zip(flat[::2], flat[1::2], strict=True))
            for _, target in found[state]:
                if target not in found:
                    found[target] = []
                    queue.append(target)
        return found

    def store(self, state: int) -> dict[str, str]:
        """The objects that are there: "Kind[slot].path" → text; "Kind[slot]" → "there"."""
        values = self.backend.unpack(state)
        there = {
            (c.kind, c.slot) for c in self.system.cells if c.area == "store" and c.path == "present" and values[c.index]
        }
        out = {f"{kind}[{slot}]": "there" for kind, slot in there}
        for c in self.system.cells:
            if c.area == "store" and (c.kind, c.slot) in there and c.path != "present":
                out[f"{c.kind}[{c.slot}].{c.path}"] = c.text(values[c.index])
        return out

    def ends(self) -> list[dict[str, str]]:
        """The stores of states from which no step changes anything."""
        return [self.store(s) for s, steps in self.edges.items() if all(t == s for _, t in steps)]

    def end(self) -> dict[str, str]:
        """The store of the only such state (up to what is not in the store)."""
        found = [dict(items) for items in {tuple(sorted(e.items())) for e in self.ends()}]
        assert len(found) == 1, found
        return found[0]

    def fired(self) -> Iterator[Label]:
        """Labels of the updates that fire somewhere."""
        for index in sorted({u for steps in self.edges.values() for u, _ in steps}):
            yield self.system.updates[index].label
