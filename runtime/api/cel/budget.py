"""How much an expression may cost, estimated before it is accepted and counted while it runs.

The static limits and their text are upstream's (k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel and
pkg/apis/apiextensions/validation, release 1.34). The limit at run time is a tenth of upstream's 10,000,000 per object:
a step here takes longer than in Go, and nothing else is served while an expression runs.
"""

from __future__ import annotations

EXPRESSION_LIMIT = 10_000_000
"""Estimated cost of one rule, times how often its place can occur in an object."""
TOTAL_LIMIT = 100_000_000
"""Estimated cost of all rules of a schema."""
RUNTIME_LIMIT = 1_000_000
"""Steps of all rules over one object, and of one expression elsewhere."""
REQUEST_BYTES = 3 * 1024 * 1024
"""The largest object: bounds what the schema leaves unbounded."""


def excess(name: str, cost: int, limit: int) -> str:
    """The text for an estimate beyond its limit; `name` is `estimated rule cost`."""
    factor = cost / limit
    if factor > 100:
        told = "more than 100x"
    elif factor < 1.5:
        told = f"{factor:f}x"
    else:
        told = f"{factor:.1f}x"
    advice = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings "
        "are declared)"
    )
    return f"{name} exceeds budget by factor of {told} {advice}"
