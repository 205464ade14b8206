"""Bodies as automata: one API call a node, handlers and loops that lead where they should."""

from __future__ import annotations

from dashpot.grammar.load import load, load_text
from dashpot.model import automaton as a
from dashpot.model import expr as e
from dashpot.model import types as t
from tests.grammar.corpus import HERE, specs
from tests.tree import ROOT

OURS = [ROOT / name for name in specs() if not (ROOT / name).is_relative_to(HERE)]

SITE = """\
resource Site "example.com/v1" {
  spec   { size: 0..3 = 1, host: ref Node? }
  status { ready: 0..3 = 0 }
}
resource Node "v1" { }
resource Part "v1" { spec { slot: 0..3, site: ref Site? } }
"""


def reconcile(body: str, clauses: str = "") -> a.Automaton:
    program = load_text(f"{SITE}controller Web for Site {{\n{clauses}\n  reconcile s {{\n{body}\n  }}\n}}\n")
    return program.controllers[0].reconcile


def test_reads_are_terms_or_calls() -> None:
    body = reconcile(
        "let x = get cached Node s.name\nlet y = list cached Part where q -> q.owner == s\n"
        "let z = get live Node s.name on Timeout { requeue }\nlet w = list live Part"
    )
    x, y, z, timeout, w, done = body.nodes
    assert isinstance(x, a.Bind) and isinstance(x.value, e.Cached) and x.value.verb == "get"
    assert x.value.type == t.Optional(t.Object("Node"))
    assert isinstance(y, a.Bind) and isinstance(y.value, e.Cached) and y.value.var == "q"
    assert isinstance(z, a.Call) and (z.verb, z.result, z.next, z.handlers) == ("get", "z", 4, (("Timeout", 3),))
    assert timeout == a.End("requeue")
    assert isinstance(w, a.Call) and (w.verb, w.kind, w.result) == ("list", "Part", "w")
    assert done == a.End("done")


def test_a_handler_that_does_not_leave_goes_on_behind_the_call() -> None:
    body = reconcile("delete s on NotFound { } on Conflict { requeue after 5s }\nlet n = 1")
    delete, after, bind, done = body.nodes
    assert isinstance(delete, a.Call)
    assert delete.next == 2 and delete.handlers == (("NotFound", 2), ("Conflict", 1))
    assert after == a.End("after", e.Literal(5000, t.Duration()))
    assert isinstance(bind, a.Bind) and bind.next == 3 and done == a.End("done")


def test_loops_lead_back_and_branches_meet() -> None:
    body = reconcile("for i in 0..2 {\n  if i > 1 { delete s } else { return }\n}\nlet n = 1")
    entry, loop, branch, delete, leave, bind, done = body.nodes
    assert isinstance(loop, a.Loop) and (loop.body, loop.next, loop.var) == (2, 5, "i")
    assert isinstance(entry, a.Bind) and (entry.name, entry.value) == (a.cursor(loop.id), loop.over)
    assert isinstance(branch, a.Branch) and (branch.then, branch.other) == (3, 4)
    assert isinstance(delete, a.Call) and delete.next == 1 and leave == a.End("done")
    assert isinstance(bind, a.Bind) and done == a.End("done")


def test_loops_have_their_own_cursors() -> None:
    body = reconcile("for i in 0..2 {\n  for j in 0..i { }\n}")
    assert [n.id for n in body.nodes if isinstance(n, a.Loop)] == [1, 2]


def test_else_if_chains() -> None:
    body = reconcile("if s.spec.size > 2 { return } else if s.spec.size > 1 { requeue } else { delete s }")
    first, one, second, two, delete, done = body.nodes
    assert isinstance(first, a.Branch) and (first.then, first.other) == (1, 2)
    assert isinstance(second, a.Branch) and (second.then, second.other) == (3, 4)
    assert (one, two, done) == (a.End("done"), a.End("requeue"), a.End("done"))
    assert isinstance(delete, a.Call) and delete.next == 5


