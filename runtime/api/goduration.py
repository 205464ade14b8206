"""Durations as Go writes them: `1h30m`, `1.5s`, `-2ms`, `0`. Source: Go's time.ParseDuration."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PIECE = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)", re.ASCII)
_MOST = (1 << 63) / 1e9
"""Seconds that Go's 64 bits of nanoseconds hold."""
_LONGEST = 100
"""Characters of a text that are read, and told again."""


def seconds(text: str) -> float:
    """The seconds of a duration; ValueError in Go's words."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    invalid = f'time: invalid duration "{text[:_LONGEST]}"'
    if not rest or len(text) > _LONGEST:
        raise ValueError(invalid)
    total = 0.0
    while rest:
        piece = _PIECE.match(rest)
        if piece is None:
            raise ValueError(invalid)
        number, unit = piece.groups()
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _SECONDS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        total += float(number) * _SECONDS[unit]
        rest = rest[piece.end() :]
    if total >= _MOST:
        raise ValueError(invalid)
    return -total if text[0] == "-" else total
