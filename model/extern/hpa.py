"""What kubernetes.hpa computes: where a metric is asked for, what its answer proposes, limits, conditions and texts.

Source: pkg/controller/podautoscaler/horizontal.go of release 1.34. Times are milliseconds since 1970.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dashpot.model.extern import metrics, replicas
from dashpot.model.extern.metrics import Unmeasured, amount, milli, selector_shown
from dashpot.model.extern.replicas import Proposal, Tolerance
from dashpot.model.extern.workloads import Kept, Object, at, number, written
from dashpot.model.objects import selector as selectors

WINDOW_MS = 300_000
"""--horizontal-pod-autoscaler-downscale-stabilization."""
MATCHED = "recommended size matches current size"
DOWN_STABLE = "recent recommendations were higher than current one, applying the highest recent recommendation"
UP_STABLE = "recent recommendations were lower than current one, applying the lowest recent recommendation"
MOST_CHANGES = 10_000
KEYS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}


def _space(h: Kept) -> str:
    return str(at(h.json, "metadata", "namespace") or "")


def _selector(scale: Kept) -> str:
    return str(at(scale.json, "status", "selector") or "")


def key(h: Kept) -> str:
    """What names an autoscaler among those of all namespaces."""
    return f"{_space(h)}/{at(h.json, 'metadata', 'name')}"


def selects(scale: Kept, pod: Kept) -> bool:
    """Whether the target's selector selects a pod; one that is empty or no selector selects none."""
    text = _selector(scale)
    try:
        return bool(text) and selectors.parse(text).selects(pod.json)
    except selectors.SelectorError:
        return False


def target_missing(h: Kept) -> str:
    """Why there is no scale."""
    ref = at(h.json, "spec", "scaleTargetRef") or {}
    return (
        f'{metrics.plural_of(str(ref.get("apiVersion") or "v1"), str(ref.get("kind")))} "{ref.get("name")}" not found'
    )


# ---------------------------------------------------------------- metrics
def path(h: Kept, scale: Kept, metric: Object) -> str:
    """Where the metric is asked for, below /apis."""
    space, selector = _space(h), _selector(scale)
    kind = metric.get("type")
    source: Object = metric.get(KEYS.get(str(kind), "")) or {}
    named = source.get("metric") or {}
    if kind == "Pods":
        return metrics.pods_path(space, selector, named)
    if kind == "Object":
        return metrics.object_path(space, source.get("describedObject") or {}, named)
    if kind == "External":
        return metrics.external_path(space, named)
    return metrics.resource_path(space, selector)


def proposal(h: Kept, scale: Kept, metric: Object, pods: Iterable[Kept], answer: Kept | None, now: int) -> Object:
    """What a metric proposes: `{replicas, name, status}`, or `{replicas: -1, reason, message, error}`."""
    kind = str(metric.get("type"))
    found = _SOURCES.get(kind)
    if found is None:
        text = f'unknown metric source type "{kind}"'
        return {"replicas": -1, "reason": "InvalidMetricSourceType", "message": text, "error": text}
    reason, propose = found
    source: Object = metric.get(KEYS[kind]) or {}
    asked = _Asked(h, scale, source, [pod.json for pod in pods], None if answer is None else answer.json, now)
    try:
        return propose(asked)
    except Unmeasured as problem:
        text = str(problem)
        return {"replicas": -1, "reason": reason, "message": text, "error": _failed(kind, source, text)}


def _failed(kind: str, source: Object, text: str) -> str:
    """The error of a metric, as the reasons of all metrics name it."""
    name = at(source, "metric", "name")
    what = {
        "Resource": f"{source.get('name')} resource",
        "ContainerResource": f"{source.get('container')} container",
        "External": f"{name} external",
        "Pods": "pods",
        "Object": "object",
    }[kind]
    return f"failed to get {what} metric value: {text}"


