"""Admission policies with their bindings and parameters, compiled: which of them a kind of write concerns.

Sources: k8s.io/apiserver pkg/admission/plugin/policy/{generic,matching}, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.admit.base import Attributes, Object
from dashpot.runtime.api.admit.conditions import ConditionError, Expression, Scene
from dashpot.runtime.api.admit.hooks import exempt
from dashpot.runtime.api.admit.matching import (
    REGISTRATION,
    Catalog,
    LabelTest,
    Rule,
    asked,
    label_test,
    match_resource,
    namespace_matches,
    object_matches,
)
from dashpot.runtime.api.view import View

T = TypeVar("T")
REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups whose objects are questions, not writes."""
CANDIDATES_MAX = 4096

KindToResource = Callable[[str, str], Resource | None]
"""`(apiVersion, kind)` of parameters to what serves them."""


class ConfigurationError(Exception):
    """A policy or binding that cannot be applied as it is."""


@frozen(eq=False)
class Match:
    """MatchResources: what is meant, but for what is excluded."""

    rules: tuple[Rule, ...] | None
    """None matches everything (a binding without rules)."""
    excluded: tuple[Rule, ...]
    equivalent: bool
    namespaces: LabelTest | None
    objects: LabelTest | None

    @staticmethod
    def of(source: Object | None, *, everything: bool) -> Match:
        """Reads MatchResources; without rules it matches everything or nothing."""
        source = source or {}
        rules = tuple(Rule.of(rule) for rule in source.get("resourceRules") or ())
        return Match(
            rules or (None if everything else ()),
            tuple(Rule.of(rule) for rule in source.get("excludeResourceRules") or ()),
            source.get("matchPolicy") != "Exact",
            label_test(source.get("namespaceSelector")),
            label_test(source.get("objectSelector")),
        )

    def resource(self, attributes: Attributes, others: Sequence[Resource]) -> Resource | None:
        """The version in which the object is looked at; None where the rules do not match."""
        equivalents = others if self.equivalent else ()
        key = (attributes.operation, asked(attributes), attributes.subresource)
        out = match_resource(self.excluded, *key, equivalents)
        if out is not None and _named(out[1], attributes):
            return None
        if self.rules is None:
            return asked(attributes)
        found = match_resource(self.rules, *key, equivalents)
        return found[0] if found is not None and _named(found[1], attributes) else None

    async def selects(self, attributes: Attributes, view: View) -> bool:
        """Whether the labels match."""
        if not object_matches(self.objects, attributes):
            return False
        return await namespace_matches(self.namespaces, attributes, view)


def _named(names: frozenset[str], attributes: Attributes) -> bool:
    return not names or attributes.name in names


class Variables(Mapping[str, Any]):
    """`variables.NAME`, each evaluated when it is first read; it may use those before it."""

    def __init__(self, expressions: Sequence[tuple[str, Expression]], scene: Scene) -> None:
        self._expressions = dict(expressions)
        self._scene = scene.with_values(variables=self)
        self._known: dict[str, Any] = {}
        self._open: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        if key in self._known:
            return self._known[key]
        if key in self._open:
            raise _failure(f"variable {key} refers to itself")
        expression = self._expressions[key]
        self._open.add(key)
        try:
            value = self._known[key] = expression.value(self._scene)
        except ConditionError as error:
            raise _failure(f"composited variable {key!r} fails to evaluate: {error}") from error
        finally:
            self._open.discard(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)


def _failure(text: str) -> Exception:
    from dashpot.runtime.api import cel

    return cel.EvaluationError(text)


@frozen(eq=False)
class Binding:
    """Where a policy holds, with which parameters, and what follows."""

    name: str
    match: Match
    param_ref: Object | None
    actions: tuple[str, ...]


@frozen(eq=False)
class Policy(Generic[T]):
    """One policy: what it matches, its parameters' kind, its compiled body and its bindings."""

    name: str
    match: Match
    param_kind: Object | None
    fail_open: bool
    body: T
    bindings: tuple[Binding, ...]


