"""The controller that keeps the stored rules of aggregated ClusterRoles what their selectors give.

The authorizer needs it not, it computes them itself; it is for those who read roles.
Source: pkg/controller/clusterroleaggregation, release 1.34.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.auth.rbac import GROUP, aggregation_changes
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.view import View

PAUSE_SECONDS = 1.0
"""How often the version of the ClusterRoles is looked at; nothing is read while it stays."""


async def settle(view: View, internal: Internal) -> int:
    """Writes the rules that are not as they should be; how many roles were written. Lost races are left for later."""
    written = 0
    for role in aggregation_changes(view):
        path = f"/apis/{GROUP}/v1/clusterroles/{role['metadata']['name']}"
        try:
            # The rules alone: whatever else is changed meanwhile stays.
            await internal.call("PATCH", path, {"rules": role["rules"]}, content_type="application/merge-patch+json")
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        else:
            written += 1
    return written


async def follow(view: View, internal: Internal, complain: Callable[[str], None], pause: float = PAUSE_SECONDS) -> None:
    """Settles after each change of the ClusterRoles, until it is cancelled. A failure is told and tried again."""
    seen = -1
    while True:
        version = view.version(GROUP, "clusterroles")
        if version != seen:
            try:
                await settle(view, internal)
                seen = version
            except StatusError as error:
                complain(f"aggregated ClusterRoles cannot be written: {error}")
        await asyncio.sleep(pause)
