"""Audit policies: the first rule that matches a request says how much of it is written down.

Source: k8s.io/apiserver pkg/audit/policy, release 1.34.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from attrs import Factory, field, frozen

from dashpot.runtime.api.exchange import Exchange, User

Object = dict[str, Any]

NONE, METADATA, REQUEST, REQUEST_RESPONSE = range(4)
LEVELS = ("None", "Metadata", "Request", "RequestResponse")
RECEIVED, STARTED, COMPLETE, PANIC = "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"
STAGES = (RECEIVED, STARTED, COMPLETE, PANIC)
_LIMIT = 1 << 20


class PolicyError(Exception):
    """The policy file is wrong; the text names the place and the cure."""


@frozen
class Resources:
    """One `resources` entry of a rule; empty names all of the group."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@frozen
class Rule:
    """Who, what and where; what is empty matches everything."""

    level: int
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[Resources, ...] = ()
    namespaces: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    omitted: frozenset[str] = frozenset()
    managed_fields: bool | None = None


@frozen
class Verdict:
    """What is written of one request."""

    level: int
    omitted: frozenset[str] = frozenset()
    managed_fields: bool = True


@frozen
class Policy:
    """Rules in order; what no rule matches is not written."""

    rules: tuple[Rule, ...]
    omitted: frozenset[str] = frozenset()
    omit_managed_fields: bool = False
    _same: dict[Any, Verdict] = field(factory=dict, eq=False)
    _names: bool = field(init=False, default=Factory(lambda self: _asks_names(self.rules), takes_self=True))
    """Whether a rule asks for names of objects."""

    def verdict(self, exchange: Exchange, user: User) -> Verdict:
        """The first rule that matches the request of a user."""
        info = exchange.info
        key = (
            user.name,
            user.groups,
            info.verb,
            info.group,
            info.resource,
            info.subresource,
            info.namespace,
            info.name if self._names else "",
            "" if info.resource_request else info.path,
        )
        found = self._same.get(key)
        if found is None:
            if len(self._same) > 10_000:
                self._same.clear()
            found = self._same[key] = self._decide(exchange, user)
        return found

    def _decide(self, exchange: Exchange, user: User) -> Verdict:
        for rule in self.rules:
            if _matches(rule, exchange, user):
                omit = self.omit_managed_fields if rule.managed_fields is None else rule.managed_fields
                return Verdict(rule.level, rule.omitted | self.omitted, not omit)
        return Verdict(NONE)


def _asks_names(rules: Sequence[Rule]) -> bool:
    return any(entry.names for rule in rules for entry in rule.resources)


def _matches(rule: Rule, exchange: Exchange, user: User) -> bool:
    info = exchange.info
    if rule.users and user.name not in rule.users:
        return False
    if rule.groups and not rule.groups.intersection(user.groups):
        return False
    if rule.verbs and info.verb not in rule.verbs:
        return False
    if not rule.resources and not rule.namespaces and not rule.paths:
        return True
    if info.resource_request:
        if rule.paths and not rule.resources and not rule.namespaces:
            return False
        if rule.namespaces and info.namespace not in rule.namespaces:
            return False
        return not rule.resources or any(_names(entry, exchange) for entry in rule.resources)
    return any(_path(pattern, info.path) for pattern in rule.paths)


def _names(entry: Resources, exchange: Exchange) -> bool:
    info = exchange.info
    if entry.group != info.group:
        return False
    if not entry.resources:
        return True
    combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    for named in entry.resources:
        fits = (
            named in ("*", combined)
            # upstream's `pods/*` means the pods themselves, too
            or (named.endswith("/*") and named[:-2] == info.resource)
            or (info.subresource and named.startswith("*/") and named[2:] == info.subresource)
        )
        if fits and (not entry.names or info.name in entry.names):
            return True
    return False


def _path(pattern: str, path: str) -> bool:
    return pattern in ("*", path) or (pattern.endswith("*") and path.startswith(pattern.rstrip("*")))


