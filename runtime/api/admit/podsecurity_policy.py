"""Which level of PodSecurity a namespace asks for, by its labels, and what a pod breaks of it.

Source: k8s.io/pod-security-admission api/helpers.go, policy/registry.go, release 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from attrs import field, frozen

from dashpot.model.objects.status import Cause, invalid_value
from dashpot.runtime.api.admit import podsecurity_baseline, podsecurity_restricted
from dashpot.runtime.api.admit.podsecurity_spec import LATEST, PRIVILEGED, RESTRICTED, Finding, Look, Object

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
LEVELS = ("privileged", "baseline", "restricted")
VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII)


@frozen
class Level:
    """A level as of a version: `restricted:v1.24`."""

    name: str = PRIVILEGED
    version: tuple[int, int] = LATEST

    def __str__(self) -> str:
        return f"{self.name}:latest" if self.version == LATEST else f"{self.name}:v1.{self.version[1]}"

    @property
    def full(self) -> bool:
        """Whether anything goes."""
        return self.name == PRIVILEGED


@frozen
class Policy:
    """What a namespace asks for."""

    enforce: Level = field(factory=Level)
    audit: Level = field(factory=Level)
    warn: Level = field(factory=Level)
    errors: tuple[Cause, ...] = ()
    """Labels that say nothing known."""

    @property
    def full(self) -> bool:
        """Whether anything goes, silently."""
        return self.enforce.full and self.audit.full and self.warn.full


NOTHING = Policy()


def policy_of(labels: Mapping[str, str] | None) -> Policy:
    """Reads the labels of a namespace."""
    found = tuple((k, v) for k, v in labels.items() if k.startswith(PREFIX)) if labels else ()
    return _read(found) if found else NOTHING


@cache
def _read(labels: tuple[tuple[str, str], ...]) -> Policy:
    given = dict(labels)
    errors: list[Cause] = []
    levels = {}
    for mode in MODES:
        # An unknown level to enforce is taken as the strictest, so that a slip of the pen opens nothing.
        fallback = RESTRICTED if mode == "enforce" else PRIVILEGED
        name = given.get(PREFIX + mode, PRIVILEGED)
        if name not in LEVELS:
            detail = f"must be one of {', '.join(LEVELS)}"
            errors.append(invalid_value(f"metadata.labels[{PREFIX}{mode}]", name, detail))
            name = fallback
        text = given.get(f"{PREFIX}{mode}-version", "latest")
        match = VERSION.fullmatch(text)
        if match is None and text != "latest":
            detail = 'must be "latest" or "v1.x"'
            errors.append(invalid_value(f"metadata.labels[{PREFIX}{mode}-version]", text, detail))
        version = (1, int(match[1][:9])) if match is not None else LATEST
        levels[mode] = Level(name, version)
    return Policy(levels["enforce"], levels["audit"], levels["warn"], tuple(errors))


@cache
def _looks(level: Level) -> tuple[Look, ...]:
    """The rules of a level, baseline before restricted, each in order of its name."""
    chosen = list(podsecurity_baseline.CHECKS)
    replaced: set[str] = set()
    if level.name == RESTRICTED:
        for check in podsecurity_restricted.CHECKS:
            if check.at(level.version) is not None:
                chosen.append(check)
                replaced.update(check.overrides)
    looks = (check.at(level.version) for check in chosen if check.id not in replaced)
    return tuple(look for look in looks if look is not None)


def findings(level: Level, metadata: Object, spec: Object) -> list[Finding]:
    """All that a pod breaks of a level."""
    if level.full:
        return []
    return [found for look in _looks(level) if (found := look(metadata, spec)) is not None]


def told(level: Level, found: list[Finding]) -> str:
    """`PodSecurity "restricted:latest": host namespaces (hostPID=true), …`."""
    return f'PodSecurity "{level}": {", ".join(map(str, found))}'
