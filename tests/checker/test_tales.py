"""What a story says to somebody who knows Kubernetes and not the checker: the right sentence for each fact."""

from __future__ import annotations

import functools

import pytest
from tests.kernel.probe import asked, spec

from dashpot.checker import explore
from dashpot.checker.hindrance import conditions
from dashpot.checker.scene import Stage
from dashpot.checker.story import Story, story
from dashpot.checker.tell import tell
from dashpot.checker.verdict import Violated
from dashpot.model.kernel.build import build
from dashpot.model.span import Span


@functools.cache
def told(text: str, name: str) -> Story:
    """The story of the violation of a property."""
    program = spec(text)
    check = asked(program)
    found = next(r for r in explore.check(program, check).results if r.property == name)
    assert isinstance(found.verdict, Violated), found
    return story(build(program, check), found.verdict, dict(program.sources), property=name)


def notes(tale: Story) -> list[str]:
    return [step.note for step in tale.steps if step.note]


SECRETS = """
resource Dc { }
resource Secret { }
controller Cass for Dc {
  owns Secret
  reconcile d {
    let ca = get cached Secret d.name + "-ca"
    if ca == null {
      create Secret { name: d.name + "-ca", owner: d } on AlreadyExists { }
      create Secret { name: d.name + "-key", owner: d } on AlreadyExists { }
    }
  }
}
property every for d in Dc = converges to Secret.count(s, s.owner == d) == 2
check c { run Cass; scope { Dc: 2, Secret: 4 }; faults { crash: 1 }; given Dc a { }; given Dc b { } }
"""


def test_a_read_by_name_is_not_misled_by_other_names() -> None:
    """The secrets of b are not in the cache yet; what is done for a does not depend on them."""
    tale = told(SECRETS, "every")
    assert not any(step.stale for step in tale.steps)
    assert len(tale.fix) == 1 and "cuts Cass off halfway" in tale.fix[0]


TWINS = """
resource Db { }
resource Pod { spec { role: Name? } }
controller Op for Db {
  owns Pod
  reconcile d {
    let mine = list cached Pod where p -> p.owner == d
    if mine.isEmpty() { create Pod { generateName: d.name + "-", owner: d } }
    update d { labels: { "seen": "yes" } } on Conflict { requeue }
  }
}
property one for d in Db = always Pod.count(p, p.owner == d) <= 1
check c { run Op; scope { Db: 2, Pod: 3 }; faults { }; given Db a { }; given Db b { } }
"""


def test_only_what_would_have_decided_otherwise_is_stale() -> None:
    """A second pod is made since the first is not seen; the pod of the other database misled nobody."""
    tale = told(TWINS, "one")
    marks = [(step.number, stale.object) for step in tale.steps for stale in step.stale]
    assert len(marks) == 1 and marks[0][0] == len(tale.steps)
    assert "does not show its own step" in tale.fix[0]


RESTART = """
resource Zk { }
resource Claim { }
controller Op for Zk {
  owns Claim
  reconcile z {
    let mine = list cached Claim where p -> p.owner == z
    if mine.isEmpty() { create Claim { generateName: z.name + "-", owner: z } }
  }
}
property one for z in Zk = always Claim.count(p, p.owner == z) <= 1
check c { run Op; scope { Zk: 1, Claim: 2 }; faults { stale_restart: 1 }; given Zk zk { } }
"""


def test_a_restart_on_an_old_server_is_told() -> None:
    tale = told(RESTART.replace("owns Claim", "owns Claim; cache Claim read_own_writes"), "one")
    text = " ".join(notes(tale))
    assert "the API server that Op will restart against stands still here" in text
    assert "Op restarts and lists everything as it was at step" in text
    freeze = next(s.number for s in tale.steps if s.verb == "freeze")
    (stale,) = tale.steps[-1].stale
    made = [s.number for s in tale.steps if s.verb == "create"]
    assert freeze < made[0] and stale.missing == (made[0],), "the change since the server stood still, not the restart"


EVENT = """
resource Pod { spec { nodeName: Name?; claim: Name? } }
resource Claim { }
controller Op for Pod {
  reconcile p {
    if p.deletionTimestamp == null { return }
    let c = get live Claim p.spec.claim
    if c != null { delete c on NotFound { } }
  }
}
process Kubelet { action finish(p: Pod) when p.deletionTimestamp != null { delete p now on NotFound { } } }
environment Scaler { action down(p: Pod) at most 1 { delete p } }
property clean for c in Claim = converges to Pod.exists(p, p.spec.claim == c.name)
check c {
  run Op, Kubelet, Scaler
  scope { Pod: 1, Claim: 1 }
  faults { }
  given Claim "c" { }
  given Pod "p" { spec: { nodeName: "n", claim: "c" } }
}
"""


