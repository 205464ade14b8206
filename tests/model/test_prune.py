"""Pruning changes no verdict, and merges what differs only in what nobody reads."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.random_systems import State, explore, random_system

from dashpot.model.core import Graph
from dashpot.model.interpret import evaluate
from dashpot.model.prune import prune
from dashpot.model.system import Cell, Goal, Label, RankClass, Symmetry, System, Update

SEEDS = st.integers(0, 2**32)


def behaviour(system: System) -> set[tuple[tuple[int, ...], frozenset[object]]]:
    """What can be told of the runs of a system: the coarsest bisimulation of predicates, updates and obligations."""
    graph = explore(system)
    nodes = [n for goal in system.goals for n in (goal.alive, goal.premise, goal.body)]
    block: dict[State, object] = {s: tuple(evaluate(n, s.__getitem__) for n in nodes) for s in graph}
    while True:
        finer: dict[State, object] = {
            s: hash((
                block[s],
                frozenset(
                    (u, tuple(evaluate(o.holds, s.__getitem__) for o in system.updates[u].obligations), block[t])
                    for u, t in steps
                ),
            ))
            for s, steps in graph.items()
        }  # fmt: skip
        if len(set(finer.values())) == len(set(block.values())):
            break
        block = finer
    colours = {s: tuple(evaluate(n, s.__getitem__) for n in nodes) for s in graph}
    return {(colours[s], frozenset(u for u, _ in steps)) for s, steps in graph.items()} | {
        (("blocks", len(set(block.values()))), frozenset())  # type: ignore[arg-type]
    }


@settings(max_examples=400)
@given(SEEDS)
def test_pruned_systems_behave_the_same(seed: int) -> None:
    system = random_system(seed, ranking=False)
    pruned = prune(system)
    assert len(pruned.cells) == len(system.cells) and len(pruned.updates) == len(system.updates)
    assert behaviour(pruned) == behaviour(system)
    assert len(explore(pruned)) <= len(explore(system))


@settings(max_examples=200)
@given(SEEDS)
def test_cells_marked_as_root_run_as_before(seed: int) -> None:
    """What a run shows of the truth is what it was."""
    system = random_system(seed, ranking=False)
    kept = tuple(evolve(cell, root=cell.area == "store") for cell in system.cells)
    system = evolve(system, cells=kept)
    roots = [cell.index for cell in kept if cell.root]

    def shown(world: System) -> set[object]:
        return {
            (tuple(s[i] for i in roots), u, tuple(t[i] for i in roots))
            for s, steps in explore(world).items()
            for u, t in steps
        }

    assert shown(prune(system)) == shown(system)


def actor_cell(index: int, area: str, hi: int) -> Cell:
    return Cell(index, area, "A", "", -1, f"{area}{index}", 0, hi, 0)


def test_dead_locals_are_reset() -> None:
    """A local is read at control point 1 only: at 2 its value is forgotten, at 1 it is kept."""
    g = Graph()
    control, local, truth = g.cell(0, 0, 2), g.cell(1, 0, 3), g.cell(2, 0, 3)
    label = Label("A", "act")
    updates = (
        *(Update(label, (g.eq(control, g.const(0)),), ((0, g.const(1)), (1, g.const(k)))) for k in range(4)),
        Update(label, (g.eq(control, g.const(1)),), ((0, g.const(2)), (2, local))),
        Update(label, (g.eq(control, g.const(2)),), ((0, g.const(0)), (2, g.const(0)))),
    )  # fmt: skip
    cells = (
        actor_cell(0, "control", 2), actor_cell(1, "local", 3), Cell(2, "store", "", "K", 0, "f", 0, 3, 0, root=True),
    )  # fmt: skip
    goals = (Goal("p", "always", g.true, g.true, g.lt(truth, g.const(4))),)
    pruned = prune(System(g, cells, updates, (), goals, Symmetry()))
    states = set(explore(pruned))
    assert states == {(0, 0, 0), *((1, k, 0) for k in range(4)), *((2, 0, k) for k in range(4))}


def test_ranks_nobody_reads_leave_their_class() -> None:
    """Only the order of what is left counts."""
    g = Graph()
    newest = g.add(g.max_(g.cell(0, 0, 3), g.max_(g.cell(1, 0, 3), g.cell(2, 0, 3))), g.const(1))
    updates = tuple(Update(Label("A", "act"), (), ((k, newest),)) for k in range(3))
    cells = tuple(Cell(k, "store", "", "K", 0, f"rank{k}", 0, 3, 0) for k in range(3))
    goals = (Goal("p", "always", g.true, g.true, g.lt(g.cell(0, 0, 3), g.cell(1, 0, 3))),)
    system = System(g, cells, updates, (RankClass((0, 1, 2)),), goals, Symmetry())
    pruned = prune(system)
    assert pruned.ranks == (RankClass((0, 1, 2)),)
    alone = tuple(evolve(u, assigns=((k, g.add(g.cell(k, 0, 3), g.const(1))),)) for k, u in enumerate(updates))
    pruned = prune(evolve(system, updates=alone))
    assert pruned.ranks == (RankClass((0, 1)),) and pruned.cells[2].width == 0


def test_updates_that_cannot_fire_and_cells_nobody_reads_go() -> None:
    g = Graph()
    a, b = g.cell(0, 0, 1), g.cell(1, 0, 1)
    label = Label("A", "act")
    updates = (
        Update(label, (a, g.not_(a)), ((0, g.true),)),
        Update(label, (g.eq(a, g.const(0)),), ((0, g.true), (1, a))),
    )
    cells = tuple(Cell(k, "store", "", "K", 0, f"f{k}", 0, 1, 0, texts=("no", "yes")) for k in range(2))
    pruned = prune(System(g, cells, updates, (), (), Symmetry()))
    assert pruned.updates[0].guard == (g.false,) and pruned.updates[1].assigns == ((0, g.true),)
    assert pruned.cells[1].width == 0 and pruned.cells[1].text(0) == "no" and b.op == "cell"
