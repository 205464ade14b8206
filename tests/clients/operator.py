"""An operator written with kopf, as its documentation shows them; run by `kopf run`."""

from __future__ import annotations

from typing import Any

import kopf


def told(event: str, name: str | None) -> None:
    """One line a handler, for whoever watches the output."""
    print(f"{event} {name}", flush=True)


@kopf.on.create("gauges.dashpot.example")
def created(spec: Any, name: str | None, **_: Any) -> dict[str, Any]:
    """Writes what it saw into the status."""
    told("created", name)
    return {"limit": spec.get("limit")}


@kopf.on.update("gauges.dashpot.example")
def updated(spec: Any, name: str | None, **_: Any) -> None:
    """Sees a change of the spec."""
    told(f"updated:{spec.get('limit')}", name)


@kopf.on.delete("gauges.dashpot.example")
def deleted(name: str | None, **_: Any) -> None:
    """Holds the object by kopf's finalizer until it has run."""
    told("deleted", name)


@kopf.timer("gauges.dashpot.example", interval=0.5)
def ticked(name: str | None, **_: Any) -> None:
    """Runs for as long as the object lives."""
    told("ticked", name)