def test_changes_that_come_as_one_are_told_with_what_nobody_saw() -> None:
    (note,) = notes(told(EVENT, "clean"))
    assert note == "steps 1 and 2 come as one change and Op never sees Pod p deletionTimestamp = set"


CONFIG = """
resource Config { spec { v: 0..1 }; status { applied: 0..1 } }
controller Applier for Config FILTER {
  reconcile c { update c.status { applied: c.spec.v } on Conflict { requeue } }
}
environment Users { action edit(c: Config) at most 1 { patch c.spec { v: 1 } } }
property last for c in Config = converges to c.status.applied == c.spec.v
check c { run Applier, Users; scope { Config: 1 }; faults { FAULTS }; RESYNC; given Config a { } }
"""


@pytest.mark.parametrize("resync", ["resync off", "resync on"])
def test_a_dropped_event_says_which_and_is_not_cured_by_a_resync(resync: str) -> None:
    text = CONFIG.replace("FILTER", "").replace("FAULTS", "drop Config: 1").replace("RESYNC", resync)
    tale = told(text, "last")
    edit = next(s.number for s in tale.steps if s.role == "environment")
    assert f"Applier never hears of step {edit} (Config a spec.v = 1)" in notes(tale)
    assert "live" in tale.fix[0] and "for a resync goes by the cache" in tale.fix[0]
    assert not any("`when`" in line or "watches" in line for line in tale.fix)


def test_a_filter_of_the_own_kind_is_named_as_what_it_is() -> None:
    text = CONFIG.replace("FILTER", "as c when false").replace("FAULTS", "").replace("RESYNC", "resync off")
    (advice,) = told(text, "last").fix
    assert "the `when` of `for Config` filters it out" in advice and "watches" not in advice


ROLLOUT = """
enum V { v1, v2 }
resource Node { spec { cpu: 0..2 } }
resource Deployment { spec { v: V = v2 } }
resource Pod { spec { nodeName: ref Node?; v: V = v1 }; status { ready: bool } }
fun on(n: Node): int = Pod.count(p, p.spec.nodeName == n.name)
fun fits(n: Node): bool = on(n) < n.spec.cpu
process Scheduler {
  action place(p: Pod, n: Node) when p.spec.nodeName == null && fits(n) { bind p to n on Conflict { } }
}
process Kubelet {
  action start(p: Pod) when p.spec.nodeName != null && !p.status.ready {
    update p.status { ready: true } on Conflict { }
  }
}
property rolled for d in Deployment = converges to Pod.exists(p, p.spec.v == d.spec.v && p.status.ready)
check c {
  run Scheduler, Kubelet
  scope { Deployment: 1, Node: 1, Pod: 2 }
  faults { }
  given Node n { spec: { cpu: 1 } }
  given Deployment d { }
  given Pod "old" { spec: { nodeName: "n", v: v1 }, status: { ready: true } }
  given Pod "new" { spec: { v: v2 } }
}
"""


def test_the_guard_that_keeps_the_helping_step_from_happening_is_named() -> None:
    """Nearest to the property first: the pod cannot start, since it cannot be placed, since it does not fit."""
    tale = told(ROLLOUT, "rolled")
    start = "`Kubelet start` cannot happen: `p.spec.nodeName != null` is false (p = new)."
    place = "`Scheduler place` cannot happen: `fits(n)` is false (p = new, n = n)."
    assert start in tale.why and tale.why.index(place) == tale.why.index(start) + 1


CYCLE = """
resource Cycle { }
resource Deployment { }
process Op at d in Deployment {
  action adopt(c: Cycle) when c.deletionTimestamp == null && !("cycle" in c.finalizers) && Deployment.size() > 0 {
    update c { finalizers: ["cycle"] } on Conflict { } on NotFound { }
  }
  action clear(c: Cycle) when c.deletionTimestamp != null && "cycle" in c.finalizers && Deployment.size() > 0 {
    update c { finalizers: [] } on Conflict { } on NotFound { }
  }
}
environment Helm {
  action drop_operator(d: Deployment) at most 1 { delete d }
  action drop_objects(c: Cycle) at most 2 { delete c }
}
check c { run Op, Helm; scope { Cycle: 1, Deployment: 1 }; faults { }; given Cycle a { }; given Deployment "op" { } }
"""


