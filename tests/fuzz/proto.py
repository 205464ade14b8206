"""Random protobuf bodies: messages of all kinds with random fields, by their descriptors."""

from __future__ import annotations

import random
from typing import Any

from dashpot.runtime.api import protobuf

_TEXTS = ("", "a", "web", "kube-system", "100m", "x.io/y", "\u0000", "é", "1" * 64, "{}", '{"a":1}', "2020")
_WHOLE = (0, 1, -1, 80, 2**31 - 1, -(2**31))
_LONG = (*_WHOLE, 2**63 - 1, -(2**63), 253402300800)


def body(kind: str, api_version: str, chance: random.Random) -> bytes | None:
    """A body of that kind; None where it has no protobuf form."""
    name = protobuf._name(api_version, kind)
    if name not in protobuf._names():
        return None
    envelope: Any = protobuf._message(protobuf.UNKNOWN)()
    envelope.typeMeta.apiVersion, envelope.typeMeta.kind = api_version, kind
    envelope.raw = _filled(protobuf._message(name)(), chance, 0).SerializeToString()
    raw: bytes = envelope.SerializeToString()
    return protobuf.MAGIC + raw


def _filled(message: Any, chance: random.Random, depth: int) -> Any:
    for field in message.DESCRIPTOR.fields:
        wanted = 0.9 if field.name in ("metadata", "spec", "name", "template") else 0.4 / (1 + depth)
        if depth > 8 or chance.random() > wanted:
            continue
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            values = inner.fields_by_name["value"]
            if values.message_type is None and values.type != values.TYPE_BYTES:
                getattr(message, field.name)[chance.choice(_TEXTS)] = _scalar(values, chance)
        elif field.message_type is not None:
            place = getattr(message, field.name)
            _filled(place.add() if field.is_repeated else place, chance, depth + 1)
            if not field.is_repeated:
                place.SetInParent()
        elif field.is_repeated:
            getattr(message, field.name).append(_scalar(field, chance))
        else:
            setattr(message, field.name, _scalar(field, chance))
    return message


def _scalar(field: Any, chance: random.Random) -> Any:
    if field.type == field.TYPE_STRING:
        return chance.choice(_TEXTS)
    if field.type == field.TYPE_BYTES:
        return chance.choice(_TEXTS).encode()
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return chance.choice((0.0, 1.5, float("nan"), float("inf"), 1e300 if field.type == field.TYPE_DOUBLE else 1.0))
    return chance.choice(_LONG if field.type in (field.TYPE_INT64, field.TYPE_SINT64) else _WHOLE)
