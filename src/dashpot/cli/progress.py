"""Long work: one live line on a terminal, else the same line at 1, 2, 5, 10, 30 s and each minute.

A search tells how far it is. Other long work (building a world, judging liveness) is silent while it lasts: a thread
of its own names it, and counts the seconds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from dashpot.cli import console
from dashpot.cli.console import grouped

if TYPE_CHECKING:
    from dashpot.checker.budget import Phase, Progress

MOMENTS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
REDRAW_S = 0.1
BEAT_S = 0.25
MINUTE_S = 60.0


class Ticker:
    """Receives what a search has done so far and shows it on the standard error when it is time to.

    clock   seconds that only grow; a test brings its own
    stream  where to show; None: the standard error of now
    """

    def __init__(
        self, title: str, clock: Callable[[], float], quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self._title = title
        self._clock = clock
        self._quiet = quiet
        self._stream = sys.stderr if stream is None else stream
        self._live = console.is_terminal(self._stream)
        self._began_s = clock()
        self._due_s = self._began_s + (REDRAW_S * 3 if self._live else MOMENTS_S[0])
        self._queue = 0
        self._drawn = False
        self._phase = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __call__(self, now: Progress | Phase) -> None:
        """Takes how far a search is, or what else is done now; shows it if a line is due."""
        from dashpot.checker.budget import Phase

        with self._lock:
            if isinstance(now, Phase):
                self._phase = now.name
            elif self._is_due():
                self._show(self._line(now, self._clock() - self._began_s))
                self._queue = now.queue

    def beat(self) -> None:
        """Shows what is done now, if that is no search, and a line is due."""
        with self._lock:
            if self._phase and not self._ended.is_set() and self._is_due():
                self._show(f"{self._title}  {self._phase}  {self._clock() - self._began_s:.0f} s")

    def start(self) -> Ticker:
        """Beats by itself from now on, until `done`."""
        if not self._quiet:
            threading.Thread(target=self._beats, daemon=True).start()
        return self

    def _beats(self) -> None:
        while not self._ended.wait(BEAT_S):
            self.beat()

    def note(self, text: str) -> None:
        """Takes in words how far other work is."""
        if self._is_due():
            self._show(f"{self._title}  {text}  {self._clock() - self._began_s:.0f} s")

    def walks(self, done: int, wanted: int, steps: int) -> None:
        """Takes how far a simulation is."""
        if self._is_due():
            took_s = self._clock() - self._began_s
            self._show(
                f"{self._title}  walk {grouped(done)} of {grouped(wanted)}  {grouped(steps)} steps  {took_s:.0f} s"
            )

    def _is_due(self) -> bool:
        return not self._quiet and self._clock() >= self._due_s

    def _show(self, line: str) -> None:
        took_s = self._clock() - self._began_s
        if self._live:
            from shutil import get_terminal_size

            columns = get_terminal_size((80, 24)).columns
            self._draw("\r\033[K" + line[: max(columns - 1, 1)])
            self._due_s = self._began_s + took_s + REDRAW_S
        else:
            console.err(line)
            self._due_s = self._began_s + _next(took_s * 1.2)

    def _line(self, now: Progress, took_s: float) -> str:
        # A breadth-first search has no honest percentage; whether the queue shrinks is what can be said.
        trend = "growing" if now.queue > self._queue else "shrinking"
        parts = [self._title, self._phase] if self._phase else [self._title]
        parts += [f"{grouped(now.transitions)} transitions", f"{grouped(now.states)} states"]
        parts += [f"depth {now.depth}", f"queue {grouped(now.queue)} {trend}", f"{grouped(round(now.rate))}/s"]
        parts += [f"{now.memory_bytes >> 20} MiB", f"{took_s:.0f} s"]
        return "  ".join(parts)

    def _draw(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._quiet = True
        self._drawn = True

    def done(self) -> None:
        """Takes the live line away."""
        self._ended.set()
        with self._lock:
            if self._drawn and not self._quiet:
                self._draw("\r\033[K")
                self._drawn = False


def _next(took_s: float) -> float:
    """The first moment after `took_s` at which to speak again."""
    for moment_s in MOMENTS_S:
        if moment_s > took_s:
            return moment_s
    return (took_s // MINUTE_S + 1) * MINUTE_S
