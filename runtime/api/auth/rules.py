"""Rules of RBAC: what one allows, when one covers another, and how one is told.

Source: k8s.io/component-helpers auth/rbac/validation, pkg/apis/rbac/v1/evaluation_helpers.go and
pkg/registry/rbac/validation/policy_compact.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import field, frozen

from dashpot.model.objects.status import shown
from dashpot.runtime.api.auth.attributes import AuthzAttributes

Object = dict[str, Any]

PIECES_LIMIT = 50_000
"""A role is compared piece by piece; one with more pieces (verbs × groups × resources × names) is refused."""


class TooManyPieces(Exception):
    """A role so wide that comparing it would take too long."""


def _set(source: Object, key: str) -> frozenset[str]:
    return frozenset(source.get(key) or ())


@frozen
class Rule:
    """One PolicyRule, compiled: sets to look into, and the object it came from."""

    source: Object
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    urls: frozenset[str]
    any_verb: bool
    any_group: bool
    any_resource: bool
    prefixes: tuple[str, ...]
    """What stands before the `*` of nonResourceURLs."""

    def matches(self, attributes: AuthzAttributes) -> bool:
        """Whether this rule allows the action if the name fits, too."""
        if not (self.any_verb or attributes.verb in self.verbs):
            return False
        if not attributes.resource_request:
            return attributes.path in self.urls or any(map(attributes.path.startswith, self.prefixes))
        if not (self.any_group or attributes.group in self.groups):
            return False
        if self.any_resource:
            return True
        if not attributes.subresource:
            return attributes.resource in self.resources
        combined = f"{attributes.resource}/{attributes.subresource}"
        return combined in self.resources or f"*/{attributes.subresource}" in self.resources

    def allows(self, attributes: AuthzAttributes) -> bool:
        """Whether this rule alone allows the action."""
        return self.matches(attributes) and (not self.names or attributes.name in self.names)


def compile_rule(source: Object) -> Rule:
    """Makes a rule ready; absent lists are empty."""
    verbs, groups, resources = _set(source, "verbs"), _set(source, "apiGroups"), _set(source, "resources")
    urls = _set(source, "nonResourceURLs")
    prefixes = tuple(url.rstrip("*") for url in sorted(urls) if url.endswith("*"))
    return Rule(
        source,
        verbs,
        groups,
        resources,
        _set(source, "resourceNames"),
        urls,
        "*" in verbs,
        "*" in groups,
        "*" in resources,
        prefixes,
    )


def compile_rules(sources: Iterable[Object] | None) -> tuple[Rule, ...]:
    """The rules of a role."""
    return tuple(compile_rule(source) for source in sources or ())


@frozen
class _Piece:
    """The smallest right: one verb on one resource (perhaps by one name), or on one URL."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str | None = None
    url: str | None = None


def _pieces(rule: Rule) -> Iterator[_Piece]:
    names: Sequence[str | None] = sorted(rule.names) or [None]
    for group in sorted(rule.groups):
        for resource in sorted(rule.resources):
            for verb in sorted(rule.verbs):
                for name in names:
                    yield _Piece(verb, group, resource, name)
    for url in sorted(rule.urls):
        for verb in sorted(rule.verbs):
            yield _Piece(verb, url=url)


def _size(rule: Rule) -> int:
    resources = len(rule.groups) * len(rule.resources) * max(1, len(rule.names))
    return len(rule.verbs) * (resources + len(rule.urls))


def _resource_covered(owner: Rule, resource: str) -> bool:
    if owner.any_resource or resource in owner.resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owner.resources


def _piece_covered(owner: Rule, piece: _Piece) -> bool:
    if not (owner.any_verb or piece.verb in owner.verbs):
        return False
    if piece.url is not None:
        return piece.url in owner.urls or any(map(piece.url.startswith, owner.prefixes))
    if not (owner.any_group or piece.group in owner.groups) or not _resource_covered(owner, piece.resource):
        return False
    return not owner.names or (piece.name is not None and piece.name in owner.names)


