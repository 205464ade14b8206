"""Each ruling of docs/semantics.md: its spec comes out as it says, and the fact that tells it from another ruling.

`test_ruling_specs.py` runs the specs check by check and holds `within` to the exact length. Here each ruling also has
what its spec alone would not notice: twins that a wrong rule would pass, numbers of states, the steps of a trace.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

from tests.kernel.probe import Probe, report, told, verdicts

import dashpot
from dashpot.checker.verdict import Report, Trace, Violated
from dashpot.model.kernel.build import build
from dashpot.model.program import Program

HERE = Path(__file__).parent


@functools.cache
def program(number: int) -> Program:
    (path,) = HERE.glob(f"{number:02}-*.loop")
    return dashpot.load(path)


@functools.cache
def checked(number: int, check: str) -> Report:
    return dashpot.check(program(number), check)


def text(number: int, *changes: tuple[str, str]) -> str:
    """The spec with something changed: a twin."""
    (path,) = HERE.glob(f"{number:02}-*.loop")
    out = "\n".join(line for line in path.read_text().split("\n") if not line.startswith("//"))
    for old, new in changes:
        assert old in out, old
        out = out.replace(old, new)
    return out


def as_said(number: int, undecided: tuple[str, ...] = ()) -> None:
    """Every check of the spec comes out as it says."""
    for check in program(number).checks:
        if check.module == program(number).main:
            assert checked(number, check.name).status == (3 if check.name in undecided else 0), check.name


def found(number: int, check: str) -> dict[str, str]:
    return {r.property: told(r.verdict) for r in checked(number, check).results}


def trace(number: int, check: str, prop: str) -> list[tuple[str, str]]:
    """The steps of a counterexample: (actor, verb)."""
    return steps(checked(number, check), program(number), check, prop)


def steps(answer: Report, spec: Program, check: str, prop: str) -> list[tuple[str, str]]:
    (verdict,) = [r.verdict for r in answer.results if r.property == prop]
    assert isinstance(verdict, Violated) and isinstance(verdict.trace, Trace)
    (asked,) = [c for c in spec.checks if c.name == check and c.module == spec.main]
    labels = [u.label for u in build(spec, asked).updates]
    return [(labels[i].actor, labels[i].verb) for i in verdict.trace.steps]


def test_ruling_01() -> None:
    as_said(1)
    # With a fair process in place of the user the component is another one: then `filled` holds.
    fair = text(
        1,
        ("environment Users {", "process Users {"),
        ("  action spoil(b: Box) when b.spec.full at most 1 { patch b.spec { full: false } }\n", ""),
    )
    assert verdicts(fair, "at_the_start")["filled"] == "holds"
    # And an environment action that says `fair` is a step like any other.
    fair = text(1, ("at most 1 { patch b.spec { full: true } }", "at most 1 fair { patch b.spec { full: true } }"))
    assert verdicts(fair, "at_the_start")["filled"] != "stuck 0"
    # The budget that is left is not needed for the verdict: without it the component is the same.
    spent = text(1, ("at most 1 { patch b.spec { full: true } }", "at most 0 { patch b.spec { full: true } }"))
    assert verdicts(spent, "at_the_start")["filled"] == "stuck 0"


def test_ruling_02() -> None:
    as_said(2)
    assert found(2, "walks")["low"] == "safety 2"
    assert found(2, "walks")["arrives"] == "trapped 3"  # one step of stem, a cycle of two
    assert found(2, "retries")["arrives"] == "stuck 0"
    assert found(2, "retries_later")["stays"] == "stuck 2"  # the user's write and its delivery; retries do not count
    # An upper bound: one less is not as said.
    assert report(text(2, ("safety within 2", "safety within 1")), "walks").status == 1
    assert report(text(2, ("safety within 2", "safety within 9")), "walks").status == 0


def test_ruling_03() -> None:
    as_said(3)
    verbs = [verb for _, verb in trace(3, "stale", "forward")]
    assert verbs == ["freeze", "patch", "deliver", "patch", "stale_restart", "patch"]
    # Nothing is frozen at the start: the freeze is a step, and it is a fault's.
    probe = Probe(text(3), "stale")
    assert all(c.initial == 0 for c in probe.system.cells if c.path == "frozen API server")
    (freeze,) = {u.label for u in probe.system.updates if u.label.verb == "freeze"}
    assert freeze.role == "fault" and not freeze.fair
    # A crash is one step with restart and listing of all kinds: no state has an empty cache in between.
    fresh = Probe(text(3), "fresh")
    cached = [c.index for c in fresh.system.cells if c.area == "cache" and c.path == "present"]
    assert all(fresh.backend.unpack(s)[i] == 1 for s in fresh.edges for i in cached)
    # The delay may be cut short by a relist, if that has budget.
    relist = text(3, ("faults { stale_restart: 1 }", "faults { stale_restart: 1, relist: 1 }"))
    verdict = verdicts(relist, "stale")
    assert (verdict["caught_up"], verdict["forward"]) == ("holds", "safety 6")


def test_ruling_04() -> None:
    as_said(4)
    # Without a read between call and end, the rest belongs to the step of the call: no delivery in between.
    joined = text(
        4,
        (
            'let m = get cached Mark "m"\n    if m != null {\n      seen = true\n      requeue\n    }',
            "seen = true\n    requeue",
        ),
    )
    before, after = Probe(text(4), "in_between"), Probe(joined, "in_between")
    assert any(c.path == "at" and c.hi > 0 for c in before.system.cells)
    rests = [c for c in after.system.cells if c.path == "at"]
    assert all(after.backend.unpack(s)[c.index] == 0 for s in after.edges for c in rests)


def test_ruling_05() -> None:
    as_said(5)
    assert found(5, "increments")["lost_update"] == "safety 2"
    # The value may flow through a local; a condition on it does not count.
    local = text(5, ("patch c.spec { n: c.spec.n + 1 }", "let next = c.spec.n + 1; patch c.spec { n: next }"))
    assert verdicts(local, "increments")["lost_update"] == "safety 2"
    condition = text(5, ("patch c.spec { n: c.spec.n + 1 }", "patch c.spec { n: c.spec.n == 0 ? 1 : 2 }"))
    assert verdicts(condition, "increments")["lost_update"] == "holds"


def test_ruling_06() -> None:
    as_said(6)
    # Merged: two changes of one key never take two places. Not merged: changes of two keys always do.
    probe = Probe(text(6), "between")
    cells = {(c.actor, c.path): c.index for c in probe.system.cells if c.area == "pending"}
    for state in probe.edges:
        values = probe.backend.unpack(state)
        count = values[cells["Watcher", "count"]]
        slots = [values[cells["Watcher", f"{i}.slot"]] for i in range(count)]
        assert all(a != b for a, b in itertools.pairwise(slots))
    assert max(probe.backend.unpack(s)[cells["Watcher", "count"]] for s in probe.edges) == 3  # a, b, a
    # An unordered cache would show the second change of `a` first: the order matters, not the number.
    swapped = text(
        6,
        (
            'b.name == "b" && b.spec.n == 1) at most 1 {\n    let b = get live Box "a"',
            'b.name == "a" && b.spec.n == 1) at most 1 {\n    let b = get live Box "a"',
        ),
    )
    assert verdicts(swapped, "between")["in_order"].startswith("safety")


def test_ruling_07() -> None:
    as_said(7)
    assert [verb for _, verb in trace(7, "two_steps", "there")] == ["delete", "update"]
    # Without a mark of deletion the last finalizer may go, and the object stays.
    early = text(
        7,
        (
            "action take(b: Box) when b.deletionTimestamp != null {",
            "action take(b: Box) when b.finalizers.size() > 0 {",
        ),
    )
    assert verdicts(early, "two_steps")["there"] == "safety 2"
    stays = (
        early.replace("run    Users, Finaliser", "run    Finaliser")
        .replace("expect violation of there as safety within 2", "expect there")
        .replace("expect marked", "")
    )
    assert verdicts(stays, "two_steps")["there"] == "holds"


def test_ruling_08() -> None:
    as_said(8)
    # A delete that marks the object does change something.
    first = text(
        8,
        (
            "action again(b: Box) when b.deletionTimestamp != null",
            "action again(b: Box) when b.deletionTimestamp == null",
        ),
    )
    assert verdicts(first, "nothing_changes")["once"].startswith("safety")
    # The object after the write is named by the variable, the truth by the kind.
    assert found(8, "just_before")["counted"] == "safety 1"
    # No write that changes nothing counts for a hot loop, a patch neither.
    patch = text(
        8,
        (
            "when b.deletionTimestamp != null { delete b }",
            'when b.deletionTimestamp != null { patch b { finalizers: ["f"] } }',
        ),
    )
    assert verdicts(patch, "nothing_changes").get("hot_loop", "holds") == "holds"


def test_ruling_09() -> None:
    as_said(9)
    assert found(9, "one_each")["few"] == "safety 6"
    assert [v for _, v in trace(9, "dropped", "mirrored")][-1] == "drop"
    # What is dropped is the oldest undelivered change of one cache, which keeps the older object until the next change.
    later = text(
        9,
        (
            "environment Users { action raise(t: Tally) at most 1 { patch t.spec { n: 1 } } }",
            "environment Users { action raise(t: Tally) at most 1 { patch t.spec { n: 1 } }\n action touch(t: "
            "Tally) when t.spec.n == 1 at most 1 fair { patch t.spec { b: 1 } } }",
        ),
    )
    assert verdicts(later, "dropped")["mirrored"].startswith("stuck")  # the drop may hit the last change as well
    # Nobody can crash an environment.
    probe = Probe(
        text(9, ("faults { drop: 1 }", "faults { crash: 1, pause: 1, down: 1, partition: 1, timeout: 1 }")), "dropped"
    )
    assert {u.label.actor for u in probe.system.updates if u.label.role == "fault"} == {"Mirror"}


def test_ruling_10() -> None:
    as_said(10)
    little, much = checked(10, "little"), checked(10, "much")
    never = set(little.never_fired) & set(much.never_fired)
    assert never == {"action Steps.never"}
    # `later` fires in one check only, and that will do; what a constant switches off does not count.
    assert "action More.later" not in little.never_fired + much.never_fired
    assert not any("off" in name for name in never)
    # Beside `expect violation of`, default properties are reported and not judged; else they count.
    lost = text(5, ("expect violation of lost_update as safety within 2", "expect panic"))
    assert report(lost, "increments").status == 1
    other = text(
        5,
        ("expect violation of lost_update as safety within 2", "expect violation of big"),
        ("check increments {", "property big = always Counter.all(c, c.spec.n < 1)\ncheck increments {"),
    )
    answer = report(other, "increments")
    assert answer.status == 0
    (line,) = [r for r in answer.results if r.property == "lost_update"]
    assert told(line.verdict) == "safety 2" and not line.judged


def test_ruling_11() -> None:
    as_said(11)
    # `at most N` is N in all: with two, both boxes can be had.
    two = text(11, ("at most 1 {", "at most 2 {"))
    assert verdicts(two, "two_boxes")["one_only"].startswith("safety")
    assert verdicts(two, "two_boxes")["whole"] == "holds"
    # Only the start is unfair: the rest is an ordinary fair step.
    probe = Probe(text(11), "two_boxes")
    roles = {(u.label.role, u.label.fair) for u in probe.system.updates if u.label.actor == "Users"}
    assert roles == {("environment", False), ("step", True)}


def test_ruling_12() -> None:
    as_said(12)
    # Without the gate the same create is AlreadyExists.
    open_ = text(12, ("run    Gate, Maker", "run    Maker"))
    verdict = verdicts(open_, "gate_first")
    assert verdict["taken"].startswith("safety") and verdict["denied"] != "holds"
    # A quoted name is no reference: a later given cannot use it as a variable.
    assert not any(g.bound for g in program(12).checks[0].given)


def test_ruling_13() -> None:
    as_said(13)
    # The same watch with keys from the flag itself is evaluated at the write and misses nothing.
    own = text(
        13,
        ("watches Flag as f -> Box.filter(b, b.spec.flag == f.name)", "watches Flag as f -> f.spec.of"),
        ("resource Flag { spec { up: bool } }", "resource Flag { spec { up: bool, of: ref Box? } }"),
        ('given  Flag "f" { }', 'given  Flag "f" { spec: { of: "a" } }'),
    )
    assert verdicts(own, "unlinked_yet")["follows"].startswith("stuck")  # woken, but the link is not seen yet
    live = own.replace(
        'if b.spec.flag == "f" && f != null',
        'let now = get live Box b.name\n    if now != null && now.spec.flag == "f" && f != null',
    )
    assert verdicts(live, "unlinked_yet")["follows"] == "holds"
    unread = text(
        13,
        ("  reconcile b {\n", "  reconcile b {\n    let fresh = get live Box b.name\n"),
        ('if b.spec.flag == "f" && f != null', 'if fresh != null && fresh.spec.flag == "f" && f != null'),
    )
    assert verdicts(unread, "unlinked_yet")["follows"].startswith("stuck")  # nobody woke it


def test_ruling_14() -> None:
    as_said(14)
    # A key that names an object that was there once does run `gone`.
    somebody = text(14, ('patch n.spec { about: "nobody" }', 'patch n.spec { about: "a" }'))
    assert verdicts(somebody, "nobody")["none"] == "holds"
    gone = somebody.replace("action ring", "action remove(b: Box) at most 1 { delete b }\n  action ring")
    assert verdicts(gone, "nobody")["none"].startswith("safety")


def test_ruling_15() -> None:
    as_said(15)
    # Ties are a choice: with the first by slot alone, one of the two would never be chosen; with no order, c would be.
    assert found(15, "folds")["a_first"] == found(15, "folds")["b_first"] == "holds"
    no_tie = text(15, ("all.sortBy(x, x.spec.n)", 'all.sortBy(x, x.name == "b" ? 0 : 1)'))
    verdict = verdicts(no_tie, "folds")
    assert verdict["a_first"] != "holds" and verdict["b_first"] == "holds"
    maximum = text(15, (".min(b, b.spec.n) >= 0", ".max(b, b.spec.n) >= 0"))
    assert verdicts(maximum, "folds")["least"] == "safety 0"
    first = text(15, (".min(b, b.spec.n) >= 0", ".sortBy(b, b.name).first().spec.n >= 0"))
    assert verdicts(first, "folds")["least"] == "safety 0"


def test_ruling_16() -> None:
    as_said(16)
    # A range goes in its own order.
    own = text(
        16,
        (
            'for x in all { create Mark { name: "m-" + x.name, spec.of: x.name }',
            'for i in 0..1 { create Mark { name: "m-" + i, spec.of: i == 0 ? "a" : "b" }',
        ),
    )
    verdict = verdicts(own, "orders")
    assert verdict["a_alone"] == "holds" and verdict["b_alone"] != "holds"
    # A sorted list, too.
    ordered = text(16, ("for x in all {", 'for x in all.sortBy(x, x.name == "a" ? 0 : 1) {'))
    verdict = verdicts(ordered, "orders")
    assert verdict["a_alone"] == "holds" and verdict["b_alone"] != "holds"


def test_ruling_17() -> None:
    as_said(17)
    # Only a Pod with a nodeName lingers: another kind does not, though it has the field.
    other = text(
        17,
        ('resource Pod "v1"', 'resource Task "v1"'),
        ("p: Pod", "p: Task"),
        ("Pod.", "Task."),
        ("given  Pod", "given  Task"),
        ("Pod: 1", "Task: 1"),
        ('bind p to "nowhere" on Conflict { } on NotFound { }', 'patch p.spec { nodeName: "nowhere" }'),
    )
    assert verdicts(other, "bound")["there"] == "safety 1"
    # Nor a view without it; and `delete now` ends it.
    now = text(17, ("{ delete p }", "{ delete p now }"))
    assert verdicts(now, "bound")["there"] == "safety 1"


def test_ruling_18() -> None:
    as_said(18, undecided=("too_small",))
    assert "Mark slots" in " ".join(checked(18, "too_small").bounds)
    assert not checked(18, "large_enough").bounds
    # The overflow is tried again with one and two slots more: three marks overflow twice, and are no endless creation.
    three = text(18, ("memory made: 0..2 = 0", "memory made: 0..3 = 0"), ("made < 2", "made < 3"))
    assert report(three, "too_small").status == 3
    four = text(18, ("memory made: 0..2 = 0", "memory made: 0..4 = 0"), ("made < 2", "made < 4"))
    (line,) = [r for r in report(four, "too_small").results if r.property == "unbounded"]
    assert told(line.verdict).startswith("safety")  # beyond two more the kernel cannot tell


def test_ruling_19() -> None:
    as_said(19)
    # The trigger is gone when the component is reached; the debt is not.
    assert found(19, "owed")["answered"] == "stuck 2"
    # Paid once is paid.
    paid = text(19, ("b.spec.n == 1 leads to b.spec.n == 3", "b.spec.n == 1 leads to b.spec.n == 2"))
    assert verdicts(paid, "owed")["answered"] == "holds"
    # Nothing is owed that was never triggered.
    idle = text(19, ("b.spec.n == 1 leads to", "b.spec.n == 3 leads to"))
    assert verdicts(idle, "owed")["answered"] == "holds"
