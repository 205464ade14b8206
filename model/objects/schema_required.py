"""Fields that must be there and values out of closed lists, compiled from the schemas: causes for a 422.

OpenAPI calls every field required that Go always writes; asked for is here only what upstream's validation asks for:
nothing below `status`, no numbers and booleans (absent is 0), no texts that may be empty. Source:
pkg/apis/*/validation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects.schema_enums import ENUMS
from dashpot.model.objects.status import Cause, Object, not_supported, required

Check = Callable[[Any, str | None, list[Cause]], None]
"""Adds causes for a value; without a path it only matters whether there are any."""

_SPARED = frozenset(
    """
    message value apiGroup revision endpoints rules podSelector reason lastTransitionTime key operator userInfo uid
    resource nonResourceURLs verbs sideEffects admissionReviewVersions clientConfig involvedObject metadata regarding
    preference weight subjects apiVersion template jobTemplate containers scaleTargetRef pathType backend topologyKey
    maxSkew whenUnsatisfiable schema served storage names scope versions group handler drivers
    limits counters limitResponse
    """.split()
)
"""Required in OpenAPI, and either fine when absent or asked for by a rule with a text of its own."""

_TOLD_ELSEWHERE = frozenset(
    """
    AppArmorProfile.type ContainerResizePolicy.resourceName ContainerResizePolicy.restartPolicy CSIVolumeSource.driver
    DownwardAPIVolumeFile.path HTTPHeader.name PodOS.name PodReadinessGate.conditionType PodSchedulingGate.name
    ResourceClaim.name SeccompProfile.type ServiceAccountTokenProjection.path
    """.split()
)
"""Required too, but a rule asks for them at another place or with a text of its own."""


def _asked(struct: str, schema: Object) -> set[str]:
    """The fields of a struct that must be there."""
    asked = set(schema.get("required") or ()) - _SPARED
    return {key for key in asked if f"{struct}.{key}" not in _TOLD_ELSEWHERE}


class Checks:
    """Checks by definition name, compiled once; None where a type and all it reaches ask for nothing."""

    def __init__(self, definition: Callable[[str], Object]) -> None:
        self._definition = definition
        self._made: dict[str, Check] = {}

    def named(self, name: str) -> Check:
        """The check of a type."""
        found = self._made.get(name)
        if found is None:
            schema = self._definition(name)
            needed: list[str] = []
            enums: list[tuple[str, tuple[str, ...]]] = []
            parts: dict[str, Check] = {}
            found = self._made[name] = _check(needed, enums, parts)
            self._fill(name.rpartition(".")[2], schema, needed, enums, parts)
        return found

    def _fill(
        self,
        struct: str,
        schema: Object,
        needed: list[str],
        enums: list[tuple[str, tuple[str, ...]]],
        parts: dict[str, Check],
    ) -> None:
        asked = _asked(struct, schema)
        for key, field in (schema.get("properties") or {}).items():
            if key in ("status", "metadata") and struct not in ("PodTemplateSpec", "JobTemplateSpec"):
                continue
            if key in asked and field.get("type") not in ("integer", "boolean", "number"):
                needed.append(key)
            values = ENUMS.get(f"{struct}.{key}")
            if values:
                enums.append((key, values))
            target = field.get("$ref") or (field.get("items") or {}).get("$ref")
            if target and self.asks(target.rpartition("/")[2], ()):
                parts[key] = self.named(target.rpartition("/")[2])

    def asks(self, name: str, above: tuple[str, ...]) -> bool:
        """Whether a type, or one that it reaches, asks for anything."""
        if name in above:
            return False
        schema = self._definition(name)
        struct = name.rpartition(".")[2]
        asked = _asked(struct, schema)
        for key, field in (schema.get("properties") or {}).items():
            if f"{struct}.{key}" in ENUMS:
                return True
            if key in asked and field.get("type") not in ("integer", "boolean", "number"):
                return True
            target = field.get("$ref") or (field.get("items") or {}).get("$ref")
            if target and key not in ("status", "metadata"):
                if self.asks(target.rpartition("/")[2], (*above, name)):
                    return True
        return False


def _check(needed: list[str], enums: list[tuple[str, tuple[str, ...]]], parts: dict[str, Check]) -> Check:
    """The check of one struct; what it is given may still be filled afterwards (recursive types)."""
    part_of = parts.get

    def check(value: Any, path: str | None, causes: list[Cause]) -> None:
        get = value.get
        for key in needed:
            if not get(key):
                found = get(key)
                if found is None or found == "":
                    causes.append(required(f"{path or ''}{key}"))
        for key, values in enums:
            found = get(key)
            if found is not None and found not in values:
                causes.append(not_supported(f"{path or ''}{key}", found, list(values)))
        # whichever is shorter: the fields that there are, or those that ask for something
        rows = parts if len(parts) <= len(value) else value
        for key in rows:
            part = part_of(key)
            if part is None:
                continue
            inner = get(key)
            if not inner:
                continue
            if inner.__class__ is dict:
                part(inner, path if path is None else f"{path}{key}.", causes)
            elif path is None:
                for item in inner:
                    part(item, path, causes)
            else:
                for at, item in enumerate(inner):
                    part(item, f"{path}{key}[{at}].", causes)

    return check
