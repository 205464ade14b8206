"""Saved runs: each counterexample in a file of its own, named by a short hash of what it says.

A run holds everything that `explain` needs: its story, its states and its steps. Neither the spec nor the
search is asked again. Files are written whole or not at all, are for their owner alone, and whatever is
read back is checked: a file that is foreign, cut off or of another version is an error with a text.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from attrs import evolve, field, frozen

from dashpot.checker.retrace import retrace
from dashpot.checker.story import Story
from dashpot.checker.verdict import Trace, Violated
from dashpot.model.system import System

VERSION = 3
FOLDER = Path(".dashpot") / "runs"
MAX_BYTES = 32 * 1024 * 1024
LAST = "last"
"""The run that was saved last, whatever its id."""

SHORT = 4
"""Shortest id: four hexadecimal digits, more where that many are taken."""


class RunError(Exception):
    """A run that cannot be saved, found or read; the text says which and what to do."""


@frozen
class Column:
    """What a cell of the saved states is: enough to print it without its system."""

    name: str
    lo: int
    hi: int
    texts: tuple[str, ...] | None = None


@frozen
class Run:
    """A counterexample with everything needed to explain it again.

    id            hash of everything below, hexadecimal, full length
    spec          path of the spec as it was given
    spec_hash     SHA-256 of the text of the spec, hexadecimal: tells whether it has changed since
    check, property, kind   what was violated, and how
    settings      what overruled the scope of the check, as it was given: `MAX=3`
    seed          seed of the search; None where it drew nothing
    columns       one a cell; `states` hold their values
    labels        one line a step
    steps         indices of the updates that were taken, for a system built from the same spec
    """

    spec: str
    spec_hash: str
    check: str
    property: str
    kind: str
    seed: int | None
    columns: tuple[Column, ...]
    states: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    labels: tuple[str, ...]
    loop: int | None
    story: Story
    settings: tuple[str, ...] = ()
    dashpot: int = VERSION
    id: str = field(default="")

    def trace(self) -> Trace:
        """The run as a path through the states of its system."""
        return Trace(self.states, self.steps, self.loop)


def text_hash(text: str) -> str:
    """SHA-256 of a text, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def run_of(
    system: System, violated: Violated, story: Story, *, spec: str, text: str, check: str, seed: int | None = None,
    settings: Sequence[str] = (),
) -> Run:  # fmt: skip
    """A violation as a run. `text` is the spec's text, of which only the hash is kept beside the quoted files."""
    trace = retrace(system, violated.trace)
    updates = [system.updates[i].label for i in trace.steps]
    run = Run(
        spec=spec,
        spec_hash=text_hash(text),
        check=check,
        property=story.property,
        kind=violated.kind,
        seed=seed,
        columns=tuple(Column(c.name, c.lo, c.hi, c.texts) for c in system.cells),
        states=trace.states,
        steps=trace.steps,
        labels=tuple(" ".join(p for p in (u.actor, u.action, u.verb, u.object, *u.detail) if p) for u in updates),
        loop=trace.loop,
        story=evolve(story, replay=""),
        settings=tuple(settings),
    )
    return evolve(run, id=_identity(run))


def _identity(run: Run) -> str:
    return hashlib.sha256(msgspec.json.encode(evolve(run, id=""))).hexdigest()


