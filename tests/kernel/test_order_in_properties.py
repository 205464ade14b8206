"""A property may take the first of a sorted list only where the order is settled."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

from dashpot.model.fault import SpecError

SPEC = """
resource Box {{ spec {{ n: 0..2 = 0 }} }}
environment U {{ action set(b: Box) at most 1 {{ patch b.spec {{ n: any 0..2 }} }} }}
property first = always {term}
check c {{ run U; scope {{ Box: 2 }}; faults {{ }}; given Box {one} {{ }}; given Box {two} {{ }}; expect first }}
"""


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_key_that_differs_settles_the_order(names: tuple[str, str]) -> None:
    text = SPEC.format(term='Box.sortBy(b, b.name).first().name == "a"', one=names[0], two=names[1])
    assert verdicts(text).get("first", "holds") == "holds"


@pytest.mark.parametrize("term", ['Box.sortBy(b, b.spec.n).first().name == "a"', 'Box.first().name == "a"'])
def test_ties_are_refused(term: str) -> None:
    """The slot order would decide: a verdict that turns with the order of two `given` lines."""
    with pytest.raises(SpecError) as refused:
        verdicts(SPEC.format(term=term, one="a", two="b"))
    assert refused.value.code == "D318"
    assert refused.value.span.line == 4
