"""Random objects of built-in kinds: mostly what their schema says, sometimes not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dashpot.model.objects.registry import builtin

Object = dict[str, Any]

WORDS = st.sampled_from(
    [
        "",
        "a",
        "web",
        "1",
        "100m",
        "1Gi",
        "2026-01-01T00:00:00Z",
        "YQ==",
        "RollingUpdate",
        "ClusterIP",
        "Pod",
        "Container",
    ]
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
DEEPEST = 7
WANTED = frozenset(
    ("spec", "template", "jobTemplate", "containers", "env", "ports", "volumes", "resources", "webhooks", "limits")
)
"""Fields that are always there: what has most rules lies below them."""


def sample(name: str, draw: Any, *, wild: int = 1, depth: int = 0) -> Object:
    """An object of a type by its definition; of ten values `wild` are anything."""
    found: Object = {}
    for key, field in (builtin().definition(name).get("properties") or {}).items():
        if key not in WANTED and draw(st.integers(0, 9)) < 7:
            continue
        found[key] = draw(ANY) if draw(st.integers(0, 9)) < wild else value(field, draw, wild, depth)
    return found


def value(schema: Object, draw: Any, wild: int, depth: int) -> Any:
    """A value of a schema."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = builtin().definition(name)
        if "properties" in target:
            return sample(name, draw, wild=wild, depth=depth + 1) if depth < DEEPEST else {}
        schema = target
    kind, form = schema.get("type"), schema.get("format")
    if form == "quantity":
        return draw(st.sampled_from(["1", "0", "100m", "1Gi", 5, "0.5"]))
    if form == "int-or-string":
        return draw(st.sampled_from([0, 80, "25%", "web"]))
    if form == "date-time":
        return "2026-01-01T00:00:00.000000Z"
    if kind == "array":
        return [value(schema["items"], draw, wild, depth + 1) for _ in range(draw(st.integers(0, 2)))]
    if kind == "object" and "additionalProperties" in schema:
        return {
            key: value(schema["additionalProperties"], draw, wild, depth + 1)
            for key in draw(st.sets(WORDS, max_size=2))
        }
    if kind == "string":
        return "YQ==" if form == "byte" else draw(WORDS)
    if kind == "boolean":
        return draw(st.booleans())
    return draw(st.integers(0, 100)) if kind in ("integer", "number") else draw(ANY)