def test_writes_say_what_they_assume() -> None:
    body = reconcile(
        "update s.spec { size: 1 } force\npatch s { finalizers: s.finalizers + ['x'] } if unchanged\n"
        "patch strategic s.spec { size: 2 }\npatch json s {\n  test finalizers: s.finalizers\n  remove spec.host\n}\n"
        "apply s.status { ready: 1 } force\ndelete s if same foreground\nevict s\nbind s to s.spec.host"
    )
    calls = [n for n in body.nodes if isinstance(n, a.Call)]
    assert [(c.verb, c.dialect, c.side, c.guard, c.how, c.force) for c in calls] == [
        ("update", "", "spec", "", "", True),
        ("patch", "merge", "meta", "unchanged", "", False),
        ("patch", "strategic", "spec", "", "", False),
        ("patch", "json", "meta", "", "", False),
        ("apply", "", "status", "", "", True),
        ("delete", "", "meta", "same", "foreground", False),
        ("evict", "", "meta", "", "", False),
        ("bind", "", "meta", "", "", False),
    ]
    assert {c.result for c in calls} == {"s"}
    assert [[f.path for f in c.fields] for c in calls[:3]] == [
        [("spec", "size")],
        [("finalizers",)],
        [("spec", "size")],
    ]
    assert [(o.op, o.path, o.value is None) for o in calls[3].ops] == [
        ("test", ("finalizers",), False),
        ("remove", ("spec", "host"), True),
    ]


def test_objects_are_flattened_to_paths_from_the_root() -> None:
    body = reconcile(
        'let made = create Part { generateName: s.name + "-", owner: s, labels: { app: "x" }, '
        "spec: { slot: 1 }, spec.site: s.name }"
    )
    (call, _) = body.nodes
    assert isinstance(call, a.Call) and call.result == "made"
    assert [f.path for f in call.fields] == [
        ("generateName",),
        ("owner",),
        ("labels",),
        ("spec", "slot"),
        ("spec", "site"),
    ]
    labels = call.fields[2].value
    assert labels == e.ObjectLiteral(
        (e.Assignment(("app",), e.Literal("x", t.Opaque())),), t.MapOf(t.Name(), t.Opaque())
    )


def test_keyed_paths_are_terms() -> None:
    program = load_text(
        "enum Slot { s0, s1 }\nstruct Change { slot: Slot, on: bool }\n"
        'resource World "v1" { spec { store: map[Slot]bool, queue: []Change } }\n'
        "environment E {\n  action go(w: World, s: Slot) {\n"
        "    update w.spec { store[s]: true, store.s1: false, queue: w.spec.queue.drop(1) + [{ slot: s, on: true }] }\n"
        "    update w.spec { store: {}, queue: [] }\n  }\n}\n"
    )
    first, second, _ = program.environments[0].actions[0].body.nodes
    slot = t.Enum("Slot", ("s0", "s1"))
    assert isinstance(first, a.Call) and isinstance(second, a.Call)
    assert [f.path for f in first.fields] == [
        ("spec", "store", e.Local("s", slot)),
        ("spec", "store", "s1"),
        ("spec", "queue"),
    ]
    change = t.Struct("Change", (("slot", slot), ("on", t.Bool())))
    assert first.fields[2].value.type == t.ListOf(change)
    assert [f.value.type for f in second.fields] == [t.MapOf(slot, t.Bool()), t.ListOf(change)]


def test_names_used_for_two_types_in_one_body_are_two_locals() -> None:
    body = reconcile("if s.spec.size > 1 {\n  let x = 1\n} else {\n  let x = true\n}\nif s.spec.size > 2 { let x = 2 }")
    assert [n.name for n in body.nodes if isinstance(n, a.Bind)] == ["x", "x~2", "x"]


def test_every_node_of_every_body_leads_somewhere() -> None:
    for path in OURS:
        program = load(path)
        bodies = [c.reconcile for c in program.controllers] + [
            x.body
            for actions in [y.actions for y in program.processes] + [y.actions for y in program.environments]
            for x in actions
        ]
        for body in bodies:
            reached, todo = {0}, [0]
            while todo:
                for following in successors(body.nodes[todo.pop()]):
                    if following not in reached:
                        reached.add(following)
                        todo.append(following)
            assert reached == set(range(len(body.nodes))), path


def successors(node: a.Node) -> list[int]:
    match node:
        case a.Branch(then=then, other=other):
            return [then, other]
        case a.Loop(body=body):
            return [body, node.next]
        case a.Call(handlers=handlers):
            return [node.next, *(n for _, n in handlers)]
        case a.End():
            return []
        case _:
            return [node.next]
