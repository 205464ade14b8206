"""From a word to a store: `memory`, `embedded`, `etcd://host:port`; and a store of its own for some resources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from attrs import define, field, frozen

from dashpot.runtime.store.base import Store, StoreError
from dashpot.runtime.store.engine import QUOTA

OPTIONS = ("ca", "cert", "key", "user", "password-file", "timeout")
"""What may stand behind the `?` of an etcd target."""


@frozen
class Target:
    """Which store: `memory`, `embedded` (with a path where `embedded:PATH` was said), or `etcd` with its members."""

    kind: str
    path: str = ""
    endpoints: tuple[str, ...] = ()
    options: Mapping[str, str] = field(factory=dict)


def parse_target(text: str) -> Target:
    """`etcd://a:2379,b:2379?ca=ca.crt&cert=c.crt&key=c.key&user=root&password-file=F&timeout=5`. Raises StoreError."""
    if text == "memory":
        return Target("memory")
    if text == "embedded" or text.startswith("embedded:"):
        return Target("embedded", text.partition(":")[2])
    if not text.startswith(("etcd://", "etcds://")):
        raise StoreError(f"'{text}' is no store: write memory, embedded, or etcd://HOST:PORT")
    try:
        parts = urlsplit(text)
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise StoreError(f"'{text}' is no store: what follows the ? is no list of NAME=VALUE") from None
    endpoints = []
    for endpoint in parts.netloc.split(","):
        host, colon, port = endpoint.rpartition(":")
        if not colon:
            host, port = endpoint, "2379"
        if not host or not port.isdigit() or not 0 < int(port) < 65536 or parts.path.strip("/"):
            raise StoreError(f"'{text}' is no store: write etcd://HOST:PORT,HOST:PORT")
        endpoints.append(f"{host}:{port}")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise StoreError(f"'{text}': there is no option '{unknown[0]}'; there are {', '.join(OPTIONS)}")
    if parts.scheme == "etcds":
        options.setdefault("ca", "")
    return Target("etcd", endpoints=tuple(endpoints), options=options)


async def open_store(target: str, *, data: Path | None = None, quota: int = QUOTA) -> Store:
    """Opens the store that `target` names; `data` is the directory of an embedded one. Raises StoreError."""
    parsed = parse_target(target)
    if parsed.kind == "memory":
        from dashpot.runtime.store.memory import MemoryStore

        return MemoryStore(quota)
    if parsed.kind == "embedded":
        from dashpot.runtime.store.embedded import EmbeddedStore

        path = Path(parsed.path) if parsed.path else data
        if path is None:
            raise StoreError("an embedded store needs a directory: give --data DIR, or embedded:DIR")
        return await EmbeddedStore.open(path, quota=quota)
    try:
        from dashpot.runtime.store.etcd import EtcdStore
    except ModuleNotFoundError as error:
        raise StoreError(
            f"etcd needs the Python package '{error.name}', which is missing: pip install 'dashpot[serve]'"
        ) from None

    return await EtcdStore.open(parsed.endpoints, parsed.options, quota=quota)


@define(eq=False)
class Overrides:
    """The stores of one server: most resources share one, some have their own. Their versions never meet.

    `special` is keyed by prefix of keys (`/registry/events/`), the longest wins.
    """

    default: Store
    special: dict[str, Store] = field(factory=dict)

    def of(self, key: str) -> Store:
        """The store of a key, or of all keys with a prefix."""
        fitting = [prefix for prefix in self.special if key.startswith(prefix)]
        return self.special[max(fitting, key=len)] if fitting else self.default

    def all(self) -> list[Store]:
        """Each store once."""
        return list(dict.fromkeys([self.default, *self.special.values()]))

    async def close(self) -> None:
        """Closes all."""
        for store in self.all():
            await store.close()


def parse_override(text: str) -> tuple[str, str]:
    """`events=embedded:DIR`, `coordination.k8s.io/leases=etcd://…` → prefix of keys, target. Raises StoreError.

    The key layout is /registry/RESOURCE/…, custom resources with their group before it; so the group is left out
    where the built-in resources of that group are meant.
    """
    name, equals, target = text.partition("=")
    if not equals or not name.strip("/"):
        raise StoreError(f"'{text}' is no override: write RESOURCE=STORE, such as events=memory")
    parse_target(target)
    return f"/registry/{name.strip('/')}/", target


async def open_stores(
    target: str, overrides: Mapping[str, str], *, data: Path | None = None, quota: int = QUOTA
) -> Overrides:
    """Opens the common store and those of `overrides` (prefix → target); the same target is opened once."""
    opened = {target: await open_store(target, data=data, quota=quota)}
    try:
        for other in overrides.values():
            if other not in opened:
                opened[other] = await open_store(other, data=None, quota=quota)
    except BaseException:
        for store in opened.values():
            await store.close()
        raise
    return Overrides(opened[target], {prefix: opened[other] for prefix, other in overrides.items()})
