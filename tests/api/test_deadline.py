"""`?timeout=`: how long a request may take."""

from __future__ import annotations

import pytest
from tests.api.serving import Serving, run

from dashpot.runtime.api import goduration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("1h30m", 5400.0),
        ("-1.5s", -1.5),
        ("+2ms", 0.002),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("7us", 7e-6),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float) -> None:
    assert goduration.seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", 'time: invalid duration "x"'),
        ("-", 'time: invalid duration "-"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ("5 s", 'time: unknown unit " s" in duration "5 s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_what_is_no_duration_is_told_as_go_does(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="time: ") as error:
        goduration.seconds(text)
    assert str(error.value) == why


def test_no_time_at_all_means_the_servers_own_limit() -> None:
    async def test(serving: Serving) -> None:
        for asked in ("0s", "0", "-3s", "90m", ""):
            await serving.done("GET", f"/api/v1/namespaces?timeout={asked}")
        code, answer = await serving.told("GET", "/api/v1/namespaces?timeout=5d")
        assert code == 400
        assert answer["message"] == (
            'invalid timeout specified in the request URL - time: unknown unit "d" in duration "5d"'
        )
        # a watch is long: nobody looks
        assert (await serving.ask("GET", "/api/v1/namespaces?watch=true&timeout=5d&timeoutSeconds=1")).code == 200

    run(test)
