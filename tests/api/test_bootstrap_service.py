"""Servers that start at once on one store: one makes the Service `kubernetes`, the others wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from dashpot.model.objects.status import StatusError, Subject, already_exists, not_found
from dashpot.runtime.api import bootstrap
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.loop import run_virtual, virtual_clock

Object = dict[str, Any]
SERVICES = Subject("", "services")


class Busy:
    """A server whose address another one has taken; its Service appears at `appears_s`, or never, with the address free
    again at `free_s`."""

    def __init__(self, appears_s: float, free_s: float) -> None:
        self.appears_s, self.free_s, self.made = appears_s, free_s, False
        self.begun = virtual_clock().time()

    async def call(
        self, method: str, path: str, body: Object | None = None, *, query: Mapping[str, str] | None = None
    ) -> Object:
        """GET and POST of Services."""
        passed = virtual_clock().time() - self.begun
        if method == "GET":
            if passed >= self.appears_s or self.made:
                return {}
            raise not_found(SERVICES, "kubernetes")
        if passed >= self.free_s:
            self.made = True
            return body or {}
        if passed >= self.appears_s:
            raise already_exists(SERVICES, "kubernetes")
        raise StatusError("Invalid", "failed to allocate IP 10.96.0.1: provided IP is already allocated")


@pytest.mark.parametrize(
    ("appears_s", "free_s", "waited_s"),
    [(0.0, 1e9, 0.0), (3.0, 1e9, 3.0), (1e9, 120.0, 120.0), (1e9, 1e9, None)],
    ids=["there already", "made by another", "the other one died", "taken for good"],
)
def test_a_server_waits_for_the_one_that_makes_the_service(
    appears_s: float, free_s: float, waited_s: float | None
) -> None:
    async def main() -> float:
        busy = Busy(appears_s, free_s)
        await bootstrap.ensure_service(cast(Internal, busy), Catalog(), "10.96.0.1")
        assert busy.made == (waited_s == free_s)
        return virtual_clock().time() - busy.begun

    if waited_s is None:
        with pytest.raises(StatusError, match="already allocated"):
            run_virtual(main(), seed=1)
    else:
        assert run_virtual(main(), seed=1) == pytest.approx(waited_s, abs=2 * bootstrap.AGAIN_S)
