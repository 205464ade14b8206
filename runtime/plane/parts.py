"""Which controllers of the library a plane runs, under the names that kube-controller-manager's --controllers has."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class Part:
    """A module of the library and those of its actors that run."""

    module: str
    actors: tuple[str, ...]


CONTROLLERS: dict[str, Part] = {
    "replicaset-controller": Part("kubernetes.replicaset", ("ReplicaSetController",)),
    "deployment-controller": Part("kubernetes.deployment", ("DeploymentController",)),
    "statefulset-controller": Part("kubernetes.statefulset", ("StatefulSetController",)),
    "daemonset-controller": Part("kubernetes.daemonset", ("DaemonSetController",)),
    "job-controller": Part("kubernetes.job", ("JobController", "JobExpiry")),
    "cronjob-controller": Part("kubernetes.cronjob", ("CronJobController",)),
}
"""By name, in the order in which they start."""


class UnknownController(ValueError):
    """A name that no controller has."""


def chosen(words: Sequence[str]) -> tuple[str, ...]:
    """`*` is all, `name` one more, `-name` one less; without `*` only those named. UnknownController."""
    found = dict.fromkeys(CONTROLLERS) if "*" in words or all(word.startswith("-") for word in words) else {}
    for word in words:
        name = word.removeprefix("-")
        if name == "*":
            continue
        if name not in CONTROLLERS:
            raise UnknownController(f"there is no controller '{name}'; there are: {', '.join(CONTROLLERS)}")
        if word.startswith("-"):
            found.pop(name, None)
        else:
            found[name] = None
    return tuple(name for name in CONTROLLERS if name in found)


def modules(names: Sequence[str]) -> tuple[str, ...]:
    """The modules of these controllers, each once."""
    return tuple(dict.fromkeys(CONTROLLERS[name].module for name in names))
