"""Rules of Jobs: how they restart, count their indexes, judge failures and success, and find their pods.

Source: pkg/apis/batch/validation/validation.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.status import Cause, duplicate, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, find, spelled
from dashpot.runtime.api.rules.selecting import selects
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
INDEXED: Final = "Indexed"
ACTIONS: Final = ["Count", "FailIndex", "FailJob", "Ignore"]
OPERATORS: Final = ["In", "NotIn"]
STATUSES: Final = ["False", "True", "Unknown"]
MANY = 100_000
"""Most pods at once and most failed indexes of an indexed job; above as many completions MANY_AT_ONCE holds."""
MANY_AT_ONCE = 10_000
RULES_MOST = 20
CODES_MOST = 255
INDEXES_LONGEST = 64 * 1024
PREFIX = "batch.kubernetes.io/"


def _bare(path: str, text: str) -> Cause:
    """A cause that shows no value."""
    return Cause(path, f"Invalid value: {text}", "FieldValueInvalid")


def _too_many(path: str, count: int, most: int) -> Cause:
    return Cause(path, f"Too many: {count}: must have at most {most} items", "FieldValueTooMany")


def _quoted(values: list[str]) -> str:
    return "valid values: [" + " ".join(f'"{value}"' for value in values) + "]"


def _chosen(path: str, value: Any, values: list[str]) -> list[Cause]:
    """What is wrong with a value that has to be one of several."""
    if not value:
        return [required(path, _quoted(values))]
    return [] if value in values else [not_supported(path, value, values)]


def _restart(entry: Object) -> Check:
    """Pods of a job are not restarted always; where failures are judged, never."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = find(value, "template.spec.restartPolicy") or "Always"
        path = spelled(trail, "template.spec.restartPolicy")
        if found == "Always":
            scene.causes.append(required(path, 'valid values: "OnFailure", "Never"'))
        elif found not in ("OnFailure", "Never"):
            scene.causes.append(not_supported(path, found, ["OnFailure", "Never"]))
        elif value.get("podFailurePolicy") is not None and found != "Never":
            scene.causes.append(
                invalid_value(path, found, 'only "Never" is supported when podFailurePolicy is specified')
            )

    return check


def _replacement(entry: Object) -> Check:
    """When the pods of a job are replaced."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = value.get("podReplacementPolicy")
        known = ["Failed"] if value.get("podFailurePolicy") is not None else ["Failed", "TerminatingOrFailed"]
        if found is not None and found not in known:
            scene.causes.append(not_supported(spelled(trail, "podReplacementPolicy"), found, known))

    return check


def _indexes(entry: Object) -> Check:
    """The numbers of an indexed job, and what a job without indexes may not say."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        failed, each = value.get("maxFailedIndexes"), value.get("backoffLimitPerIndex")
        if failed is not None and each is None:
            path = spelled(trail, "backoffLimitPerIndex")
            scene.causes.append(required(path, "when maxFailedIndexes is specified"))
        if value.get("completionMode", "NonIndexed") == "NonIndexed":
            for name, found in (("backoffLimitPerIndex", each), ("maxFailedIndexes", failed)):
                if found is not None:
                    scene.causes.append(invalid_value(spelled(trail, name), found, "requires indexed completion mode"))
        elif value.get("completionMode") == INDEXED:
            for name, found, text in _excess(value):
                scene.causes.append(invalid_value(spelled(trail, name), found, text))
            if (value.get("completions") or 0) > MANY and each is not None and failed is None:
                text = f"must be specified when completions is above {MANY}"
                scene.causes.append(required(spelled(trail, "maxFailedIndexes"), text))

    return check


