"""Bodies: flow, handlers, memory, events, choices, panics; and what a pass costs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from dashpot.grammar.load import load
from dashpot.runtime.controller.assign import memory_of
from dashpot.runtime.controller.body import Body
from dashpot.runtime.controller.externs import ExternError, Externs
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.views import Views
from tests.controller.kit import NOW, Noting, World, failing, frame, ran, reconcile, spec

Object = dict[str, Any]
HEAD = """
resource Site "example.com/v1" {
  spec { n: 0..5 = 1; tags: set[Name]; cfg: map[Name]int; host: Name? }
  status { ready: 0..5 }
}
resource Part "example.com/v1" { spec { on: bool; n: int } }
"""


def site(**spec_: Any) -> Object:
    meta = {"name": "web", "namespace": "n", "uid": "u1", "resourceVersion": "7"}
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": meta, "spec": spec_}


def part(name: str, owner: str = "u1", **spec_: Any) -> Object:
    refs = [{"kind": "Site", "name": "web", "uid": owner, "controller": True}] if owner else []
    meta = {"name": name, "namespace": "n", "uid": f"p-{name}", "ownerReferences": refs}
    return {"apiVersion": "example.com/v1", "kind": "Part", "metadata": meta, "spec": spec_}


def body(text: str, clauses: str = "") -> str:
    return f"{HEAD}\ncontroller C for Site {{\n{clauses}\n  reconcile s {{\n{text}\n  }}\n}}"


def run(text: str, caller: Noting, *parts: Object, this: Object | None = None, **options: Any) -> Any:
    mine = this or site()
    return ran(spec(body(text)), caller, mine, *parts, s=mine, **options)


def test_loops_conditions_and_the_end() -> None:
    caller = Noting()
    outcome, _ = run(
        'for i in 1..3 { if i == 2 { create Part { name: "p-" + i } } }; for i in 3..1 { delete s }; requeue after 5s',
        caller,
    )
    assert (outcome.how, outcome.delay_ms) == ("after", 5000)
    assert [r.body["metadata"]["name"] for r in caller.requests] == ["p-2"]
    assert run("return", caller)[0].how == "done" and run("requeue", caller)[0].how == "requeue"


def test_a_filter_over_owners_is_answered_by_the_index() -> None:
    text = "let mine = list cached Part where p -> p.owner == s && p.spec.on; requeue after mine.size() == 1 ? 1s : 2s"
    parts = part("a", on=True), part("b"), part("c", "u2", on=True)
    outcome, at = run(text, Noting(), *parts)
    assert outcome.delay_ms == 1000
    assert isinstance(at.reader, World) and at.reader.asked == [("owner", "u1")]
    outcome, at = run(text.replace("p.owner == s", "p.owner == null"), Noting(), *parts, part("d", "", on=True))
    assert outcome.delay_ms == 1000 and at.reader.asked == [("owner", None)]


def test_a_pass_sees_its_namespace() -> None:
    far = part("a")
    far["metadata"]["namespace"] = "m"
    outcome, _ = run("let all = list cached Part; if all.isEmpty() { requeue }", Noting(), far)
    assert outcome.how == "requeue"


def test_a_handler_that_goes_on_leaves_null_behind_a_create() -> None:
    text = 'let made = create Part { name: "p" } on AlreadyExists { }; if made == null { requeue }'
    assert run(text, Noting({"create": failing("AlreadyExists")}))[0].how == "requeue"
    assert run(text, Noting())[0].how == "done"
    outcome, _ = run(text, Noting({"create": failing("Denied")}))
    assert (outcome.how, outcome.error, outcome.message) == ("error", "Denied", "it is Denied")


def test_what_is_undefined_panics_at_its_place() -> None:
    outcome, _ = run("if s.spec.cfg['k'] > 1 { requeue }", Noting())
    assert outcome.how == "panic" and "'k'" in outcome.message and outcome.span.line == 15
    outcome, _ = run("let x = any s.spec.tags; delete s", Noting())
    assert outcome.how == "panic" and outcome.message == "there is nothing to choose from"


def test_events_are_told_in_place() -> None:
    caller = Noting()
    run('event s Warning "Low" "only " + string(s.spec.n); event s Normal "Next" "x"', caller)
    assert caller.notes == [("web", "Warning", "Low", "only 1"), ("web", "Normal", "Next", "x")]


CHANGED: dict[str, list[Any]] = {
    "update s.status { ready: 2 } if changed": [2, 3],
    "update s.spec { host: null } if changed": [None, "h"],
    'patch s.spec { cfg["k"]: 1 } if changed': [{"k": 1}, {}],
    'patch s.spec { cfg["k"]: null } if changed': [{}, {"k": 1}],
}


@pytest.mark.parametrize("text", CHANGED)
def test_if_changed_writes_only_what_differs(text: str) -> None:
    for value, calls in zip(CHANGED[text], (0, 1), strict=True):
        this = site()
        if "ready" in text:
            this["status"] = {"ready": value}
        else:
            this["spec"]["host" if "host" in text else "cfg"] = value
        caller = Noting()
        outcome, _ = run(text, caller, this=this)
        assert outcome.how == "done" and len(caller.requests) == calls, (text, value)


def test_choices_are_the_choosers() -> None:
    def last(at: Frame) -> None:
        at.choose = lambda count: count - 1

    text = "let ps = list cached Part; for p in ps.sortBy(p, p.spec.n).take(1) { delete p }; let q = any ps; delete q"
    parts = part("a", n=2), part("b", n=1), part("c", n=1)
    first, second = Noting(), Noting()
    run(text, first, *parts)
    run(text, second, *parts, prepare=last)
    assert [r.name for r in first.requests] == ["b", "a"]
    assert [r.name for r in second.requests] == ["c", "c"]


def test_memory_is_assigned_by_copy_and_null_takes_out() -> None:
    program = spec(
        body(
            "seen['a'] = 1; seen['b'] = 2; seen['a'] = null; last = s.name",
            "memory seen: map[Name]int = {}; memory last: Name?",
        )
    )
    views = Views(program)
    memory = memory_of(program.controllers[0].memory, views.constants)
    assert memory == {"seen": {}, "last": None}
    before = memory["seen"]
    at = frame(views, s=site())
    at.memory = memory
    asyncio.run(Body(reconcile(program), views).run(at, Noting()))
    assert memory == {"seen": {"b": 2}, "last": "web"} and before == {}


def test_an_extern_is_computed_by_the_file_beside(tmp_path: Path) -> None:
    file = tmp_path / "shop.loop"
    file.write_text(
        body("requeue after wait(s.spec.n)").replace(";", "\n")
        + "\nextern fun wait(n: int): Duration abstract any [1s, 2s]\n"
    )
    program = load(file)
    views = Views(program)
    with pytest.raises(ExternError, match=r"shop\.py, and there is no such file"):
        Body(reconcile(program), views, Externs())
    name = f"{program.main}.wait"
    at = frame(views, s=site(n=1))
    given = asyncio.run(Body(reconcile(program), views, Externs({name: lambda n: n * 5000})).run(at, Noting()))
    assert (given.how, given.delay_ms) == ("after", 5000)
    with pytest.raises(ExternError, match="in what was given does not take 1 argument"):
        Body(reconcile(program), views, Externs({name: lambda: 0}))
    beside = tmp_path / "shop.py"
    beside.write_text("def wait(n: int, m: int) -> int:\n    return n\n")
    with pytest.raises(ExternError, match="does not take 1 argument"):
        Body(reconcile(program), views, Externs())
    beside.write_text("def wait(n: int) -> int:\n    return 7000 // (n - 1)\n")
    work = Body(reconcile(program), views, Externs())
    assert asyncio.run(work.run(frame(views, s=site(n=2)), Noting())).delay_ms == 7000
    broken = asyncio.run(work.run(frame(views, s=site(n=1)), Noting()))
    assert broken.how == "panic" and "`wait` failed: ZeroDivisionError" in broken.message


REPLICAS = """
use kubernetes.core (Pod)
resource ReplicaSet "apps/v1" { spec { replicas: int }; status { replicas: int; readyReplicas: int } }
controller R for ReplicaSet {
  owns Pod
  reconcile rs {
    let pods = list cached Pod where p -> p.owner == rs && p.deletionTimestamp == null
    for p in pods.sortBy(p, p.status.ready).take(pods.size() - rs.spec.replicas) { delete p if same }
    update rs.status { replicas: pods.size(), readyReplicas: pods.count(p, p.status.ready) } if changed
  }
}
"""


def test_a_pass_over_fifty_pods_takes_well_under_a_millisecond() -> None:
    program = spec(REPLICAS)
    views = Views(program)
    meta = {"name": "web", "namespace": "n", "uid": "u1"}
    status = {"replicas": 50, "readyReplicas": 50}
    rs = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": 50}, "status": status}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
    owned = [{"uid": "u1", "controller": True}]
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod", "status": {"conditions": conditions},
            "metadata": {"name": f"p{i}", "namespace": "n", "uid": f"p{i}", "ownerReferences": owned},
        }
        for i in range(50)
    ]  # fmt: skip
    work, world, caller = Body(reconcile(program), views), World(views, *pods), Noting()
    found = world.all("Pod", "n")

    class Filed:
        def get(self, kind: str, namespace: str, name: str) -> None:
            return None

        def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Any:
            return found

    async def passes() -> float:
        best = 1.0
        for _ in range(50):
            at = Frame(views.constants, Filed(), lambda: NOW, "n", locals={"rs": views.obj(rs)})
            begun = time.perf_counter()
            outcome = await work.run(at, caller)
            best = min(best, time.perf_counter() - begun)
            assert outcome.how == "done"
        return best

    assert asyncio.run(passes()) < 0.001
    assert caller.requests == []
