"""A cause why loops make no progress, and the rates from which requests are a loop."""

from __future__ import annotations

from attrs import frozen

HOT = 50.0
"""Requests a second of one client to one resource with one verb that are a loop without back-off."""
HOT_LEAST = 100
"""Such requests in the window: who starts has some dozens to send."""


@frozen
class Cause:
    """Why loops make no progress. `code` is one of docs/doctor.md's table, `object` what it is about."""

    code: str
    object: str
    text: str
    fix: str
