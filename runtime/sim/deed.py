"""Who does what right now: set around every call of the plane and of the client, read where the store commits."""

from __future__ import annotations

from contextvars import ContextVar

from attrs import frozen

from dashpot.model.span import NOWHERE, Span

CLIENT = "client"


@frozen
class Deed:
    """One call of the API.

    actor    the instance of a controller; else the part of the plane, or `client`
    key      of the pass that makes the call
    verb     create update patch apply delete evict bind; of parts without a spec: the method
    kind     called upon, where a spec says it
    name     called upon, with its namespace
    span     where in the text of a spec
    number   of the deed; of the client: the item of its plan
    """

    actor: str
    key: str = ""
    verb: str = ""
    kind: str = ""
    name: str = ""
    span: Span = NOWHERE
    number: int = -1


SERVER = Deed("the API server")
DEED: ContextVar[Deed] = ContextVar("deed", default=SERVER)
