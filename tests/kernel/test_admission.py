"""Admission: hooks in the order of `run`, mutating before the rules, validating after; webhooks with failure policy."""

from __future__ import annotations

import pytest
from tests.kernel.probe import Probe

HEAD = """
enum Out { none, ok, invalid, denied, exists }
resource Log { status { out: Out } }
resource Gate { status { up: bool } }
resource Box {
  spec { n: 0..5; m: 0..5 }
  status { seen: 0..3 }
  rule self.spec.n <= 4 else "at most 4"
}
"""


def outcome(hooks: str, order: str, call: str, given: str = "") -> dict[str, str]:
    """The store after one call under these hooks."""
    setup, _, call = call.rpartition("; ")
    verb = call.split()[0]
    error = "AlreadyExists" if verb == "create" else "NotFound"
    text = f"""{HEAD}{hooks}
process P {{
  action go(l: Log) when l.status.out == none {{
    {setup}
    {call} on Denied {{ patch l.status {{ out: denied }}; return }} {
        "" if verb == "delete" else "on Invalid { patch l.status { out: invalid }; return }"
    } on {error} {{ patch l.status {{ out: exists }}; return }}
    patch l.status {{ out: ok }}
  }}
}}
check c {{ run {order}P; scope {{ Log: 1, Box: 1, Gate: 1 }}; given Log l {{ }}; {given} }}
"""
    return Probe(text).end()


ADD = "admission Add on create Box b { b.spec.n = b.spec.n + 1 }\n"
DOUBLE = "admission Twice on create Box b { b.spec.n = b.spec.n * 2 }\n"
LIMIT = 'admission Limit on create Box b { if b.spec.n > 2 { fail "too big" } }\n'
READ = 'let b = get live Box "b"; if b == null { return }; '

ROWS: dict[str, tuple[str, str, str, str, dict[str, str | None]]] = {
    "without hooks": ("", "", 'create Box { name: "b", spec.n: 1 }', "", {"out": "ok", "n": "1"}),
    "a hook that is not in the run does nothing": (LIMIT, "", 'create Box { name: "b", spec.n: 3 }', "", {"out": "ok"}),
    "a hook denies": (LIMIT, "Limit, ", 'create Box { name: "b", spec.n: 3 }', "", {"out": "denied", "n": None}),
    "a hook lets pass": (LIMIT, "Limit, ", 'create Box { name: "b", spec.n: 2 }', "", {"out": "ok", "n": "2"}),
    "mutating hooks run in the order of the run": (
        ADD + DOUBLE, "Add, Twice, ", 'create Box { name: "b", spec.n: 1 }', "", {"out": "ok", "n": "4"},
    ),
    "mutating hooks run in the order of the run, the other way round": (
        ADD + DOUBLE, "Twice, Add, ", 'create Box { name: "b", spec.n: 1 }', "", {"out": "ok", "n": "3"},
    ),
    "rules see what mutating hooks have made": (
        ADD, "Add, ", 'create Box { name: "b", spec.n: 4 }', "", {"out": "invalid", "n": None},
    ),
    "validating hooks see what mutating ones have made, whatever the order": (
        LIMIT + ADD, "Limit, Add, ", 'create Box { name: "b", spec.n: 2 }', "", {"out": "denied"},
    ),
    "rules come before validating hooks": (
        LIMIT, "Limit, ", 'create Box { name: "b", spec.n: 5 }', "", {"out": "invalid"},
    ),
    "a hook of create does not look at a patch": (
        LIMIT, "Limit, ", READ + "patch b.spec { n: 3 }", "given Box b { }", {"out": "ok", "n": "3"},
    ),
    "a hook of delete": (
        'admission Keep on delete Box b { fail "keep it" }\n', "Keep, ", READ + "delete b", "given Box b { }",
        {"out": "denied", "n": "0"},
    ),
    "a hook of any write": (
        'admission Never on write Box b { if b.spec.n > 2 { fail } }\n', "Never, ", READ + "patch b.spec { n: 3 }",
        "given Box b { }", {"out": "denied", "n": "0"},
    ),
    "when": (
        'admission Some on create Box b when b.spec.n > 1 { fail }\n', "Some, ",
        'create Box { name: "b", spec.n: 1 }', "", {"out": "ok"},
    ),
    "a hook sees the version before": (
        'admission Up on patch Box b when old.spec.n > b.spec.n { fail "only up" }\n', "Up, ",
        READ + "patch b.spec { n: 1 }", "given Box b { spec: { n: 2 } }", {"out": "denied", "n": "2"},
    ),
    "a webhook whose server is there is asked": (
        'admission Hook on create Box b needs Gate.exists(g, g.status.up) else fail { b.spec.m = 1 }\n', "Hook, ",
        'create Box { name: "b" }', "given Gate g { status: { up: true } }", {"out": "ok", "m": "1"},
    ),
    "a webhook whose server is not there fails": (
        'admission Hook on create Box b needs Gate.exists(g, g.status.up) else fail { b.spec.m = 1 }\n', "Hook, ",
        'create Box { name: "b" }', "given Gate g { }", {"out": "denied", "n": None},
    ),
    "or is ignored": (
        'admission Hook on create Box b needs Gate.exists(g, g.status.up) else ignore { b.spec.m = 1 }\n', "Hook, ",
        'create Box { name: "b" }', "given Gate g { }", {"out": "ok", "m": "0"},
    ),
    "a patch that an admission hook makes into nothing changes nothing": (
        'admission Back on patch Box b { b.spec.n = old.spec.n }\n', "Back, ",
        READ + "patch b.spec { n: 2 }", "given Box b { }", {"out": "ok", "n": "0"},
    ),
    "an undefined rule denies": (
        "resource Part { spec { of: Name?; k: 0..2 }; rule 2 / self.spec.k == 2 }\n"
        "environment U { action make() at most 1 { create Part { name: \"p\" } } }\n",
        "U, ", 'create Part { name: "p" }', "", {"out": "invalid"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_admission(name: str) -> None:
    hooks, order, call, given, want = ROWS[name]
    end = outcome(hooks, order, call, given)
    got = {"out": end["Log[0].status.out"], "n": end.get("Box[0].spec.n"), "m": end.get("Box[0].spec.m")}
    assert {key: got[key] for key in want} == want
