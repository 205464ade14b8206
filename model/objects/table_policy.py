"""The cells of bindings, admission, flow control, certificates, leases, classes and device claims.

Source: kubernetes pkg/printers/internalversion/printers.go, release 1.34; kube-aggregator for API services.
"""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.strategic import go_text
from dashpot.model.objects.table_text import (
    NONE,
    UNSET,
    Object,
    age,
    at,
    columns,
    condition,
    human,
    meta,
    name,
    spec,
    status,
)


def binding(obj: Object, now: float) -> list[Any]:
    """Role and subjects; RoleBinding and ClusterRoleBinding."""
    role = obj.get("roleRef") or {}
    users, groups, accounts = [], [], []
    for row in obj.get("subjects") or ():
        kind = row.get("kind")
        if kind == "User":
            users.append(row.get("name", ""))
        elif kind == "Group":
            groups.append(row.get("name", ""))
        elif kind == "ServiceAccount":
            accounts.append(f"{row.get('namespace', '')}/{row.get('name', '')}")
    subjects = [", ".join(rows) for rows in (users, groups, accounts)]
    return [name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *subjects]


def webhooks(obj: Object, now: float) -> list[Any]:
    """How many webhooks a configuration has."""
    return [name(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def _policy(obj: Object, now: float, rules: str) -> list[Any]:
    kind = spec(obj).get("paramKind")
    shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [name(obj), len(spec(obj).get(rules) or ()), shown, age(obj, now)]


def validatingpolicy(obj: Object, now: float) -> list[Any]:
    """How many validations, and the kind of its parameters."""
    return _policy(obj, now, "validations")


def mutatingpolicy(obj: Object, now: float) -> list[Any]:
    """How many mutations, and the kind of its parameters."""
    return _policy(obj, now, "mutations")


def policybinding(obj: Object, now: float) -> list[Any]:
    """Policy and parameters."""
    reference = spec(obj).get("paramRef") or {}
    shown = UNSET
    if reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        shown = _go_selector(reference["selector"])
    return [name(obj), spec(obj).get("policyName", ""), shown, age(obj, now)]


def _go_selector(found: Object) -> str:
    """A LabelSelector as its generated String method prints it."""
    rows = "".join(
        "LabelSelectorRequirement{"
        f"Key:{row.get('key', '')},Operator:{row.get('operator', '')},Values:{go_text(row.get('values') or [])},}},"
        for row in found.get("matchExpressions") or ()
    )
    chosen = "".join(f"{key}: {value}," for key, value in sorted((found.get("matchLabels") or {}).items()))
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{chosen}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{rows}}},}}"
    )


def certificate(obj: Object, now: float) -> list[Any]:
    """Signer, requestor, duration, state of a signing request."""
    wanted = spec(obj)
    duration = wanted.get("expirationSeconds")
    return [
        name(obj),
        age(obj, now),
        wanted.get("signerName") or NONE,
        wanted.get("username", ""),
        NONE if duration is None else human(duration),
        _certificate_state(obj),
    ]


def _certificate_state(obj: Object) -> str:
    kinds = {row.get("type") for row in status(obj).get("conditions") or ()}
    text = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        text += ",Failed"
    return f"{text},Issued" if status(obj).get("certificate") else text


def trustbundle(obj: Object, now: float) -> list[Any]:
    """Signer."""
    return [name(obj), spec(obj).get("signerName") or NONE]


def lease(obj: Object, now: float) -> list[Any]:
    """Who holds it."""
    return [name(obj), spec(obj).get("holderIdentity") or "", age(obj, now)]


def priorityclass(obj: Object, now: float) -> list[Any]:
    """Value, whether it is the default, preemption."""
    value, default = obj.get("value", 0), bool(obj.get("globalDefault"))
    return [name(obj), value, default, age(obj, now), obj.get("preemptionPolicy") or ""]


def runtimeclass(obj: Object, now: float) -> list[Any]:
    """Handler."""
    return [name(obj), obj.get("handler", ""), age(obj, now)]


def flowschema(obj: Object, now: float) -> list[Any]:
    """Priority level, precedence, how flows are told apart, whether the level is missing."""
    wanted = spec(obj)
    dangling = condition(status(obj).get("conditions") or (), "Dangling")
    return [
        name(obj),
        at(wanted, "priorityLevelConfiguration").get("name", ""),
        wanted.get("matchingPrecedence", 0),
        at(wanted, "distinguisherMethod").get("type") or NONE,
        age(obj, now),
        "?" if dangling is None else dangling.get("status", ""),
    ]


