"""Wake clauses: keys of the old and the new version, `when` for updates only, `new only`, null keys."""

from __future__ import annotations

from typing import Any

from dashpot.grammar.load import load_text
from dashpot.runtime.controller.caches import CacheReader, KindCache, snapshot
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.views import Views
from dashpot.runtime.controller.vocabulary import terms_of
from dashpot.runtime.controller.wakes import Wakes

TEXT = """
resource Claim "example.com/v1" {{ spec {{ box: Name? }} }}
resource Box "example.com/v1" {{ spec {{ n: 0..2 = 0 }} }}
controller C for Box {{
  watches Claim as c -> c.spec.box {clause}
  reconcile b {{ return }}
}}
"""


def woken(clause: str, old: str | None, new: str | None) -> set[str]:
    """The names of boxes that a claim wakes that points at `old`, then at `new` ("-": at none; None: not there)."""
    program = load_text(TEXT.format(clause=clause))
    views = Views(program)
    boxes = snapshot(views["Box"], [_json("Box", name) for name in ("a", "b")])
    wakes = Wakes(program.controllers[0], views, terms_of(views), boxes)
    caches = {"Box": boxes, "Claim": KindCache(views["Claim"])}

    def claim(box: str | None) -> Obj | None:
        spec = {} if box == "-" else {"box": box}
        return None if box is None else Obj(views["Claim"], {**_json("Claim", "c"), "spec": spec})

    def frame(namespace: str) -> Frame:
        return Frame(views.constants, CacheReader(caches), lambda: 0, namespace)

    return {key.name for key in wakes.keys("Claim", claim(old), claim(new), frame)}


def _json(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "x", "uid": f"{kind}-{name}", "resourceVersion": "1"},
    }


def test_keys_come_from_both_versions() -> None:
    assert woken("", "a", "b") == {"a", "b"}
    assert woken("", None, "a") == woken("", "a", None) == {"a"}


def test_new_only_forgets_the_old_version_of_an_update() -> None:
    assert woken("new only", "a", "b") == {"b"}
    assert woken("new only", "a", None) == {"a"}


def test_null_and_unknown_names_are_no_keys() -> None:
    assert woken("", "-", "nowhere") == set()


def test_when_filters_updates_alone() -> None:
    clause = 'when c.spec.box == "b"'
    assert woken(clause, "b", "a") == set()
    assert woken(clause, "a", "b") == {"a", "b"}
    assert woken(clause, None, "a") == woken(clause, "a", None) == {"a"}
