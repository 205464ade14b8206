"""Clients that consume the API: floods of watches, loops without back-off, and who fights whom over an object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import frozen

from dashpot.runtime.doctor.cause import HOT, HOT_LEAST, Cause
from dashpot.runtime.doctor.progress import written
from dashpot.runtime.doctor.reading import KINDS, Object, Reading, changed, moment, named, rates
from dashpot.runtime.plane.parts import CONTROLLERS

FLOOD = 20.0
"""Watches that a client begins in a second."""
FLOOD_LEAST = 100
"""Watches begun in the window: a client that starts begins some dozens."""
WATCHES_MAX = 200
"""Watches that one client holds open; the whole controller manager has some 70."""
SELF = "dashpot-doctor"
CHANGES = ("create", "update", "patch", "delete")
PER_OBJECT, PER_OTHER = 10, 8
"""Writes of one client to one resource in the window that are still work: for each object of this resource that
changed, and of another."""
BUSY = 4.0
"""Writes a second of one client to one resource that are a loop if they concern next to no object."""
WRITES_LEAST = 20
"""Such writes in the window."""
SPECS_LEAST = 6
"""Times that the spec of one object changed in the window: nobody decides so often."""
SPECS_RATE = 1.0
DECIDED = (
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
)
"""Kinds whose generation moves only when somebody decides anew."""
PERIODIC = ("leases", "events")
"""Resources that are written at a steady rate, by design."""

ACCOUNTS = {part.account for part in CONTROLLERS.values()}
"""User agents of the library's controllers, which write the status of what others decide."""


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
    fights = list(_fights(before, after))
    yield from fights
    for one in sorted(_requests(before, after), key=lambda s: (-s.rate, s.agent, s.verb, s.resource)):
        much = one.rate > HOT and one.rate * (after.at - before.at) >= HOT_LEAST
        # whoever follows an object that is fought over is busy, too
        busy = not fights and _busy(one, before, after) and _known(one.resource, after)
        if not much and not busy:
            continue
        if one.agent not in told and not _explained(one, before, after):
            told.add(one.agent)
            yield _loop(one, before, after)
    for labels, rate in rates(before, after, "apiserver_flowcontrol_rejected_requests_total"):
        level = labels.get("priority_level", "")
        text = f"flow control refuses {rate:.1f} requests a second ({labels.get('reason', '')})"
        fix = "find the client that fills it, or give it a level of its own"
        yield Cause("throttled", f"priority level {level}", text, fix)


def _loop(one: Suspect, before: Reading, after: Reading) -> Cause:
    kind = kind_of(one.resource)
    objects = after.written.get(one.resource, ()) if kind is None else _changed_of(kind, before, after)
    text = f"it sends {one.rate:.0f} requests a second: {one.verb} {one.resource}".rstrip()
    if one.verb in CHANGES and objects:
        names = [named(obj) for obj in sorted(objects, key=lambda obj: (-written([obj]), named(obj)))]
        text += f": {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Cause("hot-loop", f"client {one.agent}", text, "see why its pass never settles; limit its rate meanwhile")


def _changed_of(kind: str, before: Reading, after: Reading) -> list[Object]:
    uids = changed(before, after, (kind,))
    return [obj for obj in after.of(kind) if str(obj["metadata"].get("uid")) in uids]


def _busy(one: Suspect, before: Reading, after: Reading) -> bool:
    """Whether a client writes a resource often, though not as often as to be a loop in any case."""
    writes = one.verb in CHANGES and bool(one.resource) and one.resource not in PERIODIC
    return writes and one.rate > BUSY and one.rate * (after.at - before.at) >= WRITES_LEAST


def _known(resource: str, after: Reading) -> bool:
    return kind_of(resource) is not None or resource in after.written


def to_look_up(before: Reading, after: Reading) -> list[str]:
    """Resources that somebody writes often, and that no reading has: whether it is a loop depends on the objects."""
    busy = {one.resource for one in _requests(before, after) if _busy(one, before, after)}
    return sorted(resource for resource in busy if not _known(resource, after))


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
    if one.verb not in CHANGES or not _known(one.resource, after):
        return False
    own = kind_of(one.resource)
    mine = len(after.written.get(one.resource, ())) if own is None else len(changed(before, after, (own,)))
    others = changed(before, after, [kind for kind in KINDS if kind not in ("Lease", "Event", own)])
    return one.rate * (after.at - before.at) <= PER_OBJECT * mine + PER_OTHER * len(others)


def kind_of(resource: str) -> str | None:
    """The kind whose list the doctor reads, by its resource."""
    return next((kind for kind, path in KINDS.items() if path.endswith(f"/{resource}")), None)


def _fights(before: Reading, after: Reading) -> Iterator[Cause]:
    """Objects whose spec changes all the time: several want it different, or one does not know what it wants."""
    window = after.at - before.at
    for kind in DECIDED:
        old = {one["metadata"].get("uid"): one["metadata"] for one in before.of(kind)}
        for obj in after.of(kind):
            meta = obj["metadata"]
            known = old.get(meta.get("uid"))
            if known is None or (kind == "ReplicaSet" and meta.get("ownerReferences")):
                continue
            times = int(meta.get("generation") or 0) - int(known.get("generation") or 0)
            if times >= SPECS_LEAST and times > SPECS_RATE * window:
                who = " and ".join(_writers(kind, obj, before, after))
                text = f"its spec changed {times} times in {window:.0f} s" + (f", by {who}" if who else "")
                fix = "let one of them own the field that they fight over"
                yield Cause("hot-loop", f"{kind.lower()} {named(obj)}", text, fix)


def _writers(kind: str, obj: Object, before: Reading, after: Reading) -> list[str]:
    """Who writes objects of this kind in the window, by the requests; by the object's managers where nobody counts
    requests. Who loses a field is no manager of it any more, so the object alone shows the last winner."""
    plural = KINDS[kind].rpartition("/")[2]
    counted = {
        one.agent.partition("/")[0]
        for one in _requests(before, after)
        if one.verb in CHANGES and one.resource == plural and one.rate * (after.at - before.at) >= SPECS_LEAST / 2
    }
    managers = {
        str(one.get("manager"))
        for one in obj["metadata"].get("managedFields") or ()
        if one.get("subresource") != "status" and (moment(one.get("time")) or 0.0) >= before.at - 1
    }
    return sorted(counted - ACCOUNTS or managers)
