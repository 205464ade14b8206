"""The Python backend says the same as the plain reading of the IR."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.random_systems import Terms, explore, random_system

from dashpot.model.core import Graph, Node
from dashpot.model.interpret import evaluate
from dashpot.model.lower.python import compile_system
from dashpot.model.lower.source import Source, Style
from dashpot.model.system import Cell, Label, Obligation, RankClass, Symmetry, System, Update

SEEDS = st.integers(0, 2**32)


def cell(index: int, hi: int, lo: int = 0, initial: int = 0) -> Cell:
    return Cell(index, "store", "", "K", 0, f"f{index}", lo, hi, initial)


def system(g: Graph, cells: list[Cell], updates: list[Update], ranks: tuple[RankClass, ...] = ()) -> System:
    return System(g, tuple(cells), tuple(updates), ranks, (), Symmetry())


@settings(max_examples=300)
@given(SEEDS)
def test_successors_are_those_of_the_plain_reading(seed: int) -> None:
    world = random_system(seed)
    backend = compile_system(world, checked=True)
    targets = backend.targets()
    for state, steps in explore(world).items():
        packed = backend.pack(state)
        assert backend.unpack(packed) == state
        found = backend.successors(packed)
        assert found == [x for index, target in steps for x in (index, backend.pack(target))]
        assert targets(packed) == found[1::2]


@settings(max_examples=300)
@given(SEEDS)
def test_alarms_are_the_broken_obligations(seed: int) -> None:
    world = random_system(seed)
    backend = compile_system(world)
    for state, steps in explore(world).items():
        backend.alarms.clear()
        packed = backend.pack(state)
        backend.successors(packed)
        broken = {
            index: [o for o in world.updates[index].obligations if not evaluate(o.holds, state.__getitem__)]
            for index, _ in steps
        }
        assert backend.alarms == [(packed, index) for index, found in broken.items() if found]
        for index, found in broken.items():
            assert backend.broken(packed, index) == found


@settings(max_examples=200)
@given(SEEDS)
def test_predicates_are_those_of_the_plain_reading(seed: int) -> None:
    world = random_system(seed)
    backend = compile_system(world)
    random = Random(seed)
    terms = Terms(random, world.terms, list(world.cells))
    nodes = [terms.boolean(4) for _ in range(5)]
    numbers = [terms.number(4) for _ in range(5)]
    functions = backend.predicates([*nodes, *numbers])
    bits = backend.bits(nodes)
    for state in explore(world):
        packed = backend.pack(state)
        expected = [evaluate(node, state.__getitem__) for node in [*nodes, *numbers]]
        assert [function(packed) for function in functions] == expected
        assert bits(packed) == sum(value << k for k, value in enumerate(expected[:5]))


def test_values_are_zero_or_one_where_tests_may_be_masked_bits() -> None:
    g = Graph()
    a, b = g.cell(0, 0, 1), g.cell(1, 0, 1)
    backend = compile_system(system(g, [cell(0, 1), cell(1, 1)], []))
    for node in (g.not_(g.or_(a, g.not_(b))), g.and_(a, b), g.not_(a), b, g.add(g.not_(g.and_(a, g.not_(b))), a)):
        value = backend.predicate(node)
        for state in ((0, 0), (0, 1), (1, 0), (1, 1)):
            assert value(backend.pack(state)) == evaluate(node, state.__getitem__)


def test_watched_updates_are_told() -> None:
    g = Graph()
    a = g.cell(0, 0, 3)
    grow = Update(Label("A", "act"), (g.lt(a, g.const(3)),), ((0, g.add(a, g.const(1))),))
    idle = Update(Label("A", "act"), (g.eq(a, g.const(3)),), ())
    backend = compile_system(system(g, [cell(0, 3)], [grow, idle]))
    seen: set[int] = set()
    targets = backend.targets([0, 1], seen.add)
    assert targets(2) == [3] and seen == {0}
    assert targets(3) == [3] and seen == {0, 1}


def test_ranks_are_renumbered_only_when_touched() -> None:
    """The order stays, gaps close; a step may write one more than the highest."""
    g = Graph()
    cells = [cell(0, 2, initial=1), cell(1, 2, initial=2), cell(2, 1)]
    newest = g.add(g.max_(g.cell(0, 0, 2), g.cell(1, 0, 2)), g.const(1))
    fresh = Update(Label("A", "act"), (), ((0, newest),))
    other = Update(Label("A", "act"), (), ((2, g.true),))
    backend = compile_system(system(g, cells, [fresh, other], (RankClass((0, 1)),)), checked=True)
    assert [backend.unpack(s) for s in backend.successors(backend.initial)[1::2]] == [(2, 1, 0), (1, 2, 1)]


def test_constant_cells_take_no_bits() -> None:
    g = Graph()
    backend = compile_system(system(g, [cell(0, 5, 5, 5), cell(1, 1)], []))
    assert backend.layout.bits == 1 and backend.unpack(1) == (5, 1)
    assert backend.predicate(g.add(g.cell(0, 5, 5), g.cell(1, 0, 1)))(1) == 6


def test_values_outside_their_range_are_caught_when_checked() -> None:
    g = Graph()
    grow = Update(Label("A", "act"), (), ((0, g.add(g.cell(0, 0, 1), g.const(1))),))
    backend = compile_system(system(g, [cell(0, 1)], [grow]), checked=True)
    assert backend.successors(0) == [0, 1]
    with pytest.raises(AssertionError, match=r"update 0 sets store\.K\[0\]\.f0 to 2"):
        backend.successors(1)


def test_deep_expressions_and_many_updates_compile() -> None:
    """Python's parser has limits on nesting; none is met, whatever the spec."""
    g = Graph()
    cells = [cell(k, 7) for k in range(10)]
    leaves = [g.cell(k, 0, 7) for k in range(10)]
    deep: Node = leaves[0]
    for k in range(100):
        step = g.add(leaves[k % 10], g.const(k))
        deep = g.ite(g.lt(deep, step), g.min_(deep, leaves[k % 7]), g.sub(deep, leaves[k % 3]))
        deep = g.clamp(deep, 0, 7)
    updates = []
    for k in range(400):
        guard = tuple(g.eq(leaves[j], g.const((k + j * j) % 8)) for j in range(9))
        updates.append(Update(Label("A", "act"), (*guard, g.lt(deep, g.const(7))), ((k % 10, deep),)))
    world = system(g, cells, updates)
    backend = compile_system(world)
    state = (*((5 + j * j) % 8 for j in range(9)), 0)
    found = backend.successors(backend.pack(state))
    expected = evaluate(deep, state.__getitem__)
    assert expected < 7 and found[::2] == [k for k in range(400) if k % 8 == 5]
    assert [backend.unpack(s)[k % 10] for k, s in zip(found[::2], found[1::2], strict=True)] == [expected] * 50


