"""Clients that consume the API: floods of watches, loops without back-off, and who fights whom over an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import frozen

from dashpot.runtime.doctor.cause import HOT, HOT_LEAST, Cause
from dashpot.runtime.doctor.reading import KINDS, Object, Reading, changed, moment, named, rates

FLOOD = 20.0
"""Watches that a client begins in a second."""
FLOOD_LEAST = 100
"""Watches begun in the window: a client that starts begins some dozens."""
WATCHES_MAX = 200
"""Watches that one client holds open; the whole controller manager has some 70."""
SELF = "dashpot-doctor"
CHANGES = ("create", "update", "patch", "delete")
PER_OBJECT, PER_OTHER = 10, 4
"""Writes of one client to one resource in the window that are still work: for each object of this resource that
changed, and of another."""
BUSY = 4.0
"""Writes a second of one client to one resource that are a loop if they concern next to no object."""
WRITES_LEAST = 20
"""Such writes in the window."""
SPECS_LEAST = 6
"""Times that the spec of one object changed in the window: nobody decides so often."""
SPECS_RATE = 1.0
PERIODIC = ("leases", "events")
"""Resources that are written at a steady rate, by design."""


@frozen
class Suspect:
    """A client that writes a resource often; whether it is a loop depends on how many objects that concerns."""

    agent: str
    verb: str
    resource: str
    rate: float


def clients(before: Reading, after: Reading) -> Iterator[Cause]:
    """What the figures alone tell, and the objects that both readings show."""
    told = set()
    for agent, begun, held in _watchers(before, after):
        told.add(agent)
        text = f"it begins {begun:.0f} watches a second and holds {held} open"
        fix = "let it share one informer, and back off before it watches anew"
        yield Cause("watch-flood", f"client {agent}", text, fix)
    yield from _fights(before, after)
    for one in sorted(_requests(before, after), key=lambda s: (-s.rate, s.agent, s.verb, s.resource)):
        much = one.rate > HOT and one.rate * (after.at - before.at) >= HOT_LEAST
        if much and one.agent not in told and not _explained(one, before, after):
            told.add(one.agent)
            yield loop(one)
    for labels, rate in rates(before, after, "apiserver_flowcontrol_rejected_requests_total"):
        level = labels.get("priority_level", "")
        text = f"flow control refuses {rate:.1f} requests a second ({labels.get('reason', '')})"
        fix = "find the client that fills it, or give it a level of its own"
        yield Cause("throttled", f"priority level {level}", text, fix)


def loop(one: Suspect, objects: Sequence[str] = ()) -> Cause:
    """A client that loops; `objects`: those that it writes, if they are known."""
    text = f"it sends {one.rate:.0f} requests a second: {one.verb} {one.resource}".rstrip()
    if objects:
        text += f": {', '.join(objects[:3])}" + (f" and {len(objects) - 3} more" if len(objects) > 3 else "")
    return Cause("hot-loop", f"client {one.agent}", text, "see why its pass never settles; limit its rate meanwhile")


def suspects(before: Reading, after: Reading) -> list[Suspect]:
    """Clients that write some resource often, though not as often as to be a loop in any case."""
    window = after.at - before.at
    return [
        one
        for one in _requests(before, after)
        if one.verb in CHANGES
        and one.resource
        and one.resource not in PERIODIC
        and one.rate > BUSY
        and one.rate * window >= WRITES_LEAST
        and not _explained(one, before, after)
    ]


def of_window(objects: Sequence[Object], before: Reading) -> list[Object]:
    """The objects that were written since the first look; times of writes are whole seconds."""
    return [
        obj
        for obj in objects
        if any((moment(one.get("time")) or 0.0) >= before.at - 1 for one in obj["metadata"].get("managedFields") or ())
    ]


def _requests(before: Reading, after: Reading) -> list[Suspect]:
    return [
        Suspect(labels.get("user_agent", ""), labels.get("verb", ""), labels.get("resource", ""), rate)
        for labels, rate in rates(before, after, "dashpot_client_requests_total")
        if labels.get("verb") != "watch" and not labels.get("user_agent", "").startswith(SELF)
    ]


def _watchers(before: Reading, after: Reading) -> list[tuple[str, float, int]]:
    """Clients with too many watches: begun in a second, held open."""
    begun: dict[str, float] = {}
    for labels, rate in rates(before, after, "dashpot_client_requests_total"):
        if labels.get("verb") == "watch":
            agent = labels.get("user_agent", "")
            begun[agent] = begun.get(agent, 0.0) + rate
    held = Counter({labels.get("user_agent", ""): int(v) for labels, v in after.samples("dashpot_client_watches")})
    window = after.at - before.at
    return [
        (agent, begun.get(agent, 0.0), held[agent])
        for agent in sorted({*begun, *held})
        if not agent.startswith(SELF)
        and ((begun.get(agent, 0.0) > FLOOD and begun[agent] * window >= FLOOD_LEAST) or held[agent] > WATCHES_MAX)
    ]


def _explained(one: Suspect, before: Reading, after: Reading) -> bool:
    """Whether so many writes are explained by the objects that changed: a large rollout is no loop."""
    own = kind_of(one.resource)
    if one.verb not in CHANGES or (own is None and one.rate > HOT):
        return False
    return one.rate * (after.at - before.at) <= allowed(one, before, after)


def kind_of(resource: str) -> str | None:
    """The kind whose list the doctor reads, by its resource."""
    return next((kind for kind, path in KINDS.items() if path.endswith(f"/{resource}")), None)


def allowed(one: Suspect, before: Reading, after: Reading) -> int:
    """Writes of a client that the objects which changed explain."""
    own = kind_of(one.resource)
    mine = changed(before, after, (own,)) if own is not None else set()
    others = changed(before, after, [kind for kind in KINDS if kind not in ("Lease", "Event", own)])
    return PER_OBJECT * len(mine) + PER_OTHER * len(others)


def _fights(before: Reading, after: Reading) -> Iterator[Cause]:
    """Objects whose spec changes all the time: several want it different, or one does not know what it wants."""
    window = after.at - before.at
    for kind in KINDS:
        old = {one["metadata"].get("uid"): one["metadata"] for one in before.of(kind)}
        for obj in after.of(kind):
            meta = obj["metadata"]
            known = old.get(meta.get("uid"))
            if known is None or (kind == "ReplicaSet" and meta.get("ownerReferences")):
                continue
            times = int(meta.get("generation") or 0) - int(known.get("generation") or 0)
            if times >= SPECS_LEAST and times > SPECS_RATE * window:
                who = " and ".join(_writers(obj, before))
                text = f"its spec changed {times} times in {window:.0f} s" + (f", by {who}" if who else "")
                fix = "let one of them own the field that they fight over"
                yield Cause("hot-loop", f"{kind.lower()} {named(obj)}", text, fix)


def _writers(obj: Object, before: Reading) -> list[str]:
    fields = obj["metadata"].get("managedFields") or ()
    return sorted(
        {
            str(one.get("manager"))
            for one in fields
            if not one.get("subresource") and (moment(one.get("time")) or 0.0) >= before.at - 1
        }
    )
