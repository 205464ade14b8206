"""What an API server is started with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen


@frozen
class Settings:
    """All that `dashpot up` can set; the defaults serve a private cluster on loopback."""

    data: Path | None = None
    """The folder of keys, certificates and the embedded store; None: everything in memory."""
    store: str = "embedded"
    """`memory`, `embedded`, or `etcd://host:port[,host:port…]`."""
    store_overrides: tuple[str, ...] = ()
    """`group/resource=store`: resources that have a store of their own."""
    host: str = "127.0.0.1"
    port: int = 6443
    issuer: str = "https://kubernetes.default.svc.cluster.local"
    audiences: tuple[str, ...] = ()
    authorization: tuple[str, ...] = ("Node", "RBAC")
    anonymous: bool = False
    token_file: Path | None = None
    oidc: Mapping[str, Any] | None = None
    token_webhook: Path | None = None
    authorization_webhook: Path | None = None
    audit_policy: Path | None = None
    audit_log: Path | None = None
    audit_log_limit: int = 100 * 1024 * 1024
    audit_log_keep: int = 10
    audit_webhook: Path | None = None
    service_network: str = "10.96.0.0/12"
    node_ports: tuple[int, int] = (30000, 32767)
    faults: Path | None = None
    quota: int = 2 * 1024**3
    """Bytes that the embedded store may take."""
    seats: int = 600
    """Requests that are served at once, divided among the priority levels."""
    history_s: float = 3600.0
    """Seconds of history that the stores keep; what is older is compacted away."""
    watch_history: int = 10_000
    """Events that a watch cache keeps of each resource."""
    features: Mapping[str, bool] = field(factory=dict)
