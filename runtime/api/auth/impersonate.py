"""Acting as somebody else, by the headers Impersonate-User, -Group, -Uid and -Extra-KEY.

Source: k8s.io/apiserver pkg/endpoints/filters/impersonation, release 1.34.
"""

from __future__ import annotations

from urllib.parse import unquote

from attrs import evolve

from dashpot.model.objects.status import bad_request
from dashpot.runtime.api.auth.attributes import (
    AUTHENTICATED,
    UNAUTHENTICATED,
    AuthzAttributes,
    account_groups,
    account_of,
    refusal,
)
from dashpot.runtime.api.auth.authz import Authorizer
from dashpot.runtime.api.exchange import ANONYMOUS, Exchange, Request, User

_PREFIX = "impersonate-"
_EXTRA = "impersonate-extra-"
_GROUP = "authentication.k8s.io"


class Impersonation:
    """Exchanges the user for the one it asks to be, if it may be each part of it: verb impersonate."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    async def gate(self, exchange: Exchange) -> None:
        """Sets `user` and `impersonator`; 403 in upstream's words, 400 for headers without a user."""
        headers = exchange.request.headers
        if "impersonate-user" not in headers:
            if any(name[: len(_PREFIX)].lower() == _PREFIX for name in headers):
                raise bad_request("requested groups, a uid or extra values without impersonating a user")
            return
        wanted, asked = _wanted(exchange.request)
        for attributes in asked:
            attributes = evolve(attributes, user=exchange.user)
            decision = await self._authorizer.authorize(attributes)
            if not decision.allow:
                raise refusal(attributes, decision.reason)
        exchange.impersonator, exchange.user = exchange.user, wanted


def _wanted(request: Request) -> tuple[User, list[AuthzAttributes]]:
    """Whom the headers name, and the permissions that this takes (of a user still to be filled in)."""
    name = request.headers["impersonate-user"]
    if not name:
        raise bad_request("Impersonate-User names nobody")
    groups = request.header_values("impersonate-group")
    uid = request.headers.get("impersonate-uid", "")
    account = account_of(name)
    if account is not None:
        asked = [_asked("", "serviceaccounts", account[1], account[0])]
    else:
        asked = [_asked("", "users", name)]
    asked.extend(_asked("", "groups", group) for group in groups)
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in request.headers.items():
        if header[: len(_EXTRA)].lower() == _EXTRA:
            key = unquote(header[len(_EXTRA) :].lower())
            extra[key] = (*extra.get(key, ()), value)
            asked.append(_asked(_GROUP, "userextras", value, subresource=key))
    if uid:
        asked.append(_asked(_GROUP, "uids", uid))
    if account is not None and not groups:
        groups = list(account_groups(account[0]))
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED)
    return User(name, tuple(groups), uid, extra), asked


def _asked(group: str, resource: str, name: str, namespace: str = "", subresource: str = "") -> AuthzAttributes:
    return AuthzAttributes(ANONYMOUS, "impersonate", group, "v1", resource, subresource, namespace, name)
