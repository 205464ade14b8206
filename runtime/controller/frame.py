"""The frame of a pass: all that its terms may look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from attrs import define, field

from dashpot.runtime.controller.obj import Obj


class Reader(Protocol):
    """The actor's own caches."""

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """One object; `namespace` is "" for cluster-wide kinds, and for any where the pass sees all."""
        ...

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        """The objects of a kind ("": of all namespaces); with `index`, those that View.index files under `value`."""
        ...


def _first(count: int) -> int:
    return 0


@define(eq=False)
class Frame:
    """One pass, action or property being evaluated.

    constants  name → value
    reader     the caches
    now        milliseconds since 1970
    namespace  of the key; "" sees all
    memory     the actor's, shared by its passes
    me         the place of the instance (`at me in Seat`)
    choose     n → 0 … n - 1: settles `any`, ties and the order of what has none
    locals     by name; those that terms bind for themselves have a `#` in their names
    """

    constants: dict[str, Any]
    reader: Reader
    now: Callable[[], int]
    namespace: str = ""
    memory: dict[str, Any] = field(factory=dict)
    me: Any = None
    choose: Callable[[int], int] = _first
    locals: dict[str, Any] = field(factory=dict)


class Empty:
    """A reader of caches in which nothing is."""

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        """None."""
        return None

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        """Nothing."""
        return ()
