"""The file of `--faults`: YAML or JSON.

seed: 7                  # any whole number; the same seed gives the same faults
rules:                   # all that match are applied, in this order
  - on: watch            # watch (default) or read (cached reads: a get or list with resourceVersion 0 or N)
    resource: pods       # `pods`, `deployments.apps`, patterns with * and ?; default *
    userAgent: "kube-*"  # pattern of all of it, or of what stands before its first slash; default *
    user: "system:*"     # pattern; default *
    chance: 0.5          # of hitting an event or read; default 1
    after: 10            # so many pass first; default 0
    times: 3             # at most so many hits; default 0, no limit
    delay: [0.1, 0.5]    # one of: delay (seconds, or least and most), drop: true, disconnect: true,
                         # reorder: between (watches overtake each other, each in order; window: seconds),
                         # reorder: within (one watch out of order: Kubernetes never does that),
                         # stale: N (reads: a state up to N revisions old)
"""

from __future__ import annotations

from typing import Any

import yaml

from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.faults_rules import (
    BETWEEN,
    DELAY,
    DISCONNECT,
    DROP,
    READ,
    STALE,
    WATCH,
    WITHIN,
    FaultsError,
    Rule,
    Who,
)
from dashpot.runtime.api.naming import UnknownName, check_pattern

_LIMIT = 1024 * 1024
_ACTIONS = ("delay", "drop", "disconnect", "reorder", "stale")
_KEYS = ("on", "resource", "userAgent", "user", "chance", "after", "times", "window", *_ACTIONS)
_READS = ("delay", "stale")
_LONGEST_S = 3600.0


def parse(text: str, catalog: Catalog | None = None) -> tuple[list[Rule], int]:
    """The rules and the seed that a file's text describes; FaultsError.

    With a catalog the names of resources have to be known, or such as a custom resource may have later.
    """
    if len(text) > _LIMIT:
        raise FaultsError("the file of faults is larger than 1 MiB")
    try:
        _once(yaml.compose(text, yaml.SafeLoader))
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FaultsError(
            f"the file of faults is neither YAML nor JSON: {' '.join(str(error).split())[:200]}"
        ) from None
    if not isinstance(found, dict):
        raise FaultsError("the file of faults has to be a mapping with `rules` and, if you like, `seed`")
    unknown = sorted(str(key) for key in found if key not in ("seed", "rules"))
    if unknown:
        raise FaultsError(f"unknown key {unknown[0]!r}: only `seed` and `rules` stand at the top")
    seed = found.get("seed", 0)
    if not _whole(seed):
        raise FaultsError(f"seed: {seed!r} is no whole number")
    rules = found.get("rules") or []
    if not isinstance(rules, list):
        raise FaultsError("rules: has to be a list")
    made = [_rule(f"rules[{index}]", item) for index, item in enumerate(rules)]
    if catalog is not None:
        for index, rule in enumerate(made):
            try:
                check_pattern(catalog, rule.who.resource)
            except UnknownName as error:
                raise FaultsError(f"rules[{index}].resource: {error}") from None
    return made, seed


def _once(node: yaml.Node | None) -> None:
    """FaultsError where a mapping has a key twice: YAML's readers take the last one without a word."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, yaml.SequenceNode):
            waiting += one.value
        elif isinstance(one, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in one.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys:
                        line = key.start_mark.line + 1
                        raise FaultsError(f"line {line}: the key {key.value!r} stands here twice: remove one")
                    keys.add(key.value)
                waiting.append(value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(where: str, value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise FaultsError(f"{where}: {value!r} is no number from 0 to {most:g}")
    return float(value)


def _pattern(where: str, item: dict[str, Any], key: str) -> str:
    value = item.get(key, "*")
    if not isinstance(value, str):
        raise FaultsError(f"{where}.{key}: {value!r} is no text")
    if not value:
        raise FaultsError(f"{where}.{key}: is empty and fits nothing: write a pattern, or leave it out for all")
    return value


def _rule(where: str, item: Any) -> Rule:
    if not isinstance(item, dict):
        raise FaultsError(f"{where}: has to be a mapping such as {{resource: pods, delay: 0.5}}")
    item = {"on" if key is True else key: value for key, value in item.items()}  # YAML 1.1 reads `on` as true
    unknown = [str(key) for key in item if key not in _KEYS]
    if unknown:
        raise FaultsError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}")
    actions = [key for key in _ACTIONS if item.get(key) not in (None, False)]
    if "window" in item and item.get("reorder") != BETWEEN:
        raise FaultsError(f"{where}.window: belongs to `reorder: between`: remove it, or write that")
    if len(actions) != 1:
        told = " and ".join(actions) or "none"
        raise FaultsError(f"{where}: needs exactly one of {', '.join(_ACTIONS)}; it has {told}")
    on = item.get("on", WATCH)
    on = READ if actions == ["stale"] and "on" not in item else on
    if on not in (WATCH, READ):
        raise FaultsError(f"{where}.on: {on!r} is neither watch nor read")
    if (on == READ) != (actions[0] == "stale") and actions[0] not in _READS:
        raise FaultsError(f"{where}: {actions[0]} is for watches; reads know delay and stale")
    if on == WATCH and actions[0] == "stale":
        raise FaultsError(f"{where}: stale is for reads: write `on: read`")
    who = Who(_pattern(where, item, "resource"), _pattern(where, item, "userAgent"), _pattern(where, item, "user"))
    rule = Rule("", who, on, _number(f"{where}.chance", item.get("chance", 1), 1))
    for key in ("after", "times"):
        value = item.get(key, 0)
        if not _whole(value):
            raise FaultsError(f"{where}.{key}: {value!r} is no whole number from 0 on")
        setattr(rule, key, value)
    _act(where, rule, actions[0], item)
    return rule


def _act(where: str, rule: Rule, action: str, item: dict[str, Any]) -> None:
    value = item[action]
    if action == "delay":
        bounds = value if isinstance(value, list) else [value, value]
        if len(bounds) != 2:
            raise FaultsError(f"{where}.delay: has to be seconds, or [least, most]")
        rule.action = DELAY
        rule.low, rule.high = (_number(f"{where}.delay", bound, _LONGEST_S) for bound in bounds)
        if rule.low > rule.high:
            raise FaultsError(f"{where}.delay: the least ({rule.low:g}) is more than the most ({rule.high:g})")
    elif action == "reorder":
        if value not in (BETWEEN, WITHIN):
            raise FaultsError(f"{where}.reorder: {value!r} is neither between nor within")
        rule.action = value
        rule.high = _number(f"{where}.window", item.get("window", 1), _LONGEST_S) if value == BETWEEN else 0.0
    elif action == "stale":
        if not _whole(value) or value == 0:
            raise FaultsError(f"{where}.stale: {value!r} is no number of revisions from 1 on")
        rule.action, rule.revisions = STALE, value
    elif value is not True:
        raise FaultsError(f"{where}.{action}: write `{action}: true`")
    else:
        rule.action = DROP if action == "drop" else DISCONNECT
