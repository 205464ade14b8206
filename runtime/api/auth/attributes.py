"""What an authorizer is asked and what it says, with the words of a refusal.

Sources: k8s.io/apiserver pkg/authorization/authorizer, pkg/endpoints/handlers/responsewriters/errors.go, 1.34.
"""

from __future__ import annotations

from attrs import frozen

from dashpot.model.objects.status import StatusError, Subject, shown
from dashpot.runtime.api.exchange import Exchange, User

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ACCOUNT_PREFIX = "system:serviceaccount:"
NODE_PREFIX = "system:node:"
NODES = "system:nodes"


@frozen
class AuthzAttributes:
    """One action: who does what to which resource, or to which path if `resource_request` is false.

    `field_selector` is the raw text of a list or watch; only the Node mode looks at it.
    """

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    resource_request: bool = True
    field_selector: str = ""


@frozen
class Decision:
    """An answer: allowed, denied for good, or (neither) no opinion. `reason` says why, `error` what went wrong."""

    allow: bool
    reason: str = ""
    denied: bool = False
    error: str = ""


ALLOWED = Decision(True)
NO_OPINION = Decision(False)


def attributes_of(exchange: Exchange, user: User | None = None) -> AuthzAttributes:
    """What the request asks for, on behalf of its user."""
    info = exchange.info
    selector = ""
    if info.verb in ("list", "watch", "deletecollection") and exchange.request.query:
        selector = exchange.request.get("fieldSelector")
    return AuthzAttributes(
        user or exchange.user,
        info.verb,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.namespace,
        info.name,
        info.path,
        info.resource_request,
        selector,
    )


def forbidden_text(attributes: AuthzAttributes) -> str:
    """`User "u" cannot list resource "pods/log" in API group "" in the namespace "n"`."""
    who = shown(attributes.user.name)
    if not attributes.resource_request:
        return f"User {who} cannot {attributes.verb} path {shown(attributes.path)}"
    what = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f"in the namespace {shown(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"User {who} cannot {attributes.verb} resource {shown(what)} in API group {shown(attributes.group)} {where}"


def refusal(attributes: AuthzAttributes, reason: str = "") -> StatusError:
    """403, for an action that no authorizer allows."""
    text = forbidden_text(attributes)
    if reason:
        text = f"{text}: {reason}"
    if not attributes.resource_request:
        return StatusError("Forbidden", f"forbidden: {text}")
    subject = Subject(attributes.group, attributes.resource)
    named = f"{subject.qualified} {shown(attributes.name)}" if attributes.name else subject.qualified
    return StatusError("Forbidden", f"{named} is forbidden: {text}", details=subject.details(attributes.name))


def account_of(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name stands for; None if it is another kind of user."""
    if not name.startswith(ACCOUNT_PREFIX):
        return None
    parts = name.split(":")
    if len(parts) != 4 or not parts[2] or not parts[3]:
        return None
    return parts[2], parts[3]


def account_user(namespace: str, name: str) -> str:
    """`system:serviceaccount:NAMESPACE:NAME`."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, str]:
    """The groups of every service account of a namespace."""
    return "system:serviceaccounts", f"system:serviceaccounts:{namespace}"


def node_of(user: User) -> str | None:
    """The node that a kubelet speaks for; empty if it names none, None if the user is no node."""
    if NODES not in user.groups or not user.name.startswith(NODE_PREFIX):
        return None
    return user.name[len(NODE_PREFIX) :]
