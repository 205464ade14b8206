"""Random systems in which elements of groups are interchangeable, by construction."""

from __future__ import annotations

from random import Random

from dashpot.model.core import Graph, Node
from dashpot.model.system import Cell, Goal, Group, Label, Obligation, Symmetry, System, Update


class Maker:
    """Everything is built once as a template and then for each element: only names differ.

    Per group: a few cells an element, one reference an element (to the first group), and references without index.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.g = Graph()
        self.cells: list[Cell] = []
        self.sizes = self.random.choice([(2,), (3,), (2, 2)])
        self.world = [self._cell("n", self.random.randint(1, 2))]
        self.refs = [self._cell("at", self.sizes[0], ref="G0") for _ in range(self.random.randint(0, 2))]
        self.own: list[list[list[Node]]] = []
        self.links: list[list[Node]] = []
        for group, size in enumerate(self.sizes):
            widths = [self.random.randint(1, 2) for _ in range(self.random.choice([1, 1, 2]))]
            linked = self.random.random() < 0.4
            rows, links = [], []
            for element in range(size):
                dims = ((f"G{group}", element),)
                rows.append([self._cell(f"f{k}", hi, dims) for k, hi in enumerate(widths)])
                links.append(self._cell("link", self.sizes[0], dims, ref="G0") if linked else self.g.const(0))
            self.own.append(rows)
            self.links.append(links)

    def _cell(self, path: str, hi: int, dims: tuple[tuple[str, int], ...] = (), ref: str | None = None) -> Node:
        index = len(self.cells)
        slot = dims[0][1] if dims else -1
        kind = dims[0][0] if dims else "W"
        self.cells.append(Cell(index, "store", "", kind, slot, path, 0, hi, 0, dims=dims, ref=ref, base=1, root=True))
        return self.g.cell(index, 0, hi)

    def test(self, random: Random, group: int, element: int) -> Node:
        """A random condition on one element."""
        g = self.g
        match random.randrange(6):
            case 0:
                return g.eq(random.choice(self.world), g.const(random.randint(0, 2)))
            case 1:
                many = self.own[random.randrange(len(self.sizes))]
                k, v = random.randrange(9), random.randint(0, 2)
                return g.lt(g.sum(g.eq(row[k % len(row)], g.const(v)) for row in many), g.const(random.randint(1, 3)))
            case 2 if self.refs and group == 0:
                return g.eq(random.choice(self.refs), g.const(element + 1))
            case 3:
                return g.eq(self.links[group][element], g.const(0))
            case 4 if group == 0:
                other = self.links[random.randrange(len(self.sizes))]
                return g.or_(*(g.eq(link, g.const(element + 1)) for link in other))
            case _:
                row = self.own[group][element]
                return g.eq(random.choice(row), g.const(random.randint(0, 2)))

    def assigns(self, random: Random, group: int, element: int) -> tuple[tuple[int, Node], ...]:
        """Random assignments for one element."""
        g = self.g
        found: dict[int, Node] = {}
        for _ in range(random.randint(1, 3)):
            match random.randrange(4):
                case 0:
                    target = self.world[0]
                    found[target.value] = g.clamp(g.add(target, g.const(random.choice([-1, 1]))), 0, target.hi)
                case 1 if self.refs:
                    target = random.choice(self.refs)
                    values = [g.const(0), random.choice(self.refs), self.links[group][element]]
                    found[target.value] = random.choice([*values, g.const(element + 1)] if group == 0 else values)
                case 2 if self.links[group][element].op == "cell":
                    values = [g.const(0), *self.refs, *([g.const(element + 1)] if group == 0 else [])]
                    found[self.links[group][element].value] = random.choice(values)
                case _:
                    target = random.choice(self.own[group][element])
                    found[target.value] = g.const(random.randint(0, target.hi))
        return tuple(found.items())

    def system(self) -> System:
        """The finished system."""
        updates: list[Update] = []
        goals: list[Goal] = []
        for template in range(self.random.randint(2, 4)):
            seed, group = self.random.randrange(10**6), self.random.randrange(len(self.sizes))
            updates += [self._update(Random(seed), template, group, e) for e in range(self.sizes[group])]
        for number, op in enumerate(
            self.random.choices(["converges", "recurs", "leads_to", "eventually", "always"], k=2)
        ):
            seed, group = self.random.randrange(10**6), self.random.randrange(len(self.sizes))
            goals += [self._goal(Random(seed), f"{op}{number}", op, group, e) for e in range(self.sizes[group])]
        groups = tuple(Group(f"G{k}", size) for k, size in enumerate(self.sizes))
        return System(self.g, tuple(self.cells), tuple(updates), (), tuple(goals), Symmetry(groups))

    def _update(self, random: Random, template: int, group: int, element: int) -> Update:
        guard = tuple(self.test(random, group, element) for _ in range(random.randint(1, 2)))
        role = random.choice(["step", "step", "step", "fault"])
        label = Label(
            "A", "update", f"act{template}", f"G{group} {element}", fair=random.random() < 0.8,
            fairness=("A", f"act{template}", f"G{group} {element}"), role=role,
            changes=random.choice([(), (("G0", "f0"),)]),
        )  # fmt: skip
        kept = Obligation("kept", self.test(random, group, element), (f"G{group} {element}", "f0"))
        obligations = (kept,) if random.random() < 0.2 else ()
        return Update(label, guard, self.assigns(random, group, element), obligations)

    def _goal(self, random: Random, name: str, op: str, group: int, element: int) -> Goal:
        body, premise = self.test(random, group, element), self.test(random, group, element)
        alive = self.test(random, group, element) if random.random() < 0.5 else self.g.true
        plain = op in ("converges", "leads_to") and random.random() < 0.6
        return Goal(name, op, alive, premise if plain else self.g.true, body, f"G{group} {element}")


def symmetric_system(seed: int) -> System:
    """A random symmetric system."""
    return Maker(seed).system()
