"""Which form of an answer a client wants: the Accept header read as Kubernetes reads it.

Source: k8s.io/apiserver pkg/endpoints/handlers/negotiation, release 1.34.
"""

from __future__ import annotations

from functools import lru_cache

from attrs import frozen

from dashpot.model.objects.status import StatusError

JSON, YAML = "application/json", "application/yaml"
META_GROUP = "meta.k8s.io"
PLAIN, TABLE, PARTIAL = "", "Table", "PartialObjectMetadata"

_MEDIA = {JSON: JSON, YAML: YAML, "application/*": JSON, "*/*": JSON}
_ACCEPTED = f"only the following media types are accepted: {JSON}, {YAML}"
_CLAUSES = 64


@frozen
class Form:
    """A media type and, for `as=`, what the object becomes: Table or PartialObjectMetadata of a version of
    meta.k8s.io."""

    media: str = JSON
    shape: str = PLAIN
    version: str = ""

    @property
    def api_version(self) -> str:
        """`meta.k8s.io/v1`."""
        return f"{META_GROUP}/{self.version}"

    @property
    def plain(self) -> bool:
        """Whether the object itself is shown."""
        return self.shape == PLAIN


@frozen
class _Clause:
    media: str
    parameters: dict[str, str]
    quality: float


def _clauses(header: str) -> list[_Clause]:
    found = []
    for part in header.split(",")[:_CLAUSES]:
        media, *rest = (piece.strip() for piece in part.split(";"))
        parameters = {}
        for piece in rest:
            name, _, value = piece.partition("=")
            parameters[name.strip().lower()] = value.strip().strip('"')
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if media:
            found.append(_Clause(media.lower(), parameters, quality))
    return sorted(found, key=lambda clause: -clause.quality)


def _shape(clause: _Clause, shapes: tuple[str, ...]) -> tuple[str, str] | None:
    wanted = clause.parameters.get("as", "")
    if not wanted:
        return PLAIN, ""
    version = clause.parameters.get("v", "")
    if wanted not in shapes or clause.parameters.get("g") != META_GROUP or version not in ("v1", "v1beta1"):
        return None
    return (PARTIAL if wanted.startswith(PARTIAL) else TABLE), version


@lru_cache(maxsize=1024)
def _negotiated(header: str, shapes: tuple[str, ...]) -> Form | None:
    if not header.strip():
        return Form()
    for clause in _clauses(header):
        media = _MEDIA.get(clause.media)
        shape = _shape(clause, shapes)
        if media is not None and shape is not None and clause.quality > 0:
            return Form(media, *shape)
    return None


ONE = (TABLE, PARTIAL)
MANY = (TABLE, "PartialObjectMetadataList", PARTIAL)
NONE: tuple[str, ...] = ()


def negotiate(header: str, shapes: tuple[str, ...] = NONE) -> Form:
    """The best form that both sides know (`shapes`: ONE, MANY, or NONE for answers that are only shown as they are);
    StatusError 406 if there is none."""
    form = _negotiated(header, shapes) if len(header) <= 8192 else None
    if form is None:
        raise StatusError("NotAcceptable", _ACCEPTED)
    return form
