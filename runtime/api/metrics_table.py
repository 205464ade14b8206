"""Every metric that /metrics has, as data: name, type, labels, buckets, first and last release, meaning.

Names, types, labels and buckets are those of release 1.34 (Kubernetes Metrics Reference), and of the last release that
had a name which is gone since. A release that is left out was not recorded. What belongs to a part that this server
does not have (encryption at rest, egress selection, aggregation) is not in the table. `zero` says of a name that is
there for the sake of dashboards alone why nothing ever counts in it; its help says so, too.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec

from dashpot.runtime.api.metrics_cells import Row


class _Metric(msgspec.Struct):
    name: str
    type: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: str = ""
    since: str = ""
    until: str = ""
    zero: str = ""


class _Table(msgspec.Struct):
    buckets: dict[str, tuple[float, ...]]
    metrics: list[_Metric]


def rows() -> list[Row]:
    """The table (`metrics.json`)."""
    data = files("dashpot.runtime.api").joinpath("metrics.json").read_bytes()
    table = msgspec.json.decode(data, type=_Table)
    return [
        Row(
            one.name,
            one.type,
            one.labels,
            table.buckets.get(one.buckets, ()),
            one.since,
            one.until,
            f"{one.help} Always 0: {one.zero}." if one.zero else one.help,
            one.zero,
        )
        for one in table.metrics
    ]
