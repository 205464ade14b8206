"""The scheduler: one pod at a time, the filters, the scores, a draw among the best, then the binding (S13 to S23).

    scheduler = Scheduler(client, clock); scheduler.start(); await scheduler.stop()

What fits where, how nodes rate, who would have to go and which events help is said by `dashpot.model.placement` alone.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import evolve

from dashpot.model.placement import cycle, hints, message, profile
from dashpot.model.placement.cycle import Found, Profile, Unfit
from dashpot.model.placement.preempt import Candidate
from dashpot.model.placement.shape import NodeView, Pod
from dashpot.runtime.client.events import Recorder
from dashpot.runtime.client.informer import Handler, Informer
from dashpot.runtime.client.rest import Client
from dashpot.runtime.clock import Clock
from dashpot.runtime.scheduler.binding import Binder
from dashpot.runtime.scheduler.cache import Cluster
from dashpot.runtime.scheduler.metrics import Metrics
from dashpot.runtime.scheduler.news import BESIDE, News
from dashpot.runtime.scheduler.nominations import Nominations
from dashpot.runtime.scheduler.preemption import FAILURES, Evictor, sought
from dashpot.runtime.scheduler.queue import SchedulingQueue, Waiting
from dashpot.runtime.scheduler.teller import NAME, Teller, named, scheduler_of
from dashpot.runtime.scheduler.volumes import Plan, VolumeBinding, Volumes

Object = dict[str, Any]


class Scheduler:
    """One scheduler.

    profiles  by which pods are placed, each for the pods that name it; default: kube-scheduler's own
    chance    draws among equal nodes
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        name: str = NAME,
        profiles: Sequence[Profile] = (),
        first_s: float = 1.0,
        most_s: float = 10.0,
        chance: random.Random | None = None,
        complain: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._clock = clock
        self._chance = chance or random.Random(0)
        self._complain = complain
        self.cluster = Cluster()
        self.nominations = Nominations()
        self.queue = SchedulingQueue(clock.now, self._helps, first_s, most_s)
        self.volumes = Volumes(client, self._told, complain=complain)
        made = profiles or (evolve(profile.default(), name=name),)
        self.profiles = {one.name: self._whole(one) for one in made}
        self.metrics = Metrics(self.queue.counts, self.cluster.sizes, self._refused, self.queue.incoming)
        self._recorders = {one: Recorder(client, one, clock, complain=complain) for one in self.profiles}
        self._teller = Teller(client, clock, self._recorders, complain)
        self._binder = Binder(client, self.volumes, complain)
        self._evictor = Evictor(client, clock, name, self._event)
        self._start_at = 0
        self._task: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._informers = {kind: Informer(client, resource, complain=complain) for kind, resource in BESIDE.items()}
        self.cluster.objects.indexers.update({kind: one.indexer for kind, one in self._informers.items()})
        self._nodes = Informer(client, "nodes", complain=complain)
        self._pods = Informer(client, "pods", complain=complain)
        news = News(self.cluster, self.queue, self.nominations, self.profiles)
        self._nodes.add_handler(news.nodes())
        self._pods.add_handler(news.pods())
        self._informers["Namespace"].add_handler(Handler(news.space, lambda _, new: news.space(new), news.space_gone))

    @property
    def bound(self) -> int:
        """Pods bound so far."""
        return self._binder.bound

    def start(self) -> None:
        """Begins to follow the cluster and to bind."""
        if self._task is None:
            for recorder in self._recorders.values():
                recorder.start()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="scheduler")

    async def stop(self) -> None:
        """Ends; what is being bound is let finish. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.volumes.stop()
        await asyncio.gather(*self._work, return_exceptions=True)
        await asyncio.gather(*(one.stop() for one in (self._pods, self._nodes, *self._informers.values())))
        for recorder in self._recorders.values():
            await recorder.stop()

    # -- the parts ----------------------------------------------------------------------------------------------

    def _whole(self, one: Profile) -> Profile:
        """A profile with the filter of claims, which needs what this scheduler sees, at its place (S13)."""
        at = next((n for n, each in enumerate(one.filters) if each.name in AFTER_VOLUMES), len(one.filters))
        return evolve(one, filters=(*one.filters[:at], VolumeBinding(self.volumes), *one.filters[at:]))

    def _helps(self, plugin: str, pod: Pod, event: hints.Event) -> bool:
        return hints.helps(plugin, pod, event, spaces=self.cluster.spaces)

    def _told(self, kind: str, old: Object | None, new: Object | None) -> None:
        event = hints.changed(kind, old, new) if self.queue.attentive else None
        if event is not None:
            self.queue.tell(event)

    def _refused(self) -> dict[tuple[str, str], int]:
        """How many waiting pods each plugin refused, by plugin and profile."""
        found: Counter[tuple[str, str]] = Counter()
        for one in self.queue.waiting():
            for plugin in one.plugins:
                found[plugin, scheduler_of(one.object)] += 1
        return dict(found)

    def _event(self, obj: Object, reason: str, note: str) -> None:
        next(iter(self._recorders.values())).event(named(obj), "Normal", reason, note)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    # -- the cycle ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        for informer in (*self._informers.values(), self._nodes):
            informer.start()
        for informer in (*self._informers.values(), self._nodes):
            await informer.synced()
        await self.volumes.start()
        self._pods.start()
        await self._pods.synced()
        while True:
            waiting = await self.queue.pop()
            try:
                await self._cycle(waiting)
            except Exception as problem:  # an object that no rule expects must not end the scheduler
                self._complain(f"scheduling {waiting.key}: {type(problem).__name__}: {problem}")
                self.queue.fail(waiting)

    async def _cycle(self, waiting: Waiting) -> None:
        pod, begun = waiting.pod, asyncio.get_running_loop().time()
        if self.cluster.assumed(pod.uid):
            self.queue.remove(waiting.key)
            return
        if pod.terminating:
            self._teller.skipped(pod)
            self.queue.remove(waiting.key)
            return
        chosen = self.profiles[scheduler_of(waiting.object)]
        outcome = self.decide(pod, chosen)
        self.metrics.algorithm.observe(asyncio.get_running_loop().time() - begun)
        if isinstance(outcome, Unfit):
            await self._unfit(waiting, pod, chosen, outcome)
            self._count(chosen, "unschedulable", begun)
            return
        node = self.cluster.nodes[self._chance.choice(outcome.best)]
        plan = self.volumes.plan(waiting.object)
        promised = self.nominations.remove(pod.uid)
        self.cluster.assume(pod, node.name)
        self._spawn(self._bind(waiting, pod, node, plan, promised, begun))
        await asyncio.sleep(0)

    def decide(self, pod: Pod, chosen: Profile) -> Found | Unfit:
        """What the rules say of a pod now."""
        live = self.cluster.snapshot()
        outcome = cycle.run(pod, live, chosen, start=self._start_at, nominations=self.nominations)
        if live.nodes:
            self._start_at = (self._start_at + outcome.walked) % len(live.nodes)
        return outcome

    def _count(self, chosen: Profile, result: str, begun: float) -> None:
        self.metrics.attempts.labels(result, chosen.name).inc()
        self.metrics.attempt.labels(result, chosen.name).observe(asyncio.get_running_loop().time() - begun)

    async def _bind(self, waiting: Waiting, pod: Pod, node: NodeView, plan: Plan, promised: str, begun: float) -> None:
        chosen = self.profiles[scheduler_of(waiting.object)]
        result = await self._binder.bind(waiting.object, node, plan)
        if result.gone:
            self.cluster.forget(pod.uid)
            self.queue.remove(waiting.key)
        elif result.error:
            self.cluster.forget(pod.uid)
            if promised:
                self.nominations.add(pod, promised)
            # who waits for room may have been refused beside a pod that is not there after all (S23)
            self._told("Pod", {**waiting.object, "spec": {**waiting.object["spec"], "nodeName": node.name}}, None)
            self.queue.fail(waiting)
            self._teller.failed(pod, result.error)
            self._count(chosen, "error", begun)
        else:
            self._teller.assigned(pod, node.name)
            self.metrics.tries.observe(waiting.attempts)
            attempts = str(min(waiting.attempts, MOST_ATTEMPTS))
            self.metrics.sli.labels(attempts).observe(self._clock.now() - waiting.began)
            self._count(chosen, "scheduled", begun)

    # -- where it does not fit ----------------------------------------------------------------------------------

    async def _unfit(self, waiting: Waiting, pod: Pod, chosen: Profile, outcome: Unfit) -> None:
        """Tells why (S63), makes room where it may, then parks the pod; without any node it backs off (S65)."""
        live = self.cluster.snapshot()
        if not live.nodes:
            self.queue.reject(waiting, frozenset())
            await self._teller.unfit(pod, message.NO_NODES)
            return
        answer = sought(pod, live, chosen, outcome, self.nominations, self._chance, self._clock.now())
        why = message.why(outcome, answer.tail)
        plugins = outcome.plugins or frozenset((outcome.refused.plugin,) if outcome.refused else ())
        if answer.candidate is None:
            cleared = self.nominations.remove(pod.uid)
            self.queue.reject(waiting, plugins)
            await self._teller.unfit(pod, why, nominated="" if cleared else None)
            return
        self.queue.hold(waiting)
        self._promise(pod, answer.candidate)
        self.queue.reject(waiting, plugins)
        self._spawn(self._make_room(waiting, pod, answer.candidate, why))

    def _promise(self, pod: Pod, candidate: Candidate) -> None:
        for other in self.nominations.lower(candidate.node, pod.priority):
            self.nominations.remove(other.uid)
            self._spawn(self._teller.nominate(other, ""))
        self.nominations.add(pod, candidate.node)

    async def _make_room(self, waiting: Waiting, pod: Pod, candidate: Candidate, why: str) -> None:
        """All victims but the last at once, then the last: from then on events of their going count (S58)."""
        self.metrics.preemptions.inc()
        self.metrics.victims.observe(len(candidate.victims))
        evict = partial(self._evictor.evict, by=pod, node=candidate.node)
        try:
            await self._teller.unfit(pod, why, nominated=candidate.node)
            *most, last = candidate.victims
            await asyncio.gather(*(evict(victim) for victim in most))
            self.queue.release(waiting)
            await evict(last)
        except FAILURES as error:
            self._complain(f"making room for {waiting.key} on {candidate.node}: {error}")
            self.nominations.remove(pod.uid)
            await self._teller.nominate(pod, "")
            self.queue.fail(waiting)
        finally:
            self.queue.release(waiting)


AFTER_VOLUMES = ("VolumeZone", "PodTopologySpread", "InterPodAffinity")
"""Filters that are asked behind VolumeBinding."""
MOST_ATTEMPTS = 15
"""Of the label of the SLI: more are `15+` upstream."""
