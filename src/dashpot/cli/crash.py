"""The last resort: a mistake of ours becomes a short report that can be filed, never a traceback on the screen."""

from __future__ import annotations

import os
import sys

from dashpot.cli import console


def record(error: BaseException) -> None:
    """Says that this is our mistake, and where the details are kept for a report."""
    import traceback

    text = "".join(traceback.format_exception(error))
    ident = _ident(error)
    path = _keep(ident, text)
    console.err(f"{console.paint('dashpot:', 'red', sys.stderr)} internal error {ident} ({type(error).__name__})")
    console.err("  This is a mistake in dashpot, not in your spec. Please report it")
    console.err(f"  with the file {path}" if path else f"  with this text: {' '.join(str(error).split())[:300]}")


def _ident(error: BaseException) -> str:
    # The same mistake gets the same id on every machine: the kind of error and where it came up, no paths.
    import hashlib
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{os.path.basename(f.filename)}:{f.name}:{f.lineno}" for f in frames]
    return hashlib.sha256("\n".join([type(error).__name__, *places]).encode()).hexdigest()[:6]


def _keep(ident: str, text: str) -> str | None:
    import tempfile

    content = f"dashpot {_version()}, Python {sys.version}\n{' '.join(sys.argv)}\n\n{text}"
    for folder in (os.path.join(".dashpot", "errors"), os.path.join(tempfile.gettempdir(), "dashpot-errors")):
        try:
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, f"{ident}.txt")
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(content)
            return path
        except OSError:
            continue
    return None


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dashpot")
    except PackageNotFoundError:
        return "(not installed)"
