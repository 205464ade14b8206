"""A client that reads objects as their metadata alone: `client = metadata_client(client)`.

The server sends PartialObjectMetadata, whatever the kind, so that all kinds can be followed at the cost of their
metadata. Source: KEP-2334; client-go metadata, release 1.34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define

from dashpot.runtime.client.rest import JSON, Client
from dashpot.runtime.client.transport import Call

PARTIAL = {
    kind: f"application/json;as={kind};g=meta.k8s.io;v=v1,{JSON}"
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
}
"""What is accepted: metadata, and all of the object from a server that cannot do that."""


@define(eq=False)
class MetadataClient(Client):
    """A client whose gets, lists and watches answer with metadata."""

    def _call(
        self,
        method: str,
        path: str,
        body: bytes,
        query: Sequence[tuple[str, str]] | Mapping[str, str],
        content_type: str,
        accept: str,
        timeout: float,
    ) -> Call:
        if method == "GET" and accept == JSON:
            one = dict(query).get("watch") == "true" or _named(path)
            accept = PARTIAL["PartialObjectMetadata" if one else "PartialObjectMetadataList"]
        return super()._call(method, path, body, query, content_type, accept, timeout)


def _named(path: str) -> bool:
    """Whether a path names one object, not a collection."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return len(parts) > 1


def metadata_client(client: Client) -> MetadataClient:
    """The same user at the same server, for metadata."""
    made = MetadataClient(
        client.transport,
        client.namespace,
        client.user_agent,
        client.limiter,
        client.timeout,
        client.retries,
        client.headers,
        client.warn,
        client.chance,
    )
    made.discovery = client.discovery
    return made