class _Asked:
    """One metric of one autoscaler, and all that its proposal depends on."""

    def __init__(
        self, h: Kept, scale: Kept, source: Object, pods: list[Object], answer: Object | None, now: int
    ) -> None:
        self.space = _space(h)
        self.source = source
        self.target: Object = source.get("target") or {}
        self.metric: Object = source.get("metric") or {}
        self.pods = pods
        self.answer = answer
        self.now = now
        self.wanted = number(scale.json, "spec", "replicas")
        self.counted = number(scale.json, "status", "replicas")
        self.tolerance = _tolerance(h)

    def goal(self, name: str) -> int | None:
        """A target in thousandths (as it is, for percent); none that is 0 or less."""
        value = self.target.get(name)
        found = value if name == "averageUtilization" else milli(value)
        return found if isinstance(found, int) and found > 0 else None


def _tolerance(h: Kept) -> Tolerance:
    def told(side: str) -> float:
        found = milli(at(h.json, "spec", "behavior", side, "tolerance"))
        return replicas.TOLERANCE if found is None else found / 1000

    return Tolerance(told("scaleDown"), told("scaleUp"))


def _proposed(made: Proposal, name: str, kind: str, told: Object, current: Object) -> Object:
    status = {"type": kind, KEYS[kind]: {**told, "current": current}}
    return {"replicas": made.replicas, "name": name, "status": status}


def _measured(do: Callable[[], Any], front: str) -> Any:
    """What `do` gives; its failures get `front` before them."""
    try:
        return do()
    except Unmeasured as problem:
        raise Unmeasured(f"{front}: {problem}") from None


def _resource(asked: _Asked, kind: str = "Resource") -> Object:
    name, container = str(asked.source.get("name")), str(asked.source.get("container") or "")
    told: Object = {"name": name, "container": container} if container else {"name": name}
    average, percent = asked.goal("averageValue"), asked.goal("averageUtilization")
    if average is None and percent is None:
        raise Unmeasured(
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target "
            "was set"
        )
    front = f"failed to get {name} {'usage' if average is not None else 'utilization'}"
    missing = f"{front}: unable to get metrics for resource {name}"
    samples = _measured(lambda: metrics.resource_samples(asked.answer, name, container), missing)
    if average is not None:
        made = _measured(
            lambda: replicas.by_average(
                asked.wanted, average, samples, asked.pods, asked.now, resource=name, tolerance=asked.tolerance
            ),
            front,
        )
        return _proposed(made, f"{name} resource", kind, told, {"averageValue": amount(made.value)})
    made = _measured(
        lambda: replicas.by_utilization(
            asked.wanted, percent or 1, name, samples, asked.pods, asked.now,
            container=container, tolerance=asked.tolerance,
        ),
        front,
    )  # fmt: skip
    what = f"{name} {'container ' if container else ''}resource utilization (percentage of request)"
    return _proposed(made, what, kind, told, {"averageUtilization": made.percent, "averageValue": amount(made.value)})


def _container_resource(asked: _Asked) -> Object:
    return _resource(asked, "ContainerResource")


def _each_pod(asked: _Asked) -> Object:
    name, average = str(asked.metric.get("name")), asked.goal("averageValue")
    if average is None:
        raise Unmeasured("invalid pods metric source: no average value target was set")
    samples = _measured(lambda: metrics.custom_samples(asked.answer), f"unable to get metric {name}")
    made = replicas.by_average(asked.wanted, average, samples, asked.pods, asked.now, tolerance=asked.tolerance)
    current = {"averageValue": amount(made.value)}
    return _proposed(made, f"pods metric {name}", "Pods", {"metric": asked.metric}, current)


