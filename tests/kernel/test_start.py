"""The start of a world: what is there without being said, and what is not."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

SPEC = """
resource Box {{ spec {{ n: 0..2 = 1 }} }}
environment U {{ action touch(b: Box) at most 1 {{ {body} }} }}
property there = always Box.count(b, b.spec.n == 1) == {count}
check c {{ run U; scope {{ Box: {scope} }}; faults {{ }}; {given}; expect there }}
"""


@pytest.mark.parametrize(
    ("scope", "given", "body", "count"),
    [
        (2, "resync off", "patch b.spec { n: 1 }", 2),
        (1, "given Box a { spec: { n: 1 } }", "patch b.spec { n: 1 }", 1),
        (2, "given Box a { spec: { n: 1 } }", "patch b.spec { n: 1 }", 1),
        (2, "resync off", 'create Box { name: "x", spec: { n: 2 } }', 0),
    ],
    ids=["nobody makes one", "one is given", "given objects are all", "somebody makes them"],
)
def test_what_is_there_at_the_start(scope: int, given: str, body: str, count: int) -> None:
    """A kind of the scope that no `given` names and nobody creates exists from the start, with its defaults."""
    assert verdicts(SPEC.format(scope=scope, given=given, body=body, count=count)).get("there") == "holds"
