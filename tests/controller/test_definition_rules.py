"""Rules of a spec, in the CEL of its definition, deny the objects that the spec's own terms deny: on random objects."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dashpot.grammar.load import load_text
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.definition import definitions
from dashpot.runtime.controller.frame import Empty, Frame
from dashpot.runtime.controller.terms import compile_term
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.views import Views
from tests.client.serving import on_server
from tests.controller.running import Object, until

RULES = """
self.spec.pods > 0 || self.spec.host == null
self.spec.host == null || self.spec.host != self.spec.zone
self.spec.host == self.spec.zone || self.spec.pods != 3
self.spec.host != "a" || self.spec.on
self.spec.on ? self.spec.pods >= 1 : self.spec.ready == 0
self.spec.ready <= self.spec.pods + 2
self.spec.tier != High || self.spec.pods > 1
self.spec.pods - self.spec.ready != 4
self.spec.pods * 2 != 6 || self.spec.on
self.spec.limit / self.spec.pods != 3
self.spec.limit % 3 != 2 || self.spec.host == null
-self.spec.limit > -9
self.spec.seeds.size() < 4
self.spec.seeds.all(x, x != "bad")
self.spec.seeds.exists(x, x == "a") || self.spec.pods < 5
self.spec.seeds.exists_one(x, x == "b") || self.spec.limit < 9
self.spec.seeds.filter(x, x.startsWith("a")).size() < 3
self.spec.seeds.count(x, x == "c") < 2
!("z" in self.spec.seeds)
self.spec.seeds.isEmpty() || self.spec.limit != 7
self.spec.seeds.map(x, x + "-x").size() < 5
self.spec.zone.startsWith("a") || self.spec.zone == null || !self.spec.on
self.spec.parts.all(p, p.count < 3 || p.ready)
self.spec.parts.sum(p, p.count) < 7
min(self.spec.pods, self.spec.limit) < 4
max(self.spec.pods, self.spec.ready) != 5 || self.spec.on
self.name != "forbidden"
self.spec.pods in [0, 1, 2, 3, 4] || self.spec.on
oldSelf.spec.pods <= self.spec.pods + 3
oldSelf.spec.host == null || self.spec.host == oldSelf.spec.host || self.spec.on
oldSelf.spec.ready <= 2 || self.spec.tier == oldSelf.spec.tier
""".strip().splitlines()

SPEC = """
enum Tier { Low, Middle, High }
struct Part { name: Name, count: int, ready: bool }
resource Site "example.com/v1" {
  spec {
    pods: 0..5 = 1, limit: 0..9 = 2, on: bool = true, host: Name?, zone: Name?, tier: Tier, seeds: []Name
    parts: []Part keyed name, ready: 0..5 = 0
  }
RULES
}
""".replace("RULES", "\n".join(f'  rule {rule} else "rule {n}"' for n, rule in enumerate(RULES)))

NAMES = ("a", "b", "ab", "c", "z", "bad")
SEED = 11


def some(chance: random.Random) -> Object:
    """A spec that the schema takes, with each field there, absent or (where it may be) null."""
    pick = chance.choice
    found: Object = {}
    values: dict[str, Any] = {
        "pods": lambda: chance.randint(0, 5),
        "limit": lambda: chance.randint(0, 9),
        "ready": lambda: chance.randint(0, 5),
        "on": lambda: pick((True, False)),
        "host": lambda: pick((*NAMES, None)),
        "zone": lambda: pick((*NAMES, None)),
        "tier": lambda: pick(("Low", "Middle", "High")),
        "seeds": lambda: [pick(NAMES) for _ in range(chance.randint(0, 5))],
        "parts": lambda: [part(chance, n) for n in range(chance.randint(0, 3))],
    }
    for name, value in values.items():
        if chance.random() < 0.75:
            found[name] = value()
    return found


def part(chance: random.Random, index: int) -> Object:
    """An entry of the list map, its fields there or absent."""
    found: Object = {"name": f"p{index}"}
    if chance.random() < 0.7:
        found["count"] = chance.randint(0, 4)
    if chance.random() < 0.7:
        found["ready"] = chance.choice((True, False))
    return found


class Evaluator:
    """The spec's own reading of its rules."""

    def __init__(self) -> None:
        program = load_text(SPEC)
        self.views = Views(program)
        declared = program.resources[0].rules
        self.rules = [
            (rule.message, compile_term(rule.expr, self.views), "oldSelf" in str(text))
            for rule, text in zip(declared, RULES, strict=True)
        ]

    def denied(self, new: Object, old: Object | None) -> set[str]:
        """The messages of the rules that do not hold; one that has no value denies."""
        found = set()
        for message, term, transition in self.rules:
            if transition and old is None:
                continue
            names = {"self": self.views.obj(new)} | ({"oldSelf": self.views.obj(old)} if old else {})
            try:
                held = term(Frame(self.views.constants, Empty(), lambda: 0, locals=names))
            except Undefined:
                held = False
            if held is not True:
                found.add(message)
        return found


def site(name: str, spec: Object) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": name}, "spec": spec}


async def answered(writing: Any) -> set[str]:
    """What the server holds against a write: the numbers of the rules."""
    try:
        await writing
    except StatusError as error:
        texts = [cause["message"] for cause in error.details["causes"]]
        return {number(text) for text in texts}
    return set()


def number(text: str) -> str:
    """The rule that a cause speaks of; one that could not be evaluated is told with its text."""
    last = text.rpartition(": ")[2]
    assert last in {f"rule {n}" for n in range(len(RULES))}, f"a cause that is no rule's: {text}"
    return last


@pytest.mark.parametrize("count", [500, pytest.param(3000, marks=pytest.mark.soak)])
def test_both_deny_the_same_objects(count: int) -> None:
    async def main(server: ApiServer, client: Client) -> None:
        evaluator, chance = Evaluator(), random.Random(SEED)
        (made,) = definitions(load_text(SPEC))
        assert all("takes at most 64 items" in text for text in made.untold) and len(made.untold) == 2
        await client.create("customresourcedefinitions", made.json)

        async def served() -> bool:
            crd = await client.get("customresourcedefinitions", "sites.example.com")
            conditions = (crd.get("status") or {}).get("conditions", ())
            return any(row["type"] == "Established" and row["status"] == "True" for row in conditions)

        await until(served)
        await client.discovery.resources(fresh=True)
        seen: dict[str, int] = {}
        accepted: list[Object] = []
        for n in range(count):
            name = "forbidden" if n % 50 == 49 else f"s{n}"
            new = site(name, some(chance))
            expected = evaluator.denied(new, None)
            assert await answered(client.create("sites.example.com", new, "default")) == expected, new
            if not expected:
                accepted.append(new)
            for message in expected:
                seen[message] = seen.get(message, 0) + 1
            if accepted:
                old = chance.choice(accepted)
                changed = site(old["metadata"]["name"], some(chance))
                if changed["spec"] == old["spec"]:
                    continue
                expected = evaluator.denied(changed, old)
                assert await answered(client.update("sites.example.com", changed, "default")) == expected, (
                    old,
                    changed,
                )
                if not expected:
                    accepted[accepted.index(old)] = changed
                for message in expected:
                    seen[message] = seen.get(message, 0) + 1
        assert len(accepted) > count // 100
        assert {f"rule {n}" for n in range(len(RULES))} - seen.keys() == set()

    on_server(main)
