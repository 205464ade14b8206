"""What kubernetes.rootca computes: the content of the ConfigMap kube-root-ca.crt.

Source: pkg/controller/certificates/rootcacertpublisher/publisher.go, release 1.34.
"""

from __future__ import annotations

from dashpot.model.extern.namespaces import space
from dashpot.model.extern.workloads import Object

DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def bundle(ca: str) -> Object:
    """The data: the certificates (PEM) under `ca.crt`."""
    return {"ca.crt": ca}


def description() -> str:
    """The annotation that says what it is for."""
    return DESCRIPTION


__all__ = ["DESCRIPTION", "bundle", "description", "space"]