def _object(asked: _Asked) -> Object:
    name, described = str(asked.metric.get("name")), asked.source.get("describedObject") or {}
    told = {"describedObject": described, "metric": asked.metric}
    where = f"{described.get('kind')} on {asked.space} {described.get('name')}"
    front = f"unable to get metric {name}: {where}"
    kind, goal, average = asked.target.get("type"), asked.goal("value"), asked.goal("averageValue")
    if kind == "Value" and goal is not None:
        value = _measured(lambda: metrics.custom_value(asked.answer), front)
        made = replicas.by_value(asked.wanted, goal, value, asked.pods, asked.tolerance)
        return _proposed(made, f"{described.get('kind')} metric {name}", "Object", told, {"value": amount(made.value)})
    if kind == "AverageValue" and average is not None:
        front = f"failed to get {name} object metric: {front}"
        value = _measured(lambda: metrics.custom_value(asked.answer), front)
        made = replicas.by_share(asked.counted, average, value, asked.tolerance)
        shown = f"external metric {name}({selector_shown(asked.metric.get('selector'))})"
        return _proposed(made, shown, "Object", told, {"averageValue": amount(made.value)})
    raise Unmeasured("invalid object metric source: neither a value target nor an average value target was set")


def _external(asked: _Asked) -> Object:
    name, selector = str(asked.metric.get("name")), selector_shown(asked.metric.get("selector"))
    average, goal = asked.goal("averageValue"), asked.goal("value")
    if average is None and goal is None:
        raise Unmeasured("invalid external metric source: neither a value target nor an average value target was set")
    front = f"failed to get external metric {name}" if average is None else f"failed to get {name} external metric"
    missing = f"{front}: unable to get external metric {asked.space}/{name}/{selector}"
    value = _measured(lambda: metrics.external_value(asked.answer), missing)
    if average is not None:
        made = replicas.by_share(asked.counted, average, value, asked.tolerance)
        current = {"averageValue": amount(made.value)}
    else:
        made = _measured(lambda: replicas.by_value(asked.wanted, goal or 1, value, asked.pods, asked.tolerance), front)
        current = {"value": amount(made.value)}
    return _proposed(made, f"external metric {name}({selector})", "External", {"metric": asked.metric}, current)


_SOURCES: dict[str, tuple[str, Callable[[_Asked], Object]]] = {
    "Resource": ("FailedGetResourceMetric", _resource),
    "ContainerResource": ("FailedGetContainerResourceMetric", _container_resource),
    "Pods": ("FailedGetPodsMetric", _each_pod),
    "Object": ("FailedGetObjectMetric", _object),
    "External": ("FailedGetExternalMetric", _external),
}


def failure(found: Object) -> str:
    """The reason of a proposal that is none; "" of one that is."""
    return str(found.get("reason") or "")


def told(found: Object) -> str:
    """What went wrong with it."""
    return str(found.get("message") or "")


def invalid(found: Sequence[Object]) -> str:
    """What is said where no size can be chosen."""
    bad = [p for p in found if number(p, "replicas") < 0]
    first = bad[0].get("error") if bad else ""
    return f"invalid metrics ({len(bad)} invalid out of {len(found)}), first error is: {first}"


# ---------------------------------------------------------------- selectors of several autoscalers
def selector_of(scale: Kept) -> str:
    """The target's selector, as a text."""
    return _selector(scale)


def unfit(h: Kept, scale: Kept, pods: Iterable[Kept], others: Iterable[Kept], held: Mapping[str, str]) -> Object:
    """What is wrong with the target's selector: `{event, reason, told, message}`; empty where nothing is. `held`: the
    selectors of autoscalers by their keys, of whom `others` are there."""
    text = _selector(scale)
    if not text:
        return {
            "event": "SelectorRequired",
            "reason": "InvalidSelector",
            "told": "selector is required",
            "message": "the HPA target's scale is missing a selector",
        }
    try:
        selectors.parse(text)
    except selectors.SelectorError as problem:
        said = f"couldn't convert selector into a corresponding internal selector object: {problem}"
        return {"event": "InvalidSelector", "reason": "InvalidSelector", "told": said, "message": said}
    chosen = [pod.json for pod in pods]
    names = {key(h)}
    for other in others:
        theirs = held.get(key(other))
        if theirs and theirs != text and not any(selectors.parse(theirs).selects(pod) for pod in chosen):
            continue
        if theirs and chosen:
            names.add(key(other))
    if len(names) < 2:
        return {}
    said = f"pods by selector {text} are controlled by multiple HPAs: [{' '.join(sorted(names))}]"
    return {"event": "AmbiguousSelector", "reason": "AmbiguousSelector", "told": said, "message": said}


