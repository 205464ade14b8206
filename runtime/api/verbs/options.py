"""The parameters that writes share: dry run, the manager's name, preconditions, propagation."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from dashpot.model.objects.status import StatusError, bad_request
from dashpot.runtime.api import body
from dashpot.runtime.api.exchange import Exchange, Request

Object = dict[str, Any]

_MANAGER_LIMIT = 128


def unsupported(kind: str, path: str, value: str, known: str) -> StatusError:
    """422 for a parameter with a value that it cannot have."""
    told = f'{path}: Unsupported value: "{value}": supported values: {known}'
    return StatusError("Invalid", f'{kind}.meta.k8s.io "" is invalid: {told}', details={"kind": kind})


def dry_run(request: Request, kind: str = "CreateOptions") -> bool:
    """`dryRun=All`; any other value is refused."""
    values = request.all("dryRun")
    for value in values:
        if value != "All":
            raise unsupported(kind, "dryRun", value, '"All"')
    return bool(values)


def manager(request: Request) -> str:
    """Who owns the fields that this request writes: `fieldManager`, else the program in User-Agent."""
    named = request.get("fieldManager")
    if len(named) > _MANAGER_LIMIT:
        raise StatusError(
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Too long: '
            f"may not be more than {_MANAGER_LIMIT} bytes",
        )
    if named and not named.isprintable():
        raise bad_request("fieldManager: Invalid value: should only contain printable characters")
    agent = request.headers.get("user-agent", "")
    return named or agent.partition("/")[0][:_MANAGER_LIMIT] or "unknown"


@frozen
class DeleteOptions:
    """How to delete. `grace` is None where the client left it to the object."""

    grace: int | None = None
    propagation: str = ""
    uid: str | None = None
    revision: str | None = None
    dry_run: bool = False
    unreadable: bool = False
    """Removes a value that cannot be read (ignoreStoreReadErrorWithClusterBreakingPotential)."""
    raw: Object = field(factory=dict)


UNREADABLE = "ignoreStoreReadErrorWithClusterBreakingPotential"
_POLICIES = ("Orphan", "Background", "Foreground")


async def delete_options(exchange: Exchange) -> DeleteOptions:
    """From the body where there is one, else from the query."""
    request = exchange.request
    if await request.read():
        raw, _ = await body.raw_object(exchange)
        if raw.get("kind") not in (None, "DeleteOptions"):
            raise bad_request(f"decoded object cannot be converted to DeleteOptions: {raw.get('kind')}")
    else:
        raw = {}
        if request.get("gracePeriodSeconds"):
            raw["gracePeriodSeconds"] = _number(request.get("gracePeriodSeconds"))
        if request.get("propagationPolicy"):
            raw["propagationPolicy"] = request.get("propagationPolicy")
        if request.get("orphanDependents"):
            raw["orphanDependents"] = request.flag("orphanDependents")
        if request.get(UNREADABLE):
            raw[UNREADABLE] = request.flag(UNREADABLE)
        if request.all("dryRun"):
            raw["dryRun"] = request.all("dryRun")
    return read_delete_options(raw, dry_run(request, "DeleteOptions"))


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def read_delete_options(raw: Object, dry: bool = False) -> DeleteOptions:
    """DeleteOptions v1 as a value; 400 or 422 for what it cannot hold."""
    grace = raw.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise bad_request("gracePeriodSeconds must be a whole number")
    policy = raw.get("propagationPolicy") or ""
    orphan = raw.get("orphanDependents")
    if policy and orphan is not None:
        raise StatusError(
            "Invalid",
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: '
            f'"{policy}": orphanDependents and deletionPropagation cannot be both set',
        )
    if policy and policy not in _POLICIES:
        raise unsupported(
            "DeleteOptions", "propagationPolicy", str(policy), '"Foreground", "Background", "Orphan", "nil"'
        )
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    asked = raw.get("dryRun") or []
    if not isinstance(asked, list) or any(value != "All" for value in asked):
        raise unsupported("DeleteOptions", "dryRun", str(asked), '"All"')
    conditions = raw.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise bad_request("preconditions must be an object")
    unreadable = raw.get(UNREADABLE) or False
    if not isinstance(unreadable, bool):
        raise bad_request(f"{UNREADABLE} must be true or false")
    return DeleteOptions(
        None if grace is None else max(grace, 0) if grace >= 0 else 1,
        policy,
        conditions.get("uid"),
        conditions.get("resourceVersion"),
        dry or bool(asked),
        unreadable,
        raw,
    )
