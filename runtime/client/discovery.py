"""What a server serves, as a client finds it out: aggregated where the server can, group by group where not; and
resources by the names that people give them.

Sources: KEP-3352 (aggregated discovery); client-go discovery and restmapper, release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from dashpot.model.objects.resource import Resource, Subresource
from dashpot.model.objects.status import StatusError

Object = dict[str, Any]
Fetch = Callable[[str, str], Awaitable[Object]]
"""GET of a path with an Accept header."""

AGGREGATED = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList" for version in ("v2", "v2beta1")
)
FRESH_S = 1.0
"""A name that is not known is looked for again at most this often."""


class NoMatch(LookupError):
    """No served resource has that name; the text says so as kubectl does."""


class Discovery:
    """Resources of one server, read when first needed."""

    def __init__(self, fetch: Fetch, now: Callable[[], float]) -> None:
        self._fetch = fetch
        self._now = now
        self._known: Sequence[Resource] | None = None
        self._read = 0.0
        self.failed: dict[str, str] = {}
        """Group-versions that could not be read, and why."""

    async def resources(self, *, fresh: bool = False) -> Sequence[Resource]:
        """All resources, groups and versions in the server's order of preference; StatusError, TransportError."""
        if self._known is None or fresh:
            self._known = await self._all()
            self._read = self._now()
        return self._known

    async def find(self, name: str) -> Resource:
        """The resource of a name: `pods`, `po`, `Pod`, `deployments.apps`, `deployments.v1.apps`,
        `apps/v1/deployments`. A name that is not known is looked for again, for its definition may be new. NoMatch."""
        found = match(await self.resources(), name)
        if found is None and self._now() - self._read >= FRESH_S:
            found = match(await self.resources(fresh=True), name)
        if found is None:
            raise NoMatch(f'the server doesn\'t have a resource type "{name}"')
        return found

    async def by_kind(self, api_version: str, kind: str) -> Resource:
        """The resource that an object's apiVersion and kind name. NoMatch."""
        for fresh in (False, True):
            if fresh and self._now() - self._read < FRESH_S:
                break
            for resource in await self.resources(fresh=fresh):
                if resource.api_version == api_version and resource.kind == kind:
                    return resource
        raise NoMatch(f'no matches for kind "{kind}" in version "{api_version}"')

    async def _all(self) -> list[Resource]:
        self.failed = {}
        found: list[Resource] = []
        for root, prefix in (("/api", "/api"), ("/apis", "/apis")):
            answer = await self._fetch(root, f"{AGGREGATED},application/json")
            kind = answer.get("kind")
            if kind == "APIGroupDiscoveryList":
                found += self._aggregated(answer)
            elif kind == "APIVersions":
                for version in answer.get("versions") or ():
                    found += await self._plain(prefix, "", str(version))
            else:
                for group in answer.get("groups") or ():
                    for row in _preferred(group):
                        found += await self._plain(f"{prefix}/{group['name']}", str(group["name"]), str(row))
        return found

    def _aggregated(self, answer: Object) -> list[Resource]:
        found = []
        for item in answer.get("items") or ():
            group = str((item.get("metadata") or {}).get("name") or "")
            for version in item.get("versions") or ():
                number = str(version["version"])
                if version.get("freshness") == "Stale":
                    self.failed[f"{group}/{number}".strip("/")] = "its server does not answer"
                found += [_aggregated(group, number, row) for row in version.get("resources") or ()]
        return found

    async def _plain(self, path: str, group: str, version: str) -> list[Resource]:
        try:
            answer = await self._fetch(f"{path}/{version}", "application/json")
        except StatusError as error:
            self.failed[f"{group}/{version}".strip("/")] = error.message
            return []
        rows = answer.get("resources") or ()
        parts: dict[str, list[Subresource]] = {}
        for row in rows:
            plural, _, sub = str(row["name"]).partition("/")
            if sub:
                verbs = tuple(row.get("verbs") or ())
                parts.setdefault(plural, []).append(
                    Subresource(sub, row.get("group") or group, row.get("version") or version, row["kind"], verbs)
                )
        return [
            Resource(
                group,
                version,
                row["kind"],
                row["name"],
                row.get("singularName") or row["kind"].lower(),
                bool(row.get("namespaced")),
                tuple(row.get("verbs") or ()),
                tuple(row.get("shortNames") or ()),
                tuple(row.get("categories") or ()),
                tuple(parts.get(row["name"], ())),
                storage_group=group,
                storage_version=version,
            )
            for row in rows
            if "/" not in row["name"]
        ]


def _preferred(group: Object) -> list[str]:
    versions = [str(row["version"]) for row in group.get("versions") or ()]
    first = str((group.get("preferredVersion") or {}).get("version") or "")
    return sorted(versions, key=lambda version: version != first)


def _aggregated(group: str, version: str, row: Object) -> Resource:
    kind = row.get("responseKind") or {}
    subs = tuple(
        Subresource(
            sub["subresource"],
            (sub.get("responseKind") or {}).get("group", group),
            (sub.get("responseKind") or {}).get("version") or version,
            (sub.get("responseKind") or {}).get("kind") or "",
            tuple(sub.get("verbs") or ()),
        )
        for sub in row.get("subresources") or ()
    )
    return Resource(
        group,
        version,
        str(kind.get("kind") or ""),
        row["resource"],
        row.get("singularResource") or str(kind.get("kind") or "").lower(),
        row.get("scope") == "Namespaced",
        tuple(row.get("verbs") or ()),
        tuple(row.get("shortNames") or ()),
        tuple(row.get("categories") or ()),
        subs,
        storage_group=group,
        storage_version=version,
    )


def match(resources: Sequence[Resource], name: str) -> Resource | None:
    """The resource that a name means; where several do, the one that the server prefers. Full names win over short."""
    candidates: list[tuple[str, str | None, str | None]]
    if "/" in name:
        api, _, name = name.rpartition("/")
        api_group, _, api_version = api.rpartition("/")
        candidates = [(name, api_group, api_version)]
    else:
        first, dot, rest = name.partition(".")
        candidates = [(first, rest if dot else None, None)]
        number, dot, behind = rest.partition(".")
        if dot:
            candidates.append((first, behind, number))
    for test in (_named, _short):
        for word, group, version in candidates:
            for resource in resources:
                if group in (None, resource.group) and version in (None, resource.version) and test(resource, word):
                    return resource
    return None


def _named(resource: Resource, word: str) -> bool:
    return word in (resource.plural, resource.singular) or word.lower() in (resource.kind.lower(), resource.plural)


def _short(resource: Resource, word: str) -> bool:
    return word.lower() in resource.short_names
