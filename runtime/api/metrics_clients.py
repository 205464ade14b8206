"""What /metrics tells beyond Kubernetes' names: requests by user agent, and whether a store refuses writes.

Who consumes an API server, and whether its store's quota alarm is raised, Kubernetes' own figures do not say. Both have
names that begin with `dashpot_`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from attrs import define, field

from dashpot.runtime.api.exchange import Exchange, Response
from dashpot.runtime.store.base import Store, StoreError

AGENTS_MAX = 1_000
"""Series of requests; what comes after is counted as `other`: a stranger must not fill the memory."""
LENGTH = 80
PATIENCE_S = 2.0


@define(eq=False)
class Clients:
    """Counts requests by user agent (its first word), verb and resource; and watches that are open, by user agent."""

    requests: dict[tuple[str, str, str], int] = field(factory=dict)
    watches: dict[str, int] = field(factory=dict)
    stores: list[tuple[str, bool, int, int]] = field(factory=list)
    """Name, alarm, size and quota of each store, as of the last look."""

    def started(self, exchange: Exchange) -> None:
        """A watch or stream has begun."""
        name = self._known(exchange)
        self.watches[name] = self.watches.get(name, 0) + 1

    def ended(self, exchange: Exchange, response: Response) -> None:
        """A request was answered, or its stream has ended."""
        name, info = self._known(exchange), exchange.info
        if info.long_running and (response.chunks is not None or response.upgrade is not None):
            left = self.watches.get(name, 0) - 1
            if left > 0:
                self.watches[name] = left
            else:
                self.watches.pop(name, None)
        served = exchange.resource is not None
        key = name, info.verb if served else "", info.resource if served else ""
        if key not in self.requests and len(self.requests) >= AGENTS_MAX:
            key = "other", "", ""
        self.requests[key] = self.requests.get(key, 0) + 1

    def _known(self, exchange: Exchange) -> str:
        return exchange.request.headers.get("user-agent", "").partition(" ")[0][:LENGTH] or "unknown"

    async def look(self, stores: Sequence[Store]) -> None:
        """Asks the stores; one that does not answer is left out."""
        found = []
        for index, store in enumerate(stores):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    status = await store.status()
            except (StoreError, TimeoutError):
                continue
            found.append((f"{status.backend}-{index}", status.alarm, status.size, status.quota))
        self.stores = found

    def pages(self) -> Iterator[str]:
        """The text, a family at a time."""
        yield _family(
            "dashpot_client_requests_total",
            "counter",
            "Requests by user agent.",
            (
                f'{{user_agent="{_escaped(agent)}",verb="{_escaped(verb)}",resource="{_escaped(plural)}"}} {count}'
                for (agent, verb, plural), count in self.requests.items()
            ),
        )
        yield _family(
            "dashpot_client_watches",
            "gauge",
            "Watches that are open, by user agent.",
            (f'{{user_agent="{_escaped(agent)}"}} {count}' for agent, count in self.watches.items()),
        )
        for name, at, text in (
            ("dashpot_store_alarm", 1, "1 while a store refuses writes: its quota is used up."),
            ("dashpot_store_size_bytes", 2, "Bytes that a store takes."),
            ("dashpot_store_quota_bytes", 3, "Bytes that a store may take."),
        ):
            yield _family(name, "gauge", text, (f'{{store="{row[0]}"}} {int(row[at])}' for row in self.stores))


def _family(name: str, kind: str, text: str, rows: Iterator[str]) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n" + "".join(f"{name}{row}\n" for row in rows)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