def event_of(found: Object) -> str:
    """The reason of the event of an unfit selector; "" where it is fit."""
    return str(found.get("event") or "")


def said(found: Object) -> str:
    """What the event says."""
    return str(found.get("told") or "")


# ---------------------------------------------------------------- windows and rates
def down_window(h: Kept) -> int:
    """For how long (ms) a higher recommendation holds replicas."""
    found = at(h.json, "spec", "behavior", "scaleDown", "stabilizationWindowSeconds")
    return found * 1000 if isinstance(found, int) else WINDOW_MS


def up_window(h: Kept) -> int:
    """For how long (ms) a lower one keeps them from growing."""
    return number(h.json, "spec", "behavior", "scaleUp", "stabilizationWindowSeconds") * 1000


def limited(h: Kept, current: int, stable: int, least: int, most: int, changes: Sequence[Object], now: int) -> int:
    """The size that limits allow, of the one that is wanted."""
    return _limit(h, current, stable, least, most, changes, now)[0]


def _limit(
    h: Kept, current: int, stable: int, least: int, most: int, changes: Sequence[Object], now: int
) -> tuple[int, str, str]:
    """The size, and the reason and message of ScalingLimited."""
    behavior = at(h.json, "spec", "behavior")
    fine = (stable, "DesiredWithinRange", "the desired count is within the acceptable range")
    low, high = (least, most)
    slow_up = slow_down = False
    if behavior is None:
        high, slow_up = _lower(most, max(2 * current, 4))
    elif stable > current:
        high, slow_up = _lower(most, max(current, rate(behavior.get("scaleUp") or {}, current, changes, now, up=True)))
    elif stable < current:
        bound = min(current, rate(behavior.get("scaleDown") or {}, current, changes, now, up=False))
        low, slow_down = (bound, True) if least < bound else (least, False)
    else:
        return fine
    if stable < low and (behavior is None or stable < current):
        if slow_down:
            text = "the desired replica count is decreasing faster than the maximum scale rate"
            return low, "ScaleDownLimit", text
        return low, "TooFewReplicas", "the desired replica count is less than the minimum replica count"
    if stable > high and (behavior is None or stable > current):
        if slow_up:
            return high, "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
        return high, "TooManyReplicas", "the desired replica count is more than the maximum replica count"
    return fine


def _lower(most: int, bound: int) -> tuple[int, bool]:
    return (bound, True) if most > bound else (most, False)


_UP_POLICIES = (
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
)
_DOWN_POLICIES = ({"type": "Percent", "value": 100, "periodSeconds": 15},)


def rate(rules: Object, current: int, changes: Sequence[Object], now: int, *, up: bool) -> int:
    """The most replicas that policies allow, or the fewest: each counts from where its period began."""
    select = rules.get("selectPolicy") or "Max"
    if select == "Disabled":
        return current
    found: list[int] = []
    for policy in rules.get("policies") or (_UP_POLICIES if up else _DOWN_POLICIES):
        since = now - 1000 * number(policy, "periodSeconds")
        begun = current - sum(number(c, "by") for c in changes if number(c, "at") > since)
        value = number(policy, "value")
        if policy.get("type") == "Pods":
            found.append(begun + value if up else begun - value)
        elif up:
            found.append(math.ceil(begun * (1 + value / 100)))
        else:
            found.append(int(begun * (1 - value / 100)))
    return max(found) if up == (select == "Max") else min(found)


def changed(h: Kept, changes: Sequence[Object], had: int, size: int, now: int) -> list[Object]:
    """The changes of size that policies may still count, with a new one."""
    behavior = at(h.json, "spec", "behavior")
    if behavior is None:
        return []
    longest = max(
        (
            number(policy, "periodSeconds")
            for side in ("scaleUp", "scaleDown")
            for policy in at(behavior, side, "policies") or ()
        ),
        default=15,
    )
    kept = [c for c in changes if number(c, "at") > now - 1000 * max(15, longest)]
    return [*kept, {"by": size - had, "at": now}][-MOST_CHANGES:]


