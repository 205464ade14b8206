"""Pipes, claims and laws, each alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dashpot.model.span import NOWHERE
from dashpot.runtime.plane.plane import library_program
from dashpot.runtime.sim.claims import Broken, budget_of, expected, people_of
from dashpot.runtime.sim.deed import SERVER, Deed
from dashpot.runtime.sim.laws import BOUND_ONCE, STAYS_AVAILABLE, WITHIN_SURGE, Laws, share
from dashpot.runtime.sim.pipe import Pipe
from dashpot.runtime.sim.truth import Commit, Truth

Object = dict[str, Any]


async def _lines(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        await asyncio.sleep(0)


def _pipe(*chunks: bytes, first: tuple[bytes, ...] = ()) -> Pipe:
    return Pipe("controllers", "pods", _lines(*chunks), first, lambda pipe: None)


async def _read(pipe: Pipe) -> list[bytes]:
    return [line async for line in pipe.lines()]


def test_a_pipe_passes_all_on() -> None:
    assert asyncio.run(_read(_pipe(b"1\n2\n", b"3\n", first=(b"0\n",)))) == [b"0\n", b"1\n2\n", b"3\n"]


def test_a_pipe_loses_one_event_and_no_bookmark() -> None:
    mark = b'{"type":"BOOKMARK"}\n'
    pipe = _pipe(mark + b"1\n2\n")
    lost: list[bytes] = []
    pipe.lose(lost.append)
    assert asyncio.run(_read(pipe)) == [mark, b"2\n"]
    assert (lost, pipe.lossy) == ([b"1\n"], True)


def test_a_pipe_is_cut_before_its_next_line() -> None:
    pipe = _pipe(b"1\n")
    pipe.cut()
    assert asyncio.run(_read(pipe)) == []


def test_a_pipe_is_held_until_it_is_released() -> None:
    async def main() -> list[bytes]:
        pipe = _pipe(b"1\n2\n")
        pipe.hold()
        reading = asyncio.ensure_future(_read(pipe))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading.done()
        pipe.release()
        return await reading

    assert asyncio.run(main()) == [b"1\n", b"2\n"]


def test_what_is_claimed_is_what_checks_expect() -> None:
    program = library_program("kubernetes.replicaset")
    found = expected(program, "kubernetes.replicaset")
    assert set(found) == {"converges", "bounded", "observed", "full"}
    assert {check.name: budget_of(program, check) for check in found["bounded"]} == {
        "small": {"crash": 1, "timeout": 1},
        "losses": {"crash": 1, "relist": 1},
    }
    people = set().union(*(people_of(program, check) for check in found["bounded"]))
    assert people == {("update", "ReplicaSet", "spec.replicas"), ("delete", "Pod", "")}


def test_what_a_check_expects_to_be_violated_is_not_claimed() -> None:
    assert "one_down" not in expected(library_program("kubernetes.daemonset"), "kubernetes.daemonset")


@pytest.mark.parametrize(
    ("value", "of", "up", "is_"), [("25%", 3, True, 1), ("25%", 3, False, 0), (2, 3, True, 2), (None, 3, True, 0)]
)
def test_shares(value: object, of: int, up: bool, is_: int) -> None:
    assert share(value, of, up=up) == is_


class Court:
    """Laws over a truth that a test writes."""

    def __init__(self, fault_at: float = -100.0) -> None:
        self.now = 0.0
        self.truth = Truth(lambda: self.now)
        self.broken: list[Broken] = []
        self.laws = Laws(self.truth, self.broken.append, lambda: fault_at)

    def write(self, kind: str, new: Object, actor: str = "DeploymentController", at: float = 0.0) -> None:
        key = f"n/{new['metadata']['name']}"
        rows = self.truth.objects.setdefault(kind, {})
        self.now = at
        self.laws.before(Commit(at, 1, Deed(actor), kind, "v1", key, rows.get(key), new))
        rows[key] = new

    @property
    def laws_broken(self) -> list[str]:
        return [one.property for one in self.broken]


def obj(name: str, owner: str = "", **rest: Any) -> Object:
    meta: Object = {"name": name, "namespace": "n", "uid": f"uid-{name}"}
    if owner:
        meta["ownerReferences"] = [{"name": owner, "uid": f"uid-{owner}", "controller": True}]
    return {"metadata": meta, **rest}


def roll(replicas: int) -> Object:
    return {"replicas": replicas, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}


def test_a_pod_is_bound_once() -> None:
    court = Court()
    court.write("Pod", obj("p", spec={}))
    court.write("Pod", obj("p", spec={"nodeName": "a"}))
    assert court.laws_broken == []
    court.write("Pod", obj("p", spec={"nodeName": "b"}))
    assert court.laws_broken == [BOUND_ONCE]
    assert court.broken[0].property_at == NOWHERE


@pytest.mark.parametrize(("size", "fault_at", "laws"), [(2, -100.0, []), (3, -100.0, [WITHIN_SURGE]), (3, 5.0, [])])
def test_a_rollout_keeps_within_its_surge(size: int, fault_at: float, laws: list[str]) -> None:
    court = Court(fault_at)
    court.write("Deployment", obj("d", spec=roll(3)))
    court.write("ReplicaSet", obj("old", "d", spec={"replicas": 2}), actor="client")
    court.write("ReplicaSet", obj("new", "d", spec={"replicas": size}), at=10.0)
    assert court.laws_broken == laws


def test_a_scale_down_that_is_not_seen_yet_is_no_breach() -> None:
    court = Court()
    court.write("Deployment", obj("d", spec=roll(3)))
    court.write("Deployment", obj("d", spec=roll(0)), actor="client", at=30.0)
    court.write("ReplicaSet", obj("new", "d", spec={"replicas": 3}), at=31.0)
    assert court.laws_broken == []
    court.write("ReplicaSet", obj("new", "d", spec={"replicas": 0}), actor="client", at=50.0)
    court.write("ReplicaSet", obj("new", "d", spec={"replicas": 3}), at=60.0)
    assert court.laws_broken == [WITHIN_SURGE]


def test_a_rollout_takes_no_more_than_may_be_unavailable() -> None:
    court = Court()
    court.write("Deployment", obj("d", spec=roll(3)))
    old = {"spec": {"replicas": 3}, "status": {"availableReplicas": 3}}
    court.write("ReplicaSet", obj("old", "d", **old), actor="client")
    court.write("ReplicaSet", obj("new", "d", spec={"replicas": 1}, status={"availableReplicas": 0}))
    court.write("ReplicaSet", obj("old", "d", spec={"replicas": 2}, status=old["status"]), at=20.0)
    assert court.laws_broken == [STAYS_AVAILABLE]


def test_what_no_call_does_is_the_servers() -> None:
    assert SERVER.actor == "the API server"
