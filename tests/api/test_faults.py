"""Faults by hand and by file: held, late, lost and cut watches, stale reads, and messages about wrong files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.api.shelf import listed, names, shelf, thing, watched

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.faults import Faults, FaultsError, Rule, Who
from dashpot.runtime.api.faults_rules import BETWEEN, DELAY, DISCONNECT, DROP, READ, STALE, WITHIN
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.loop import run_virtual


async def fill(storage: Storage, count: int) -> list[int]:
    """Creates x0, x1 …; the versions."""
    return [(await storage.create("n", f"x{i}", thing(f"x{i}"))).revision for i in range(count)]


def test_deliveries_are_held_stepped_and_released() -> None:
    async def main() -> None:
        faults = Faults()
        storage = shelf(faults=faults)
        first = (await storage.create("n", "a", thing("a"))).revision
        held = await watched(storage, f"resourceVersion={first}", agent="kubelet/1")
        free = await watched(storage, f"resourceVersion={first}", agent="scheduler/1")
        kubelets = Who(user_agent="kubelet*")
        faults.hold(kubelets)
        waiting = asyncio.ensure_future(held.take(2))
        versions = await fill(storage, 4)
        assert [version for _, _, version in await free.take(4)] == versions
        assert faults.pending(kubelets) == 1 and not waiting.done()
        late = await watched(storage, f"resourceVersion={first}", agent="kubelet/2")
        second = asyncio.ensure_future(late.take(1))
        faults.step(2, kubelets)
        assert [version for _, _, version in await waiting] == versions[:2]
        assert [version for _, _, version in await second] == versions[:1], "a watch that came later is held, too"
        rest = asyncio.ensure_future(held.take(2))
        await asyncio.sleep(0.01)
        assert not rest.done()
        faults.release(kubelets)
        assert [version for _, _, version in await rest] == versions[2:]
        faults.disconnect(kubelets)
        ended = asyncio.ensure_future(held.next())
        await asyncio.sleep(0)
        await storage.create("n", "b", thing("b"))
        assert await ended is None
        await storage.cache.close()
        assert not [tap for tap in faults.taps if tap.who[1] == "kubelet/1"]

    asyncio.run(main())


def test_events_are_dropped_cut_and_shuffled_by_rule_and_seed() -> None:
    async def main(seed: int) -> list[list[str]]:
        rules = [
            Rule(DROP, Who(user_agent="a"), chance=0.5),
            Rule(DISCONNECT, Who(user_agent="b"), after=3),
            Rule(WITHIN, Who(user_agent="c")),
            Rule(BETWEEN, Who(user_agent="d"), high=0.002),
            Rule(DELAY, Who(user_agent="e"), low=0.001, high=0.002, times=2),
        ]
        storage = shelf(faults=Faults(rules, seed))
        first = (await storage.create("n", "a", thing("a"))).revision
        await fill(storage, 8)
        assert await storage.cache.consistent()
        told = []
        for agent in "abcdez":
            watch = await watched(storage, f"resourceVersion={first}&timeoutSeconds=1", agent=agent)
            if agent in "ab":
                told.append([name for _, name, _ in await watch.rest()])
            else:
                told.append([name for _, name, _ in await watch.take(8)])
        await storage.cache.close()
        return told

    dropped, cut, shuffled, between, delayed, other = asyncio.run(main(1))
    every = [f"x{i}" for i in range(8)]
    assert 0 < len(dropped) < 8 and dropped == sorted(dropped)
    assert cut == every[:3]
    assert shuffled != every and sorted(shuffled) == every
    assert between == delayed == other == every, "never out of order within one watch"
    assert asyncio.run(main(1)) == [dropped, cut, shuffled, between, delayed, other], "the same seed, the same faults"


def test_cached_reads_are_stale_and_consistent_ones_are_not() -> None:
    async def main() -> None:
        faults = Faults([Rule(STALE, Who(user_agent="old"), on=READ, revisions=2)], 3)
        storage = shelf(faults=faults)
        versions = await fill(storage, 9)
        assert await storage.cache.consistent()
        seen = set()
        for _ in range(20):
            answer = await listed(storage, "resourceVersion=0", agent="old")
            version = int(answer["metadata"]["resourceVersion"])
            assert len(names(answer)) == sum(v <= version for v in versions)
            seen.add(version)
        assert seen == set(versions[-3:])
        assert len(names(await listed(storage, agent="old"))) == 9
        assert len(names(await listed(storage, "resourceVersion=0", agent="new"))) == 9
        missed = 0
        for _ in range(20):
            try:
                await storage.get("n", "x8", version="0", user_agent="old")
            except StatusError as error:
                assert error.code == 404
                missed += 1
        assert 0 < missed < 20
        await storage.cache.close()

    asyncio.run(main())


GOOD = """
seed: 7
rules:
  - {on: watch, resource: pods, userAgent: "kube-*", delay: [0.1, 0.5]}
  - {resource: "deployments.apps", chance: 0.01, disconnect: true, after: 2, times: 3}
  - {reorder: between, window: 0.2}
  - {reorder: within}
  - {on: read, resource: nodes, stale: 50, chance: 0.5}
  - {drop: true, user: "system:*"}
  - {on: read, delay: 1}
