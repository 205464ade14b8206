"""What an eviction leaves in a budget's status."""

from __future__ import annotations

from tests.kernel.probe import Probe

KINDS = """
resource Pod { spec { app: Name? }; status { ready: bool } }
resource PodDisruptionBudget {
  spec { app: Name? }
  status { disruptionsAllowed: 0..2, disruptedPods: map[Name]opaque = { } }
}
"""


def test_an_evicted_pod_is_noted_in_the_budget() -> None:
    text = f"""{KINDS}
process D {{
  action drain(p: Pod) when p.name == "p" {{ evict p on TooManyRequests {{ }} }}
  action look(b: PodDisruptionBudget, q: Pod) when "p" in b.status.disruptedPods && !q.status.ready {{
    if !("q" in b.status.disruptedPods) {{ patch q.status {{ ready: true }} }}
  }}
}}
check c {{
  run D; scope {{ Pod: 2, PodDisruptionBudget: 1 }}
  given Pod p {{ spec: {{ app: "x" }} }}
  given Pod q {{ spec: {{ app: "x" }} }}
  given PodDisruptionBudget b {{ spec: {{ app: "x" }}, status: {{ disruptionsAllowed: 2 }} }}
}}"""
    end = Probe(text).end()
    assert "Pod[0]" not in end and end["Pod[1].status.ready"] == "true"
    assert end["PodDisruptionBudget[0].status.disruptionsAllowed"] == "1"
