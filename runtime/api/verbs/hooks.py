"""What some kinds do beside being stored: services take addresses, CRDs change what is served.

A hook runs inside the write: `before_*` may change the object and registers in `Attributes.undo` what must be given
back if the write fails; `after` runs once it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dashpot.runtime.api.admit.base import Attributes

if TYPE_CHECKING:
    from dashpot.runtime.api.site import Site

Object = dict[str, Any]


class Hook:
    """Does nothing."""

    ttl_s: float = 0
    """How long an object lives without being written; 0: for ever."""
    follows = False
    """Whether `after` does anything: it is given the stored object decoded, which costs."""

    async def before_create(self, site: Site, write: Attributes) -> None:
        """Before admission of a create."""

    async def before_update(self, site: Site, write: Attributes) -> None:
        """Before admission of an update; not for subresources."""

    async def after(self, site: Site, write: Attributes, stored: Object) -> None:
        """After the object was written."""

    async def after_delete(self, site: Site, last: Object) -> None:
        """After the object is gone."""


class Events(Hook):
    """Events are forgotten after an hour (kube-apiserver --event-ttl)."""

    ttl_s = 3600.0


NONE = Hook()