# ---------------------------------------------------------------- what people are told
def why(found: Sequence[Object], current: int, least: int, most: int) -> str:
    """Why the size changes."""
    if current > most:
        return "Current number of replicas above Spec.MaxReplicas"
    if current < least:
        return "Current number of replicas below Spec.MinReplicas"
    best = _best(found)
    if best is None or number(best, "replicas") < current:
        return "All metrics below target"
    return f"{best.get('name')} above target" if number(best, "replicas") > current else ""


def _best(found: Sequence[Object]) -> Object | None:
    valid = [p for p in found if number(p, "replicas") >= 0]
    return max(valid, key=lambda p: number(p, "replicas")) if valid else None


def statuses(found: Sequence[Object]) -> list[Object]:
    """What was measured, by metric of the spec."""
    return [p.get("status") or {"type": ""} for p in found]


Condition = tuple[str, bool, str, str]


def condition(conditions: Sequence[Object] | None, type_: str, holds: bool, reason: str, text: str, now: int) -> Any:
    """The conditions with one of them set; the time of its last change moves only with its status."""
    return _set(conditions or (), [(type_, holds, reason, text)], now)


def _set(conditions: Sequence[Object], news: Sequence[Condition], now: int) -> list[Object]:
    made = [dict(one) for one in conditions]
    for type_, holds, reason, text in news:
        status = "True" if holds else "False"
        row = next((one for one in made if one.get("type") == type_), None)
        if row is None:
            row = {"type": type_, "status": "", "lastTransitionTime": None}
            made.append(row)
        if row.get("status") != status:
            row["lastTransitionTime"] = written(now)
        row |= {"status": status, "reason": reason, "message": text}
    return made


_GOT = ("AbleToScale", True, "SucceededGetScale", "the HPA controller was able to get the target's current scale")


def got(h: Kept, now: int) -> list[Object]:
    """The conditions once the scale was read."""
    return _set(at(h.json, "status", "conditions") or (), [_GOT], now)


def conditions(
    h: Kept, found: Sequence[Object], wish: int, stable: int, size: int, current: int, changes: Sequence[Object],
    least: int, most: int, now: int,
) -> list[Object]:  # fmt: skip
    """The conditions after a pass that came to a size; `wish` -1: nothing was measured, limits alone decided."""
    news: list[Condition] = [_GOT]
    if wish >= 0:
        best = _best(found) or {}
        text = f"the HPA was able to successfully calculate a replica count from {best.get('name')}"
        news.append(("ScalingActive", True, "ValidMetricFound", text))
        if stable == wish:
            news.append(("AbleToScale", True, "ReadyForNewScale", MATCHED))
        elif at(h.json, "spec", "behavior") is not None and wish >= current:
            news.append(("AbleToScale", True, "ScaleUpStabilized", UP_STABLE))
        else:
            news.append(("AbleToScale", True, "ScaleDownStabilized", DOWN_STABLE))
        got_to, reason, text = _limit(h, current, stable, least, most, changes, now)
        news.append(("ScalingLimited", got_to != stable, reason, text))
    if size != current:
        text = f"the HPA controller was able to update the target scale to {size}"
        news.append(("AbleToScale", True, "SucceededRescale", text))
    return _set(at(h.json, "status", "conditions") or (), news, now)


def blind(h: Kept, found: Sequence[Object], now: int) -> list[Object]:
    """The conditions of a pass that could not come to a size."""
    bad = next((p for p in found if number(p, "replicas") < 0), {})
    text = f"the HPA was unable to compute the replica count: {bad.get('message')}"
    return _set(at(h.json, "status", "conditions") or (), [_GOT, ("ScalingActive", False, failure(bad), text)], now)


def barred(h: Kept, problem: Object, now: int) -> list[Object]:
    """The conditions where the target's selector is unfit."""
    news = [_GOT, ("ScalingActive", False, str(problem.get("reason")), str(problem.get("message")))]
    return _set(at(h.json, "status", "conditions") or (), news, now)
