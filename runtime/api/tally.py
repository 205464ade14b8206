"""Figures of what is done where no server is at hand: CEL, conversions, webhooks. They are of the whole process.

So are all of Kubernetes' (component-base legacyregistry). Who counts keeps the Cell or Hist; each server's /metrics
shows them (`show`), bounded as all series are.
"""

from __future__ import annotations

from dashpot.runtime.api.metrics_cells import Family, Registry
from dashpot.runtime.api.metrics_table import rows

_TALLY = Registry(rows())


def tally(name: str) -> Family:
    """The family of a name of the table; KeyError for any other."""
    return _TALLY[name]


def show(registry: Registry) -> None:
    """Puts all that was counted among the series of a server."""
    for family in _TALLY:
        if family.cells or family.hists:
            shown = registry[family.row.name]
            shown.cells.update(family.cells)
            shown.hists.update(family.hists)
