"""ResourceQuota: what a write will use is reserved first, in the quota's own status, by compare-and-set.

Writes of a namespace that wait together are checked one by one against the running sum and reserved with one write, so
that a crowd of creates does not conflict with itself. Source: k8s.io/apiserver pkg/admission/plugin/resourcequota,
release 1.34; giving back what a failed write reserved is this server's own (upstream waits for its controller).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from attrs import define, field

from dashpot.model.objects import quantity
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.model.quota.podresources import Amounts, amounts
from dashpot.model.quota.scopes import in_scope, scopes_of
from dashpot.model.quota.usage import Evaluator, evaluator
from dashpot.runtime.api.admit.base import CREATE, UPDATE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.internal import Internal
from dashpot.runtime.api.view import View

TRIES = 8
"""Rounds of compare-and-set before a write is refused with the conflict."""
LATEST_MAX = 4096


@define(eq=False)
class _Work:
    """One write that waits for its reservation; or amounts to give back, by name of quota."""

    attributes: Attributes | None
    measure: Evaluator | None
    back: Mapping[str, Amounts]
    done: asyncio.Future[dict[str, Amounts]]


@define(eq=False)
class _Running:
    """One quota while a batch is checked: hard limits, and what is used with all that was let through."""

    source: Object
    hard: Amounts
    used: Amounts
    changed: bool = False

    @staticmethod
    def of(source: Object) -> _Running:
        """A quota as it stands."""
        status = source.get("status") or {}
        return _Running(source, amounts(status.get("hard")), amounts(status.get("used")))

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.source["metadata"]["name"])


@define
class _Namespace:
    """The writes that wait in one namespace."""

    waiting: list[_Work] = field(factory=list)
    worker: asyncio.Task[None] | None = None


class ResourceQuota(Plugin):
    """Runs last: only what nobody else refuses is reserved."""

    name = "ResourceQuota"

    def __init__(self, view: View, internal: Internal) -> None:
        self._view, self._internal = view, internal
        self._namespaces: dict[str, _Namespace] = {}
        self._latest: dict[tuple[str, str], Object] = {}
        self._version = -1
        self._limited: frozenset[str] = frozenset()
        self._evaluators: dict[Resource, Evaluator | None] = {}

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Writes that can use more of something that is counted."""
        measure = evaluator(resource) if operation in (CREATE, UPDATE) else None
        return measure is not None and (operation, subresource) in measure.writes

    async def validate(self, attributes: Attributes) -> None:
        """Reserves; 403 if a quota does not allow it."""
        version = self._view.version("", "resourcequotas")
        if version != self._version:
            listed = self._view.list("", "resourcequotas")
            self._limited = frozenset(str(quota["metadata"]["namespace"]) for quota in listed)
            self._version = version
        namespace = attributes.namespace
        if namespace not in self._limited:
            return
        reserved = await self._enqueue(namespace, attributes, evaluator(attributes.resource), {})
        if reserved:
            attributes.undo.append(lambda: self._give_back(namespace, reserved))

    async def close(self) -> None:
        """Waits for reservations under way."""
        workers = [one.worker for one in self._namespaces.values() if one.worker is not None]
        await asyncio.gather(*workers, return_exceptions=True)

    async def _give_back(self, namespace: str, reserved: Mapping[str, Amounts]) -> None:
        await self._enqueue(namespace, None, None, reserved)

    async def _enqueue(
        self,
        namespace: str,
        attributes: Attributes | None,
        measure: Evaluator | None,
        back: Mapping[str, Amounts],
    ) -> dict[str, Amounts]:
        """Joins the next batch; answers what was reserved."""
        one = self._namespaces.setdefault(namespace, _Namespace())
        done = asyncio.get_running_loop().create_future()
        one.waiting.append(_Work(attributes, measure, back, done))
        if one.worker is None:
            one.worker = asyncio.create_task(self._work(namespace, one))
        reserved: dict[str, Amounts] = await done
        return reserved

    async def _work(self, namespace: str, one: _Namespace) -> None:
        """Serves batches until nobody waits. A client that went away gets its reservation taken back."""
        while one.waiting:
            batch, one.waiting = one.waiting, []
            try:
                await self._serve(namespace, batch)
            except Exception as error:
                for work in batch:
                    if not work.done.done():
                        work.done.set_exception(error)
        one.worker = None
        del self._namespaces[namespace]

    async def _serve(self, namespace: str, batch: list[_Work]) -> None:
        granted: dict[int, dict[str, Amounts]] = {}
        open_quotas: set[str] | None = None
        for attempt in range(TRIES):
            quotas = [q for q in self._quotas(namespace) if open_quotas is None or q.name in open_quotas]
            round_: dict[int, dict[str, Amounts]] = {}
            for number, work in enumerate(batch):
                if work.done.done() and work.attributes is not None:
                    continue
                try:
                    round_[number] = _apply(quotas, work)
                except StatusError as error:
                    work.done.set_exception(error)
                    await self._unwind(namespace, granted.pop(number, {}))
            failed = await self._write(namespace, [q for q in quotas if q.changed])
            for number, reserved in round_.items():
                kept = {name: delta for name, delta in reserved.items() if name not in failed}
                granted.setdefault(number, {}).update(kept)
            if not failed:
                break
            open_quotas = set(failed)
            final = next((error for error in failed.values() if error.code != 409), None)
            if final is None and attempt == TRIES - 1:
                final = next(iter(failed.values()))
            if final is not None:
                await self._fail(namespace, batch, granted, final)
                return
            await self._refresh(namespace, open_quotas)
        await self._finish(namespace, batch, granted)

    async def _finish(self, namespace: str, batch: list[_Work], granted: dict[int, dict[str, Amounts]]) -> None:
        for number, work in enumerate(batch):
            if not work.done.done():
                work.done.set_result(granted.get(number, {}))
            elif work.done.cancelled() and work.attributes is not None:
                await self._unwind(namespace, granted.get(number, {}))

    async def _fail(
        self, namespace: str, batch: list[_Work], granted: dict[int, dict[str, Amounts]], error: StatusError
    ) -> None:
        for number, work in enumerate(batch):
            if not work.done.done():
                work.done.set_exception(error)
                await self._unwind(namespace, granted.get(number, {}))

    async def _unwind(self, namespace: str, reserved: Mapping[str, Amounts]) -> None:
        """Gives back what some quotas granted before another one refused."""
        if not reserved:
            return
        for _ in range(TRIES):
            quotas = [q for q in self._quotas(namespace) if q.name in reserved]
            for quota in quotas:
                _give(quota, reserved[quota.name])
            failed = await self._write(namespace, [q for q in quotas if q.changed])
            if not failed:
                return
            reserved = {name: reserved[name] for name in failed}
            await self._refresh(namespace, set(failed))

    def _quotas(self, namespace: str) -> list[_Running]:
        """The quotas of a namespace in order of name, each in the newest version that is known."""
        found = []
        for quota in self._view.list("", "resourcequotas", namespace):
            name = quota["metadata"]["name"]
            own = self._latest.get((namespace, name))
            if own is not None:
                same = own["metadata"].get("uid") == quota["metadata"].get("uid")
                if same and _revision(own) > _revision(quota):
                    quota = own
                else:
                    del self._latest[namespace, name]
            found.append(_Running.of(quota))
        found.sort(key=lambda quota: quota.name)
        return found

    async def _write(self, namespace: str, quotas: list[_Running]) -> dict[str, StatusError]:
        """Writes the new sums; answers the quotas that were not written and why: mostly, somebody else was first."""
        failed: dict[str, StatusError] = {}
        for quota in quotas:
            source = quota.source
            used = {name: str(amount) for name, amount in quota.used.items()}
            body = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                **source,
                "status": {**(source.get("status") or {}), "used": used},
            }
            path = f"/api/v1/namespaces/{namespace}/resourcequotas/{quota.name}/status"
            try:
                written = await self._internal.call("PUT", path, body)
            except StatusError as error:
                if error.code != 404:
                    failed[quota.name] = error
                continue
            if len(self._latest) >= LATEST_MAX:
                self._latest.clear()
            self._latest[namespace, quota.name] = written
        return failed

    async def _refresh(self, namespace: str, names: set[str]) -> None:
        for name in names:
            self._latest.pop((namespace, name), None)
            await self._view.fresh("", "resourcequotas", namespace, name)


