"""The signature of kubernetes.certificates: the one thing of a spec that takes a key."""

from __future__ import annotations

import base64
from collections.abc import Callable

from dashpot.model.extern.workloads import Kept
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.auth.csr import SignerRefusal, sign


def signing(pki: Pki) -> Callable[[Kept, int], str | None]:
    """What signs requests with the authority of a server: (request, ms since 1970) to the certificate as the status of
    the request holds it. None for a request that is not approved, or that its signer refuses."""

    def certificate(request: Kept, moment: int) -> str | None:
        try:
            return base64.b64encode(sign(request.json, pki, moment / 1000)).decode()
        except SignerRefusal:
            return None

    return certificate
