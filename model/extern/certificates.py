"""What kubernetes.certificates computes: what a request for a certificate says, and whether its signer may sign it.

Sources: pkg/apis/certificates/v1/helpers.go, pkg/controller/certificates (signer, approver, cleaner), release 1.34.
"""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.x509.oid import NameOID

from dashpot.model.extern.workloads import Kept, Object, at

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = (CLIENT, KUBELET_CLIENT, KUBELET_SERVING)
NODES, NODE_PREFIX = "system:nodes", "system:node:"
REQUEST_LIMIT = 64 * 1024
"""Bytes of a request that are parsed."""
_KEY_USAGES = frozenset(("digital signature", "key encipherment"))
_HANDSHAKE = "digital signature"


class SignerRefusal(Exception):
    """A signer does not sign this request; the text is the message of its Failed condition."""


def parse_request(text: str) -> x509.CertificateSigningRequest:
    """spec.request (base64 of PEM) as a request whose signature holds; ValueError with upstream's words."""
    if len(text) > REQUEST_LIMIT:
        raise ValueError(f"the request is longer than {REQUEST_LIMIT} bytes")
    try:
        pem = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("PEM block type must be CERTIFICATE REQUEST") from None
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        found = x509.load_pem_x509_csr(pem)
        valid = found.is_signature_valid
    except Exception as error:  # the parser has many ways to dislike what strangers send
        raise ValueError(f"the certificate request cannot be parsed: {error}") from None
    if not valid:
        raise ValueError("the signature of the certificate request is not valid")
    return found


def names_of(request: x509.CertificateSigningRequest) -> tuple[str, tuple[str, ...]]:
    """CN and all O of a request."""
    common = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    organizations = request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return (str(common[-1].value) if common else "", tuple(str(one.value) for one in organizations))


def common_name(text: str) -> str | None:
    """The CN in spec.request; None if it cannot be parsed."""
    try:
        return names_of(parse_request(text))[0]
    except ValueError:
        return None


def conforming(spec: Object) -> tuple[x509.CertificateSigningRequest, x509.SubjectAlternativeName | None]:
    """The request in a spec and the names in it, if its signer signs such; SignerRefusal.

    A signer of kubelets wants the usage `digital signature`, and an identity of a node.
    """
    signer = spec.get("signerName")
    try:
        request = parse_request(str(spec.get("request") or ""))
    except ValueError as error:
        raise SignerRefusal(str(error)) from None
    usages = frozenset(spec.get("usages") or ())
    serving = signer == KUBELET_SERVING
    role = "server auth" if serving else "client auth"
    needed = {role} if signer == CLIENT else {role, _HANDSHAKE}
    if not needed <= usages or usages - _KEY_USAGES - {role}:
        raise SignerRefusal(f"usages must be {role} and, if wanted, digital signature and key encipherment")
    names = _alternative_names(request)
    if signer != CLIENT:
        _kubelet(request, names, serving)
    return request, names


def _alternative_names(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    except ValueError as error:
        raise SignerRefusal(f"the extensions of the request cannot be read: {error}") from None


def _kubelet(request: x509.CertificateSigningRequest, names: x509.SubjectAlternativeName | None, serving: bool) -> None:
    common, groups = names_of(request)
    if groups != (NODES,):
        raise SignerRefusal(f"subject organization is not {NODES}")
    if not common.startswith(NODE_PREFIX):
        raise SignerRefusal(f"subject common name does not begin with {NODE_PREFIX}")
    if not serving:
        if names is not None:
            raise SignerRefusal("subjectAltNames are not allowed")
        return
    if names is None or not any(isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        raise SignerRefusal("at least one DNS or IP subjectAltName is required")
    if any(not isinstance(name, x509.DNSName | x509.IPAddress) for name in names):
        raise SignerRefusal("only DNS and IP subjectAltNames are allowed")


# ---------------------------------------------------------------- what the spec asks for
def ours(request: Kept) -> bool:
    """Whether one of the signers of this cluster is meant."""
    return at(request.json, "spec", "signerName") in SIGNERS


def refusal(request: Kept) -> str:
    """Why its signer does not sign a request; "" if it does."""
    try:
        conforming(at(request.json, "spec") or {})
    except SignerRefusal as why:
        return str(why)
    return ""


def of_node(request: Kept) -> bool:
    """Whether a node asks for the certificate of a client: what the approver may approve."""
    return at(request.json, "spec", "signerName") == KUBELET_CLIENT and not refusal(request)


def of_itself(request: Kept) -> bool:
    """Whether who asks is the node that the certificate is for."""
    spec = at(request.json, "spec") or {}
    return of_node(request) and common_name(str(spec.get("request"))) == spec.get("username")


def asker(request: Kept) -> Object:
    """Who asks, as the spec of a SubjectAccessReview says it."""
    spec = at(request.json, "spec") or {}
    named = {
        "user": spec.get("username"),
        "uid": spec.get("uid"),
        "groups": spec.get("groups"),
        "extra": spec.get("extra"),
    }
    return {key: value for key, value in named.items() if value}


def certificate(request: Kept, moment: int) -> str | None:
    """The signed certificate as the status holds it, from who has the key of an authority. Here nobody has: None."""
    return None


def expired(request: Kept, moment: int) -> bool:
    """Whether a certificate that was issued has run out. `moment` in ms since 1970."""
    end = _end(request)
    return end is not None and end < moment


def remaining(request: Kept, since: int | None, most: int, moment: int) -> int:
    """Milliseconds until what began at `since` is older than `most`, or the certificate has run out; at least 1 s."""
    due = (since or 0) + most
    end = _end(request)
    return max(1000, (due if end is None else min(due, end + 1)) - moment)


def _end(request: Kept) -> int | None:
    """When the certificate that was issued runs out, in ms since 1970; None if there is none."""
    text = at(request.json, "status", "certificate")
    if not text:
        return None
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(str(text)))
    except ValueError:
        return None
    return int(found.not_valid_after_utc.timestamp() * 1000)
