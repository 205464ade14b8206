"""One stored object at one revision: its JSON made once, decoded only when somebody asks for it.

In the store a value is JSON without resourceVersion that begins `{"apiVersion":…,"kind":…,"metadata":{`; the version is
the revision of the write and is spliced in behind that start, so that reading an object never decodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model.objects.status import CAUSES, StatusError

Object = dict[str, Any]

_START = b'{"apiVersion":"'
_METADATA = b'"metadata":{'
_VERSION = b'"resourceVersion":"'
_NAMED = 5
"""Keys that a message names; its causes name more."""
_HEAD_LIMIT = 1024
"""Bytes: apiVersion and kind are short names, so metadata begins before."""

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Object] = msgspec.json.Decoder(Object)


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


class _Parts(msgspec.Struct):
    metadata: msgspec.Raw


_PARTS = msgspec.json.Decoder(_Parts)
_LABELS = msgspec.json.Decoder(_Labelled)
_NO_LABELS: dict[str, str] = {}


def encode(obj: Object, api_version: str, kind: str) -> bytes:
    """An object as it is stored: apiVersion, kind and metadata first, without resourceVersion. `obj` stays as it is.

    `api_version` and `kind` are taken where the object does not say them.
    """
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    whole = {"apiVersion": obj.get("apiVersion") or api_version, "kind": obj.get("kind") or kind, "metadata": metadata}
    for key, value in obj.items():
        if key not in whole:
            whole[key] = value
    return _ENCODER.encode(whole)


UNREADABLE = "StorageReadError"
"""The reason of upstream's Status for objects that lie in the store and cannot be read (KEP-3926)."""


def damaged(*keys: str) -> StatusError:
    """500 for values that are no objects as this server stores them: names them, and the way out."""
    told = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
    why = "unable to decode the value stored at "
    cure = "remove it from the store, or delete it with ignoreStoreReadErrorWithClusterBreakingPotential=true"
    causes = [{"reason": "UnexpectedServerResponse", "message": why + key, "field": key} for key in keys[:CAUSES]]
    return StatusError(UNREADABLE, f"{why}{told}: {cure}", details={"causes": causes}, code=500)


def stamp(key: str, value: bytes, revision: int) -> bytes:
    """A stored value with its resourceVersion; StatusError 500 where the value is not in the form of the store."""
    at = value.find(_METADATA, 0, _HEAD_LIMIT) + len(_METADATA)
    if at < len(_METADATA) or not value.startswith(_START):
        raise damaged(key)
    comma = b'"' if value[at : at + 1] == b"}" else b'",'
    return b"".join((value[:at], _VERSION, b"%d" % revision, comma, value[at:]))


def sound(key: str, value: bytes) -> None:
    """Makes sure that a value, which somebody else may have written, is JSON with metadata; StatusError 500."""
    try:
        _PARTS.decode(value)
    except msgspec.MsgspecError:
        raise damaged(key) from None


class Stored:
    """An object as of `revision`, the revision that wrote it; a deleted one as it was last, with the delete's revision.

    `raw` is its whole JSON with metadata.resourceVersion. `object` and `labels` are decoded at first use and shared:
    never change them. `renderings` holds other forms of it (table rows, other versions), by key of the form.
    """

    __slots__ = (
        "_fields",
        "_labels",
        "_object",
        "created",
        "key",
        "name",
        "namespace",
        "raw",
        "renderings",
        "revision",
    )

    def __init__(self, key: str, namespace: str, name: str, revision: int, created: int, raw: bytes) -> None:
        self.key = key
        self.namespace = namespace
        self.name = name
        self.revision = revision
        self.created = created
        self.raw = raw
        self.renderings: dict[Any, Any] | None = None
        self._fields: dict[str, str] | None = None
        self._object: Object | None = None
        self._labels: dict[str, str] | None = None

    @property
    def object(self) -> Object:
        """The decoded object, shared by all readers."""
        found = self._object
        if found is None:
            try:
                found = self._object = _DECODER.decode(self.raw)
            except msgspec.MsgspecError:
                raise damaged(self.key) from None
        return found

    @property
    def glance(self) -> Object:
        """The object for one look: not kept decoded, for ten thousand pods would be a hundred megabytes."""
        kept = self._object
        found = self.object
        self._object = kept
        return found

    def forget_decoded(self) -> None:
        """Lets go of the decoded object; whoever asks for it again has it decoded again."""
        self._object = None

    @property
    def labels(self) -> dict[str, str]:
        """metadata.labels; only the metadata is decoded for it."""
        found = self._labels
        if found is None:
            if self._object is not None:
                found = self._object["metadata"].get("labels") or _NO_LABELS
            else:
                try:
                    found = _LABELS.decode(self.raw).metadata.labels or _NO_LABELS
                except msgspec.MsgspecError:
                    raise damaged(self.key) from None
            self._labels = found
        return found

    def field(self, path: str, extract: Callable[[Object], str]) -> str:
        """The text of a field that selectors ask for, read once."""
        known = self._fields
        if known is None:
            known = self._fields = {}
        found = known.get(path)
        if found is None:
            found = known[path] = extract(self.glance)
        return found

    @property
    def metadata(self) -> bytes:
        """The JSON of the metadata alone; nothing is decoded for it."""
        try:
            return bytes(_PARTS.decode(self.raw).metadata)
        except msgspec.MsgspecError:
            raise damaged(self.key) from None

    def rendering(self, key: Any) -> Any:
        """What was kept under a form's key; None if nothing."""
        return None if self.renderings is None else self.renderings.get(key)

    def keep(self, key: Any, value: Any) -> None:
        """Keeps another form of the object for the next reader."""
        if self.renderings is None:
            self.renderings = {}
        self.renderings[key] = value

    def deleted_at(self, revision: int) -> Stored:
        """The last state, with the revision of the delete."""
        last = Stored(self.key, self.namespace, self.name, revision, self.created, restamp(self.raw, revision))
        for key, form in (self.renderings or {}).items():
            if isinstance(form, Stored):
                last.keep(key, form.deleted_at(revision))
        return last

    def __repr__(self) -> str:
        return f"Stored({self.key!r}, {self.revision})"


def restamp(raw: bytes, revision: int) -> bytes:
    """The JSON of an object with another resourceVersion."""
    at = raw.find(_METADATA, 0, _HEAD_LIMIT) + len(_METADATA) + len(_VERSION)
    end = raw.index(b'"', at)
    return b"".join((raw[:at], b"%d" % revision, raw[end:]))
