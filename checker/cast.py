"""Who acts in a world, in one order, so that an actor has the same colour in every picture of it."""

from __future__ import annotations

from dashpot.model.system import System

HUES = ("#3557a7", "#8a3f8f", "#1f7a70", "#9b5a1c", "#5d6b1e", "#a13a5b")
"""Colours of actors on white, in the order of the cast; a page has them as `--hue0`, `--hue1`, …"""


def cast(system: System) -> tuple[str, ...]:
    """The actors: first those that the check runs, in its order, then those that the cluster adds."""
    return tuple(dict.fromkeys(update.label.actor for update in system.updates))
