"""Request bodies in protobuf as JSON objects: kubectl 1.32 and later sends typed creates so, and so does helm.

The envelope is `k8s\\0` and a runtime.Unknown, which names the kind and carries its message. Answers are never
protobuf: clients accept JSON beside it. The descriptors are those of release 1.34 (tools/descriptors.py); fields that
later releases added are dropped. Source: apimachinery pkg/runtime/serializer/protobuf, release 1.34.
"""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api.protobuf_bound import bounded
from dashpot.runtime.api.protobuf_rules import DROPPED_ZERO, INLINED, KEPT_ZERO, MEANT_EMPTY, META, RENAMED

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

Object = dict[str, Any]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
UNKNOWN = "k8s.io.apimachinery.pkg.runtime.Unknown"
MESSAGES = 100_000
"""A body has at most so many messages in it, for two bytes of body can be one object of ours; an entry of a map, which
takes four times as long to read, counts as four."""
FIRST_S, LAST_S = -62135596800, 253402300799  # years 1 to 9999, as RFC 3339 can say

_MESSAGE, _STRING, _BYTES, _BOOL = 11, 9, 12, 8


def decode(body: bytes) -> Object:
    """The object in a protobuf body.

    StatusError 400 if it is malformed or does not name its kind, 415 if the kind has no protobuf form here.
    """
    from google.protobuf.message import DecodeError

    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        envelope: Any = _message(UNKNOWN).FromString(body[len(MAGIC) :])
        api_version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        if not kind or not api_version:
            raise bad_request("Object 'Kind' is missing in the protobuf body")
        name = _name(api_version, kind)
        if name not in _names():
            raise StatusError(
                "UnsupportedMediaType", f"no protobuf form of {kind} in {api_version} is known: send JSON"
            )
        if len(envelope.raw) > 2 * MESSAGES:
            bounded(envelope.raw, _pool().FindMessageTypeByName(name), MESSAGES)
        message = _message(name).FromString(envelope.raw)
        _left[0] = MESSAGES
        return {"kind": kind, "apiVersion": api_version, **_converter(name)(message)}
    except (DecodeError, ValueError, OverflowError, RecursionError) as error:
        raise bad_request(f"unable to decode the protobuf body: {error}") from None


def _name(api_version: str, kind: str) -> str:
    """The message of a kind: `rbac.authorization.k8s.io/v1` is k8s.io.api.rbac.v1; options of deletion are common."""
    if kind in ("DeleteOptions", "Status"):
        return META + kind
    group, _, version = api_version.rpartition("/")
    return f"k8s.io.api.{group.split('.')[0] or 'core'}.{version}.{kind}"


@cache
def _pool() -> Any:
    """All descriptors; some 20 ms, on first use."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    packed = files("dashpot.model.objects").joinpath("data/descriptors.binpb.gz").read_bytes()
    pool = DescriptorPool()
    waiting = {file.name: file for file in FileDescriptorSet.FromString(gzip.decompress(packed)).file}

    def add(name: str) -> None:
        file = waiting.pop(name, None)
        if file is not None:
            for needed in file.dependency:
                add(needed)
            pool.Add(file)

    for name in list(waiting):
        add(name)
    return pool


@cache
def _names() -> frozenset[str]:
    """The messages that are known, by full name."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    packed = files("dashpot.model.objects").joinpath("data/descriptors.binpb.gz").read_bytes()
    found = FileDescriptorSet.FromString(gzip.decompress(packed)).file
    return frozenset(f"{file.package}.{message.name}" for file in found for message in file.message_type)


