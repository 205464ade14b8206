"""Kubernetes' validation beyond its schemas, as data: rules.json holds one entry for each rule."""

from dashpot.runtime.api.rules.check import Rules, builtin_rules

__all__ = ["Rules", "builtin_rules"]
