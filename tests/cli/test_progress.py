"""Long work speaks at 1, 2, 5, 10, 30 s and each minute, or lives on one line of a terminal."""

from __future__ import annotations

import io

import pytest
from tests.model.anchor import anchor

from dashpot.checker.budget import Phase, Progress
from dashpot.checker.explore import Options, check_system
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


def test_work_that_is_no_search_is_named() -> None:
    clock, screen = Clock(), Terminal()
    ticker = Ticker("a", clock, stream=screen)
    ticker(Phase("building the world"))
    ticker.beat()
    assert screen.getvalue() == "", "short work is not worth a line"
    clock.now = 4.0
    ticker.beat()
    assert screen.getvalue() == "\r\033[Ka  building the world  4 s"
    ticker(Phase(""))
    clock.now = 5.0
    ticker.beat()
    assert screen.getvalue().count("\r") == 1, "a search speaks for itself"
    ticker(Phase("judging liveness"))
    ticker.beat()
    assert screen.getvalue().endswith("a  judging liveness  5 s")
    ticker.done()
    ticker.beat()
    assert screen.getvalue().endswith("\r\033[K"), "what is done is silent"


def test_a_search_names_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    ticker = Ticker("a", clock)
    ticker(Phase("cross-check without symmetry"))
    feed(ticker, clock, [1.0])
    assert capsys.readouterr().err.startswith("a  cross-check without symmetry  10 transitions")


def test_every_long_part_of_a_check_is_told() -> None:
    told: list[Progress | Phase] = []
    report = check_system(anchor(slots=2, symmetry=True), Options(cross_check=True, progress=told.append))
    assert report.cross_checked
    again = "cross-check without symmetry"
    phases = [now.name for now in told if isinstance(now, Phase)]
    assert phases == ["", "judging liveness", again, f"{again}, judging liveness"]