@cache
def _message(name: str) -> Any:
    """The class of a message."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(_pool().FindMessageTypeByName(name))


Convert = Callable[[Any], Any]
_left = [MESSAGES]


def _time(message: Any) -> str | None:
    """RFC 3339 in seconds; None for a time that is not set."""
    if not message.HasField("seconds"):
        return None
    return _moment(message.seconds) + "Z"


def _micro_time(message: Any) -> str | None:
    """RFC 3339 with microseconds."""
    if not message.HasField("seconds"):
        return None
    nanos = message.nanos
    if not 0 <= nanos < 1_000_000_000:
        raise ValueError("nanoseconds of a time out of range")
    return f"{_moment(message.seconds)}.{nanos // 1000:06d}Z"


def _moment(seconds: int) -> str:
    if not FIRST_S <= seconds <= LAST_S:
        raise ValueError("a time before year 1 or after year 9999")
    at = time.gmtime(seconds)
    return f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}"


def _int_or_string(message: Any) -> int | str:
    found: int | str = message.strVal if message.type else message.intVal
    return found


def _json(raw: bytes) -> Any:
    return msgspec.json.decode(raw) if raw else None


LEAVES: dict[str, Convert] = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda message: message.string or "0",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{META}Time": _time,
    f"{META}MicroTime": _micro_time,
    f"{META}FieldsV1": lambda message: _json(message.Raw),
    f"{META}Verbs": lambda message: list(message.items),
    "k8s.io.apimachinery.pkg.runtime.RawExtension": lambda message: _json(message.raw),
    **{
        f"k8s.io.api.{group}.v1.ExtraValue": lambda message: list(message.items)
        for group in ("authentication", "authorization", "certificates")
    },
}


def _spend(count: int) -> None:
    _left[0] -= count
    if _left[0] < 0:
        raise ValueError(f"more than {MESSAGES} messages in one body")


@cache
def _converter(name: str) -> Convert:
    """What turns a message of that type into its JSON form; compiled once a type."""
    leaf = LEAVES.get(name)
    if leaf is not None:
        return leaf
    descriptor: Descriptor = _pool().FindMessageTypeByName(name)
    fields = {field.number: _field(descriptor, field) for field in descriptor.fields}

    def convert(message: Message) -> Object:
        _spend(1)
        found: Object = {}
        for field, value in message.ListFields():
            fields[field.number](found, value)
        return found

    return convert


Store = Callable[[Object, Any], None]


def _field(owner: Descriptor, field: FieldDescriptor) -> Store:
    """What puts one field into its object, or leaves it out."""
    place = (owner.full_name, field.name)
    name = RENAMED.get(field.name, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(name, field.message_type.fields_by_name["value"])
    convert = _value(field)
    if field.is_repeated:
        return _list(name, convert)
    if place in INLINED:
        return lambda found, value: found.update(convert(value))
    if field.message_type is not None and field.message_type.full_name in LEAVES:
        return _unless(name, convert, None)
    if field.type == _STRING and name not in MEANT_EMPTY:
        return _unless(name, convert, "")
    if name in DROPPED_ZERO and place not in KEPT_ZERO:
        return _unless(name, convert, 0)

    def store(found: Object, value: Any) -> None:
        found[name] = convert(value)

    return store


def _value(field: FieldDescriptor) -> Convert:
    """How one value of a field is converted. Types are compiled when first met: some contain themselves."""
    if field.type == _BYTES:
        return lambda value: base64.b64encode(value).decode()
    if field.type != _MESSAGE:
        return lambda value: value
    assert field.message_type is not None
    name = field.message_type.full_name
    return lambda value: _converter(name)(value)


def _map(name: str, value_field: FieldDescriptor) -> Store:
    convert = _value(value_field)

    def store(found: Object, value: Any) -> None:
        _spend(4 * len(value))
        found[name] = {key: convert(item) for key, item in value.items()}

    return store


def _list(name: str, convert: Convert) -> Store:
    def store(found: Object, value: Any) -> None:
        found[name] = [convert(item) for item in value]

    return store


def _unless(name: str, convert: Convert, empty: Any) -> Store:
    """Left out when it is empty."""

    def store(found: Object, value: Any) -> None:
        converted = convert(value)
        if converted != empty:
            found[name] = converted

    return store