def save(run: Run, folder: Path = FOLDER) -> str:
    """Write a run and return its short id, by which `load` finds it while it stays unique."""
    data = msgspec.json.encode(run)
    if len(data) > MAX_BYTES:
        raise RunError(
            f"the run is too large to keep ({len(data) >> 20} MB; at most {MAX_BYTES >> 20}): "
            "make the scope of the check smaller, a shorter run says the same"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{run.id}.json"
        if not (target.exists() and target.read_bytes() == data):
            _write(target, data)
        else:
            os.utime(target)  # found again: now it is the last one
        return short(run.id, folder)
    except OSError as error:
        raise RunError(f"cannot keep the run in {folder}: {error.strerror or error}") from error


def _write(target: Path, data: bytes) -> None:
    """Write beside the target (mode 0600), then rename over it."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".run-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def short(id: str, folder: Path = FOLDER) -> str:
    """The shortest prefix of an id, of at least four digits, that no other saved run shares."""
    others = [o for o in ids(folder) if o != id]
    length = SHORT
    while length < len(id) and any(o.startswith(id[:length]) for o in others):
        length += 1
    return id[:length]


def ids(folder: Path = FOLDER) -> list[str]:
    """The full ids of all saved runs, sorted."""
    try:
        names = [p.stem for p in folder.iterdir() if p.suffix == ".json"]
    except OSError:
        return []
    return sorted(n for n in names if re.fullmatch(r"[0-9a-f]{64}", n))


def last(folder: Path = FOLDER) -> str:
    """The full id of the run that was saved last. Raises RunError when there is none."""
    times = {}
    for id in ids(folder):
        try:
            times[id] = (folder / f"{id}.json").stat().st_mtime_ns
        except OSError:  # removed meanwhile
            continue
    if not times:
        raise RunError(f"there is no run in {folder} yet: `dashpot check` saves one for each violation")
    return max(times, key=lambda id: (times[id], id))


def load(name: str, folder: Path = FOLDER) -> Run:
    """The run of this id or unique prefix of one, the `last` one, or that in the file of this path. Raises RunError."""
    path = Path(name) if name.endswith(".json") else folder / f"{_resolve(name, folder)}.json"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RunError(f"{path} is too large to be a run (at most {MAX_BYTES >> 20} MB)")
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    return _decode(data, path)


def _resolve(name: str, folder: Path) -> str:
    if name == LAST:
        return last(folder)
    prefix = name.lower()
    if not re.fullmatch(r"[0-9a-f]{4,64}", prefix):
        raise RunError(f"`{name}` is no run: `check` names each run by {SHORT} or more hexadecimal digits")
    known = ids(folder)
    found = [i for i in known if i.startswith(prefix)]
    if len(found) > 1:
        listed = ", ".join(short(i, folder) for i in found[:5])
        raise RunError(f"`{name}` could be {listed}{' …' if len(found) > 5 else ''}: give more digits")
    if not found:
        have = f"there are {len(known)} others" if known else "there are none yet"
        raise RunError(f"no run `{name}` in {folder} ({have}): `dashpot check` saves one for each violation")
    return found[0]


def _decode(data: bytes, path: Path) -> Run:
    try:
        version = msgspec.json.decode(data, type=Mapping[str, object]).get("dashpot")
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(f"{path} is no run of dashpot: it is not whole JSON ({error})") from error
    if version != VERSION:
        other = f"is a run of format {version}, and this dashpot reads {VERSION}: run `dashpot check` again"
        raise RunError(f"{path} {'is no run of dashpot' if version is None else other}")
    try:
        run = msgspec.json.decode(data, type=Run)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): run `dashpot check` again") from error
    fault = _fault(run)
    if fault:
        raise RunError(f"{path} is damaged ({fault}): run `dashpot check` again")
    return run


def _fault(run: Run) -> str:
    """What is inconsistent in a run that was read; "" when nothing is."""
    if run.id != _identity(run):
        return "its content does not match its id"
    lengths = {len(run.states) - 1, len(run.steps), len(run.labels), len(run.story.steps), len(run.story.scenes) - 1}
    if len(lengths) != 1:
        return "it has not one state more than steps"
    if any(len(state) != len(run.columns) for state in run.states):
        return "a state has not one value a cell"
    if run.loop is not None and not 0 <= run.loop < len(run.states):
        return "its loop leads nowhere"
    return ""


def changed_since(run: Run, text: str) -> bool:
    """Whether a spec's text is another than when the run was found."""
    return text_hash(text) != run.spec_hash
