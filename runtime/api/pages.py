"""The pages that describe the server itself: its version, its figures, and whose tokens it issues."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dashpot.runtime.api.auth.authn import Authenticator
from dashpot.runtime.api.auth.certificates import Pki
from dashpot.runtime.api.dispatch import Page
from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.metrics import Metrics

VERSION = "v1.34.0"
"""The release whose behaviour is served; clients compare their own version with it."""


def version() -> dict[str, str]:
    """What /version says."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{VERSION}+dashpot",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }


def pages(authenticator: Authenticator, pki: Pki, metrics: Metrics, url: Callable[[], str]) -> dict[str, Page]:
    """The pages by their paths; `url` tells where the server listens, empty if it does not."""
    issuer = authenticator.issuer
    told = msgspec.json.encode(version())
    discovery = {
        "issuer": issuer.issuer,
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }

    async def told_version(_: Exchange) -> Response:
        return Response(200, told)

    async def told_metrics(_: Exchange) -> Response:
        return await metrics.page()

    async def configuration(_: Exchange) -> Response:
        at = {**discovery, "jwks_uri": f"{url() or issuer.issuer}/openid/v1/jwks"}
        return Response(200, msgspec.json.encode(at))

    async def keys(_: Exchange) -> Response:
        return Response(200, msgspec.json.encode(pki.jwks()), "application/jwk-set+json")

    return {
        "/version": told_version,
        "/metrics": told_metrics,
        "/.well-known/openid-configuration": configuration,
        "/openid/v1/jwks": keys,
    }
