"""What is counted of each request, at the price of a few attributes.

Labels follow upstream: k8s.io/apiserver pkg/endpoints/metrics/metrics.go, release 1.34. What is asked for and not
served has no labels of its own: a stranger must not fill the memory with names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from attrs import define, field

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.exchange import LOOPBACK, Exchange, Gate, Info, Response
from dashpot.runtime.api.metrics_cells import Cell, Hist, Registry

_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_CONNECT = frozenset({"exec", "attach", "portforward", "proxy"})
_WRITES = frozenset({"create", "update", "patch"})
_READS = frozenset({"get", "list"})
_HEALTH = ("/healthz", "/livez", "/readyz")
_PAGES = frozenset({*_HEALTH, "/metrics", "/version", "/api", "/apis", "/openapi/v2", "/openapi/v3"})
_USERS = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})
_WEBHOOKS = (
    "admission/MutatingAdmissionWebhook/admit",
    "admission/ValidatingAdmissionWebhook/validate",
)
_CODES = {code: str(code) for code in (200, 201, 202, 304, 400, 401, 403, 404, 405, 409, 410, 415, 422, 429, 500, 504)}


@define(eq=False)
class Lane:
    """The cells of all requests with the same labels."""

    labels: tuple[str, ...]
    """REQUEST: verb, dry_run, group, version, resource, subresource, scope, component."""
    duration: Hist
    sli: Hist
    micro: Hist
    running: Cell
    size: Hist | None
    body: Hist | None
    codes: dict[int, Cell] = field(factory=dict)


class Requests:
    """Counts requests. `known` says whether a resource (group, version, resource, subresource) is served."""

    def __init__(self, registry: Registry, known: Callable[[str, str, str, str], bool]) -> None:
        self._registry = registry
        self._known = known
        self._lanes: dict[tuple[str, ...], Lane] = {}
        self._strangers: dict[tuple[str, ...], Lane] = {}
        self._users = registry["authenticated_user_requests"]
        self._other = self._users.cell("other")
        self._steps: dict[tuple[str, str, bool], tuple[Hist, Hist]] = {}
        self._self = registry["apiserver_selfrequest_total"]
        self._validation = {
            mode: registry["field_validation_request_duration_seconds"].hist(mode)
            for mode in ("Ignore", "Warn", "Strict")
        }

    # -- one request --------------------------------------------------------------------------------------------

    def started(self, exchange: Exchange) -> None:
        """A watch or stream has begun."""
        self._lane(exchange).running.value += 1

    def ended(self, exchange: Exchange, response: Response, seconds: float) -> None:
        """A request was answered, or its stream has ended."""
        lane = self._lane(exchange)
        code = response.code
        counter = lane.codes.get(code)
        if counter is None:
            counter = lane.codes[code] = self._registry["apiserver_request_total"].cell(*lane.labels, str(code))
        counter.value += 1
        self._user(exchange, lane)
        if exchange.info.long_running:
            if response.chunks is not None or response.upgrade is not None:
                lane.running.value -= 1
            return
        marks = exchange.marks
        lane.duration.observe(seconds)
        lane.micro.observe(seconds * 1e6)
        lane.sli.observe(max(0.0, seconds - _elsewhere(marks)) if marks else seconds)
        if lane.size is not None:
            pieces = response.pieces
            lane.size.observe(len(response.body) if pieces is None else sum(map(len, pieces)))
        if lane.body is not None:
            self._written(exchange, lane, code >= 400, seconds)
        if code >= 429:
            self._ended_early(exchange, lane, code)

    def _user(self, exchange: Exchange, lane: Lane) -> None:
        name = exchange.user.name
        if name in _USERS:
            self._users.cell(name).value += 1
        elif "@" in name:
            self._users.cell("email_id").value += 1
        else:
            self._other.value += 1
        if exchange.user is LOOPBACK:
            verb, _, group, _, resource, subresource, _, _ = lane.labels
            self._self.cell(verb, group, resource, subresource).value += 1

    def _written(self, exchange: Exchange, lane: Lane, failed: bool, seconds: float) -> None:
        """What only writes have: a body, field validation, admission."""
        request = exchange.request
        length = request.headers.get("content-length", "")
        if length and lane.body is not None:
            lane.body.observe(int(length) if length.isdecimal() else 0)
        mode = request.get("fieldValidation") if request.query else ""
        hist = self._validation.get(mode or "Warn")
        if hist is not None:
            hist.observe(seconds)
        admit = validate = 0.0
        for mark, took in exchange.marks.items():
            if mark.startswith("admission/"):
                if mark.endswith("/admit"):
                    admit += took
                else:
                    validate += took
        if admit or validate:
            operation = "CREATE" if exchange.info.verb == "create" else "UPDATE"
            for step, took in (("admit", admit), ("validate", validate)):
                if took:
                    self._step(step, operation, failed, took)

    def _step(self, step: str, operation: str, failed: bool, seconds: float) -> None:
        key = (step, operation, failed)
        found = self._steps.get(key)
        if found is None:
            labels = (step, operation, "true" if failed else "false")
            name = "apiserver_admission_step_admission_duration_seconds"
            registry = self._registry
            found = self._steps[key] = (registry[name].hist(*labels), registry[f"{name}_summary"].hist(*labels))
            old = registry["apiserver_admission_step_admission_latencies_seconds"]
            old.hists.setdefault(labels, found[0])
        found[0].observe(seconds)
        found[1].observe(seconds)

    def _ended_early(self, exchange: Exchange, lane: Lane, code: int) -> None:
        """Refused by flow control, or ended by its time limit."""
        late = "late" in exchange.marks
        if not late and not (code == 429 and exchange.resource is None):
            return
        verb, _, group, version, resource, subresource, scope, component = lane.labels
        place = (verb, group, version, resource, subresource, scope)
        self._registry["apiserver_request_terminations_total"].cell(*place, component, str(code)).inc()
        if late:
            self._registry["apiserver_request_aborts_total"].cell(*place).inc()
            return
        kind = "readOnly" if exchange.info.verb in ("get", "list", "watch") else "mutating"
        self._registry["apiserver_dropped_requests_total"].cell(kind).inc()

    # -- labels -------------------------------------------------------------------------------------------------

    def _lane(self, exchange: Exchange) -> Lane:
        info, request = exchange.info, exchange.request
        verb = info.verb
        dry = request.get("dryRun") if request.query and verb not in _READS else ""
        if verb == "patch" and request.headers.get("content-type", "").startswith("application/apply-patch"):
            verb = "apply"
        scope = "resource" if info.name or verb == "create" else "namespace" if info.namespace else "cluster"
        key = (verb, info.group, info.version, info.resource, info.subresource, scope, dry)
        found = self._lanes.get(key)
        return self._new(exchange, key, verb, dry, scope) if found is None else found

    def _new(self, exchange: Exchange, key: tuple[str, ...], verb: str, dry: str, scope: str) -> Lane:
        info, method = exchange.info, exchange.request.method
        dry = "All" if dry else ""
        if not info.resource_request:
            path = info.path.rstrip("/")
            labels = (method if method in _METHODS else "other", "", "", "", "", path if path in _PAGES else "", "", "")
        elif not self._known(info.group, info.version, info.resource, info.subresource):
            labels = (_told(info, verb, method), dry, "", "", "", "", "", "apiserver")
        else:
            place = (info.group, info.version, info.resource, info.subresource, scope)
            made = self._make((_told(info, verb, method), dry, *place, "apiserver"), verb)
            if dry in ("", "All") and (not key[-1] or key[-1] == "All"):
                self._lanes[key] = made
            return made
        found = self._strangers.get(labels)
        if found is None:
            found = self._strangers[labels] = self._make(labels, verb)
        return found

    def _make(self, labels: tuple[str, ...], verb: str) -> Lane:
        registry = self._registry
        told, _, group, version, resource, subresource, scope, component = labels
        place = (told, group, version, resource, subresource, scope, component)
        sli = registry["apiserver_request_sli_duration_seconds"].hist(*place)
        registry["apiserver_request_slo_duration_seconds"].hists.setdefault(place, sli)
        running = registry["apiserver_longrunning_requests"].cell(*place)
        registry["apiserver_longrunning_gauge"].cells.setdefault(place, running)
        old = (told, resource, subresource, scope)
        return Lane(
            labels,
            registry["apiserver_request_duration_seconds"].hist(*labels),
            sli,
            registry["apiserver_request_latencies"].hist(*old),
            running,
            registry["apiserver_response_sizes"].hist(*place) if verb in _READS else None,
            registry["apiserver_request_body_size_bytes"].hist(group, resource, verb)
            if resource and verb in _WRITES | {"apply"}
            else None,
        )


def _told(info: Info, verb: str, method: str) -> str:
    if info.subresource in _CONNECT:
        return "CONNECT"
    if verb == "apply":
        return "APPLY"
    return _VERBS.get(verb, "other") if method in _METHODS else "other"


def _elsewhere(marks: dict[str, float]) -> float:
    """Seconds that others took: webhooks, and the queue."""
    return marks.get("flow", 0.0) + sum(marks.get(mark, 0.0) for mark in _WEBHOOKS)


class Gates:
    """Gates that are timed."""

    def __init__(self, registry: Registry) -> None:
        self._filters = registry["apiserver_request_filter_duration_seconds"]
        self._registry = registry

    def timed(self, name: str, gate: Gate) -> Gate:
        """The same gate; its times are in apiserver_request_filter_duration_seconds."""
        observe = self._filters.hist(name).observe

        async def passing(exchange: Exchange) -> Response | None:
            began = perf_counter()
            try:
                return await gate(exchange)
            finally:
                observe(perf_counter() - began)

        return passing

    def authentication(self, gate: Gate, until: Callable[[bytes], float], now: Callable[[], float]) -> Gate:
        """Authentication, timed by result; `until` tells when a client certificate ends."""
        durations = {
            result: self._registry["authentication_duration_seconds"].hist(result)
            for result in ("success", "failure", "error")
        }
        observe = self._filters.hist("authentication").observe
        certificates = self._registry["apiserver_client_certificate_expiration_seconds"].hist()

        async def passing(exchange: Exchange) -> Response | None:
            began = perf_counter()
            result = "failure"
            try:
                response = await gate(exchange)
                result = "success"
                return response
            except StatusError:
                if exchange.request.headers.get("authorization"):
                    result = "error"  # credentials that are none; without any it is a failure
                raise
            finally:
                took = perf_counter() - began
                durations[result].observe(took)
                observe(took)
                certificate = exchange.request.certificate
                if certificate is not None:
                    certificates.observe(until(certificate) - now())

        return passing

    def authorization(self, gate: Callable[[Exchange], Awaitable[None]]) -> Gate:
        """Authorization, timed and counted by decision and by who decided."""
        attempts, durations = (
            self._registry["authorization_attempts_total"],
            self._registry["authorization_duration_seconds"],
        )
        cells = {r: (attempts.cell(r), durations.hist(r)) for r in ("allowed", "denied", "no-opinion", "error")}
        decisions = self._registry["apiserver_authorization_decisions_total"]
        by_rbac, by_node = decisions.cell("RBAC", "rbac", "allowed"), decisions.cell("Node", "node", "allowed")
        observe = self._filters.hist("authorization").observe

        async def passing(exchange: Exchange) -> Response | None:
            began = perf_counter()
            result = "error"
            try:
                await gate(exchange)
                result = "allowed"
                reason = exchange.annotations.get("authorization.k8s.io/reason", "")
                if reason.startswith("RBAC"):
                    by_rbac.value += 1
                elif "system:nodes" in exchange.user.groups:
                    by_node.value += 1
                return None
            except StatusError as error:
                if error.code == 403:
                    result = "no-opinion"
                raise
            finally:
                took = perf_counter() - began
                counter, hist = cells[result]
                counter.value += 1
                hist.observe(took)
                observe(took)

        return passing
