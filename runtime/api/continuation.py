"""Continue tokens: where a list goes on, and in which revision. They mean the same after a restart.

The shape is upstream's (k8s.io/apiserver pkg/storage/continue.go): base64 of `{"v","rv","start"}`, the start key
relative to the prefix of the list; revision -1 goes on in the newest state.
"""

from __future__ import annotations

import base64
import binascii

import msgspec
from attrs import frozen

from dashpot.model.objects.status import bad_request

_VERSION = "meta.k8s.io/v1"
_LIMIT = 4096
NEWEST = -1


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


_DECODER = msgspec.json.Decoder(_Token)


@frozen
class Continuation:
    """The revision (NEWEST: whatever is newest) and the first key of the next page, relative to the list's prefix."""

    revision: int
    start: str

    def token(self) -> str:
        """As clients get it."""
        raw = msgspec.json.encode(_Token(_VERSION, self.revision, self.start))
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def newest(self) -> Continuation:
        """From the same key on, in the newest state."""
        return Continuation(NEWEST, self.start)


def following(revision: int, prefix: str, last: str) -> Continuation:
    """The page after the one that ended with key `last`."""
    return Continuation(revision, last[len(prefix) :] + "\0")


def parse(token: str) -> Continuation:
    """A token; StatusError 400 for what this server has not made."""
    if len(token) > _LIMIT:
        raise _invalid("the token is too long")
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found = _DECODER.decode(raw)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise _invalid("it is no token of this server") from None
    if found.v != _VERSION:
        raise _invalid(f'server does not recognize this encoded version "{found.v}"')
    if found.rv == 0 or found.rv < NEWEST:
        raise _invalid(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not found.start:
        raise _invalid(f"encoded start key empty (version {_VERSION})")
    return Continuation(found.rv, found.start)


def _invalid(why: str) -> Exception:
    return bad_request(f"continue key is not valid: {why}")