def _rule_covered(owner: Rule, rule: Rule) -> bool:
    """Whether one rule of the owner covers a whole rule: the common case, without taking it to pieces."""
    if not (owner.any_verb or rule.verbs <= owner.verbs):
        return False
    if rule.urls and not all(url in owner.urls or any(map(url.startswith, owner.prefixes)) for url in rule.urls):
        return False
    if not (owner.any_group or rule.groups <= owner.groups):
        return False
    if not all(_resource_covered(owner, resource) for resource in rule.resources):
        return False
    return not rule.resources or not owner.names or (bool(rule.names) and rule.names <= owner.names)


def missing(owner_rules: Sequence[Rule], wanted_rules: Iterable[Rule]) -> list[Object]:
    """The rights in `wanted_rules` that `owner_rules` do not give, as small rules; TooManyPieces beyond the limit."""
    lacking: list[Object] = []
    budget = PIECES_LIMIT
    for rule in wanted_rules:
        if any(_rule_covered(owner, rule) for owner in owner_rules):
            continue
        budget -= _size(rule)
        if budget < 0:
            raise TooManyPieces(f"more than {PIECES_LIMIT} combinations of verbs, groups, resources and names")
        for piece in _pieces(rule):
            if not any(_piece_covered(owner, piece) for owner in owner_rules):
                lacking.append(_as_rule(piece))
    return lacking


def covers(owner_rules: Sequence[Object], wanted_rules: Sequence[Object]) -> tuple[bool, list[Object]]:
    """Whether who holds `owner_rules` (PolicyRules) may grant `wanted_rules`, and the rights that are missing."""
    lacking = missing(compile_rules(owner_rules), compile_rules(wanted_rules))
    return not lacking, lacking


def _as_rule(piece: _Piece) -> Object:
    if piece.url is not None:
        return {"verbs": [piece.verb], "nonResourceURLs": [piece.url]}
    found: Object = {"verbs": [piece.verb], "apiGroups": [piece.group], "resources": [piece.resource]}
    if piece.name is not None:
        found["resourceNames"] = [piece.name]
    return found


def compact(rules: Iterable[Object]) -> list[Object]:
    """Joins rules for one resource (and name) that differ in their verbs alone."""
    merged: dict[tuple[str, str, str | None], Object] = {}
    others: list[Object] = []
    for rule in rules:
        groups, resources = rule.get("apiGroups") or [], rule.get("resources") or []
        names = rule.get("resourceNames") or []
        if rule.get("nonResourceURLs") or len(groups) != 1 or len(resources) != 1 or len(names) > 1:
            others.append(rule)
            continue
        key = (groups[0], resources[0], names[0] if names else None)
        known = merged.get(key)
        if known is None:
            merged[key] = {**rule, "verbs": list(rule.get("verbs") or [])}
        else:
            known["verbs"].extend(verb for verb in rule.get("verbs") or [] if verb not in known["verbs"])
    return [*others, *merged.values()]


def told_list(values: Iterable[str]) -> str:
    """Strings as Go's %q prints a slice: `["a" "b"]`."""
    return f"[{' '.join(map(shown, values))}]"


def told(rule: Object) -> str:
    """`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`."""
    names = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("ResourceNames", "resourceNames"),
        ("Verbs", "verbs"),
    )
    parts = [f"{title}:{told_list(rule[key])}" for title, key in names if rule.get(key)]
    return "{" + ", ".join(parts) + "}"


@frozen
class LabelSelector:
    """A compiled metav1.LabelSelector over labels; an invalid one selects nothing."""

    equal: tuple[tuple[str, str], ...] = ()
    expressions: tuple[tuple[str, str, frozenset[str]], ...] = field(default=())

    def selects(self, labels: Object) -> bool:
        """Whether all requirements hold."""
        if not all(labels.get(key) == value for key, value in self.equal):
            return False
        return all(_holds(labels, *expression) for expression in self.expressions)


def _holds(labels: Object, key: str, operator: str, values: frozenset[str]) -> bool:
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    return operator == "DoesNotExist" and key not in labels


def compile_selector(source: Object) -> LabelSelector:
    """A selector of an aggregationRule."""
    expressions = tuple(
        (str(one.get("key")), str(one.get("operator")), frozenset(one.get("values") or ()))
        for one in source.get("matchExpressions") or ()
    )
    return LabelSelector(tuple((source.get("matchLabels") or {}).items()), expressions)
