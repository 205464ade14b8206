"""Webhook configurations, compiled: which webhooks a kind of write concerns is looked up, not searched.

Sources: k8s.io/api/admissionregistration/v1; k8s.io/apiserver pkg/admission/plugin/webhook/generic, release 1.34.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api.admit.base import Attributes, Object
from dashpot.runtime.api.admit.conditions import Conditions
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

TIMEOUT_S = 10
EXEMPT = frozenset(
    {
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)
"""Never shown to webhooks or policies: a broken one could not be repaired."""
REVIEW_VERSIONS = ("v1", "v1beta1")
CANDIDATES_MAX = 4096


def exempt(resource: Resource) -> bool:
    """Whether a resource configures admission itself."""
    return resource.group == REGISTRATION and resource.plural in EXEMPT


@frozen(eq=False)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    name: str
    index: int
    """Its place in the configuration: names may repeat there."""
    client_config: Object
    fail_open: bool
    timeout_s: float
    side_effects: str
    if_needed: bool
    equivalent: bool
    review_version: str
    """The newest form of review that it reads; empty if none that is known."""
    rules: tuple[Rule, ...]
    namespaces: LabelTest | None
    objects: LabelTest | None
    conditions: Conditions | None

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from all others of its kind."""
        return self.configuration, self.index

    def check_dry_run(self) -> None:
        """400 if a dry run would change something outside."""
        if self.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{self.name}" does not support dry run')


def compile_hook(configuration: str, index: int, source: Object) -> Hook:
    """Reads one webhook of a configuration."""
    versions = source.get("admissionReviewVersions") or ("v1",)
    return Hook(
        configuration,
        str(source.get("name") or ""),
        index,
        source.get("clientConfig") or {},
        source.get("failurePolicy") == "Ignore",
        float(source.get("timeoutSeconds") or TIMEOUT_S),
        str(source.get("sideEffects") or "Unknown"),
        source.get("reinvocationPolicy") == "IfNeeded",
        source.get("matchPolicy") != "Exact",
        next((v for v in versions if v in REVIEW_VERSIONS), ""),
        tuple(Rule.of(rule) for rule in source.get("rules") or ()),
        label_test(source.get("namespaceSelector")),
        label_test(source.get("objectSelector")),
        Conditions.of(source.get("matchConditions")),
    )


class Hooks:
    """All webhooks of one kind of configuration; read again when one of them has changed."""

    def __init__(self, view: View, plural: str, catalog: Catalog | None) -> None:
        self._view, self._plural, self._catalog = view, plural, catalog
        self._version = -1
        self.hooks: tuple[Hook, ...] = ()
        self._candidates: dict[tuple[str, Resource, str], tuple[tuple[Hook, Resource], ...]] = {}

    def candidates(self, attributes: Attributes) -> tuple[tuple[Hook, Resource], ...]:
        """The webhooks whose rules match, by name of configuration and in its order; each with the version it wants."""
        version = self._view.version(REGISTRATION, self._plural)
        if version != self._version:
            self._read(version)
        key = (attributes.operation, asked(attributes), attributes.subresource)
        found = self._candidates.get(key)
        if found is None:
            if len(self._candidates) >= CANDIDATES_MAX:
                self._candidates.clear()
            found = self._candidates[key] = tuple(self._find(*key))
        return found

    @property
    def configurations(self) -> set[str]:
        """The names of all configurations."""
        return {hook.configuration for hook in self.hooks}

    def _read(self, version: int) -> None:
        sources = sorted(self._view.list(REGISTRATION, self._plural), key=lambda c: str(c["metadata"]["name"]))
        self.hooks = tuple(
            compile_hook(source["metadata"]["name"], index, hook)
            for source in sources
            for index, hook in enumerate(source.get("webhooks") or ())
        )
        self._candidates.clear()
        self._version = version

    def _find(self, operation: str, resource: Resource, subresource: str) -> list[tuple[Hook, Resource]]:
        if exempt(resource):
            return []
        equivalents: Sequence[Resource] = self._catalog.equivalents(resource) if self._catalog else ()
        found = []
        for hook in self.hooks:
            others = equivalents if hook.equivalent else ()
            match = match_resource(hook.rules, operation, resource, subresource, others)
            if match is not None:
                found.append((hook, match[0]))
        return found

    async def wants(self, hook: Hook, attributes: Attributes) -> bool:
        """Whether the selectors match, too."""
        if not object_matches(hook.objects, attributes):
            return False
        return await namespace_matches(hook.namespaces, attributes, self._view)


async def shown_as(
    attributes: Attributes, target: Resource, catalog: Catalog | None
) -> tuple[Object | None, Object | None]:
    """The new and the old object in the version that a webhook wants; 500 if they cannot be converted."""
    new, old = attributes.object, attributes.old
    if target is attributes.resource or catalog is None or attributes.subresource:
        return new, old
    try:
        shown = await catalog.convert(new, attributes.resource, target) if new is not None else None
        before = await catalog.convert(old, attributes.resource, target) if old is not None else None
    except StatusError as error:
        raise StatusError("InternalError", f"Internal error occurred: {error.message}") from error
    return shown, before
