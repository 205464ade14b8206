"""Profiles admission webhooks by dry run: what each adds to a write, at several rates, and what is dangerous about it.

A client cannot see how long one webhook took. It sees how long a write took: so writes that a webhook is asked about
are compared with writes that no webhook is asked about, at the same rate. Where others are asked about the same write,
too, they are named beside it, and the API server's own counts tell them apart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from attrs import field, frozen

from dashpot.runtime.doctor.cluster import Cluster, Reply
from dashpot.runtime.doctor.counters import TYPES, Counts, Key, read
from dashpot.runtime.doctor.dangers import Finding, Setting, examine
from dashpot.runtime.doctor.load import Figures, load, outcome
from dashpot.runtime.doctor.samples import Sample, Surroundings, baseline, candidates, concerns
from dashpot.runtime.doctor.survey import Survey, survey, with_existing

SLOW_S = 0.1
"""What a webhook may add to a write at the 99th percentile."""
WARM = 4
"""Writes before the first that counts."""
PLACES_MAX = 3
"""Namespaces, or objects, tried of each kind: one may have a quota or a policy of its own."""
TRIALS_MAX = 9
"""Kinds of writes tried until one comes past a webhook."""


SATURATED = 3.0
"""How many times the limit a write without webhooks may take at the 99th percentile before nothing can be told."""


@frozen
class Measure:
    """One webhook at one rate. `name` is the webhook's."""

    figures: Figures
    base: Figures
    name: str = ""
    alone: bool = True
    """Whether no other webhook is asked about the same write."""
    own: Counts | None = None
    """What the API server counted about this webhook meanwhile; None where it does not tell."""

    def added(self, share: float) -> float:
        """Seconds that the webhook adds at a quantile, at least 0. Where others are asked, too: what the API server
        counted, and the whole difference only where it does not tell."""
        if not self.alone and self.own is not None and self.own.calls:
            return self.own.quantile(share)
        return max(0.0, self.figures.quantile(share) - self.base.quantile(share))

    @property
    def failed_open(self) -> int:
        """Writes that went on because the webhook need not answer, and did not."""
        return self.own.failed_open if self.own is not None else 0

    @property
    def bad(self) -> int:
        """Writes for which this webhook did not answer."""
        return (self.figures.bad if self.alone else self.figures.bad_of(self.name)) + self.failed_open

    def unknown(self, slow_s: float) -> str:
        """Why nothing can be said about the webhook at this rate; empty if something can."""
        base, sent = self.base, self.base.sent
        limit = max(slow_s, SLOW_S)  # a small limit makes no server busy
        if base.quantile(0.5) > limit or base.quantile(0.99) > SATURATED * limit:
            took = f"{base.quantile(0.5) * 1000:.0f} ms, one in a hundred {base.quantile(0.99) * 1000:.0f} ms"
            return f"writes without webhooks take {took} themselves: the API server or this machine is saturated"
        if base.bad or base.outcomes["throttled"] or base.outcomes["refused"]:
            failed = sent - base.outcomes["answered"] - base.outcomes["denied"]
            return f"{failed} of {sent} writes without webhooks failed: {base.example}"
        if self.bad:
            return ""
        if self.figures.bad * 2 > self.figures.sent:
            return f"other webhooks of the same write do not answer: {self.figures.example}"
        if not self.alone and self.own is None and self.added(0.99) > slow_s:
            return (
                f"{self.added(0.99) * 1000:.0f} ms are added by it or by the others that are asked: cannot separate "
                "them without the API server's /metrics"
            )
        return ""


@frozen
class Profile:
    """One webhook: what was written, with whom it shares that, and how it did."""

    setting: Setting
    sample: Sample | None
    shared: tuple[str, ...] = ()
    """Other webhooks that are asked about the same write."""
    measures: tuple[Measure, ...] = ()
    unmeasured: str = ""
    """Why nothing was measured."""

    def slow(self, limit: float) -> bool:
        """Whether it adds more than that at some rate, or did not answer."""
        return any(not m.unknown(limit) and (m.added(0.99) > limit or m.bad) for m in self.measures)

    def unknown(self, limit: float) -> tuple[str, ...]:
        """What could not be found out about it."""
        if self.unmeasured:
            return (f"not measured: {self.unmeasured}",)
        found = [f"at {m.figures.rate:g} writes a second {why}" for m in self.measures if (why := m.unknown(limit))]
        blind = self.setting.hook.fail_open and any(m.own is None for m in self.measures)
        if blind and not self.slow(limit):
            found.append("whether it answers at all: it may fail open (Ignore), and /metrics is refused or silent")
        return tuple(found)


