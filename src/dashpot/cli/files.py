"""Files that people name: read with a plain sentence for everything that can be wrong, written whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dashpot.cli.problem import OUTSIDE, WRONG, Problem, nearest

LARGEST_BYTES = 4 << 20
"""No spec is larger; what is, is something else (or never ends, as /dev/zero)."""


def read_spec(path: str) -> str:
    """The text of a `.loop` file; "-" is the standard input. A Problem says why it cannot be read."""
    if path == "-":
        if sys.stdin is None:
            raise Problem(WRONG, "there is no standard input to read")
        return _decode(sys.stdin.buffer.read(LARGEST_BYTES + 1), "the standard input")
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise Problem(WRONG, f"there is no file '{path}'", _near(path)) from None
    except IsADirectoryError:
        raise Problem(WRONG, f"'{path}' is a folder, not a spec", "name a .loop file in it") from None
    except ValueError:
        raise Problem(WRONG, f"{path!r} is no file name") from None
    except OSError as error:
        raise Problem(OUTSIDE, f"cannot read '{path}': {reason(error)}") from None
    return _decode(data, f"'{path}'")


def _decode(data: bytes, what: str) -> str:
    if len(data) > LARGEST_BYTES:
        raise Problem(WRONG, f"{what} is larger than {LARGEST_BYTES >> 20} MiB: that is no spec")
    if b"\0" in data:
        raise Problem(WRONG, f"{what} is a binary file, not a spec")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Problem(
            WRONG, f"{what} is not UTF-8: line {line} has the byte 0x{data[error.start]:02x}", "save it as UTF-8"
        ) from None


def _near(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        close = nearest(name, sorted(f for f in os.listdir(folder or ".") if f.endswith(".loop")))
    except OSError:
        return ""
    return f"did you mean '{os.path.join(folder, close)}'?" if close else ""


def specs(paths: list[str]) -> list[str]:
    """The spec files that `paths` name, each once: a folder stands for every .loop file below it, in order."""
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):
            found.setdefault(path)
            continue
        below = sorted(str(p) for p in Path(path).rglob("*.loop") if not _hidden(p.relative_to(path)))
        if not below:
            raise Problem(WRONG, f"there is no .loop file in the folder '{path}'", "`dashpot new NAME` writes one")
        found.update(dict.fromkeys(below))
    return list(found)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def write_whole(path: str, text: str) -> None:
    """Writes a file so that a reader sees the old or the new content; its mode is kept, a link stays one."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        mode = os.stat(target).st_mode & 0o7777
    except OSError:
        mode = 0o666 & ~_umask()
    if os.path.exists(target) and not os.path.isfile(target):
        _write_through(path, text)
        return
    import tempfile

    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".dashpot-")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise Problem(OUTSIDE, f"cannot write '{path}': {reason(error)}") from None


def _write_through(path: str, text: str) -> None:
    # A device or a pipe (`--junit /dev/stdout`) cannot be replaced, only written to.
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise Problem(OUTSIDE, f"cannot write '{path}': {reason(error)}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def reason(error: OSError) -> str:
    """Why the machine said no, in its own words, without the number."""
    return (error.strerror or str(error)).lower()
