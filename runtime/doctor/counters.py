"""What an API server itself counts about one webhook: how often and how long it was asked, how often it failed open.

A failure that is let through (failurePolicy Ignore), and which of several webhooks took the time of a write, are seen
nowhere else from outside. Source: apiserver's admission metrics, `apiserver_admission_webhook_*`. Of several API
servers the one that answers tells its part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from attrs import field, frozen

DURATION = "apiserver_admission_webhook_admission_duration_seconds_bucket"
FAIL_OPEN = "apiserver_admission_webhook_fail_open_count"
TYPES = {"Mutating": "admit", "Validating": "validating"}
"""The label `type` by kind of configuration."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Key = tuple[str, str]
"""Type and name of a webhook."""


@frozen
class Counts:
    """What was counted about one webhook."""

    failed_open: int = 0
    buckets: Mapping[float, int] = field(factory=dict)
    """Calls that took at most so many seconds, by that bound; the largest is infinite."""

    @property
    def calls(self) -> int:
        """How often it was asked."""
        return max(self.buckets.values(), default=0)

    def since(self, before: Counts) -> Counts:
        """What came after an earlier reading; a server that began anew meanwhile gives no counts below 0."""
        buckets = {bound: max(0, count - before.buckets.get(bound, 0)) for bound, count in self.buckets.items()}
        return Counts(max(0, self.failed_open - before.failed_open), buckets)

    def quantile(self, share: float) -> float:
        """Seconds within which so many calls ended, interpolated in its bucket as Prometheus does it."""
        wanted = share * self.calls
        rows = [(0.0, 0), *sorted(self.buckets.items())]
        for (low, below), (high, count) in pairwise(rows):
            if count >= wanted and count > below:
                return low if high == float("inf") else low + (high - low) * (wanted - below) / (count - below)
        return 0.0


def read(text: str) -> dict[Key, Counts]:
    """All webhooks of a /metrics page."""
    open_: dict[Key, int] = {}
    buckets: dict[Key, dict[float, int]] = {}
    for line in text.splitlines():
        if not line.startswith((DURATION, FAIL_OPEN)):
            continue
        name, _, rest = line.partition("{")
        inside, _, value = rest.rpartition("} ")
        labels = dict(_LABEL.findall(inside))
        key = labels.get("type", ""), labels.get("name", "")
        try:
            count = int(float(value.split()[0]))
            bound = float(labels.get("le", "inf"))
        except (ValueError, IndexError, OverflowError):
            continue
        if name == FAIL_OPEN:
            open_[key] = open_.get(key, 0) + count
        else:
            found = buckets.setdefault(key, {})
            found[bound] = found.get(bound, 0) + count
    return {key: Counts(open_.get(key, 0), buckets.get(key, {})) for key in (*open_, *buckets)}
