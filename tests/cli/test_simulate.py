"""Random walks find what is there, tell the shortest of it, and are the same for the same seed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashpot.checker.prefix import shortened
from dashpot.checker.simulate import Simulation, simulate
from dashpot.grammar.load import load_text
from dashpot.model.kernel.build import build

HEAD = "resource Box { spec { n: 0..3 = 0 } }\n"


def walked(body: str, walks: int, seed: int = 0) -> Simulation:
    program = load_text(HEAD + body)
    check = program.checks[0]
    return simulate(program, check, build(program, check), walks=walks, seed=seed)


def flipping(goal: str) -> str:
    return f"""
process Flip {{
  cache Box live
  action up(b: Box) when b.spec.n == 0 {{ patch b.spec {{ n: 1 }} }}
  action down(b: Box) when b.spec.n == 1 {{ patch b.spec {{ n: 0 }} }}
}}
property wanted for b in Box = {goal}
check small {{
  run    Flip
  scope  {{ Box: 1 }}
  given  Box one {{ }}
  expect wanted
}}
"""


@given(st.sets(st.integers(0, 60)), st.integers(1, 60))
def test_a_failing_sequence_is_cut_to_what_it_needs(needed: set[int], extra: int) -> None:
    sequence = sorted(needed | set(range(extra)))
    assert shortened(sequence, lambda kept: needed <= set(kept)) == tuple(sorted(needed))


def test_a_loop_is_told_with_its_cycle() -> None:
    done = walked(flipping("converges to b.spec.n == 1"), walks=5)
    found = {f.property: f for f in done.found}
    assert set(found) == {"wanted", "hot_loop"} and found["wanted"].count == 5
    violated = found["wanted"].violated
    loop = violated.trace.loop
    assert violated.kind == "loop" and loop is not None
    assert violated.trace.states[loop] == violated.trace.states[-1]
    assert done.settled == 0


def test_what_recurs_is_no_violation() -> None:
    assert {f.property for f in walked(flipping("always eventually b.spec.n == 1"), walks=5).found} == {"hot_loop"}
    assert {f.property for f in walked(flipping("eventually b.spec.n == 1"), walks=5).found} == {"hot_loop"}
    assert "wanted" in {f.property for f in walked(flipping("eventually b.spec.n == 2"), walks=5).found}
    assert "wanted" in {f.property for f in walked(flipping("b.spec.n == 1 leads to b.spec.n == 2"), walks=5).found}


RAISING = """
process Up {
  cache Box live
  action more(b: Box) when b.spec.n < 3 { patch b.spec { n: b.spec.n + 1 } }
}
environment Users { action reset(b: Box) at most 2 { patch b.spec { n: 0 } } }
property low for b in Box = always b.spec.n < 2
property top for b in Box = sometimes b.spec.n == 3
check small {
  run    Up, Users
  scope  { Box: 1 }
  faults { pause Up: 1 }
  given  Box one { }
  expect low, top
}
"""


def test_the_shortest_run_is_kept_and_faults_are_counted() -> None:
    done = walked(RAISING, walks=20, seed=5)
    (found,) = done.found
    assert (found.property, found.violated.kind, found.violated.steps) == ("low", "safety", 2)
    assert found.count == 20 and done.reached == ("top",) and done.settled == 20
    assert dict(done.fired)["pause Up"] <= 20
    assert done.walks == 20 and done.steps >= 60


def test_the_seed_decides_everything() -> None:
    first, again, other = (walked(RAISING, walks=20, seed=seed) for seed in (1, 1, 2))
    assert (first.fired, first.steps) == (again.fired, again.steps)
    assert [f.violated.trace for f in first.found] == [f.violated.trace for f in again.found]
    assert (first.fired, first.steps) != (other.fired, other.steps)


def test_interrupted_walks_keep_what_they_found() -> None:
    def told(walks: int, _: int) -> None:
        if walks == 3:
            raise KeyboardInterrupt

    program = load_text(HEAD + RAISING)
    done = simulate(program, program.checks[0], build(program, program.checks[0]), walks=50, told=told)
    assert done.walks == 3 and [f.property for f in done.found] == ["low"]
