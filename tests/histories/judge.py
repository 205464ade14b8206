"""The verdict on a record: everything that no API server may do, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tests.histories.order import ordered
from tests.histories.record import Object, Record
from tests.histories.truth import causes, gathered
from tests.histories.views import viewed


def judged(record: Record, more: Iterable[tuple[int, str, Object | None]] = ()) -> list[str]:
    """All faults of what was seen, the first of each kind in front. `more` is what a store itself tells of its
    revisions: what was seen must be in it, and it holds what nobody saw."""
    truth = gathered(record, more)
    made = causes(record, truth)
    return [*record.faults, *truth.faults, *made.faults, *ordered(record, truth, made), *viewed(record, truth)]
