"""The source tree as tests see it: the files of the project, without what tools and builds leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("model", "grammar", "checker", "traces", "runtime")
PACKAGE = ROOT / "src" / "dashpot"

_NOT_OURS = frozenset({".git", ".venv", "venv", ".dashpot", ".hypothesis", "__pycache__", "build", "dist"})


def files(*suffixes: str, under: Path = ROOT) -> Iterator[Path]:
    """All files of the project with these suffixes (all, if none is given), sorted; links to rooms are not followed."""
    for folder, folders, names in os.walk(under):
        folders[:] = sorted(f for f in folders if f not in _NOT_OURS and not f.endswith(("_cache", ".egg-info")))
        for name in sorted(names):
            path = Path(folder, name)
            if not suffixes or path.suffix in suffixes:
                yield path


def modules() -> list[Path]:
    """The Python modules of the product: the rooms and the package that links them."""
    return [path for folder in (*(ROOT / room for room in ROOMS), PACKAGE) for path in files(".py", under=folder)]


def shown(path: Path) -> str:
    """A path as a person types it, from the root of the project."""
    return path.relative_to(ROOT).as_posix()