def test_a_step_that_changes_nothing_is_no_way_out() -> None:
    """Deleting what terminates already helps nobody; that the operator is gone is the reason."""
    tale = told(CYCLE, "terminates")
    assert "`Op[op] clear` cannot happen: `Deployment.size() > 0` is false (c = a)." in tale.why
    assert not any("drop_objects" in line for line in tale.why)
    assert tale.sentence == "Cycle a is being deleted and never goes."


def test_objects_are_called_as_the_actions_that_are_given_them_call_them() -> None:
    """Nobody writes the node."""
    program = spec(ROLLOUT)
    assert Stage(build(program, asked(program))).title(("Node", 0)) == "Node n"


def test_the_parts_of_a_guard() -> None:
    text = 'action go(p: Pod)\n  when f(p, a && b) && "x && {" in p.l\n    && p.ok at most 2 { delete p }'
    place = Span("a.loop", 1, 8, 1, 10)
    assert conditions({"a.loop": text}, place) == ["f(p, a && b)", '"x && {" in p.l', "p.ok"]
    assert conditions({"a.loop": "action go() { }"}, place) == conditions({}, place) == []


EVICTS = """
resource Pod { spec { nodeName: Name? } }
process Maker { action make() when Pod.size() == 0 { create Pod { name: "web" } on AlreadyExists { } } }
process Scheduler {
  action place(p: Pod) when p.spec.nodeName == null { bind p to "n" on Conflict { } on NotFound { } }
}
process Kubelet { action finish(p: Pod) when p.deletionTimestamp != null { delete p now on NotFound { } } }
process Mover {
  action evict_it(p: Pod) when p.spec.nodeName != null && p.deletionTimestamp == null {
    evict p on TooManyRequests { } on NotFound { }
  }
}
check c { run Maker, Scheduler, Kubelet, Mover; scope { Pod: 1 }; faults { } }
"""


def test_a_hot_loop_of_several_says_who_makes_and_who_takes_away() -> None:
    tale = told(EVICTS, "hot_loop")
    assert "*" not in tale.title + tale.sentence
    assert tale.sentence == "Pod web is made by Maker and taken away by Mover and Kubelet again and again, for ever."
    assert tale.fix[0].startswith("Mover takes away Pod web, and Maker makes another, for ever")
    assert not any("differs" in line for line in tale.fix)


KEYS = """
resource Secret { spec { issuedFor: Name? } }
resource Cert { }
controller Manager for Cert {
  watches Secret as s -> Cert
  reconcile c {
    let s = get cached Secret "tls"
    if s != null && s.spec.issuedFor != c.name { patch s.spec { issuedFor: c.name } on NotFound { } }
  }
}
check c {
  run Manager
  scope { Cert: 2, Secret: 1 }
  faults { }
  given Cert a { }
  given Cert b { }
  given Secret "tls" { }
}
"""


def test_two_keys_of_one_controller_that_write_in_turns() -> None:
    (advice, *_) = told(KEYS, "hot_loop").fix
    assert advice.startswith("Manager writes spec.issuedFor of Secret tls in turns for Cert ")
    assert told(KEYS, "hot_loop").title == "hot_loop for spec.issuedFor of Secret tls"


LEASE = """
resource Lease { spec { renewed: Time? } }
resource Box { spec { n: 0..1 } }
process Agent {
  action renew(l: Lease) when since(l.spec.renewed) >= 1s { update l.spec { renewed: now() } on Conflict { } }
}
process Reader { action go(b: Box) when Lease.exists(l, since(l.spec.renewed) >= 5s) { patch b.spec { n: 1 } } }
property set for b in Box = converges to b.spec.n == 1
check c {
  run Agent, Reader
  scope { Lease: 1, Box: 1 }
  faults { }
  given Lease "east" { spec: { renewed: now() } }
  given Box b { }
  waive hot_loop for Lease.spec.renewed "renewed for ever"
}
"""


def test_a_clock_is_no_writer_and_other_fields_are_not_blamed() -> None:
    tale = told(LEASE, "set")
    assert not any("clock" in line or "in turns" in line for line in tale.fix)


MEMORY = """
resource Account { }
resource Secret { }
controller Pull for Account {
  memory asked: set[Name] = []
  reconcile a {
    if a.name in asked { return }
    create Secret { generateName: a.name + "-", owner: a }
    asked = asked + [a.name]
  }
}
property one for a in Account = always Secret.count(s, s.owner == a) <= 1
check c { run Pull; scope { Account: 1, Secret: 2 }; faults { FAULT: 1 }; given Account robot { } }
"""


