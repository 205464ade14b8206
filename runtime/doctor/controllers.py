"""Controllers by their own figures: whose queue stands still, who fails on a key for ever, who spins.

The figures have the names of client-go's workqueue and of controller-runtime. dashpot's controllers tell beside them
which key fails, since when, and the last error (`dashpot_controller_failing_*`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from attrs import frozen

from dashpot.runtime.doctor.cause import HOT, HOT_LEAST, Cause
from dashpot.runtime.doctor.reading import FROM, KINDS, WAIT_S, Reading, changed, rates
from dashpot.runtime.plane.parts import CONTROLLERS

LAST = "dashpot_controller_failing_last_seconds"
SINCE = "dashpot_controller_failing_since_seconds"
KEYS = "dashpot_controller_failing_keys"
ERRORS = "controller_runtime_reconcile_errors_total"
PASSES = "controller_runtime_reconcile_total"
DEPTH = "workqueue_depth"
TAKEN = "workqueue_queue_duration_seconds_count"
LONGEST = "workqueue_longest_running_processor_seconds"
CREATED = "workqueue_adds_created"
ERRORS_LEAST = 3
"""Failures in a window, without a success, that are no accident."""
PER_OBJECT = 20
"""Passes for each object that changed which are still work."""
YOUNG_S = 60.0
"""For so long after its start a controller looks at everything once."""
NAMES = {actor: name for name, part in CONTROLLERS.items() for actor in part.actors}
"""The actors of the library by the names of kube-controller-manager."""
_ESCAPE = re.compile(r"\\(.)")


@frozen
class Failing:
    """A controller that fails on a key: since when (seconds since 1970), and the last error."""

    controller: str
    key: str
    since: float
    error: str
    last: float
    """When it failed last."""
    keys: int
    """How many of its keys fail."""


def failing(seen: Reading) -> list[Failing]:
    """Every controller that fails on some key, with the key that has failed for longest."""
    counts = {(labels.get("controller"), labels.get(FROM)): value for labels, value in seen.samples(KEYS)}
    last = {(labels.get("controller"), labels.get(FROM)): value for labels, value in seen.samples(LAST)}
    return [
        Failing(
            named_controller(labels),
            _plain(labels.get("key", "")),
            since,
            _plain(labels.get("error", "")),
            last.get((labels.get("controller"), labels.get(FROM)), since),
            int(counts.get((labels.get("controller"), labels.get(FROM)), 1)),
        )
        for labels, since in seen.samples(SINCE)
    ]


def absent(seen: Reading, controller: str) -> bool:
    """Whether a controller of the library does not run, though others of it do, whose figures are seen."""
    known = {NAMES.get(labels.get("name", "")) for labels, _ in seen.samples(DEPTH)} - {None}
    return controller in CONTROLLERS and bool(known) and controller not in known


def named_controller(labels: dict[str, str]) -> str:
    """A controller as people know it: of the library by kube-controller-manager's name."""
    name = labels.get("controller") or labels.get("name", "")
    return NAMES.get(name, name)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], text)


def controllers(before: Reading, after: Reading) -> Iterator[Cause]:
    """Causes that the figures of controllers show."""
    yield from _failing(before, after)
    yield from _standing(before, after)
    yield from _erring(before, after)
    yield from _spinning(before, after)


def _failing(before: Reading, after: Reading) -> Iterator[Cause]:
    known = {(one.controller, one.key): one.since for one in failing(before)}
    for one in failing(after):
        lasted = after.at - one.since
        if known.get((one.controller, one.key)) != one.since or lasted <= WAIT_S:
            continue
        more = f" and {one.keys - 1} more" if one.keys > 1 else ""
        ago = max(after.at - one.last, 0.0)
        text = f"it has failed on {one.key}{more} for {lasted:.0f} s, last {ago:.0f} s ago: {one.error}"
        yield Cause("controller-failing", f"controller {one.controller}", text, "mend what the error names")


def _standing(before: Reading, after: Reading) -> Iterator[Cause]:
    taken = {_series(labels) for labels, _ in rates(before, after, TAKEN)}
    waited = {_series(labels): value for labels, value in before.samples(DEPTH)}
    told = set()
    for labels, seconds in after.samples(LONGEST):
        if seconds > WAIT_S:
            told.add(_series(labels))
            text = f"a pass of it has been at work for {seconds:.0f} s"
            fix = "see what it calls that does not answer"
            yield Cause("controller-stuck", f"controller {named_controller(labels)}", text, fix)
    for labels, depth in after.samples(DEPTH):
        one = _series(labels)
        if depth > 0 and waited.get(one, 0) > 0 and one not in taken and one not in told:
            text = f"its queue stands still: {depth:.0f} keys wait, and none was taken in {after.at - before.at:.0f} s"
            fix = "see what its workers do; a pass that waits keeps one"
            yield Cause("controller-stuck", f"controller {named_controller(labels)}", text, fix)


def _series(labels: dict[str, str]) -> tuple[str, str]:
    return labels.get("name") or labels.get("controller", ""), labels.get(FROM, "")


def _erring(before: Reading, after: Reading) -> Iterator[Cause]:
    """Controllers of others, which do not say what fails: passes that fail, and none that succeeds."""
    window = after.at - before.at
    well = {_series(labels) for labels, _ in rates(before, after, PASSES) if labels.get("result") != "error"}
    told = {(one.get("controller", ""), one.get(FROM, "")) for one, _ in after.samples(KEYS)}
    for labels, rate in rates(before, after, ERRORS):
        one = _series(labels)
        if rate * window + 0.5 >= ERRORS_LEAST and one not in well and one not in told:
            text = f"all its passes fail: {rate:.1f} a second; its figures do not say why"
            yield Cause("controller-failing", f"controller {named_controller(labels)}", text, "read its messages")


def _spinning(before: Reading, after: Reading) -> Iterator[Cause]:
    window = after.at - before.at
    begun = {_series(labels): value for labels, value in after.samples(CREATED)}
    passes: dict[tuple[str, str], float] = defaultdict(float)
    for labels, rate in rates(before, after, PASSES):
        passes[_series(labels)] += rate
    explained = PER_OBJECT * len(changed(before, after, KINDS))
    for one, rate in sorted(passes.items()):
        young = after.at - begun.get(one, 0.0) <= YOUNG_S
        if rate > HOT and rate * window > max(explained, HOT_LEAST) and not young:
            name = NAMES.get(one[0], one[0])
            text = f"it makes {rate:.0f} passes a second, and next to nothing changes"
            yield Cause("hot-loop", f"controller {name}", text, "see what wakes it: mostly its own writes")
