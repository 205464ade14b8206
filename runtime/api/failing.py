"""What the store's failures are to a client: the Status that Kubernetes gives in the same place.

Sources: k8s.io/apiserver pkg/storage/errors.go, storage/etcd3/errors.go and store.go, release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import StatusError, internal
from dashpot.runtime.store.base import Compacted, Corrupt, FutureRevision, StoreError, Unavailable

LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ContinueExpired(StatusError):
    """410 with a token that goes on from the same key in the newest state."""

    def __init__(self, token: str) -> None:
        super().__init__("Expired", _CONTINUE_EXPIRED)
        self.token = token

    def status(self) -> dict[str, Any]:
        """The Status, with the new token in its metadata."""
        body = super().status()
        body["metadata"] = {"continue": self.token}
        return body


def too_large(wanted: int, current: int) -> StatusError:
    """504: a version that this server has not seen yet, though it waited."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError("Timeout", message, details={"causes": causes}, retry_after=1)


def too_old(wanted: int, oldest: int) -> StatusError:
    """410: events behind a version are forgotten."""
    return StatusError("Expired", f"too old resource version: {wanted} ({oldest})")


def failure(error: StoreError) -> StatusError:
    """A failure of the store as an answer. What has no reason is told as upstream tells etcd: 500 and the bare text."""
    if isinstance(error, Compacted):
        return StatusError("Expired", LIST_EXPIRED)
    if isinstance(error, FutureRevision):
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        return StatusError("Timeout", f"Timeout: {error}", details={"causes": causes}, retry_after=1)
    if isinstance(error, Corrupt):
        return internal(str(error))
    told = error.client if isinstance(error, Unavailable) else ""
    return StatusError("", told or str(error), code=500)
