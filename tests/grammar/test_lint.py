"""Smells: each is found where it is, and not where it is not."""

from __future__ import annotations

import pytest

from dashpot.grammar.codes import CODES
from dashpot.grammar.lint import lint_text
from dashpot.grammar.load import load_text
from tests.grammar.corpus import blocks, specs
from tests.tree import ROOT

SMELLS = [code for code in CODES if code.startswith("L")]

HEAD = """use kubernetes.core (Pod, Node)

resource Site "example.com/v1" {
  spec   { pods: 0..2 = 1, seeds: []Name, parts: []Part keyed id }
  status { ready: 0..2 = 0, checked: Time? }
}
struct Part { id: Name }
"""


def smells(text: str) -> list[tuple[str, int]]:
    """Codes and lines of the smells of a spec that has no errors."""
    load_text(text)
    messages = lint_text(text, "spec.loop")
    assert all(m.severity == "warning" and m.fix for m in messages)
    return [(m.code, m.span.line) for m in messages]


def codes(body: str, clauses: str = "owns Pod") -> list[str]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return [
        code for code, _ in smells(f"{HEAD}controller C for Site {{\n  {clauses}\n  reconcile s {{\n{lines}  }}\n}}\n")
    ]


@pytest.mark.parametrize("code", SMELLS)
def test_pages_show_the_smell_and_its_cure(code: str) -> None:
    wrong, right = blocks(ROOT / "docs" / "hints" / f"{code}.md")
    assert {c for c, _ in smells(wrong)} == {code}
    assert smells(right) == []


PODS = "let pods = list cached Pod where p -> p.owner == s\n"


@pytest.mark.parametrize(
    "body, expected",
    [
        # what the object itself says is asked by the guard; what another kind says is not
        (PODS + "for p in pods { delete p if unchanged on Conflict { } }", []),
        (PODS + "for p in pods { delete p if same }", []),
        (PODS + "if pods.size() > 2 { delete s if same }", ["L401"]),
        (PODS + "if pods.isEmpty() { return }\ndelete s if same", ["L401"]),
        (PODS + "if pods.isEmpty() { requeue }\nelse { return }", []),
        # a read of the API server in between decides
        ("let p = get live Pod s.name\nif p != null { delete p }", []),
        (PODS + "for p in pods {\n  let q = get live Pod p.name\n  if q != null { delete q }\n}", []),
        # whether the delete happens does not hang on the test above it
        (PODS + "let n = pods.size() > 1 ? 1 : 2\nif n > 1 { patch s { labels: {} } }\ndelete s if same", []),
        (PODS + "for p in pods { evict p }", ["L401"]),
    ],
)
def test_deletes_decided_by_old_reads(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ("update s.spec { pods: 1 }", ["L402"]),
        ("update s.spec { pods: 1 } on NotFound { }", ["L402"]),
        ("update s.spec { pods: 1 } on Conflict { }", []),
        ("update s.spec { pods: 1 } force", []),
        ("patch s.spec { pods: 1 }", []),
        ("patch s.spec { pods: 1 } if unchanged", ["L402"]),
    ],
)
def test_conflicts(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


@pytest.mark.parametrize(
    "body, expected",
    [
        ('patch s.spec { seeds: s.spec.seeds + ["a"] }', ["L403"]),
        ('patch s.spec { seeds: ["a"] }', []),
        ("patch s.spec { pods: s.spec.pods }", []),
        ('patch json s { test spec.seeds: s.spec.seeds, replace spec.seeds: s.spec.seeds + ["a"] } on Invalid { }', []),
        ('patch strategic s.spec { parts: s.spec.parts + [{ id: "a" }] }', []),
        ('patch s.spec { parts: s.spec.parts + [{ id: "a" }] }', ["L403"]),
    ],
)
def test_patches_of_lists(body: str, expected: list[str]) -> None:
    assert codes(body) == expected


def test_status_that_is_always_new() -> None:
    write = "update s.status { checked: now() } on Conflict { requeue }"
    assert codes(write) == ["L404"]
    assert codes("update s.status { ready: min(s.status.ready + 1, 2) } on Conflict { requeue }") == []
    assert codes("update s.status { ready: s.status.ready + 1 } on Conflict { requeue }") == ["L404"]
    assert codes(f"if s.status.checked == null {{ {write} }}") == []


def test_reads_that_nothing_wakes() -> None:
    read = 'let n = get cached Node "a"\nif n == null { return }\nrequeue'
    assert codes(read) == ["L405"]
    assert codes(read.replace("\nrequeue", "\nrequeue after 5s")) == []
    assert codes(read, 'watches Node as n -> Site.filter(x, x.name == "a")') == []


def test_one_message_for_each_finalizer() -> None:
    add = 'update s { finalizers: s.finalizers + ["a"] } on Conflict { requeue }'
    assert codes(f"{add}\n{add}") == ["L406"]
    assert codes(f"{add}\npatch json s {{ remove finalizers }}") == []
    assert codes(f'{add}\nupdate s {{ finalizers: s.finalizers.filter(f, f != "b") }} on Conflict {{ }}') == ["L406"]
    assert codes('create Pod { name: "a", finalizers: ["orphan"] }') == []
    assert codes('create Pod { name: "a", finalizers: ["mine"] }') == ["L406"]


def test_owners_by_name() -> None:
    by_name = (
        "let pods = list cached Pod where p -> p.owner != null && p.owner.name == s.name\nif pods.isEmpty() { requeue }"
    )
    assert codes(by_name) == ["L407"]
    assert codes(by_name.replace("p.owner.name == s.name", "p.name == s.name")) == []


def test_errors_come_alone() -> None:
    messages = lint_text("const A\n", "spec.loop")
    assert [(m.code, m.severity) for m in messages] == [("D010", "error")]


def test_smells_of_modules_that_are_used_are_their_own_business() -> None:
    for name, text in specs().items():
        if name.startswith("examples/"):
            assert all(m.span.file == name for m in lint_text(text, name))


@pytest.mark.parametrize("actor", ["environment Users", "process Helper"])
def test_a_patch_of_what_is_read_in_the_same_step_is_no_smell(actor: str) -> None:
    action = 'action add(s: Site) at most 1 { patch s.spec { seeds: s.spec.seeds + ["a"] } }'
    text = f"{HEAD}{actor} {{\n  {action}\n}}\n"
    assert "L403" not in [code for code, _ in smells(text)]
