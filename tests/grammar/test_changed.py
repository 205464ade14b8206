"""`if changed` is a test before the call; `event` is a node that the world knows nothing of."""

from __future__ import annotations

import pytest

from dashpot.grammar.load import load_text
from dashpot.grammar.report import SpecRejected
from dashpot.model.automaton import Automaton, Bind, Branch, Call, End, Note
from tests.kernel.probe import Probe

HEAD = """
resource Site "v1" { spec { n: 0..2; host: Name?; cfg: map[Name]0..1 }; status { ready: 0..2 } }
"""


def spec(body: str, more: str = "") -> str:
    return f"{HEAD}controller C for Site {{ reconcile s {{ {body} }} }}\n{more}".replace(";", "\n")


def automaton(body: str) -> Automaton:
    return load_text(spec(body)).controllers[0].reconcile


def test_the_value_is_computed_once_and_compared() -> None:
    nodes = automaton("update s.status { ready: s.spec.n - 1 } if changed on Conflict { requeue }; requeue").nodes
    value, test, call, conflict, end = nodes
    assert isinstance(value, Bind) and isinstance(test, Branch) and isinstance(call, Call)
    assert (test.then, test.other) == (2, 4) and call.next == 4 and call.handlers == (("Conflict", 3),)
    assert (conflict, end) == (End("requeue"), End("requeue"))


def test_without_it_a_write_is_made_in_any_case() -> None:
    assert [type(node) for node in automaton("update s.status { ready: 1 }").nodes] == [Call, End]


def test_an_event_is_a_node_and_costs_the_checker_nothing() -> None:
    first, _, last, _ = automaton(
        'event s Normal "Seen" s.name; patch s.spec { n: 1 }; event s Warning "Bad" "x"'
    ).nodes
    assert isinstance(first, Note) and (first.type, first.reason, first.next) == ("Normal", "Seen", 1)
    assert isinstance(last, Note) and (last.type, last.reason, last.next) == ("Warning", "Bad", 3)
    check = "check c { run C; scope { Site: 1 }; faults { crash: 1 }; given Site a { } }"
    told = spec(
        'event s Normal "A" s.name; if s.spec.n == 0 { event s Normal "B" "x"; patch s.spec { n: 1 } on NotFound '
        '{ event s Normal "C" "x" } } else { event s Normal "D" "x" }; for i in 0..1 { event s Normal "E" string(i) }',
        check,
    )
    silent = spec("if s.spec.n == 0 { patch s.spec { n: 1 } on NotFound { } } else { }; for i in 0..1 { }", check)
    assert len(Probe(told).edges) == len(Probe(silent).edges) > 2


WRONG = {
    'event s.spec Normal "A" "x"': "D212",
    'event s Normal "a b" "x"': "D218",
    'event s Normal "A" 1': "D201",
    'event s Odd "A" "x"': "",
}


@pytest.mark.parametrize("body", WRONG)
def test_events_that_are_none(body: str) -> None:
    with pytest.raises(SpecRejected) as rejected:
        automaton(body)
    assert not WRONG[body] or [m.code for m in rejected.value.messages] == [WRONG[body]]


def test_where_neither_can_stand() -> None:
    hook = 'admission A on create Site s { event s Normal "A" "x" }'
    play = 'scenario "x" { given Site a { }; patch a.spec { n: 1 } if changed }'
    for text in (hook, play):
        with pytest.raises(SpecRejected) as rejected:
            load_text((HEAD + text).replace(";", "\n"))
        assert "D120" in [m.code for m in rejected.value.messages]
