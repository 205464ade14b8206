"""Values as texts, and the hash of a value as Kubernetes names things after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model import types as t
from dashpot.runtime.controller import amounts, wide
from dashpot.runtime.controller.alike import canonical
from dashpot.runtime.controller.obj import Obj

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters and digits that form no words (k8s.io/apimachinery pkg/util/rand)."""
_OFFSET, _PRIME = 2166136261, 16777619


def text_of(ty: t.Type) -> Callable[[Any], str]:
    """What `string(x)` says of values of a type."""
    match wide.bare(ty):
        case t.Name() | t.Enum() | t.Uid() | t.Version():
            return lambda value: value if isinstance(value, str) else value.name
        case t.Int() | t.Generation():
            return str
        case t.Bool():
            return lambda value: "true" if value else "false"
        case t.Time():
            return amounts.time_text
        case t.Duration():
            return amounts.duration_text
        case t.Quantity():
            return amounts.quantity_text
        case t.OwnerRef() | t.Object():
            return lambda value: value.name if isinstance(value, Obj) else str(value.get("name") or "")
        case _:
            return lambda value: value if isinstance(value, str) else canonical(value).decode()


def hash_of(value: Any) -> str:
    """A short name for a value: FNV-1a (32 bits) of its canonical JSON, in digits, each put into the safe alphabet as
    k8s.io/apimachinery's rand.SafeEncodeString does."""
    number = _OFFSET
    for byte in canonical(value):
        number = (number ^ byte) * _PRIME & 0xFFFFFFFF
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))