def test_compiling_is_quick() -> None:
    """5,000 nodes and 300 updates in well under a second (0.25 s on a quiet machine)."""
    g = Graph()
    cells = [cell(k, 3) for k in range(24)]
    leaves = [g.cell(k, 0, 3) for k in range(24)]
    updates = []
    for k in range(300):
        near = [leaves[(k + j) % 24] for j in range(8)]
        some = g.sum(g.ite(g.lt(g.const((k + j) % 3), a), g.const(k), g.const(0)) for j, a in enumerate(near))
        guard = (g.eq(leaves[0], g.const(k % 4)), g.lt(some, g.const(3 + 5 * k)), g.lt(near[0], near[1]))
        writes = tuple(((k + 2 * j) % 24, g.ite(g.lt(some, g.const(j * k)), near[j], near[-1])) for j in range(6))
        updates.append(Update(Label("A", "act"), guard, writes, (Obligation("kept", g.lt(some, g.const(7 * k))),)))
    world = system(g, cells, updates)
    assert len(g) > 4000
    began = time.process_time()
    assert compile_system(world).successors is not None
    assert time.process_time() - began < 1.5


def test_source_tests_shared_conjuncts_once() -> None:
    g = Graph()
    control = g.cell(0, 0, 7)
    updates = [
        Update(
            Label("A", "act"), (g.eq(control, g.const(k)), g.eq(g.cell(1, 0, 1), g.const(b))), ((1, g.truth(not b)),)
        )
        for k in range(8)
        for b in (0, 1)
    ]
    world = system(g, [cell(0, 7), cell(1, 1)], updates)
    text = Source(world, compile_system(world).layout, Style()).text()
    assert text.count("c0 == 3") <= 1 and text.count("c0 = s") == 1
