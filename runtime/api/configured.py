"""The settings of a server as its parts want them."""

from __future__ import annotations

from collections.abc import Sequence

from dashpot.runtime.api.auth.authn import AuthConfig
from dashpot.runtime.api.auth.authz import AuthzConfig
from dashpot.runtime.api.auth.oidc import OidcConfig
from dashpot.runtime.api.auth.remote import webhook_config
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.naming import UnknownName, stored_prefix
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.store.open import parse_override


def overrides(texts: Sequence[str]) -> dict[str, str]:
    """`RESOURCE=STORE` each: the prefixes of keys that have a store of their own, and it; UnknownName, StoreError."""
    catalog = Catalog()
    found: dict[str, str] = {}
    for text in texts:
        _, target = parse_override(text)
        name = text.partition("=")[0]
        prefix = stored_prefix(catalog, name)
        if found.setdefault(prefix, target) != target:
            raise UnknownName(f"'{name}' is given two stores, {found[prefix]} and {target}: keep one")
    return found


def auth_config(settings: Settings) -> AuthConfig:
    """Who may come in; files that cannot be used are told by what reads them."""
    oidc: tuple[OidcConfig, ...] = ()
    if settings.oidc is not None:
        oidc = (OidcConfig(settings.oidc["issuer"], (settings.oidc["client_id"],), ca=settings.oidc.get("ca")),)
    return AuthConfig(
        anonymous=settings.anonymous,
        token_file=settings.token_file,
        issuer=settings.issuer,
        audiences=settings.audiences,
        oidc=oidc,
        webhook=webhook_config(settings.token_webhook) if settings.token_webhook else None,
    )


def authz_config(settings: Settings) -> AuthzConfig:
    """Who decides what they may do."""
    hook = webhook_config(settings.authorization_webhook) if settings.authorization_webhook else None
    return AuthzConfig(settings.authorization, hook)
