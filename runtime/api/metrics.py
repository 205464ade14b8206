"""/metrics, under Kubernetes' names: counted while requests pass, or looked up when somebody reads them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.api.flow_turns import turn
from dashpot.runtime.api.health import PATHS, Check
from dashpot.runtime.api.metrics_admission import Admission
from dashpot.runtime.api.metrics_cells import Registry
from dashpot.runtime.api.metrics_clients import Clients
from dashpot.runtime.api.metrics_requests import Gates, Requests
from dashpot.runtime.api.metrics_table import rows

_TURN = 128 * 1024
"""Characters of the page that are written before others get their turn."""


class Metrics:
    """The figures of one server. `known` says whether a resource (group, version, plural, subresource) is served."""

    def __init__(self, known: Callable[[str, str, str, str], bool], build: Mapping[str, str]) -> None:
        table = rows()
        self.registry = Registry(table)
        self.requests = Requests(self.registry, known)
        self.gates = Gates(self.registry)
        self.admission = Admission(self.registry)
        self.clients = Clients()
        self.look: list[Callable[[], Awaitable[None] | None]] = []
        """Called before the page is written: each sets what it knows."""
        self.more: list[Callable[[], str]] = []
        """What parts beside the server add to the page, under names of their own."""
        labels = (
            build.get(name, "")
            for name in (
                "major",
                "minor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            )
        )
        self.registry["kubernetes_build_info"].set(1, *labels)
        for row in table:
            old = row.until and f"{row.until}.0"
            self.registry["registered_metrics_total"].cell("", old).inc()

    def checked(self, checks: Mapping[str, Check]) -> dict[str, Check]:
        """The same checks of health; their results are counted, for all three kinds of paths alike."""

        def counted(name: str, check: Check) -> Check:
            async def checking() -> str:
                found = await check()
                for path in PATHS:
                    self.registry["kubernetes_healthcheck"].set(0.0 if found else 1.0, name, path)
                    status = "error" if found else "success"
                    self.registry["kubernetes_healthchecks_total"].cell(name, path, status).inc()
                return found

            return checking

        return {name: counted(name, check) for name, check in checks.items()}

    def started(self, exchange: Exchange) -> None:
        """A watch or stream begins."""
        self.requests.started(exchange)
        self.clients.started(exchange)

    def ended(self, exchange: Exchange, response: Response, seconds: float) -> None:
        """Counts one request."""
        self.requests.ended(exchange, response, seconds)
        self.clients.ended(exchange, response)

    async def page(self) -> Response:
        """The text that Prometheus reads."""
        for look in self.look:
            waiting = look()
            if waiting is not None:
                await waiting
        pages: list[str] = []
        size = 0
        for text in self.registry.pages():
            pages.append(text)
            size += len(text)
            if size >= _TURN:
                size = 0
                await turn()
        pages += self.clients.pages()
        pages += (more() for more in self.more)
        return Response(200, "".join(pages).encode(), CONTENT_TYPE_PLAIN_0_0_4)
