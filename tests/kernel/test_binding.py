"""Binding: which kinds can be bound, and what counts as bound."""

from __future__ import annotations

import pytest
from tests.kernel.probe import verdicts

from dashpot.model.fault import SpecError

PODS = """
resource Node {{ }}
resource Pod {{ spec {{ nodeName: {ty} }} }}
process S {{ action place(p: Pod) when p.spec.nodeName == {free} {{ bind p to "east" on Conflict {{ }} }} }}
environment U {{ action remove(p: Pod) at most 1 {{ delete p }} }}
property bound = converges while Pod.exists(p, p.deletionTimestamp == null) to Pod.all(p, p.spec.nodeName == "east")
check c {{ run S, U; scope {{ Node: 1 }}; faults {{ }}; given Node east {{ }}; given Pod web {{ }}; expect bound }}
"""


@pytest.mark.parametrize(("ty", "free"), [("ref Node?", "null"), ("Name", '""')])
def test_a_node_name_may_be_optional_or_empty(ty: str, free: str) -> None:
    assert verdicts(PODS.format(ty=ty, free=free)).get("bound", "holds") == "holds"


def test_a_kind_without_a_node_name_cannot_be_bound() -> None:
    text = """
resource Site { spec { n: 0..1 = 0 } }
process S { action place(s: Site) { bind s to "east" on Conflict { } } }
check c { run S; scope { Site: 1 }; faults { }; given Site a { } }
"""
    with pytest.raises(SpecError) as refused:
        verdicts(text)
    assert refused.value.code == "D312"
    assert refused.value.span.line == 3
