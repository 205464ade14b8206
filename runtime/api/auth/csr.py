"""CertificateSigningRequests: who may approve and sign, what signers accept, and the signing itself.

Source: plugin/pkg/admission/certificates, pkg/apis/certificates/helpers.go, pkg/registry/certificates and
pkg/controller/certificates/signer, release 1.34.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from dashpot.model.extern.certificates import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SIGNERS,
    SignerRefusal,
    common_name,
    conforming,
    names_of,
    parse_request,
)
from dashpot.model.objects.status import (
    Cause,
    StatusError,
    Subject,
    duplicate,
    forbidden,
    forbidden_field,
    invalid,
    invalid_value,
    required,
    shown,
)
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Plugin
from dashpot.runtime.api.auth.attributes import MASTERS, AuthzAttributes, Decision
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.webhook import user_info
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.tally import tally
from dashpot.runtime.clock import Clock, SystemClock, rfc3339

Object = dict[str, Any]

GROUP, PLURAL = "certificates.k8s.io", "certificatesigningrequests"
YEAR = 365 * 24 * 3600
_APPROVALS = ("Approved", "Denied")

__all__ = [
    "CLIENT",
    "KUBELET_CLIENT",
    "KUBELET_SERVING",
    "SIGNERS",
    "CertificateApproval",
    "SignerRefusal",
    "approved",
    "common_name",
    "parse_request",
    "sign",
    "validate",
]

Authorize = Callable[[AuthzAttributes], Awaitable[Decision]]


def prepare(csr: Object, user: User) -> None:
    """Makes a new request its sender's: spec.username, uid, groups and extra are the user's, status is empty."""
    spec = csr.setdefault("spec", {})
    for key in ("username", "uid", "groups", "extra"):
        spec.pop(key, None)
    spec.update(user_info(user))
    csr["status"] = {}


def confine(new: Object, old: Object, subresource: str, now: str) -> None:
    """Takes back what an update may not change: spec ever, approval outside of /approval, the rest within it.

    Without this who may write requests could approve his own. `now` dates conditions that have no time.
    """
    kept = copy.deepcopy({"spec": old.get("spec") or {}, "status": old.get("status") or {}})
    conditions = list((new.get("status") or {}).get("conditions") or ())
    new["spec"] = kept["spec"]
    before = kept["status"].get("conditions") or []
    if subresource == "approval":
        status = kept["status"]
        status["conditions"] = [c for c in conditions if c.get("type") in _APPROVALS] + [
            c for c in before if c.get("type") not in _APPROVALS
        ]
    elif subresource == "status":
        status = dict(new.get("status") or {})
        status["conditions"] = [c for c in before if c.get("type") in _APPROVALS] + [
            c for c in conditions if c.get("type") not in _APPROVALS
        ]
    else:
        status = kept["status"]
    if not status.get("conditions"):
        status.pop("conditions", None)
    for condition in status.get("conditions") or ():
        condition.setdefault("lastUpdateTime", now)
        condition.setdefault("lastTransitionTime", now)
    new["status"] = status


def validate_conditions(new: Object, old: Object) -> list[Cause]:
    """What is wrong with conditions: none is taken back, and approved and denied exclude each other."""
    conditions = (new.get("status") or {}).get("conditions") or []
    kinds = [one.get("type") for one in conditions]
    causes = [
        forbidden_field("status.conditions", f"updates may not remove a condition of type {shown(kind)}")
        for kind in (*_APPROVALS, "Failed")
        if kind in [one.get("type") for one in (old.get("status") or {}).get("conditions") or ()] and kind not in kinds
    ]
    for index, kind in enumerate(kinds):
        path = f"status.conditions[{index}].type"
        if kind in kinds[:index]:
            causes.append(duplicate(path, kind))
        elif (kind == "Denied" and "Approved" in kinds[:index]) or (kind == "Approved" and "Denied" in kinds[:index]):
            causes.append(invalid_value(path, kind, "Approved and Denied conditions are mutually exclusive"))
    return causes


def validate(csr: Object) -> list[Cause]:
    """What is wrong with spec."""
    spec = csr.get("spec") or {}
    causes: list[Cause] = []
    try:
        parse_request(str(spec.get("request") or ""))
    except ValueError as error:
        causes.append(invalid_value("spec.request", spec.get("request") or "", str(error)))
    usages = spec.get("usages") or []
    if not usages:
        causes.append(required("spec.usages", ""))
    causes += [
        Cause(f"spec.usages[{index}]", f"Duplicate value: {shown(usage)}", "FieldValueDuplicate")
        for index, usage in enumerate(usages)
        if usage in usages[:index]
    ]
    signer = spec.get("signerName") or ""
    if not signer:
        causes.append(required("spec.signerName"))
    elif signer.count("/") != 1 or not all(signer.split("/")) or "." not in signer.split("/")[0]:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        causes.append(invalid_value("spec.signerName", signer, why))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, why))
    return causes


class CertificateApproval(Plugin):
    """Admission of requests: approving, signing and masters' certificates take permissions of their own."""

    name = "CertificateApproval"

    def __init__(self, authorize: Authorize, clock: Clock | None = None) -> None:
        self._authorize = authorize
        self._clock = clock or SystemClock()

    def handles(self, operation: str, resource: Any, subresource: str) -> bool:
        """Writes of requests, of their approval and their status."""
        return bool(resource.group == GROUP and resource.plural == PLURAL and operation in (CREATE, UPDATE))

    async def mutate(self, attributes: Attributes) -> None:
        """Notes on a new request who sent it; leaves of an update what its subresource may change."""
        new, old = attributes.object, attributes.old
        if new is None:
            return
        if attributes.operation == CREATE and not attributes.subresource:
            prepare(new, attributes.user)
        elif old is not None:
            confine(new, old, attributes.subresource, rfc3339(self._clock.now()))

    async def validate(self, attributes: Attributes) -> None:
        """422 for a request that is none. 403 without permission `approve` or `sign` on the signer, or for a client
        certificate of system:masters."""
        new = attributes.object or {}
        causes = validate(new) if attributes.operation == CREATE and not attributes.subresource else []
        causes += validate_conditions(new, attributes.old or {})
        if causes:
            raise invalid(GROUP, "CertificateSigningRequest", attributes.name or _name(new), causes)
        await check(attributes, self._authorize)
        if attributes.subresource == "status":
            _count(new, attributes.old or {})


