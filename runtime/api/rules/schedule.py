"""Schedules of CronJobs: five fields as robfig/cron reads them, or a word.

Source: github.com/robfig/cron/v3 parser.go (ParseStandard), which pkg/apis/batch/validation uses.
"""

from __future__ import annotations

import re

WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
MONTHS = {name: at for at, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
DAYS = {name: at for at, name in enumerate("sun mon tue wed thu fri sat".split())}
FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, MONTHS),
    (0, 6, DAYS),
)
DURATION = re.compile(r"(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")


def schedule_errors(text: str) -> list[str]:
    """What is wrong with a schedule: at most one text."""
    if re.match(r"(CRON_)?TZ=", text):
        if " " not in text:
            return ["provided bad location"]
        text = text.split(" ", 1)[1].strip()
    if text.startswith("@"):
        if text in WORDS:
            return []
        every = text.removeprefix("@every ")
        if every != text and DURATION.fullmatch(every):
            return []
        return [f"unrecognized descriptor: {text}"]
    parts = text.split()
    if len(parts) != 5:
        return [f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"]
    for part, (low, high, known) in zip(parts, FIELDS, strict=True):
        for item in part.split(","):
            wrong = _item(item, low, high, known)
            if wrong:
                return [wrong]
    return []


def _item(text: str, low: int, high: int, known: dict[str, int]) -> str:
    """What is wrong with one of a field's items: `*`, `a`, `a-b`, each with `/step`."""
    spread, *steps = text.split("/")
    if len(steps) > 1:
        return f"too many slashes: {text}"
    ends = spread.split("-")
    if spread in ("*", "?"):
        first, last = low, high
    else:
        if len(ends) > 2:
            return f"too many hyphens: {text}"
        numbers = [_number(end, known) for end in ends]
        for end, number in zip(ends, numbers, strict=True):
            if number is None:
                return f"failed to parse int from {end}: strconv.Atoi: parsing {end!r}: invalid syntax".replace(
                    "'", '"'
                )
        first = numbers[0] or 0
        last = numbers[-1] or 0
    if steps:
        step = _number(steps[0], {})
        if step is None:
            return f"failed to parse int from {steps[0]}"
        if step == 0:
            return f"step of range should be a positive number: {text}"
        if len(ends) == 1 and spread not in ("*", "?"):
            last = high
    if first < low:
        return f"beginning of range ({first}) below minimum ({low}): {text}"
    if last > high:
        return f"end of range ({last}) above maximum ({high}): {text}"
    if first > last:
        return f"beginning of range ({first}) beyond end of range ({last}): {text}"
    return ""


def _number(text: str, known: dict[str, int]) -> int | None:
    if text.lower() in known:
        return known[text.lower()]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
