"""How many messages a protobuf body holds, counted before they are made: two bytes of body make one of 250 bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def bounded(body: bytes, descriptor: Descriptor, most: int) -> None:
    """Walks the fields of a message; ValueError where there are more messages than `most`. What is no protobuf ends the
    walk: the parser says what is wrong with it."""
    left = most
    stack = [(0, len(body), descriptor)]
    while stack:
        at, end, kind = stack.pop()
        fields = kind.fields_by_number
        while at < end:
            tag, at = _varint(body, at, end)
            wire = tag & 7
            if wire == _BYTES:
                size, at = _varint(body, at, end)
                if at + size > end:
                    return
                field = fields.get(tag >> 3)
                if field is not None and field.message_type is not None:
                    left -= 1
                    if left < 0:
                        raise ValueError(f"more than {most} messages in one body")
                    if size:
                        stack.append((at, at + size, field.message_type))
                at += size
            elif wire == _VARINT:
                _, at = _varint(body, at, end)
            elif wire in (_FIXED64, _FIXED32):
                at += 8 if wire == _FIXED64 else 4
            else:
                return


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, end
