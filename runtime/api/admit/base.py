"""What an admission plugin is given and what it may do.

Order of a write: plugins' `mutate` in order, webhooks among them; then schema, immutability and CEL rules; then
`validate` in order, ResourceQuota last. Source: k8s.io/apiserver pkg/admission, release 1.34.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

if TYPE_CHECKING:
    from dashpot.model.objects.resource import Resource
    from dashpot.runtime.api.exchange import Exchange, User

Object = dict[str, Any]

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"


@define(eq=False)
class Attributes:
    """One write as admission sees it.

    `object` is the new object (None for DELETE), owned by this request: `mutate` may change it in place or set another.
    `old` is the stored one (None for CREATE), shared: never changed. `resource` is the main resource; `subresource` is
    empty for it. For a subresource with a kind of its own (scale, eviction, binding) `object` is that kind's.
    """

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    object: Object | None
    old: Object | None
    user: User
    exchange: Exchange
    dry_run: bool = False
    options: Object = field(factory=dict)
    undo: list[Any] = field(factory=list)
    """Callables `() -> Awaitable[None]`: run in reverse if the write fails after admission (quota gives back)."""
    round: int = 0
    """0, or 1 while the plugins look again at an object that a webhook or policy changed."""
    again: bool = False
    """Set by whoever changed the object late: the chain runs `mutate` of all plugins once more."""
    notes: dict[str, Any] = field(factory=dict)
    """What a plugin remembers from one step or round to the next, by its name."""


class Plugin:
    """One admission plugin; both steps do nothing unless overridden. A refusal is a StatusError."""

    name = ""

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Whether the plugin wants such writes at all; asked once a combination, then remembered."""
        return True

    async def mutate(self, attributes: Attributes) -> None:
        """May change `attributes.object`."""

    async def validate(self, attributes: Attributes) -> None:
        """May refuse."""

    async def close(self) -> None:
        """Gives connections back; idempotent."""
