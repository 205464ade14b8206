"""Which loop stopped making progress, and why: two looks at a cluster, the causes, then each object that is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from attrs import evolve, field, frozen

from dashpot.runtime.clock import Clock
from dashpot.runtime.doctor.cause import Cause
from dashpot.runtime.doctor.causes import causes
from dashpot.runtime.doctor.clients import of_window, to_look_up
from dashpot.runtime.doctor.cluster import Cluster, Unreachable
from dashpot.runtime.doctor.deadends import dead_ends
from dashpot.runtime.doctor.reading import Object, Reading, look
from dashpot.runtime.doctor.survey import Refused, listed
from dashpot.runtime.doctor.unsettled import Unsettled, unsettled
from dashpot.runtime.doctor.webhooks import SLOW_S, Report, profile

RATE = 4.0
"""Dry runs a second past each webhook."""
SECONDS = 1.0
LOOK_AGAIN_S = 1.0
"""Between two lists of what somebody writes often."""
BLAMED = ("no-answer", "slow", "no-service", "no-endpoints")
"""Findings about webhooks that stop a loop now; the others are settings that may do so one day."""
CODES = {"slow": "webhook-slow"}
ADDRESSES = "kube_apiserver_clusterip_allocator_available_ips"
LEAST = ("dashpot_client_requests_total", "etcd_request_duration_seconds_count", "dashpot_store_alarm", ADDRESSES)
UNSAID = {
    "dashpot_client_requests_total": "which client consumes the API: /metrics does not count by user agent",
    "etcd_request_duration_seconds_count": "how long the store takes: /metrics does not say",
    "dashpot_store_alarm": "whether the store refuses writes: /metrics does not say; ask etcd (etcdctl alarm list)",
    ADDRESSES: "how many addresses are left for Services: /metrics does not say",
}


@frozen
class Diagnosis:
    """What was found. `unseen`: what could not be observed, and why."""

    causes: tuple[Cause, ...] = ()
    stuck: tuple[Unsettled, ...] = ()
    unseen: tuple[str, ...] = field(default=())

    @property
    def sick(self) -> bool:
        """Whether something is wrong."""
        return bool(self.causes or self.stuck)

    @property
    def first(self) -> str:
        """The line that names cause and object; empty where nothing is wrong."""
        if self.causes:
            cause = self.causes[0]
            return f"{cause.code}: {cause.object}: {cause.text}"
        if self.stuck:
            one = self.stuck[0]
            return f"not-settled: {one.kind} {one.name}: {one.controller} waits for {one.waits_for}"
        return ""


async def diagnose(
    cluster: Cluster,
    clock: Clock,
    window_s: float = 5.0,
    tell: Callable[[str], None] = lambda text: None,
    pages: Sequence[str] = (),
) -> Diagnosis:
    """Looks twice, `window_s` apart, and sends a few dry runs past each webhook; Unreachable if nobody answers.
    `pages`: addresses at which controllers serve their own figures."""
    tell("the first look")
    before = await look(cluster, clock.now(), pages)
    await asyncio.sleep(window_s)
    tell("the second look")
    after = await look(cluster, clock.now(), pages)
    after = evolve(after, written=await _written(cluster, before, after))
    blamed, unseen = await _webhooks(cluster, tell)
    shared = causes(before, after)
    store = [one for one in shared if one.code.startswith("store-")]
    others = [one for one in shared if not one.code.startswith("store-")]
    found = (*store, *blamed, *others, *dead_ends(before, after))
    return Diagnosis(found, tuple(unsettled(before, after)), (*after.unseen, *_unsaid(after), *unseen))


def _unsaid(after: Reading) -> list[str]:
    if after.figures is None:
        return []
    return [UNSAID[name] for name in LEAST if name not in after.figures]


async def _written(cluster: Cluster, before: Reading, after: Reading) -> dict[str, list[Object]]:
    """Objects that are written often, by resource. The times of managers move only with what these own: so what
    changes from one list to another counts, too."""
    found: dict[str, list[Object]] = {}
    for resource in to_look_up(before, after):
        first = {one["metadata"].get("uid"): one["metadata"] for one in await listed(cluster, resource)}
        await asyncio.sleep(LOOK_AGAIN_S)
        second = await listed(cluster, resource)
        moving = [
            one
            for one in second
            if first.get(one["metadata"].get("uid"), {}).get("resourceVersion") != one["metadata"]["resourceVersion"]
        ]
        found[resource] = moving or of_window(second, before)
    return found


async def _webhooks(cluster: Cluster, tell: Callable[[str], None]) -> tuple[list[Cause], list[str]]:
    try:
        report = await profile(cluster, (RATE,), SECONDS, SLOW_S, tell)
        blamed = _blamed(report)
        if any(one.code == "webhook-slow" for one in blamed):
            # a few writes may be late by accident, on a busy machine; the same webhook twice is none
            report = await profile(cluster, (RATE,), SECONDS, SLOW_S, tell)
            again = {one.object for one in _blamed(report)}
            blamed = [one for one in blamed if one.object in again]
    except (Refused, Unreachable) as error:
        return [], [f"admission webhooks: {error}"]
    return blamed, [f"webhook {text}" for text in report.unknown]


def _blamed(report: Report) -> list[Cause]:
    return [
        Cause(CODES.get(f.code, "webhook-away"), f"webhook {f.webhook} ({f.configuration})", f.text, f.fix)
        for f in report.findings
        if f.code in BLAMED
    ]
