"""Runs as `check` keeps them, made into what a replay takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dashpot.checker import runs
from dashpot.cli import main
from dashpot.cli.replay import actors_of as of
from dashpot.cli.replay import prepared
from dashpot.model.schedule import Schedule
from dashpot.runtime.replay.replay import Actors, Replayed, Rerun, replay, rerun

Found = tuple[runs.Run, Schedule, Actors]


def found(spec: Path, folder: Path, *check: str) -> list[Found]:
    """All violations that `check` finds of a spec; the runs are kept in `folder`, where the tests must be."""
    main(["check", "-q", str(spec), *check])
    loaded = [runs.load(id, folder / ".dashpot" / "runs") for id in runs.ids(folder / ".dashpot" / "runs")]
    return [(run, *prepared(run)) for run in loaded]


def one(kept: Sequence[Found], property: str) -> Found:
    """The run that violates a property."""
    (it,) = (k for k in kept if k[0].property == property)
    return it


__all__ = ["Actors", "Found", "Replayed", "Rerun", "found", "of", "one", "replay", "rerun"]
