"""CEL rules and patterns that cost more than they look: refused when they are defined, or stopped when they run."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.fuzz.custom import definition
from tests.fuzz.victim import CRDS, JSON, Victim


def crd(plural: str, schema: Any) -> bytes:
    """A definition with this schema for .spec."""
    made = definition("hostile.example.com", plural, plural.capitalize())
    made["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True,
         "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}}
    ]  # fmt: skip
    return msgspec.json.encode(made)


def rule(text: str) -> list[Any]:
    return [{"rule": text}]


ROWS = {"type": "array", "items": {"type": "string"}}
CUBE = "self.all(a, self.all(b, self.all(c, a + b != c)))"
PLAIN_CUBE = "self.all(a, self.all(b, self.all(c, a != 'x' || b != c)))"
DEFINITIONS: dict[str, tuple[Any, str]] = {
    "a cubic rule": ({**ROWS, "x-kubernetes-validations": rule(CUBE)}, "estimated rule cost exceeds budget"),
    "a rule that is none": ({**ROWS, "x-kubernetes-validations": rule("(" * 500)}, "compilation failed"),
    "a deep rule": ({**ROWS, "x-kubernetes-validations": rule("[" * 9_000 + "]" * 9_000 + " == []")}, ""),
    "a pattern that is none": ({"type": "string", "pattern": "(a+"}, "pattern"),
    "a pattern that grows": ({"type": "string", "pattern": "((((a{1,100}){1,100}){1,100}){1,100})"}, "pattern"),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definitions(victim: Victim, name: str) -> None:
    schema, text = DEFINITIONS[name]
    answer = victim.attack("POST", f"{CRDS}?dryRun=All", crd("things", schema), JSON)
    assert answer.code == 422 and text in answer.message, (answer.code, answer.message[:500])


def test_rules_and_patterns_at_run_time(victim: Victim) -> None:
    """A rule whose estimate is modest and whose cost is not; a pattern that backtracking could not bear."""
    rows = {"type": "array", "maxItems": 90, "items": {"type": "string", "maxLength": 9}}
    properties = {
        "rows": {**rows, "x-kubernetes-validations": rule("self.all(a, self.all(b, a + b != 'x'))")},
        "cube": {**rows, "maxItems": 40, "x-kubernetes-validations": rule(PLAIN_CUBE)},
        "text": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
        "found": {"type": "string", "maxLength": 90_000, "x-kubernetes-validations": rule("!self.matches('^(a+)+$')")},
    }
    made = victim.attack("POST", CRDS, crd("slows", {"type": "object", "properties": properties}), JSON)
    assert made.code == 201, made.message
    path = "/apis/hostile.example.com/v1/namespaces/default/slows"
    until = time.monotonic() + 10
    with victim.wire() as wire:
        while wire.ask("GET", path).code != 200:
            assert time.monotonic() < until, "the resource is not served"
    attack = {"rows": ["b" * 9] * 90, "cube": ["b"] * 40, "text": "a" * 60_000, "found": "a" * 80_000 + "!"}
    for key, value in attack.items():
        body = {
            "apiVersion": "hostile.example.com/v1",
            "kind": "Slows",
            "metadata": {"name": "a"},
            "spec": {key: value},
        }
        answer = victim.attack("POST", path + "?dryRun=All", msgspec.json.encode(body), JSON)
        assert answer.code == (422 if key == "text" else 201), (key, answer.message[:300])