def prioritylevel(obj: Object, now: float) -> list[Any]:
    """Type, seats, queues."""
    wanted = spec(obj)
    limited, queuing = at(wanted, "limited"), at(wanted, "limited", "limitResponse", "queuing")
    shares = limited.get("nominalConcurrencyShares", 0) if limited else NONE
    queues = [queuing.get(key, 0) if queuing else NONE for key in ("queues", "handSize", "queueLengthLimit")]
    return [name(obj), wanted.get("type", ""), shares, *queues, age(obj, now)]


def named(obj: Object, now: float) -> list[Any]:
    """Nothing but the name."""
    return [name(obj), age(obj, now)]


def resourceclaim(obj: Object, now: float) -> list[Any]:
    """Allocated, reserved, pending, deleted."""
    deleted, found = bool(meta(obj).get("deletionTimestamp")), status(obj)
    states = ["deleted"] if deleted else []
    if found.get("allocation") is not None:
        states.append("allocated")
        if found.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [name(obj), ",".join(states), age(obj, now)]


def resourceslice(obj: Object, now: float) -> list[Any]:
    """Node, driver, pool."""
    wanted = spec(obj)
    pool = at(wanted, "pool").get("name", "")
    return [name(obj), wanted.get("nodeName") or "", wanted.get("driver", ""), pool, age(obj, now)]


def apiservice(obj: Object, now: float) -> list[Any]:
    """Which service answers, and whether it does."""
    service = spec(obj).get("service")
    shown = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    found = condition(status(obj).get("conditions") or (), "Available")
    state = "Unknown" if found is None else found.get("status", "")
    if found is not None and state != "True" and found.get("reason"):
        state = f"{state} ({found['reason']})"
    return [name(obj), shown, state, age(obj, now)]


_BINDING = columns("Name Role Age Users* Groups* ServiceAccounts*")
_WEBHOOKS = columns("Name Webhooks:i Age")
_POLICY_BINDING = columns("Name PolicyName ParamRef Age")
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
_FLOW, _RESOURCE = "flowcontrol.apiserver.k8s.io", "resource.k8s.io"

PRINTERS = {
    (_RBAC, "rolebindings"): (_BINDING, binding),
    (_RBAC, "clusterrolebindings"): (_BINDING, binding),
    (_ADMISSION, "mutatingwebhookconfigurations"): (_WEBHOOKS, webhooks),
    (_ADMISSION, "validatingwebhookconfigurations"): (_WEBHOOKS, webhooks),
    (_ADMISSION, "validatingadmissionpolicies"): (columns("Name Validations:i ParamKind Age"), validatingpolicy),
    (_ADMISSION, "mutatingadmissionpolicies"): (columns("Name Mutations:i ParamKind Age"), mutatingpolicy),
    (_ADMISSION, "validatingadmissionpolicybindings"): (_POLICY_BINDING, policybinding),
    (_ADMISSION, "mutatingadmissionpolicybindings"): (_POLICY_BINDING, policybinding),
    ("certificates.k8s.io", "certificatesigningrequests"): (
        columns("Name Age SignerName Requestor RequestedDuration Condition"),
        certificate,
    ),
    ("certificates.k8s.io", "clustertrustbundles"): (columns("Name SignerName"), trustbundle),
    ("coordination.k8s.io", "leases"): (columns("Name Holder Age"), lease),
    ("scheduling.k8s.io", "priorityclasses"): (
        columns("Name Value:i Global-Default:b Age PreemptionPolicy"),
        priorityclass,
    ),
    ("node.k8s.io", "runtimeclasses"): (columns("Name Handler Age"), runtimeclass),
    (_FLOW, "flowschemas"): (
        columns("Name PriorityLevel MatchingPrecedence DistinguisherMethod Age MissingPL"),
        flowschema,
    ),
    (_FLOW, "prioritylevelconfigurations"): (
        columns("Name Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age"),
        prioritylevel,
    ),
    (_RESOURCE, "deviceclasses"): (columns("Name Age"), named),
    (_RESOURCE, "resourceclaimtemplates"): (columns("Name Age"), named),
    (_RESOURCE, "resourceclaims"): (columns("Name State Age"), resourceclaim),
    (_RESOURCE, "resourceslices"): (columns("Name Node Driver Pool Age"), resourceslice),
    ("apiregistration.k8s.io", "apiservices"): (columns("Name Service Available Age"), apiservice),
}
"""Columns and cells by group and plural."""
