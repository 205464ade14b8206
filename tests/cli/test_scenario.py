"""Scenarios are played line by line, in one fixed order, and say why they stop."""

import pytest

from dashpot.checker.scenario import play
from dashpot.model.core import Graph, Node
from dashpot.model.program import Scenario, Step
from dashpot.model.system import Cell, Goal, Label, Obligation, Symmetry, System, Update


class World:
    """A store of one number, a cache of it, and a controller that raises the number to a goal by its cache."""

    def __init__(self, goal: int = 2) -> None:
        self.g = Graph()
        self.cells = [
            Cell(0, "store", "", "Pod", 0, "n", 0, 3, 0),
            Cell(1, "cache", "A", "Pod", 0, "n", 0, 3, 0),
        ]
        self.truth, self.seen = self.g.cell(0, 0, 3), self.g.cell(1, 0, 3)
        self.goal = goal
        self.extra: list[Update] = []
        self.goals: list[Goal] = []

    def raise_it(self) -> Update:
        low = self.g.lt(self.seen, self.g.const(self.goal))
        room = self.g.lt(self.truth, self.g.const(3))
        label = Label("A", "update", "reconcile", "Pod p", changes=(("Pod", "n"),), fairness=("A", "reconcile", "p"))
        full = Obligation("@bound", self.g.lt(self.truth, self.g.const(2)), what="numbers")
        return Update(label, (low, room), ((0, self.g.add(self.truth, self.g.const(1))),), (full,))

    def deliver(self) -> Update:
        return Update(
            Label("A", "deliver", "", "Pod p", fairness=("A", "deliver", "p")),
            (self.g.ne(self.truth, self.seen),),
            ((1, self.truth),),
        )

    def crash(self) -> Update:
        return Update(Label("A", "crash", fair=False, role="fault"), (), ((1, self.truth),))

    def write(self, line: int, value: int, detail: tuple[str, ...] = ()) -> None:
        label = Label("scenario", "patch", str(line), "Pod p", detail, fair=False, changes=(("Pod", "n"),))
        assigns = () if detail else ((0, self.g.const(value)),)
        self.extra.append(Update(label, (), assigns))

    def system(self) -> System:
        updates = (self.deliver(), self.raise_it(), self.crash(), *self.extra)
        return System(self.g, tuple(self.cells), updates, (), tuple(self.goals), Symmetry())

    def asserts(self, line: int, body: Node) -> None:
        self.goals.append(Goal(f"assert {line}", "always", self.g.true, self.g.true, body))


def script(*steps: Step) -> Scenario:
    return Scenario("s", (), steps, "main")


def test_settle_runs_until_nothing_changes() -> None:
    world = World(goal=1)
    world.asserts(1, world.g.eq(world.truth, world.g.const(1)))
    played = play(world.system(), script(Step("settle"), Step("assert")))
    assert played.failure is None
    assert played.trace.states[-1] == (1, 1)
    assert [(line.first, line.last) for line in played.lines] == [(0, 2), (2, 2)]


def test_a_held_delivery_waits_and_the_controller_overshoots() -> None:
    world = World(goal=1)
    world.asserts(2, world.g.eq(world.truth, world.g.const(1)))
    played = play(world.system(), script(Step("hold", kind="Pod", actor="A"), Step("settle"), Step("assert")))
    assert played.failure is not None and played.failure.kind == "bound"
    assert played.failure.line == 1 and "numbers" in played.failure.message


def test_release_lets_the_delivery_go() -> None:
    world = World(goal=1)
    world.write(1, 1)
    script_ = script(Step("hold", kind="Pod"), Step("write"), Step("release", kind="Pod", actor="A"), Step("settle"))
    assert play(world.system(), script_).failure is not None, "release of another hold than the one that is there"
    script_ = script(Step("hold", kind="Pod", actor="A"), Step("write"), Step("release", kind="Pod"), Step("settle"))
    played = play(world.system(), script_)
    assert played.failure is None and played.trace.states[-1] == (1, 1)


def test_inject_takes_the_fault_that_hits_the_target() -> None:
    world = World()
    world.write(0, 2)
    lines = (Step("write"), Step("inject", fault="crash", target="A"))
    assert play(world.system(), script(*lines)).trace.states[-1] == (2, 2)
    failed = play(world.system(), script(Step("inject", fault="crash", target="B"))).failure
    assert failed is not None and failed.kind == "refused" and "crash B" in failed.message


def test_an_unhandled_error_of_a_write_stops_the_scenario() -> None:
    world = World()
    world.write(0, 2, ("Denied",))
    failed = play(world.system(), script(Step("write"))).failure
    assert failed is not None and failed.kind == "refused" and "Denied" in failed.message


def test_what_never_settles_is_said_with_its_cycle() -> None:
    world = World(goal=0)
    g = world.g
    flip = Update(
        Label("B", "update", "reconcile", "Pod p", changes=(("Pod", "n"),)),
        (),
        ((0, g.ite(g.eq(world.truth, g.const(0)), g.const(1), g.const(0))),),
    )
    world.extra.append(flip)
    played = play(world.system(), script(Step("settle")))
    assert played.failure is not None and played.failure.kind == "unsettled"
    loop = played.trace.loop
    assert loop is not None and played.trace.states[-1] == played.trace.states[loop]


def test_retries_that_change_no_store_count_as_settled() -> None:
    world = World(goal=0)
    g = world.g
    world.cells.append(Cell(2, "queue", "B", "", -1, "dirty", 0, 1, 0))
    dirty = g.cell(2, 0, 1)
    world.extra.append(Update(Label("B", "end", "reconcile"), (), ((2, g.not_(dirty)),)))
    assert play(world.system(), script(Step("settle"))).failure is None


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_a_kind_that_nobody_caches_cannot_be_held(verb: str) -> None:
    failed = play(World().system(), script(Step(verb, kind="Node"))).failure
    assert failed is not None and failed.kind == "refused" and "Node" in failed.message


def test_playing_twice_gives_the_same_run() -> None:
    world = World(goal=1)
    scenario = script(Step("settle"))
    assert play(world.system(), scenario).trace == play(world.system(), scenario).trace
