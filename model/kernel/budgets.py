"""What an eviction costs: disruptions that a PodDisruptionBudget allows (registry/core/pod/storage/eviction.go)."""

from __future__ import annotations

from dashpot.model import types as t
from dashpot.model.automaton import Call
from dashpot.model.kernel.domain import scalar
from dashpot.model.kernel.equality import equal
from dashpot.model.kernel.path import Path
from dashpot.model.kernel.pipeline import Draft, draft_of, finish
from dashpot.model.kernel.values import Object, Scalar, Table
from dashpot.model.kernel.world import World, Writer

NOTED = "disruptedPods"


def free_to_go(world: World, path: Path, copy: Object) -> bool:
    """Evicting this pod disrupts nothing."""
    g, schema = world.g, world.schema
    _, stored = world.stored(path, copy.kind)[copy.slot]
    free = g.ne(stored.read("deletionTimestamp"), g.const(0))
    phase = next((f for f in schema.info(copy.kind).declared("status") if f.name == "phase"), None)
    if phase is not None and isinstance(phase.type, t.Enum):
        now = schema.side_field(stored, "status", "phase")
        for name in ("Pending", "Succeeded", "Failed"):
            if name in phase.type.members:
                here = Scalar(g.const(phase.type.members.index(name)), phase.type)
                free = g.or_(free, equal(schema, now, here))
    return path.branch(free)


def pay(world: World, path: Path, writer: Writer, call: Call, copy: Object) -> str:
    """Take one disruption from the budget that covers the pod."""
    g, schema = world.g, world.schema
    if "PodDisruptionBudget" not in schema.kinds:
        return ""
    app = schema.side_field(copy, "spec", "app")
    covering = []
    for present, budget in world.stored(path, "PodDisruptionBudget"):
        if path.branch(g.and_(present, equal(schema, schema.side_field(budget, "spec", "app"), app))):
            covering.append(budget)
    if len(covering) > 1:
        path.detail.append("more than one PodDisruptionBudget covers it")
        return "Denied"
    for budget in covering:
        payment = draft_of(world, path, "update", budget, writer, ["status.disruptionsAllowed"])
        left = payment.leaves["status.disruptionsAllowed"]
        if not path.branch(g.lt(g.const(0), left)):
            return "TooManyRequests"
        payment.leaves["status.disruptionsAllowed"] = g.clamp(g.sub(left, g.const(1)), 0, left.hi)
        _note(world, payment, copy)
        finish(world, path, payment, call.span)
    return ""


def _note(world: World, payment: Draft, pod: Object) -> None:
    """Enter the pod in `status.disruptedPods`, where the budget has that map: so that its controller does not count a
    pod of which its cache does not show yet that it goes. The values (times) are not kept."""
    g, schema, path = world.g, world.schema, f"status.{NOTED}"
    declared = next((f for f in schema.info(payment.kind).declared("status") if f.name == NOTED), None)
    if declared is None or not isinstance(declared.type, t.MapOf):
        return
    now = schema.finite.load(declared.type, path, payment.leaves.__getitem__)
    assert isinstance(now, Table)
    name = scalar(schema.field(pod, "name"))
    entries = {k: (g.or_(there, g.eq(name, g.const(k))), item) for k, (there, item) in now.entries.items()}
    leaves, _ = schema.finite.store(declared.type, path, Table(entries, now.key))
    payment.leaves.update(leaves)
    payment.fields.append(path)
