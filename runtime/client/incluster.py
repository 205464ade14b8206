"""The way to the API server from inside a pod: what the kubelet puts there. Source: client-go rest.InClusterConfig."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dashpot.runtime.client.access import Access, KubeconfigError, Login

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(environment: Mapping[str, str], folder: Path = FOLDER) -> Access:
    """Access by the service account's token, which is read anew now and then; KubeconfigError outside a pod."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: name a kubeconfig"
        )
    token, authority, space = folder / "token", folder / "ca.crt", folder / "namespace"
    try:
        if not token.read_text(encoding="utf-8").strip():
            raise KubeconfigError(f"{token}: is empty: set automountServiceAccountToken in the pod")
        ca = authority.read_bytes() if authority.exists() else b""
        namespace = space.read_text(encoding="utf-8").strip() if space.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or "no text"
        raise KubeconfigError(
            f"{folder}: cannot be read ({told}): set automountServiceAccountToken in the pod"
        ) from None
    address = f"[{host}]" if ":" in host else host
    return Access(
        f"https://{address}:{port}",
        ca,
        namespace=namespace or "default",
        login=Login(token_file=token),
        context="in-cluster",
        where=str(folder),
    )