"""


def test_a_file_of_rules() -> None:
    faults = Faults.parse(GOOD)
    assert faults.seed == 7
    assert [rule.action for rule in faults.rules] == [DELAY, DISCONNECT, BETWEEN, WITHIN, STALE, DROP, DELAY]
    first, second, third, *_ = faults.rules
    assert (first.low, first.high, first.who) == (0.1, 0.5, Who("pods", "kube-*"))
    assert (second.chance, second.after, second.times) == (0.01, 2, 3)
    assert third.high == 0.2
    assert faults.rules[4].on == READ
    assert not Faults.parse('{"rules": []}').rules, "JSON is YAML"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "neither YAML nor JSON"),
        ("7", "has to be a mapping"),
        ("rule: []", "unknown key 'rule'"),
        ("seed: x", "seed: 'x' is no whole number"),
        ("rules: 7", "rules: has to be a list"),
        ("rules: [7]", "rules[0]: has to be a mapping"),
        ("rules: [{}]", "rules[0]: needs exactly one of delay, drop, disconnect, reorder, stale; it has none"),
        ("rules: [{drop: true, stale: 1}]", "it has drop and stale"),
        ("rules: [{dropp: true}]", "unknown key 'dropp'"),
        ("rules: [{drop: 7}]", "rules[0].drop: write `drop: true`"),
        ("rules: [{drop: true, chance: 2}]", "rules[0].chance: 2 is no number from 0 to 1"),
        ("rules: [{drop: true, on: both}]", "rules[0].on: 'both' is neither watch nor read"),
        ("rules: [{drop: true, on: read}]", "drop is for watches"),
        ("rules: [{stale: 3, on: watch}]", "stale is for reads"),
        ("rules: [{stale: 0, on: read}]", "rules[0]: needs exactly one of"),
        ("rules: [{delay: [2, 1]}]", "rules[0].delay: the least (2) is more than the most (1)"),
        ("rules: [{delay: [1]}]", "has to be seconds, or [least, most]"),
        ("rules: [{delay: soon}]", "rules[0].delay: 'soon' is no number"),
        ("rules: [{reorder: all}]", "rules[0].reorder: 'all' is neither between nor within"),
        ("rules: [{drop: true, times: -1}]", "rules[0].times: -1 is no whole number"),
        ("rules: [{drop: true, resource: 7}]", "rules[0].resource: 7 is no text"),
        ("rules: [{drop: true, userAgent: ''}]", "rules[0].userAgent: is empty and fits nothing"),
        ("rules: [{drop: true, window: 2}]", "rules[0].window: belongs to `reorder: between`"),
        ("rules:\n- delay: 1\n  delay: 2", "line 3: the key 'delay' stands here twice"),
        ("seed: 1\nseed: 2", "line 2: the key 'seed' stands here twice"),
        (
            "rules: [{drop: true, resource: deployments}]",
            "rules[0].resource: 'deployments' is no resource that is stored: write deployments.apps",
        ),
        (
            "rules: [{drop: true}, {drop: true, resource: pod}]",
            "rules[1].resource: 'pod' is no resource that is stored",
        ),
        ("rules: [{drop: true, resource: podz}]", "write pods"),
        ("rules: [{drop: true, resource: 'widget?'}]", "'widget?' is no resource"),
        ("rules: [{drop: true, resource: events.events.k8s.io}]", "write events"),
    ],
)
def test_a_wrong_file_is_told_where_it_is_wrong(text: str, told: str) -> None:
    with pytest.raises(FaultsError) as refused:
        Faults.parse(text, Catalog())
    assert told in str(refused.value)


def test_resources_that_may_be_defined_later_can_be_named() -> None:
    for name in ("widgets.example.com", "*.example.com", "widg*", "pod?", "nodes.metrics.k8s.io"):
        assert Faults.parse(f"rules: [{{drop: true, resource: '{name}'}}]", Catalog()).rules[0].who.resource == name


def test_a_pattern_may_name_the_program_alone() -> None:
    agent = "kubectl/v1.34.0 (linux/amd64) kubernetes/abc"
    for pattern, fits in (("kubectl", True), ("kube*", True), (agent, True), ("kube", False), ("v1.34.0", False)):
        assert Who(user_agent=pattern).matches("pods", agent, "u") == fits


def test_delays_do_not_add_up() -> None:
    """Fifty events of one moment, each a second late, are all there after that second, in order; so is one that comes
    while they wait. On a virtual clock."""

    async def main() -> tuple[list[tuple[str, float]], float]:
        loop = asyncio.get_running_loop()
        tap = Faults([Rule(DELAY, low=1.0, high=1.0), Rule(DELAY, Who("slow"), low=5.0, high=5.0)]).tap("p", "a", "u")

        async def source() -> AsyncGenerator[bytes]:
            yield b"".join(b"%d\n" % index for index in range(50))
            await asyncio.sleep(0.5)
            yield b"50\n"

        begin = loop.time()
        got = [(line.decode().strip(), loop.time() - begin) async for line in tap.through(source())]
        return got, loop.time() - begin

    got, took = run_virtual(main())
    assert [name for name, _ in got] == [str(index) for index in range(51)]
    assert {round(at, 3) for _, at in got[:50]} == {1.0}
    assert round(got[50][1], 3) == round(took, 3) == 1.5


def test_a_short_delay_does_not_overtake_a_long_one() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        rules = [Rule(DELAY, low=2.0, high=2.0, times=1), Rule(DELAY, low=0.5, high=0.5)]
        tap = Faults(rules).tap("p", "a", "u")

        async def source() -> AsyncGenerator[bytes]:
            yield b"0\n1\n"
            await asyncio.sleep(3)
            yield b"2\n"

        begin = loop.time()
        return [round(loop.time() - begin, 3) async for _ in tap.through(source())]

    assert run_virtual(main()) == [2.5, 2.5, 3.5]


def test_a_client_that_goes_away_ends_the_source_of_late_events() -> None:
    ended: list[str] = []

    async def main() -> None:
        faults = Faults([Rule(DELAY, low=1.0, high=1.0)])
        tap = faults.tap("p", "a", "u")

        async def source() -> AsyncGenerator[bytes]:
            try:
                while True:
                    yield b"x\n"
                    await asyncio.sleep(0.1)
            finally:
                ended.append("source")

        events = tap.through(source())
        assert await anext(events) == b"x\n"
        await events.aclose()  # type: ignore[attr-defined]
        assert not faults.taps

    run_virtual(main())
    assert ended == ["source"]


def test_a_mistake_in_the_source_of_late_events_is_not_swallowed() -> None:
    async def main() -> None:
        tap = Faults([Rule(DELAY, low=1.0, high=1.0)]).tap("p", "a", "u")

        async def source() -> AsyncGenerator[bytes]:
            yield b"x\n"
            raise RuntimeError("lost")

        events = tap.through(source())
        assert await anext(events) == b"x\n"
        with pytest.raises(RuntimeError, match="lost"):
            await anext(events)

    run_virtual(main())


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    with pytest.raises(FaultsError, match="cannot be read"):
        Faults.load(path)
    path.write_text("rules: 7")
    with pytest.raises(FaultsError, match="rules: has to be a list"):
        Faults.load(path)
    path.write_text(GOOD)
    assert len(Faults.load(path).rules) == 7
