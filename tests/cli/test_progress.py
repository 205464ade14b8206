"""Long work speaks at 1, 2, 5, 10, 30 s and each minute, or lives on one line of a terminal."""

from __future__ import annotations

import io

import pytest

from dashpot.checker.budget import Progress
from dashpot.cli.progress import Ticker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def feed(ticker: Ticker, clock: Clock, moments: list[float]) -> None:
    for moment in moments:
        clock.now = moment
        ticker(Progress(int(moment * 10), int(moment * 5), 3, 100 - int(moment), 5.0, 1 << 20, moment))
    ticker.done()


def test_a_log_gets_a_line_at_few_moments(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    feed(Ticker("a.loop small", clock), clock, [i / 2 for i in range(400)])
    captured = capsys.readouterr()
    assert captured.out == ""
    took = [line.rpartition("  ")[2] for line in captured.err.splitlines()]
    assert took == ["1 s", "2 s", "5 s", "10 s", "30 s", "60 s", "120 s", "180 s"]
    assert "queue 99 growing" in captured.err and "queue 90 shrinking" in captured.err


def test_a_terminal_has_one_live_line_that_goes_away() -> None:
    clock, screen = Clock(), Terminal()
    feed(Ticker("a", clock, stream=screen), clock, [0.1, 0.5, 0.55, 0.7])
    shown = screen.getvalue()
    assert "\n" not in shown
    assert shown.count("\r\033[K") == 3, "two drawings and the final wipe"
    assert shown.endswith("\r\033[K")


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    feed(Ticker("a", clock, quiet=True), clock, [1.0, 70.0])
    assert capsys.readouterr().err == ""


def test_a_terminal_that_goes_away_stops_no_search() -> None:
    class Gone(Terminal):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    clock = Clock()
    feed(Ticker("a", clock, stream=Gone()), clock, [1.0, 2.0])
