"""What the checks of PodSecurity share: walking over containers, and putting names into a sentence.

Source: k8s.io/pod-security-admission policy/{visitor,helpers}.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

Object = dict[str, Any]

BASELINE, RESTRICTED, PRIVILEGED = "baseline", "restricted", "privileged"
LATEST = (1 << 30, 0)
"""Newer than any version."""


@frozen
class Finding:
    """Why a pod breaks a check: `reason (detail)`."""

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Look = Callable[[Object, Object], Finding | None]
"""A check in one version: metadata and spec of a pod."""


@frozen
class Check:
    """One check: its level, since which versions which rules hold, and which checks of baseline it replaces."""

    id: str
    level: str
    versions: tuple[tuple[int, Look], ...]
    """`(minor version of Kubernetes 1, rules)`, in order."""
    overrides: tuple[str, ...] = ()

    def at(self, version: tuple[int, int]) -> Look | None:
        """The rules as of a version; None before the first."""
        found = None
        for minor, look in self.versions:
            if (1, minor) <= version:
                found = look
        return found


def containers(spec: Object) -> Iterator[Object]:
    """All containers: those that initialise, that run, and that debug."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def context(one: Object) -> Object:
    """The security context of a pod or a container."""
    found: Object = one.get("securityContext") or {}
    return found


def quoted(names: Iterable[str]) -> str:
    """`"a", "b"`."""
    return ", ".join(f'"{name}"' for name in names)


def plural(one: str, many: str, count: int) -> str:
    """The word for so many."""
    return one if count == 1 else many


def named(names: Sequence[str], noun: str = "container") -> str:
    """`container "a"`, `containers "a", "b"`."""
    return f"{plural(noun, noun + 's', len(names))} {quoted(names)}"


def setters(pod: bool, bad: Sequence[str]) -> str:
    """Who sets something: `pod and container "a"`; empty if nobody does."""
    return " and ".join((["pod"] if pod else []) + ([named(bad)] if bad else []))


def windows(spec: Object) -> bool:
    """Whether the pod says that it is for Windows, where some settings have no meaning."""
    return (spec.get("os") or {}).get("name") == "windows"