def _count(new: Object, old: Object) -> None:
    """Whether a new certificate lives as long as was asked for (source: certificates strategy.go, metrics.go)."""
    spec, made = old.get("spec") or {}, (new.get("status") or {}).get("certificate")
    asked = spec.get("expirationSeconds")
    if not asked or not made or (old.get("status") or {}).get("certificate"):
        return
    signer = str(spec.get("signerName", ""))
    if not signer.startswith("kubernetes.io/"):
        signer = "other"
    tally("apiserver_certificates_registry_csr_requested_duration_total").cell(signer).value += 1
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(made))
    except ValueError:
        return
    lives = (found.not_valid_after_utc - found.not_valid_before_utc).total_seconds()
    if abs(lives - asked) <= _BACKDATED_S:
        tally("apiserver_certificates_registry_csr_honored_duration_total").cell(signer).value += 1


_BACKDATED_S = 600.0
"""Signers begin a certificate some minutes before now."""


async def check(attributes: Attributes, authorize: Authorize) -> None:
    """The permissions that a write of a request takes."""
    new, old = attributes.object or {}, attributes.old or {}
    if attributes.operation == CREATE and not attributes.subresource:
        _refuse_masters(attributes, new.get("spec") or {})
        return
    signer = str((old.get("spec") or {}).get("signerName", ""))
    if attributes.subresource == "approval":
        verb, told = "approve", "approve"
    elif attributes.subresource == "status" and _signed(old.get("status"), new.get("status")):
        verb, told = "sign", "sign"
    else:
        return
    if not await permitted(attributes.user, verb, signer, authorize):
        why = f"user not permitted to {told} requests with signerName {shown(signer)}"
        raise _forbid(attributes, why)


async def permitted(user: User, verb: str, signer: str, authorize: Authorize) -> bool:
    """Whether the user may approve or sign for a signer, by its name or by `DOMAIN/*`."""
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        if (await authorize(AuthzAttributes(user, verb, GROUP, "*", "signers", "", "", name))).allow:
            return True
    return False


def _signed(old: Object | None, new: Object | None) -> bool:
    before, after = old or {}, new or {}
    return any(before.get(key) != after.get(key) for key in ("certificate", "conditions"))


def _refuse_masters(attributes: Attributes, spec: Object) -> None:
    if spec.get("signerName") != CLIENT:
        return
    try:
        _, groups = names_of(parse_request(str(spec.get("request") or "")))
    except ValueError:
        return  # validation tells it
    if MASTERS in groups:
        raise _forbid(attributes, f"use of {CLIENT} signer with system:masters group is not allowed")


def _name(csr: Object) -> str:
    return str((csr.get("metadata") or {}).get("name", ""))


def _forbid(attributes: Attributes, why: str) -> StatusError:
    return forbidden(Subject(GROUP, PLURAL), attributes.name, why)


def approved(csr: Object) -> bool:
    """Whether a request is approved and not denied."""
    conditions = (csr.get("status") or {}).get("conditions") or ()
    kinds = {one.get("type") for one in conditions if one.get("status", "True") == "True"}
    return "Approved" in kinds and "Denied" not in kinds


def sign(csr: Object, pki: Pki, now: float) -> bytes:
    """The certificate (PEM) for an approved request of one of `SIGNERS`; SignerRefusal if it does not conform.

    Lifetime: spec.expirationSeconds, at most a year. `now` in seconds since 1970.
    """
    spec = csr.get("spec") or {}
    signer = spec.get("signerName")
    if signer not in SIGNERS:
        raise SignerRefusal(f"there is no signer {signer}")
    if not approved(csr):
        raise SignerRefusal("the request is not approved")
    request, names = conforming(spec)
    serving = signer == KUBELET_SERVING
    seconds = min(int(spec.get("expirationSeconds") or YEAR), YEAR)
    return pki.sign_public(
        request.public_key(),
        request.subject,
        seconds=seconds,
        now=now,
        server=serving,
        encipher="key encipherment" in (spec.get("usages") or ()),
        names=names if serving else None,
    ).public_bytes(serialization.Encoding.PEM)
