"""An API server from its start to its end: `await ApiServer.start(settings)`, `stop()`."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import random
import socket
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api import apiservices, audit, bootstrap, presence
from dashpot.runtime.api.addresses import Services
from dashpot.runtime.api.admit.calling import Caller
from dashpot.runtime.api.admit.dialler import ViewDialler
from dashpot.runtime.api.admit.standard import Options, standard
from dashpot.runtime.api.assembly import Kinds, Storages, hooks, scales, warm
from dashpot.runtime.api.audit.trail import Trail
from dashpot.runtime.api.auth import aggregation
from dashpot.runtime.api.auth.authn import Authenticator
from dashpot.runtime.api.auth.authz import Authorizer
from dashpot.runtime.api.auth.certificates import Pki, PkiError
from dashpot.runtime.api.auth.impersonate import Impersonation
from dashpot.runtime.api.auth.kubeconfig import write_kubeconfig
from dashpot.runtime.api.auth.reviews import Reviews
from dashpot.runtime.api.cacheview import CacheView
from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.configured import auth_config, authz_config, overrides
from dashpot.runtime.api.crds import ConversionCaller, Definitions
from dashpot.runtime.api.dispatch import Dispatch
from dashpot.runtime.api.exchange import Exchange, Request, Response
from dashpot.runtime.api.faults import Faults, FaultsError
from dashpot.runtime.api.flow import FlowControl
from dashpot.runtime.api.flow_status import FlowStatus
from dashpot.runtime.api.front import Front
from dashpot.runtime.api.health import SHUTDOWN
from dashpot.runtime.api.local import Local
from dashpot.runtime.api.metrics import Metrics
from dashpot.runtime.api.metrics_scrape import Scrape
from dashpot.runtime.api.naming import UnknownName
from dashpot.runtime.api.openapi import OpenAPI
from dashpot.runtime.api.pages import pages, version
from dashpot.runtime.api.rules import builtin_rules
from dashpot.runtime.api.server import Pipeline
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.api.site import Site
from dashpot.runtime.api.storage import Storage
from dashpot.runtime.api.streams import Nodes, Streaming
from dashpot.runtime.clock import Clock, SystemClock, rfc3339
from dashpot.runtime.store.base import Store, StoreError
from dashpot.runtime.store.open import Overrides, open_stores

COMPACTIONS = 12
"""Rounds of compaction in the time that history is kept: every five minutes of an hour."""


_TOLD = 5
"""Services that are named when their addresses do not fit."""

WATCH_STORES_S = 0.5
"""Between two looks at whether the stores can still write."""


class StartError(Exception):
    """The server cannot start, or go on. `status` is the exit status: 2 for a wrong setting, 4 for the machine."""

    def __init__(self, message: str, hint: str = "", status: int = 4) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


class ApiServer:
    """A running server. `local` calls it in process; `url` is where it listens (empty: it does not)."""

    def __init__(
        self,
        settings: Settings,
        stores: Overrides,
        pki: Pki,
        clock: Clock,
        chance: random.Random,
        complain: Callable[[str], None],
        trail: Trail,
    ) -> None:
        self.settings = settings
        self.stores = stores
        self.pki = pki
        self.clock = clock
        self.complain = complain
        self.catalog = Catalog()
        self.faults = Faults.load(settings.faults, self.catalog) if settings.faults is not None else None
        self.metrics = Metrics(self._served, version())
        self.storages = Storages(
            self.catalog, stores, clock, self.faults, self.metrics.registry, settings.watch_history, chance
        )
        self.view = CacheView(self.storages)
        self.definitions = Definitions(self.catalog)
        self.local = Local(self._handle)
        self.authenticator = Authenticator(auth_config(settings), pki, self.view, clock)
        self.authorizer = Authorizer(authz_config(settings), self.view, clock)
        self.flow = FlowControl(self.view, self._objects, seats=settings.seats)
        dialler = ViewDialler(self.view)
        self.conversions = ConversionCaller(Caller(dialler))
        self.definitions.caller = self.conversions
        admission = self.metrics.admission
        options = Options(
            observe=admission.observe,
            metrics=admission,
            dialler=dialler,
            defaulter=self._completed,
            converter=self.definitions.converted,
        )
        self.chain = standard(self.view, self.local, clock, self.catalog, authorizer=self.authorizer, options=options)
        self.site = Site(
            catalog=self.catalog,
            view=self.view,
            chain=self.chain,
            internal=self.local,
            clock=clock,
            kinds=Kinds(self.catalog, self.definitions, builtin_rules()),
            storages=self.storages,
            hooks=hooks(stores, settings.service_network, settings.node_ports, chance, clock, self.definitions),
            authorize=self.authorizer.authorize,
            chance=chance,
        )
        self.trail = trail
        self.streaming = Streaming(self.view)
        self.front: Front | None = None
        self.stopping = False
        self._presence: presence.Presence | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._pipeline = self._gates()
        self._looks()

    # -- from start to end --------------------------------------------------------------------------------------

    @classmethod
    async def start(
        cls,
        settings: Settings,
        *,
        complain: Callable[[str], None] = lambda text: None,
        clock: Clock | None = None,
        seed: int | None = None,
        listen: bool = True,
    ) -> ApiServer:
        """Opens the stores, makes what must exist, listens. `seed` makes uids and names repeatable; StartError."""
        scratch = None
        folder = settings.data
        if folder is None:
            scratch = tempfile.TemporaryDirectory(prefix="dashpot-")
            folder = Path(scratch.name)
        clock = clock or SystemClock()
        made = False
        try:
            chance = random.SystemRandom() if seed is None else random.Random(seed)
            pki = Pki.load_or_create(folder / "pki")
            trail = audit.trail(settings, clock, chance, complain)
            special = overrides(settings.store_overrides)
            stores = await open_stores(settings.store, special, data=folder / "store", quota=settings.quota)
            made = True
        except (audit.PolicyError, UnknownName) as error:
            raise StartError(str(error), status=2) from None
        except (PkiError, StoreError, audit.LogError) as error:
            raise StartError(str(error)) from None
        finally:
            if not made and scratch is not None:
                scratch.cleanup()
        try:
            server = cls(settings, stores, pki, clock, chance, complain, trail)
        except (FaultsError, ValueError, OSError) as error:
            await stores.close()
            if scratch is not None:
                scratch.cleanup()
            raise StartError(str(error), status=2) from None
        server._scratch = scratch
        try:
            await server._begin(listen)
        except BaseException:
            await server.stop()
            raise
        return server

    async def _begin(self, listen: bool) -> None:
        network = ipaddress.ip_network(self.settings.service_network)
        host, port = self.settings.host, self.settings.port
        if listen:
            try:
                names = {host, presence.advertised(host), str(network.network_address + 1)}
                context = self.pki.server_context(sorted(names))
            except PkiError as error:
                raise StartError(str(error)) from None
            self.front = Front(self._handle, context, self.complain)
            try:
                await self.front.start(host, port)
            except OSError as error:
                raise _cannot_listen(host, port, error) from None
        try:
            await warm(self.view)
            await self.definitions.begin(self.site, self.storages.forget)
            address = str(network.network_address + 1)
            await self._settle_services(address)
            await bootstrap.ensure(self.local, self.catalog, address=address)
            if self.front is not None:
                await self._appear(self.front, address)
            await apiservices.register(self.local, self.catalog, rfc3339(self.clock.now()))
            status = FlowStatus(self.view, self.local, self.clock)
            await status.begin()
        except (StatusError, StoreError) as error:
            raise StartError(f"the store does not take what every cluster needs: {error}") from None
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self.definitions.follow()))
        self._tasks.append(loop.create_task(status.follow()))
        self._tasks += [loop.create_task(self._compact(store)) for store in self.stores.all()]
        self._tasks.append(loop.create_task(aggregation.follow(self.view, self.local, self.complain)))

    async def _settle_services(self, address: str) -> None:
        """Whoever has an address holds it, also after the network was changed; those outside of it are told."""
        await self.view.synced("", "services")
        found = list(self.view.list("", "services"))
        outside = await self._services().repair(found)
        had = await bootstrap.renumber_service(self.local, self.catalog, address)
        if had:
            self.complain(f"the Service kubernetes was made anew: its address {had} is {address} now")
        rest = [text for text in outside if not text.startswith("default/kubernetes (")]
        if rest:
            more = f" and {len(rest) - _TOLD} more" if len(rest) > _TOLD else ""
            self.complain(
                f"these Services lie outside of --service-network {self.settings.service_network} or --node-ports, "
                f"delete and create them anew: {', '.join(rest[:_TOLD])}{more}"
            )

    async def _appear(self, front: Front, address: str) -> None:
        """Other servers, and who asks for the endpoints of the API, know where it is."""

        async def service() -> None:
            await bootstrap.ensure_service(self.local, self.catalog, address)

        store = self.stores.of(presence.PREFIX)
        here = presence.Presence(
            store, self.local, presence.advertised(front.address), front.port, service, self.complain
        )
        self._presence = here
        await here.begin()

    async def until(self, stop: asyncio.Event) -> None:
        """Serves until told to stop; StartError when a store is lost for good (a full or failing disk)."""
        while not stop.is_set():
            for store in self.stores.all():
                failure = getattr(store, "failure", None)
                if failure is not None:
                    raise StartError(
                        f"the store is lost: {failure}", "what was acknowledged is safe; mend it, start again"
                    )
            try:
                async with asyncio.timeout(WATCH_STORES_S):
                    await stop.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Ends watches, lets requests under way end, then closes everything; idempotent.

        From here on /readyz fails; nobody new is let in, and who is in gets an answer (at most `front.DRAIN_S` s).
        """
        self.stopping = True
        if self._presence is not None:
            await self._presence.end()
        self.storages.finish()
        if self.front is not None:
            await self.front.drain()
            await self.front.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.storages.close()
        await self.chain.close()
        await self.conversions.close()
        await self.streaming.close()
        await self.authenticator.close()
        await self.authorizer.close()
        await self.trail.close()
        await self.stores.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    async def _compact(self, store: Store) -> None:
        """Keeps an hour of history, looking every few minutes (etcd: auto-compaction-mode periodic)."""
        known: deque[tuple[float, int]] = deque()
        loop = asyncio.get_running_loop()
        while True:
            try:
                known.append((loop.time(), await store.revision()))
                old = 0
                while known and known[0][0] <= loop.time() - self.settings.history_s:
                    old = known.popleft()[1]
                if old:
                    await store.compact(old)
            except StoreError as error:
                self.complain(f"compaction: {error}")
            await asyncio.sleep(self.settings.history_s / COMPACTIONS)

    # -- what it tells ------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Nodes:
        """Who answers logs, exec, attach, port-forward and proxy; set by what runs kubelets."""
        return self.streaming.nodes

    @nodes.setter
    def nodes(self, nodes: Nodes) -> None:
        self.streaming.nodes = nodes

    @property
    def url(self) -> str:
        """Where it listens."""
        if self.front is None:
            return ""
        host = self.settings.host if self.settings.host not in ("0.0.0.0", "::") else "127.0.0.1"
        return f"https://{f'[{host}]' if ':' in host else host}:{self.front.port}"

    def write_kubeconfig(self, path: Path) -> None:
        """The administrator's way in, mode 0600; StartError where it cannot be written."""
        try:
            admin = self.pki.admin()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_kubeconfig(path, self.url, self.pki.ca, admin.certificate, admin.key)
        except PkiError as error:
            raise StartError(str(error)) from None
        except OSError as error:
            raise StartError(f"cannot write {path}: {error.strerror or error}") from None

    def banner(self) -> Sequence[str]:
        """What must not be overlooked."""
        if self.faults is None:
            return ()
        return (f"FAULTS ARE ON ({self.settings.faults}): watches are delayed, dropped or cut on purpose",)

    def _completed(self, obj: dict[str, Any], resource: Resource) -> None:
        """After a webhook's patch: read and filled in again."""
        kind = self.site.kinds(resource)
        kind.decode(obj)
        kind.default(obj, None)

    # -- one request --------------------------------------------------------------------------------------------

    async def _handle(self, request: Request) -> Response:
        return await self._pipeline.handle(request)

    def _gates(self) -> Pipeline:
        impersonation = Impersonation(self.authorizer)
        reviews = Reviews(self.authenticator, self.authorizer)

        async def review(resource: Resource, obj: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
            return await reviews.answer(resource.kind, obj, exchange)

        async def token(_: Resource, obj: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
            return await reviews.answer("TokenRequest", obj, exchange)

        dispatch = Dispatch(
            self.site,
            openapi=OpenAPI(self.catalog),
            checks=self.metrics.checked({"ping": _ping, "etcd": self._store_answers, SHUTDOWN: self._stays}),
            pages=pages(self.authenticator, self.pki, self.metrics, lambda: self.url),
            review=review,
            token=token,
            streams=self.streaming.serve,
            scales=scales(self.definitions),
        )
        gates = self.metrics.gates
        return Pipeline(
            gates=(
                ("audit id", self.trail.identify),
                (
                    "authentication",
                    gates.authentication(self.authenticator.gate, self.authenticator.until, self.clock.now),
                ),
                ("audit", gates.timed("audit", self.trail.gate)),
                ("impersonation", gates.timed("impersonation", impersonation.gate)),
                ("flow control", gates.timed("priorityandfairness", self.flow.gate)),
                ("authorization", gates.authorization(self.authorizer.gate)),
            ),
            serve=dispatch.serve,
            clock=self.clock,
            started=self._begun,
            ended=self._ended,
            failed=self._failed,
        )

    def _served(self, group: str, version: str, plural: str, subresource: str) -> bool:
        """Whether a resource has labels of its own in the metrics."""
        found = self.catalog.find(group, version, plural)
        return found is not None and (not subresource or found.subresource(subresource) is not None)

    def _looks(self) -> None:
        """What is looked up when somebody reads the metrics."""
        scrape = Scrape(self.metrics.registry, self.stores.all(), self._stored)
        self.metrics.look.extend(
            (
                scrape.store,
                lambda: self.metrics.clients.look(self.stores.all()),
                lambda: scrape.flow(self.flow),
                lambda: scrape.services(self._services()),
                lambda: scrape.authentication(self.authenticator),
                lambda: scrape.audit(self.trail),
                scrape.process,
                scrape.whole,
                scrape.older,
            )
        )

    def _services(self) -> Services:
        found = self.site.hooks["", "services"]
        assert isinstance(found, Services)
        return found

    def _stored(self) -> Mapping[tuple[str, str], Storage]:
        """All that is stored, by group and plural."""
        names = (
            (one.group, one.plural)
            for one in self.catalog.resources()
            if {"create", "list"} <= set(one.verbs)
            and (one.storage_group, one.storage_version) == (one.group, one.version)
        )
        return {name: self.storages(*name) for name in names}

    def _begun(self, exchange: Exchange, response: Response) -> None:
        self.trail.started(exchange, response)
        self.metrics.started(exchange)

    def _objects(self, group: str, plural: str) -> int:
        """How many objects a list has to look at, as far as that is known (stored under another group: not)."""
        storage = self.storages.made().get((group, plural))
        return 0 if storage is None else len(storage.cache)

    def _ended(self, exchange: Exchange, response: Response) -> None:
        self.trail.ended(exchange, response)
        self.metrics.ended(exchange, response, self.clock.now() - exchange.arrived)

    def _failed(self, exchange: Exchange, error: BaseException) -> None:
        self.trail.failed(exchange)
        lines = traceback.format_exception(error)
        where = f"{exchange.request.method} {exchange.request.path}"
        self.complain(f"{where} failed by a mistake of ours: {lines[-1].strip()}\n{''.join(lines[-4:])}")

    async def _stays(self) -> str:
        return "process is shutting down" if self.stopping else ""

    async def _store_answers(self) -> str:
        try:
            async with asyncio.timeout(2.0):
                for store in self.stores.all():
                    await store.revision()
        except (StoreError, TimeoutError) as error:
            return str(error) or "the store does not answer"
        return ""


def _cannot_listen(host: str, port: int, error: OSError) -> StartError:
    """Whose mistake it is: the option's (2), or the machine's (4)."""
    where = f"cannot listen on {host}:{port}"
    hint = "--host takes an address of this machine: 127.0.0.1 for itself alone, 0.0.0.0 for all that reach it"
    if isinstance(error, socket.gaierror):
        return StartError(f"{where}: nothing is known under the name '{host}'", hint, status=2)
    if error.errno == errno.EADDRNOTAVAIL:
        return StartError(f"{where}: {host} is no address of this machine", hint, status=2)
    if error.errno in (errno.EACCES, errno.EPERM):
        return StartError(f"{where}: not permitted", "ports below 1024 are the administrator's: choose a higher --port")
    return StartError(
        f"{where}: {error.strerror or error}",
        "another server may run there: choose another --port, or 0 for a free one",
    )


async def _ping() -> str:
    return ""
