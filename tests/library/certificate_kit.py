"""Requests for certificates, for the live tests and those with kubectl."""

from __future__ import annotations

import base64
from typing import Any

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Object = dict[str, Any]

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ["digital signature", "client auth"]
SERVER_USAGES = ["digital signature", "server auth"]


@frozen
class Asked:
    """A key, and the request for a certificate of it."""

    key: bytes
    request: str

    @classmethod
    def of(cls, common: str, groups: tuple[str, ...] = (), names: tuple[str, ...] = ()) -> Asked:
        """A new key for a name, groups, and the DNS names of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common)])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), critical=False
            )
        made = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return cls(private, base64.b64encode(made).decode())

    def object(self, name: str, signer: str = CLIENT, usages: list[str] | None = None, **spec: Any) -> Object:
        """The CertificateSigningRequest."""
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name},
            "spec": {"signerName": signer, "request": self.request, "usages": usages or CLIENT_USAGES, **spec},
        }


def node(name: str, names: tuple[str, ...] = ()) -> Asked:
    """What a node asks for."""
    return Asked.of(f"system:node:{name}", ("system:nodes",), names)


def issued(request: Object) -> x509.Certificate:
    """The certificate in the status of a request."""
    return x509.load_pem_x509_certificate(base64.b64decode(request["status"]["certificate"]))