@pytest.mark.parametrize("fault", ["crash", "stale_restart"])
def test_a_restart_that_loses_memory_is_told_as_that(fault: str) -> None:
    """The pass reads no list that could be old."""
    (advice,) = told(MEMORY.replace("FAULT", fault), "one").fix
    assert "takes asked.robot with it, which Pull had in memory only" in advice


ROLLED = """
resource Kafka { spec { rev: 0..1 } }
resource Pod { spec { rev: 0..1 } }
environment U {
  action again(p: Pod) at most 1 { patch p.spec { rev: 0 } }
  action bump(k: Kafka) at most 1 { patch k.spec { rev: 1 } }
}
property rolled for k in Kafka = converges to Pod.all(p, p.spec.rev == k.spec.rev)
check c { run U; scope { Kafka: 1, Pod: 1 }; faults { }; given Kafka k { spec: { rev: 1 } }; given Pod "p" { } }
"""


def test_a_field_that_fails_by_being_zero_is_shown() -> None:
    (conjunct,) = told(ROLLED, "rolled").blame.conjuncts
    assert [(b.text, b.values[-1]) for b in conjunct.bindings] == [("Kafka k spec.rev", "1"), ("Pod p spec.rev", "0")]


REMADE = """
resource Box { spec { n: 0..1 } }
controller C for Box { reconcile b { patch b.spec { n: 1 } on NotFound { } } }
environment U { action again(b: Box) at most 1 { delete b; create Box { name: "b" } } }
check c { run C, U; scope { Box: 1 }; faults { }; given Box "b" { } }
"""


def test_another_uid_is_told_in_words() -> None:
    tale = told(REMADE, "wrong_uid")
    (conjunct,) = tale.blame.conjuncts
    assert [b.values[-2] for b in conjunct.bindings] == ["an earlier object of the same name"]
    assert "incarnation" not in tell(tale) and tale.title == "wrong_uid for Box b"
    assert "its cache shows the earlier Box b, which is gone; another took the name" in " ".join(tell(tale).split())


AFTER = """
resource Owner { }
resource Set { spec { n: 0..1 } }
controller C for Owner {
  owns Set
  reconcile o {
    let s = get cached Set o.name
    if s == null { return }
    update s.spec { n: 1 } on NotFound { create Set { name: o.name, owner: o } on AlreadyExists { } }
  }
}
environment U { action remove(s: Set) at most 1 { delete s } }
property last = on create Set s by C require false
check c { run C, U; scope { Owner: 1, Set: 1 }; faults { }; given Owner a { }; given Set "a" { owner: Owner "a" } }
"""


def test_a_write_is_told_of_by_the_stale_read_earlier_in_its_pass() -> None:
    """The update was decided by the cache and is refused; the create behind it goes by the same read."""
    tale = told(AFTER, "last")
    assert tale.sentence == "`last` forbids this create of Set a." and tale.title == "last for create of Set a"
    assert [bool(step.stale) for step in tale.steps] == [False, True, False]
    assert tale.fix and tale.fix[0].startswith("Step 3 writes a decision that is older than the store")


MAP = """
resource Box { spec { n: 0..1 } }
controller C for Box {
  memory held: map[Name]Name = {}
  reconcile b { patch b.spec { n: 1 }; held[b.name] = b.name }
}
property low = never Box.exists(b, b.spec.n == 1)
check c { run C; scope { Box: 1 }; faults { }; given Box b { } }
"""


def test_memory_is_told_without_its_encoding() -> None:
    """Neither the bit that says whether a map has a key, nor entries that nobody uses, nor locals of the idle."""
    tale = told(MAP, "low")
    changes = [(c.field, c.before, c.after) for c in tale.steps[0].changes if c.where == "memory"]
    assert changes == [("held.b", "null", "b")]
    names = [name for scene in tale.scenes for name in scene.private.get("C", {})]
    assert "memory held.b" in names
    assert not any(name.endswith(".some") or name.startswith(("local ", "memory held.Box")) for name in names)


def test_the_stage_keeps_what_the_story_clears() -> None:
    """What is cleared is only not shown: every cell that is kept has its value of the state."""
    program = spec(MAP)
    stage = Stage(build(program, asked(program)))
    row = tuple(cell.initial for cell in stage.system.cells)
    whole = stage.scene(row)
    (cleared,) = stage.cleared([whole], [row])
    assert cleared.truth == whole.truth and cleared.caches == whole.caches
    for actor, kept in cleared.private.items():
        assert kept.items() <= whole.private[actor].items()
