"""Server-side apply: ownership by field and manager."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe

HEAD = """
enum Out { none, ok, conflict }
resource Log { status { step: 0..9; out: Out } }
resource Box { spec { n: 0..3 = 2; m: 0..3; name: Name? }; status { seen: 0..3 } }
"""


def in_turn(*turns: tuple[str, str]) -> dict[str, str]:
    """The store after each manager has made its call, in this order; the log has how the last one went."""
    managers: dict[str, str] = {}
    for i, (who, call) in enumerate(turns):
        error = "NotFound" if call.startswith("patch") else "Conflict"
        managers[who] = (
            managers.get(who, "")
            + f"""
  action turn{i}(l: Log) when l.status.step == {i} {{
    let b = get live Box "b"
    if b == null {{ return }}
    {call} on {error} {{ patch l.status {{ step: {i + 1}, out: conflict }}; return }}
    patch l.status {{ step: {i + 1}, out: ok }}
  }}"""
        )
    actors = "\n".join(f"process {who} {{{actions}\n}}" for who, actions in managers.items())
    return Probe(f"""{HEAD}{actors}
check c {{ run {", ".join(managers)}; scope {{ Log: 1, Box: 1 }}; given Log l {{ }}; given Box b {{ }} }}
""").end()


ROWS = {
    "a field that nobody applied is taken": ([("A", "apply b { spec.n: 1 }")], "ok", {"spec.n": "1"}),
    "another's field with another value is a conflict": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 3 }")], "conflict", {"spec.n": "1"},
    ),
    "a conflict writes nothing at all": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 3, spec.m: 3 }")], "conflict", {"spec.m": "0"},
    ),
    "another's field with the same value is shared": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 1 }")], "ok", {"spec.n": "1"},
    ),
    "a shared field cannot be changed by one of its owners": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 1 }"), ("A", "apply b { spec.n: 3 }")],
        "conflict", {"spec.n": "1"},
    ),
    "force takes the field over": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 3 } force")], "ok", {"spec.n": "3"},
    ),
    "who lost a field by force gets a conflict": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 3 } force"), ("A", "apply b { spec.n: 1 }")],
        "conflict", {"spec.n": "3"},
    ),
    "who lost a field by force gives up nothing any more": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 3 } force"), ("A", "apply b { spec.m: 1 }")],
        "ok", {"spec.n": "3", "spec.m": "1"},
    ),
    "one's own field may change": (
        [("A", "apply b { spec.n: 1 }"), ("A", "apply b { spec.n: 3 }")], "ok", {"spec.n": "3"},
    ),
    "disjoint fields do not meet": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.m: 3 }"), ("A", "apply b { spec.n: 3 }")],
        "ok", {"spec.n": "3", "spec.m": "3"},
    ),
    "what is applied no more goes": (
        [("A", 'apply b { spec.name: "x" }'), ("A", "apply b { spec.m: 1 }")], "ok",
        {"spec.name": "null", "spec.m": "1"},
    ),
    "what is applied no more leaves its default": (
        [("A", "apply b { spec.n: 1 }"), ("A", "apply b { spec.m: 1 }")], "ok", {"spec.n": "2", "spec.m": "1"},
    ),
    "what is applied no more stays while another owns it": (
        [("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 1 }"), ("A", "apply b { spec.m: 1 }")],
        "ok", {"spec.n": "1", "spec.m": "1"},
    ),
    "and goes when the last owner gives it up": (
        [
            ("A", "apply b { spec.n: 1 }"), ("B", "apply b { spec.n: 1 }"), ("A", "apply b { spec.m: 1 }"),
            ("B", "apply b { spec.name: \"x\" }"),
        ],
        "ok", {"spec.n": "2", "spec.m": "1"},
    ),
    "a patch that changes a field takes it over": (
        [("A", "apply b { spec.n: 1 }"), ("B", "patch b.spec { n: 3 }"), ("A", "apply b { spec.n: 1 }")],
        "conflict", {"spec.n": "3"},
    ),
    "a patch that changes nothing takes nothing over": (
        [("A", "apply b { spec.n: 1 }"), ("B", "patch b.spec { n: 1 }"), ("A", "apply b { spec.n: 3 }")],
        "ok", {"spec.n": "3"},
    ),
    "an update that changes a field takes it over": (
        [("A", "apply b { spec.n: 1 }"), ("B", "update b.spec { n: 3 }"), ("A", "apply b { spec.n: 1 }")],
        "conflict", {"spec.n": "3"},
    ),
    "status fields, too, have owners": (
        [("A", "apply b.status { seen: 1 }"), ("B", "apply b.status { seen: 3 }")], "conflict", {"status.seen": "1"},
    ),
    "to apply the spec gives nothing of the status up": (
        [("A", "apply b.status { seen: 1 }"), ("A", "apply b { spec.m: 1 }")], "ok", {"status.seen": "1", "spec.m":
        "1"},
    ),
    "to apply the status gives nothing of the spec up": (
        [("A", "apply b { spec.m: 1 }"), ("A", "apply b.status { seen: 1 }")], "ok", {"status.seen": "1", "spec.m":
        "1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_apply(name: str) -> None:
    turns, out, want = ROWS[name]
    end = in_turn(*turns)
    assert end["Log[0].status.out"] == out
    assert {path: end[f"Box[0].{path}"] for path in want} == want
