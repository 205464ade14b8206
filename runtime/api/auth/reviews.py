"""The resources that are questions: may I, may he, who am I, whose token is this, and a token please.

Source: pkg/registry/{authorization,authentication}, pkg/apis/authorization/validation, release 1.34.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.status import Cause, bad_request, invalid, invalid_value
from dashpot.runtime.api.auth.attributes import AuthzAttributes
from dashpot.runtime.api.auth.authn import Authenticator
from dashpot.runtime.api.auth.authz import Authorizer
from dashpot.runtime.api.auth.review_shapes import check_shape, without_nulls
from dashpot.runtime.api.auth.webhook import user_info
from dashpot.runtime.api.exchange import Exchange, User

Object = dict[str, Any]

AUTHN, AUTHZ = "authentication.k8s.io", "authorization.k8s.io"
KINDS = (
    "SelfSubjectAccessReview",
    "SubjectAccessReview",
    "LocalSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SelfSubjectReview",
    "TokenReview",
    "TokenRequest",
)
_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """Answers reviews; nothing of them is stored."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def answer(self, kind: str, obj: Object, exchange: Exchange) -> Object:
        """The review with its status, for one of `KINDS`; StatusError where the question makes no sense."""
        if kind not in KINDS:
            raise bad_request(f"{kind} is no review")
        check_shape(kind, obj)
        if obj.get("spec") is not None:
            obj = {**obj, "spec": without_nulls(obj["spec"])}
        if kind == "SelfSubjectAccessReview":
            return await self._access(kind, obj, exchange.user)
        if kind == "SubjectAccessReview":
            return await self._access(kind, obj, _asked_user(kind, obj))
        if kind == "LocalSubjectAccessReview":
            _check_local(obj, exchange.info.namespace)
            return await self._access(kind, obj, _asked_user(kind, obj))
        if kind == "SelfSubjectRulesReview":
            return self._rules(obj, exchange.user)
        if kind == "SelfSubjectReview":
            return _answer(obj, AUTHN, kind, {"userInfo": user_info(exchange.user)})
        if kind == "TokenReview":
            return await self._token(obj)
        return await self._authenticator.issuer.mint(exchange.info.namespace, exchange.info.name, obj)

    async def _access(self, kind: str, obj: Object, user: User) -> Object:
        spec = obj.get("spec") or {}
        resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if (resource is None) == (path is None):
            raise invalid(AUTHZ, kind, "", [invalid_value("spec", path, _ONE)])
        decision = await self._authorizer.authorize(asked(user, resource, path))
        status: Object = {"allowed": decision.allow}
        if decision.denied:
            status["denied"] = True
        if decision.reason:
            status["reason"] = decision.reason
        if decision.error:
            status["evaluationError"] = decision.error
        return _answer(obj, AUTHZ, kind, status)

    def _rules(self, obj: Object, user: User) -> Object:
        namespace = (obj.get("spec") or {}).get("namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        found = self._authorizer.rules(user, str(namespace))
        status: Object = {
            "resourceRules": found.resource,
            "nonResourceRules": found.non_resource,
            "incomplete": found.incomplete,
        }
        if found.error:
            status["evaluationError"] = found.error
        return _answer(obj, AUTHZ, "SelfSubjectRulesReview", status)

    async def _token(self, obj: Object) -> Object:
        spec = obj.get("spec") or {}
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        found = await self._authenticator.review(str(spec["token"]), tuple(spec.get("audiences") or ()))
        status: Object = {}
        if found.user is not None:
            status = {"authenticated": True, "user": user_info(found.user)}
            if found.audiences:
                status["audiences"] = list(found.audiences)
        else:
            status["user"] = {}
            if found.error:
                status["error"] = found.error
        return _answer(obj, AUTHN, "TokenReview", status)


def asked(user: User, resource: Object | None, path: Object | None) -> AuthzAttributes:
    """What resourceAttributes or nonResourceAttributes of a review ask for."""
    if resource is None:
        found = path or {}
        return AuthzAttributes(user, found.get("verb", ""), path=found.get("path", ""), resource_request=False)
    selector = resource.get("fieldSelector") or {}
    terms = [
        f"{one.get('key', '')}={value}"
        for one in selector.get("requirements") or ()
        if one.get("operator") == "In" and len(one.get("values") or ()) == 1
        for value in one["values"]
    ]
    return AuthzAttributes(
        user,
        resource.get("verb", ""),
        resource.get("group", ""),
        resource.get("version", ""),
        resource.get("resource", ""),
        resource.get("subresource", ""),
        resource.get("namespace", ""),
        resource.get("name", ""),
        field_selector=selector.get("rawSelector") or ",".join(terms),
    )


def _asked_user(kind: str, obj: Object) -> User:
    spec = obj.get("spec") or {}
    name, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
    if not name and not groups:
        causes: list[Cause] = []
        if (spec.get("resourceAttributes") is None) == (spec.get("nonResourceAttributes") is None):
            causes.append(invalid_value("spec", spec.get("nonResourceAttributes"), _ONE))
        causes.append(invalid_value("spec.user", name, "at least one of user or group must be specified"))
        raise invalid(AUTHZ, kind, "", causes)
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(name, groups, spec.get("uid") or "", extra)


def _check_local(obj: Object, namespace: str) -> None:
    spec = obj.get("spec") or {}
    if spec.get("nonResourceAttributes") is not None:
        cause = invalid_value(
            "spec.nonResourceAttributes", spec["nonResourceAttributes"], "disallowed on this kind of request"
        )
        raise invalid(AUTHZ, "LocalSubjectAccessReview", "", [cause])
    if (spec.get("resourceAttributes") or {}).get("namespace", "") != namespace:
        raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {namespace}")


def _answer(obj: Object, group: str, kind: str, status: Object) -> Object:
    found: Object = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": obj.get("metadata") or {}}
    if "spec" in obj:
        found["spec"] = obj["spec"]
    found["status"] = status
    return found