def _revision(one: Object) -> int:
    text = str(one["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0


def _apply(quotas: list[_Running], work: _Work) -> dict[str, Amounts]:
    """Adds one write to the running sums, or gives back; answers what it took of each quota. 403 if it does not fit."""
    attributes, measure = work.attributes, work.measure
    if attributes is None or measure is None or attributes.object is None:
        for quota in quotas:
            if quota.name in work.back:
                _give(quota, work.back[quota.name])
        return {}
    usage = measure.usage(attributes.object)
    negative = sorted(name for name, amount in usage.items() if amount < quantity.ZERO)
    if negative:
        raise refuse(attributes, f"quota usage is negative for resource(s): {','.join(negative)}")
    deltas: dict[str, Amounts] = {}
    touched: list[tuple[_Running, Amounts]] = []
    for quota in quotas:
        delta = _delta(quota, attributes, measure, usage)
        if delta:
            touched.append((quota, delta))
    for quota, delta in touched:
        _check(quota, delta, attributes)
    for quota, delta in touched:
        deltas[quota.name] = delta
        if not attributes.dry_run:
            quota.used = {**quota.used, **{n: quota.used.get(n, quantity.ZERO) + a for n, a in delta.items()}}
            quota.changed = True
    return {} if attributes.dry_run else deltas


def _delta(quota: _Running, attributes: Attributes, measure: Evaluator, usage: Amounts) -> Amounts:
    """What the write would add to a quota; nothing where the quota does not count it."""
    group, plural = attributes.resource.group, attributes.resource.plural
    requirements = scopes_of(quota.source)
    names = [name for name in quota.hard if measure.covers(name)]
    if not names or not in_scope(requirements, group, plural, attributes.object or {}):
        return {}
    missing = measure.missing(attributes.object or {}, names)
    if missing:
        raise refuse(attributes, f"failed quota: {quota.name}: {missing}")
    if any(name not in quota.used for name in names):
        raise refuse(attributes, f"status unknown for quota: {quota.name}, resources: {','.join(sorted(names))}")
    before: Amounts = {}
    if attributes.operation == UPDATE and attributes.old is not None:
        if in_scope(requirements, group, plural, attributes.old):
            before = measure.usage(attributes.old)
    found: Amounts = {}
    for name in names:
        amount = usage.get(name, quantity.ZERO) - before.get(name, quantity.ZERO)
        if amount > quantity.ZERO:
            found[name] = amount
    return found


def _check(quota: _Running, delta: Amounts, attributes: Attributes) -> None:
    exceeded = [name for name, amount in delta.items() if quota.used[name] + amount > quota.hard[name]]
    if not exceeded:
        return

    def told(of: Amounts) -> str:
        return ",".join(f"{name}={of[name]}" for name in sorted(exceeded))

    raise refuse(
        attributes,
        f"exceeded quota: {quota.name}, requested: {told(delta)}, used: {told(quota.used)}, "
        f"limited: {told(quota.hard)}",
    )


def _give(quota: _Running, delta: Amounts) -> None:
    """Takes a reservation out of the sum, which never falls below 0."""
    for name, amount in delta.items():
        if name in quota.used:
            quota.used = {**quota.used, name: max(quota.used[name] - amount, quantity.ZERO)}
            quota.changed = True