def _excess(spec: Object) -> list[tuple[str, int, str]]:
    """The numbers of an indexed job that are too large: field, number, why."""
    wrong: list[tuple[str, int, str]] = []
    total, failed, at_once = spec.get("completions"), spec.get("maxFailedIndexes"), spec.get("parallelism")
    if at_once is not None and at_once > MANY:
        wrong.append(
            ("parallelism", at_once, f"must be less than or equal to {MANY} when completion mode is {INDEXED}")
        )
    if failed is not None and total is not None and failed > total:
        wrong.append(("maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > MANY:
        wrong.append(("maxFailedIndexes", failed, f"must be less than or equal to {MANY}"))
    if total is not None and total > MANY and spec.get("backoffLimitPerIndex") is not None:
        text = f"when completions are above {MANY} and used with backoff limit per index"
        for name, found in (("parallelism", at_once), ("maxFailedIndexes", failed)):
            if found is not None and found > MANY_AT_ONCE:
                wrong.append((name, found, f"must be less than or equal to {MANY_AT_ONCE} {text}"))
    return wrong


def _hostname(entry: Object) -> Check:
    """The pods of an indexed job are named after it, with their index: the longest of these names is a label."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        spec = value.get("spec") or {}
        total = spec.get("completions")
        if spec.get("completionMode") != INDEXED or type(total) is not int or total < 1:
            return
        name = find(value, "metadata.name") or ""
        longest = f"{name}-{total - 1}"
        if names.dns_label(longest):
            text = f"will not able to create pod with invalid DNS label: {longest}"
            scene.causes.append(invalid_value("metadata.name", name, text))

    return check


def _failures(entry: Object) -> Check:
    """A podFailurePolicy."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        policy = value.get("podFailurePolicy")
        if policy is None:
            return
        path, rules = spelled(trail, "podFailurePolicy.rules"), policy.get("rules") or []
        if len(rules) > RULES_MOST:
            scene.causes.append(_too_many(path, len(rules), RULES_MOST))
        pod = find(value, "template.spec") or {}
        containers = {one.get("name") for kind in ("containers", "initContainers") for one in pod.get(kind) or ()}
        for at, rule in enumerate(rules):
            scene.causes.extend(_failure(rule, value, f"{path}[{at}]", containers))

    return check


def _failure(rule: Object, spec: Object, path: str, containers: set[Any]) -> list[Cause]:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or []
    causes = _chosen(f"{path}.action", action, ACTIONS)
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        text = "requires the backoffLimitPerIndex to be set"
        causes.append(invalid_value(f"{path}.action", action, text))
    if codes is not None:
        causes += _exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(conditions) > RULES_MOST:
        causes.append(_too_many(f"{path}.onPodConditions", len(conditions), RULES_MOST))
    for at, pattern in enumerate(conditions):
        where, kind = f"{path}.onPodConditions[{at}]", pattern.get("type") or ""
        causes += [invalid_value(f"{where}.type", kind, text) for text in names.qualified(kind)]
        causes += _chosen(f"{where}.status", pattern.get("status"), STATUSES)
    if codes is not None and conditions:
        causes.append(_bare(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        causes.append(_bare(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return causes


def _exit_codes(codes: Object, path: str, containers: set[Any]) -> list[Cause]:
    operator, values, name = codes.get("operator"), codes.get("values") or [], codes.get("containerName")
    causes = _chosen(f"{path}.operator", operator, OPERATORS)
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid_value(f"{path}.containerName", name, text))
    if not values:
        causes.append(invalid_value(f"{path}.values", values, "at least one value is required"))
    elif len(values) > CODES_MOST:
        causes.append(_too_many(f"{path}.values", len(values), CODES_MOST))
    seen: set[Any] = set()
    for at, code in enumerate(values):
        if operator == "In" and code == 0:
            causes.append(invalid_value(f"{path}.values[{at}]", code, "must not be 0 for the In operator"))
        if code in seen:
            causes.append(duplicate(f"{path}.values[{at}]", code))
        seen.add(code)
    if any(left > right for left, right in pairwise(values)):
        causes.append(invalid_value(f"{path}.values", values, "must be ordered"))
    return causes


def _success(entry: Object) -> Check:
    """A successPolicy, which only an indexed job has."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        policy = value.get("successPolicy")
        if policy is None:
            return
        path = spelled(trail, "successPolicy")
        if value.get("completionMode") != INDEXED:
            scene.causes.append(invalid_value(path, policy, "requires indexed completion mode"))
            return
        rules = policy.get("rules") or []
        if not rules:
            text = "at least one rules must be specified when the successPolicy is specified"
            scene.causes.append(required(f"{path}.rules", text))
        if len(rules) > RULES_MOST:
            scene.causes.append(_too_many(f"{path}.rules", len(rules), RULES_MOST))
        for at, rule in enumerate(rules):
            scene.causes.extend(_succeeded(rule, value.get("completions") or 0, f"{path}.rules[{at}]"))

    return check


def _succeeded(rule: Object, completions: int, path: str) -> list[Cause]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required(path, "at least one of succeededCount or succeededIndexes must be specified")]
    causes: list[Cause] = []
    total, where = 0, f"{path}.succeededIndexes"
    if indexes is not None:
        if len(indexes) > INDEXES_LONGEST:
            text = f"Too long: may not be more than {INDEXES_LONGEST} bytes"
            causes.append(Cause(where, text, "FieldValueTooLong"))
        total, wrong = counted(indexes, completions)
        if wrong:
            causes.append(invalid_value(where, indexes, f"error parsing succeededIndexes: {wrong}"))
    if count is not None:
        where = f"{path}.succeededCount"
        if count < 0:
            causes.append(invalid_value(where, count, "must be greater than or equal to 0"))
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        if count > completions:
            causes.append(invalid_value(where, count, text))
        text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        if indexes is not None and count > total:
            causes.append(invalid_value(where, count, text))
    return causes


def counted(text: str, completions: int) -> tuple[int, str]:
    """How many indexes a text like `0-2,5` names, and what is wrong with it (empty: nothing; then they count)."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            why = "violates the requirement that an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{part}" {why}'
        for end in ends:
            if not (end.isascii() and end.isdigit()) or len(end) > 10:
                return 0, f'cannot convert string to integer for index: "{end}"'
            if int(end) >= completions:
                return 0, f'too large index: "{end}"'
        first, final = int(ends[0]), int(ends[-1])
        if len(ends) == 2 and first >= final:
            return 0, f"non-increasing order, previous: {first}, current: {final}"
        if last is not None and last >= first:
            return 0, f"non-increasing order, previous: {last}, current: {first}"
        total, last = total + final - first + 1, final
    return total, ""


def _generated(entry: Object) -> Check:
    """Without manualSelector the selector and the labels of the pods are those that the server makes."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        meta, spec = value.get("metadata") or {}, value.get("spec") or {}
        if spec.get("manualSelector") or not spec.get("selector"):
            return
        made = {"controller-uid": meta.get("uid", ""), "job-name": meta.get("name", "")}
        made |= {f"{PREFIX}{name}": text for name, text in made.items()}
        labels = find(spec, "template.metadata.labels") or {}
        for name, text in made.items():
            path = f"spec.template.metadata.labels[{name}]"
            if name not in labels:
                scene.causes.append(required(path, f"must be '{text}'"))
            elif labels[name] != text:
                scene.causes.append(invalid_value(path, labels, f"must be '{text}'"))
        if not selects(spec["selector"], made):
            scene.causes.append(invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated"))

    return check


JOB_CALLS: dict[str, Callable[[Object], Check]] = {
    "jobRestart": _restart,
    "jobReplacement": _replacement,
    "jobIndexes": _indexes,
    "jobHostname": _hostname,
    "jobFailures": _failures,
    "jobSuccess": _success,
    "jobGenerated": _generated,
}
