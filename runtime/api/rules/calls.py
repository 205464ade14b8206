"""Rules that fit no common form, by the name that rules.json gives as `call`: workloads and expressions.

Sources: pkg/apis/{apps,batch,core,rbac}/validation, k8s.io/apiserver pkg/admission, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashpot.model.objects.defaults import definition
from dashpot.model.objects.status import Cause, forbidden_field, invalid_value, required
from dashpot.runtime.api import cel
from dashpot.runtime.api.crd.structural import validate_definition, validate_definition_update, validate_url
from dashpot.runtime.api.rules.addressing import ADDRESS_CALLS
from dashpot.runtime.api.rules.amounts import AMOUNT_CALLS
from dashpot.runtime.api.rules.happenings import EVENT_CALLS
from dashpot.runtime.api.rules.jobs import JOB_CALLS
from dashpot.runtime.api.rules.network import NETWORK_CALLS
from dashpot.runtime.api.rules.place import Trail, find, same, spelled
from dashpot.runtime.api.rules.pods import POD_CALLS
from dashpot.runtime.api.rules.scaling import SCALING_CALLS
from dashpot.runtime.api.rules.selecting import selects
from dashpot.runtime.api.rules.storage import STORAGE_CALLS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
ADMISSION = {
    name: "dyn" for name in ("object", "oldObject", "request", "params", "namespaceObject", "variables", "authorizer")
}


def _selector_matches(entry: Object) -> Check:
    """A workload's selector is not empty and selects the labels of its template."""
    kind, message = entry["kind"], entry["message"]
    plain = entry.get("plain", False)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        selector = value.get("selector")
        labels = find(value, "template.metadata.labels") or {}
        if plain:
            if not selector:
                scene.causes.append(required(spelled(trail, "selector")))
                return
            selector = {"matchLabels": selector}
        if not selector:
            if selector is None:
                scene.causes.append(required(spelled(trail, "selector")))
            else:
                text = f"empty selector is invalid for {kind}"
                scene.causes.append(invalid_value(spelled(trail, "selector"), selector, text))
            return
        if not selects(selector, labels):
            where = spelled(trail, "template.metadata.labels")
            scene.causes.append(invalid_value(where, labels, message))

    return check


def _only(entry: Object) -> Check:
    """On update, only the fields in `may` change; the others are forbidden with one text."""
    may, message = frozenset(entry["may"]), entry["message"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None or type(old) is not dict or value == old:
            return
        for name in value.keys() | old.keys():
            if name not in may and not same(value.get(name), old.get(name)):
                scene.causes.append(forbidden_field(spelled(trail), message))
                return

    return check


SCHEDULING = ("nodeSelector", "tolerations", "affinity", "schedulingGates")


def _job_template(entry: Object) -> Check:
    """The template of a job is fixed; but where it is scheduled, while the job is suspended and has not started."""
    message = entry["message"]

    def fixed(template: Any) -> Any:
        spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in SCHEDULING}
        meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
        return {"metadata": meta, "spec": spec}

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None or type(old) is not dict:
            return
        new, was = value.get("template") or {}, old.get("template") or {}
        if new == was or same(new, was):
            return
        status = scene.old.get("status") or {}
        movable = old.get("suspend") and not status.get("startTime")
        if movable and same(fixed(new), fixed(was)):
            return
        scene.causes.append(invalid_value(spelled(trail, "template"), new, message))

    return check


def percent(value: Any) -> int | None:
    """`25%` as 25; None where it is none."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit():
        return int(value[:-1])
    return None


def _int_or_percent(entry: Object) -> Check:
    """`field` is a number of at least 0, or a percentage; `most`: of at most 100 %."""
    fields, most = entry["fields"], entry.get("most", True)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for field in fields:
            found = value.get(field)
            if found is None:
                continue
            where = spelled(trail, field)
            if isinstance(found, str):
                part = percent(found)
                if part is None:
                    text = (
                        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
                        "'93%', regex used for validation is '[0-9]+%')"
                    )
                    scene.causes.append(invalid_value(where, found, text))
                elif most and part > 100:
                    scene.causes.append(invalid_value(where, found, "must not be greater than 100%"))
            elif found < 0:
                scene.causes.append(invalid_value(where, found, "must be greater than or equal to 0"))

    return check


def _not_both_zero(entry: Object) -> Check:
    """A rolling update can move: `field` is not 0 where `other` is."""
    field, other, message = entry["field"], entry["other"], entry["message"]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        zero = [percent(found) == 0 or found == 0 for found in (value.get(field, 0), value.get(other, 0))]
        if all(zero):
            scene.causes.append(invalid_value(spelled(trail, field), value.get(field, 0), message))

    return check


def _expression(entry: Object) -> Check:
    """`field` is a CEL expression over the variables of admission, of the type `result`."""
    field, result = entry["field"], tuple(entry.get("result", ()))

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        text = value.get(field)
        if text is None:
            return
        if not text.strip():
            scene.causes.append(required(spelled(trail, field), f"{field} is not specified"))
            return
        if type(old) is dict and old.get(field) == text:
            return
        try:
            cel.compile(text, ADMISSION, result)
        except cel.CelError as error:
            told = str(error)
            if told.startswith("must evaluate"):
                told = f"compilation failed: {told}"
            scene.causes.append(invalid_value(spelled(trail, field), text, told))

    return check


def _definition(entry: Object) -> Check:
    """A CustomResourceDefinition, as a whole."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        definition(value)
        found = validate_definition(value) if scene.old is None else validate_definition_update(value, scene.old)
        scene.causes.extend(found)

    return check


def _webhook_name(entry: Object) -> Check:
    """The name of a webhook has at least three segments."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        name = value.get("name") or ""
        if not name:
            scene.causes.append(required(spelled(trail, "name")))
        elif len(name.split(".")) < 3:
            text = "should be a domain with at least three segments separated by dots"
            scene.causes.append(invalid_value(spelled(trail, "name"), name, text))

    return check


def _url(entry: Object) -> Check:
    """`url` of a client configuration."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if isinstance(value.get("url"), str):
            scene.causes.extend(validate_url(value["url"], spelled(trail, "url")))

    return check


def _policy_rule(entry: Object) -> Check:
    """A rule of a role: verbs, and resources with groups, or URLs."""
    namespaced = entry.get("namespaced", False)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes: list[Cause] = scene.causes
        if not value.get("verbs"):
            causes.append(required(spelled(trail, "verbs"), "verbs must contain at least one value"))
        urls, resources = value.get("nonResourceURLs"), value.get("resources")
        if urls:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid_value(spelled(trail, "nonResourceURLs"), urls, text))
            if resources or value.get("apiGroups") or value.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid_value(spelled(trail, "nonResourceURLs"), urls, text))
            return
        if not value.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            causes.append(required(spelled(trail, "apiGroups"), text))
        if not resources:
            text = "resource rules must supply at least one resource"
            causes.append(required(spelled(trail, "resources"), text))

    return check


CALLS: dict[str, Callable[[Object], Check]] = {
    "selectorMatches": _selector_matches,
    "only": _only,
    "jobTemplate": _job_template,
    "intOrPercent": _int_or_percent,
    "notBothZero": _not_both_zero,
    "expression": _expression,
    "definition": _definition,
    "webhookName": _webhook_name,
    "url": _url,
    "policyRule": _policy_rule,
    **POD_CALLS,
    **STORAGE_CALLS,
    **AMOUNT_CALLS,
    **JOB_CALLS,
    **NETWORK_CALLS,
    **EVENT_CALLS,
    **SCALING_CALLS,
    **ADDRESS_CALLS,
}
