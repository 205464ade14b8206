"""The store of the model's kernel, one step at a time: what a client's get, create, update and delete do there."""

from __future__ import annotations

from functools import cache

from attrs import define, field
from tests.kernel.probe import Probe

from dashpot.model.system import Label

CLIENT = """
process %s {
  action make() { create Box { name: any ["b", "c"], spec.n: any 0..3 } on AlreadyExists { return } }
  action write() {
    let b = get live Box (any ["b", "c"])
    if b == null { return }
    update b.spec { n: any 0..3 } on Conflict { return } on NotFound { return }
  }
  action remove() {
    let b = get live Box (any ["b", "c"])
    if b == null { return }
    delete b if unchanged on Conflict { return } on NotFound { return }
  }
}
"""

SPEC = f"""
resource Box {{ spec {{ n: 0..3 }} }}
{CLIENT % "A"}{CLIENT % "B"}
check c {{
  run A, B
  scope {{ Box: 2 }}
  given Box b {{ }}
  given Box c {{ }}
}}
"""


@cache
def probe() -> Probe:
    """The system of two clients of two boxes."""
    return Probe(SPEC)


@define(eq=False)
class Kernel:
    """A run of the kernel: its state, and the steps that are possible in it."""

    state: int = field(factory=lambda: probe().backend.initial)

    def steps(self) -> list[tuple[Label, int]]:
        """Calls that clients can make now, with the state after each."""
        flat = probe().backend.successors(self.state)
        labels = [(probe().system.updates[u].label, t) for u, t in zip(flat[::2], flat[1::2], strict=True)]
        return sorted(labels, key=lambda step: (step[0].actor, step[0].verb, step[0].object, step[0].detail, step[1]))

    def boxes(self, state: int | None = None) -> dict[str, bytes]:
        """Name → n of the boxes that are there."""
        found = probe().store(self.state if state is None else state)
        return {name: found[f"Box[{i}].spec.n"].encode() for i, name in enumerate("bc") if f"Box[{i}]" in found}


def outcome(label: Label) -> str:
    """What a call answered."""
    return next((word for word in ("AlreadyExists", "Conflict", "NotFound") if word in label.detail), "ok")