class Policies(Generic[T]):
    """All policies of one kind; read again when a policy or a binding has changed."""

    def __init__(
        self,
        view: View,
        plurals: tuple[str, str],
        compile_body: Callable[[Object], T],
        catalog: Catalog | None,
        kinds: KindToResource | None,
    ) -> None:
        self._view, self._plurals, self._compile = view, plurals, compile_body
        self._catalog, self._kinds = catalog, kinds
        self._versions = (-1, -1)
        self._policies: tuple[Policy[T], ...] = ()
        self._bodies: dict[tuple[str, str], T] = {}
        self._interesting: dict[tuple[str, Resource, str], tuple[Policy[T], ...]] = {}

    def candidates(self, attributes: Attributes) -> tuple[Policy[T], ...]:
        """The policies, by name, whose rules can match such a write at all."""
        versions = (
            self._view.version(REGISTRATION, self._plurals[0]),
            self._view.version(REGISTRATION, self._plurals[1]),
        )
        if versions != self._versions:
            self._read()
            self._versions = versions
        key = (attributes.operation, asked(attributes), attributes.subresource)
        found = self._interesting.get(key)
        if found is None:
            if len(self._interesting) >= CANDIDATES_MAX:
                self._interesting.clear()
            found = self._interesting[key] = self._find(*key)
        return found

    def equivalents(self, resource: Resource) -> Sequence[Resource]:
        """The versions in which an object can be looked at."""
        return self._catalog.equivalents(resource) if self._catalog is not None else ()

    def _find(self, operation: str, resource: Resource, subresource: str) -> tuple[Policy[T], ...]:
        if not self._policies or exempt(resource) or resource.group in REVIEWS:
            return ()
        others = self.equivalents(resource)

        def may_match(policy: Policy[T]) -> bool:
            rules = policy.match.rules or ()
            near = others if policy.match.equivalent else ()
            return match_resource(rules, operation, resource, subresource, near) is not None

        return tuple(policy for policy in self._policies if may_match(policy))

    def _read(self) -> None:
        bindings: dict[str, list[Binding]] = {}
        for source in sorted(self._view.list(REGISTRATION, self._plurals[1]), key=_name):
            spec = source.get("spec") or {}
            bindings.setdefault(str(spec.get("policyName") or ""), []).append(
                Binding(
                    _name(source),
                    Match.of(spec.get("matchResources"), everything=True),
                    spec.get("paramRef"),
                    tuple(spec.get("validationActions") or ()),
                )
            )
        bodies: dict[tuple[str, str], T] = {}
        policies = []
        for source in sorted(self._view.list(REGISTRATION, self._plurals[0]), key=_name):
            spec = source.get("spec") or {}
            bound = bindings.get(_name(source))
            if not bound:
                continue
            # Compiling costs a thousand times what comparing does: a policy is compiled again only if it has changed.
            version = (str(source["metadata"].get("uid")), str(source["metadata"].get("resourceVersion")))
            body = self._bodies.get(version) or self._compile(spec)
            bodies[version] = body
            policies.append(
                Policy(
                    _name(source),
                    Match.of(spec.get("matchConstraints"), everything=False),
                    spec.get("paramKind"),
                    spec.get("failurePolicy") == "Ignore",
                    body,
                    tuple(bound),
                )
            )
        self._bodies, self._policies = bodies, tuple(policies)
        self._interesting.clear()

    def params(self, policy: Policy[T], binding: Binding, attributes: Attributes) -> list[Object | None]:
        """The parameters for which the policy is evaluated, one after another; `[None]` where it takes none."""
        kind, ref = policy.param_kind, binding.param_ref
        if not kind or not ref:
            return [None]
        api_version, name = str(kind.get("apiVersion") or ""), str(kind.get("kind") or "")
        resource = self._kinds(api_version, name) if self._kinds is not None else None
        if resource is None:
            raise ConfigurationError(f"failed to find resource referenced by paramKind: '{_gvk(api_version, name)}'")
        namespace = self._param_namespace(resource, ref, attributes)
        group, plural = resource.storage_group, resource.plural
        if ref.get("name"):
            one = self._view.get(group, plural, namespace, ref["name"])
            found = [] if one is None else [one]
        else:
            test = label_test(ref.get("selector"))
            listed = self._view.list(group, plural, namespace if resource.namespaced else None)
            found = [one for one in listed if test is None or test((one["metadata"].get("labels")) or {})]
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return list(found)

    @staticmethod
    def _param_namespace(resource: Resource, ref: Object, attributes: Attributes) -> str:
        given = str(ref.get("namespace") or "")
        if not resource.namespaced:
            if given:
                raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
            return ""
        if not given and not attributes.namespace:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
        return given or attributes.namespace


def _name(source: Object) -> str:
    return str(source["metadata"]["name"])


def _gvk(api_version: str, kind: str) -> str:
    """A GroupVersionKind as Go prints it: `/v1, Kind=ConfigMap`."""
    text = api_version if "/" in api_version else f"/{api_version}"
    return f"{text}, Kind={kind}"