def metadata_only() -> Policy:
    """Every request at Metadata level, RequestReceived left out."""
    return Policy((Rule(METADATA),), frozenset({RECEIVED}))


def load(path: Path) -> Policy:
    """Reads a policy file; PolicyError where it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"audit policy '{path}' cannot be read: {error}") from None
    if len(text) > _LIMIT:
        raise PolicyError(f"audit policy '{path}' is longer than {_LIMIT} bytes")
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(f"audit policy '{path}' is no YAML: {' '.join(str(error).split())}") from None
    return parse(raw, str(path))


def parse(raw: Any, where: str) -> Policy:
    """A Policy object; PolicyError names the entry that is wrong."""
    if not isinstance(raw, dict) or raw.get("kind") != "Policy" or raw.get("apiVersion") != "audit.k8s.io/v1":
        raise PolicyError(f"{where}: expected `apiVersion: audit.k8s.io/v1` and `kind: Policy`")
    rules = raw.get("rules")
    if not isinstance(rules, list) or not rules:
        raise PolicyError(f"{where}: `rules` is empty: nothing would be written (write a rule with `level: Metadata`)")
    omitted = _stages(raw.get("omitStages"), f"{where}: omitStages")
    parsed = tuple(_rule(rule, f"{where}: rules[{i}]") for i, rule in enumerate(rules))
    return Policy(parsed, omitted, bool(raw.get("omitManagedFields", False)))


def _rule(raw: Any, where: str) -> Rule:
    if not isinstance(raw, dict):
        raise PolicyError(f"{where}: a rule is an object")
    known = {
        "level",
        "users",
        "userGroups",
        "verbs",
        "resources",
        "namespaces",
        "nonResourceURLs",
        "omitStages",
        "omitManagedFields",
    }
    for name in raw:
        if name not in known:
            raise PolicyError(f"{where}: there is no field '{name}' (there are: {', '.join(sorted(known))})")
    level = raw.get("level")
    if level not in LEVELS:
        raise PolicyError(f"{where}: level {level!r} is none of {', '.join(LEVELS)}")
    if raw.get("nonResourceURLs") and (raw.get("resources") or raw.get("namespaces")):
        raise PolicyError(f"{where}: a rule speaks of resources or of nonResourceURLs, not of both")
    return Rule(
        LEVELS.index(level),
        frozenset(_texts(raw.get("users"), f"{where}.users")),
        frozenset(_texts(raw.get("userGroups"), f"{where}.userGroups")),
        frozenset(_texts(raw.get("verbs"), f"{where}.verbs")),
        tuple(_resources(entry, f"{where}.resources[{i}]") for i, entry in enumerate(raw.get("resources") or ())),
        frozenset(_texts(raw.get("namespaces"), f"{where}.namespaces")),
        tuple(_texts(raw.get("nonResourceURLs"), f"{where}.nonResourceURLs")),
        _stages(raw.get("omitStages"), f"{where}.omitStages"),
        raw.get("omitManagedFields"),
    )


def _resources(raw: Any, where: str) -> Resources:
    if not isinstance(raw, dict):
        raise PolicyError(f"{where}: write `group` and `resources`")
    return Resources(
        str(raw.get("group") or ""),
        tuple(_texts(raw.get("resources"), f"{where}.resources")),
        tuple(_texts(raw.get("resourceNames"), f"{where}.resourceNames")),
    )


def _texts(raw: Any, where: str) -> Sequence[str]:
    if raw is None:
        return ()
    if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
        raise PolicyError(f"{where}: a list of texts was expected")
    return raw


def _stages(raw: Any, where: str) -> frozenset[str]:
    found = frozenset(_texts(raw, where))
    for stage in found:
        if stage not in STAGES:
            raise PolicyError(f"{where}: stage {stage!r} is none of {', '.join(STAGES)}")
    return found
