"""Stored rules of aggregated ClusterRoles follow the roles that they take in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.api.auth_kit import MemoryView, role, rule, run

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.aggregation import follow, settle
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.exchange import LOOPBACK, User

Object = dict[str, Any]
NEW = role("more", rule("get", "x.io", "y"), meta={"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}})


class Patches:
    """An API that takes patches of ClusterRoles into a view, or fails."""

    def __init__(self, view: MemoryView) -> None:
        self.view = view
        self.paths: list[str] = []
        self.failures: list[StatusError] = []
        self.written = asyncio.Event()

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        user: User = LOOPBACK,
    ) -> Object:
        assert (method, content_type, user) == ("PATCH", "application/merge-patch+json", LOOPBACK)
        if self.failures:
            raise self.failures.pop()
        self.paths.append(path)
        was = self.view.get("rbac.authorization.k8s.io", "clusterroles", "", path.rpartition("/")[2])
        assert was is not None and body is not None
        self.view.put({**was, **body})
        self.written.set()
        return {}


def test_rules_follow() -> None:
    async def main() -> None:
        view = MemoryView(bootstrap_objects())
        api = Patches(view)
        assert await settle(view, api) == 0, "a new cluster is settled"
        view.put(NEW)
        assert await settle(view, api) == 3
        assert sorted(path.rpartition("/")[2] for path in api.paths) == ["admin", "edit", "view"]
        assert await settle(view, api) == 0
        view.put({**NEW, "metadata": {"name": "more"}})
        assert await settle(view, api) == 3, "a role without its label is taken out again"

    run(main)


def test_a_lost_race_is_left_for_the_next_round() -> None:
    async def main() -> None:
        view = MemoryView([*bootstrap_objects(), NEW])
        api = Patches(view)
        api.failures = [StatusError("Conflict", "x"), StatusError("NotFound", "x")]
        assert await settle(view, api) == 1
        assert await settle(view, api) == 2

    run(main)


def test_it_goes_on_after_a_failure() -> None:
    async def main() -> None:
        view = MemoryView([*bootstrap_objects(), NEW])
        api, told = Patches(view), list[str]()
        api.failures = [StatusError("InternalError", "broken")]
        task = asyncio.create_task(follow(view, api, told.append, pause=0))
        await asyncio.wait_for(api.written.wait(), 5)
        while len(api.paths) < 3:
            await asyncio.sleep(0)
        view.put({**NEW, "rules": []})
        while len(api.paths) < 6:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told == ["aggregated ClusterRoles cannot be written: broken"]

    run(main)