@frozen
class Report:
    """All webhooks of a cluster."""

    rates: tuple[float, ...]
    seconds: float
    slow_s: float
    base: tuple[Figures, ...] = ()
    base_sample: Sample | None = None
    profiles: tuple[Profile, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    @property
    def sick(self) -> bool:
        """Whether something is slow or can stop the cluster."""
        return any(finding.severity == "danger" for finding in self.findings) or any(
            profile.slow(self.slow_s) for profile in self.profiles
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be found out, with its webhook."""
        return tuple(f"{one.setting.hook.name}: {why}" for one in self.profiles for why in one.unknown(self.slow_s))

    @property
    def healthy(self) -> bool:
        """Whether nothing is slow, nothing can stop the cluster, and all could be found out."""
        return not self.sick and not self.unknown


async def profile(
    cluster: Cluster,
    rates: Sequence[float],
    seconds: float = 3.0,
    slow_s: float = SLOW_S,
    tell: Callable[[str], None] = lambda text: None,
) -> Report:
    """Examines every webhook; `tell` hears what is being done. Nothing is stored: all writes are dry runs."""
    rates = tuple(sorted(rates))
    found = await survey(cluster)
    findings = examine(found.settings, found.around, found.services)
    if not found.settings:
        return Report(rates, seconds, slow_s)
    base_sample = baseline([s.hook for s in found.settings], found.around)
    plain = [await _base(cluster, base_sample, rate, seconds, tell) for rate in rates]
    profiles = []
    for setting in found.settings:
        made = await _profile(cluster, setting, found, plain, seconds, tell)
        profiles.append(made)
        findings += _slowness(made, slow_s)
    return Report(rates, seconds, slow_s, tuple(plain), base_sample, tuple(profiles), tuple(findings))


async def _base(
    cluster: Cluster, sample: Sample | None, rate: float, seconds: float, tell: Callable[[str], None]
) -> Figures:
    if sample is None:
        return Figures(rate, ())
    tell(f"writes without webhooks ({sample.text}), {rate:g} a second")
    await _warm(cluster, sample)
    return await load(lambda: write(cluster, sample), rate, seconds)


async def _warm(cluster: Cluster, sample: Sample) -> None:
    """Opens connections, here and behind the API server, before anything is measured."""
    await asyncio.gather(*(write(cluster, sample) for _ in range(WARM)))


async def write(cluster: Cluster, sample: Sample) -> Reply:
    """One dry run of a write."""
    body = {"dryRun": ["All"]} if sample.operation == "DELETE" else sample.body
    query = {"dryRun": "All", "fieldManager": "dashpot-doctor"} if sample.operation != "DELETE" else {"dryRun": "All"}
    return await cluster.call(sample.method, sample.path, body, query, sample.content_type)


async def _profile(
    cluster: Cluster,
    setting: Setting,
    found: Survey,
    plain: Sequence[Figures],
    seconds: float,
    tell: Callable[[str], None],
) -> Profile:
    if setting.hook.side_effects not in ("None", "NoneOnDryRun"):
        return Profile(setting, None, unmeasured=f"sideEffects {setting.hook.side_effects}: it refuses dry runs")
    sample, why = await _choose(cluster, setting, found)
    if sample is None:
        return Profile(setting, None, unmeasured=why)
    shared = tuple(
        other.hook.name
        for other in found.settings
        if other is not setting and concerns(other.hook, sample, found.around)
    )
    measures: list[Measure] = []
    await _warm(cluster, sample)
    key = TYPES[setting.kind], setting.hook.name
    namesakes = sum((TYPES[other.kind], other.hook.name) == key for other in found.settings)
    for base in plain:
        if measures and max(measures[-1].bad, measures[-1].figures.bad) * 2 > measures[-1].figures.sent:
            # It is down already: higher rates would only wait longer.
            break
        tell(f"{setting.hook.name} ({sample.text}), {base.rate:g} a second")
        before = await _counts(cluster, key)
        figures = await load(lambda: write(cluster, sample), base.rate, seconds)
        after = await _counts(cluster, key)
        told = after is not None and before is not None and namesakes == 1 and after.calls > before.calls
        own = after.since(before) if told and after is not None and before is not None else None
        measures.append(Measure(figures, base, setting.hook.name, not shared, own))
    return Profile(setting, sample, shared, tuple(measures))


async def _counts(cluster: Cluster, key: Key) -> Counts | None:
    """What the API server counts about a webhook; None if it does not say."""
    text = await cluster.text("/metrics")
    return None if text is None else read(text).get(key, Counts())


async def _choose(cluster: Cluster, setting: Setting, found: Survey) -> tuple[Sample | None, str]:
    """A write that comes past the webhook, with as few others as possible; or why there is none."""
    around = found.around
    listed = _few_others(setting, found, around)
    if not listed:
        around = await with_existing(cluster, setting, around)
        listed = _few_others(setting, found, around)
    if not listed:
        return None, "no dry run reaches it: no kind, namespace or object matches its rules and selectors"
    why = ""
    for sample in listed[:TRIALS_MAX]:
        reply = await write(cluster, sample)
        if outcome(reply) in ("answered", "denied", "timeout", "failed"):
            return sample, ""
        why = why or f"{sample.text} is refused: {reply.message}"
    return None, why


def _few_others(setting: Setting, found: Survey, around: Surroundings) -> list[Sample]:
    counts: Counter[tuple[str, str, str]] = Counter()
    chosen = []
    for sample in candidates(setting.hook, setting.source, around):
        key = (sample.operation, sample.resource.group, sample.resource.plural)
        counts[key] += 1
        if counts[key] <= PLACES_MAX:
            chosen.append(sample)
    hooks = [other.hook for other in found.settings if other is not setting]

    def others(sample: Sample) -> int:
        return sum(concerns(hook, sample, around) for hook in hooks)

    return sorted(chosen, key=others)


def _slowness(made: Profile, slow_s: float) -> list[Finding]:
    hook = made.setting.hook
    found = []
    for measure in made.measures:
        if measure.unknown(slow_s):
            continue
        added, bad, rate = measure.added(0.99), measure.bad, measure.figures.rate
        if bad:
            waited = measure.added(0.5) > slow_s
            severity = "danger" if waited or not hook.fail_open else "warning"
            text = f"at {rate:g} writes a second {bad} of {measure.figures.sent} got no answer"
            if measure.failed_open:
                text += f" and went on without it after {measure.added(0.5) * 1000:.0f} ms (Ignore)"
            example = f": {measure.figures.example}" if measure.figures.example else ""
            found.append(
                Finding(
                    severity,
                    "no-answer",
                    hook.configuration,
                    hook.name,
                    text + example,
                    FIXES["open" if hook.fail_open else "bad"],
                )
            )
            break
        if added > slow_s:
            first = made.measures[0]
            fast = first is not measure and first.added(0.99) <= slow_s
            before = f" (at {first.figures.rate:g} it was {first.added(0.99) * 1000:.0f} ms)" if fast else ""
            text = f"at {rate:g} writes a second it adds {added * 1000:.0f} ms to one write in a hundred{before}"
            fix = FIXES["load"] if fast else FIXES["slow"]
            found.append(Finding("warning", "slow", hook.configuration, hook.name, text, fix))
            break
    return found


FIXES = {
    "open": "see whether it is up; until then each write waits for it in vain: lower its timeoutSeconds",
    "bad": "see whether it is up and how much it can take; failurePolicy Ignore if writes matter more than its word",
    "load": "it is fast when idle only: give it more replicas, or narrow its rules and add matchConditions",
    "slow": "find out what it waits for; narrow its rules and add matchConditions",
}
