"""What clients of an API server saw: each request with the time it began and ended, each event of each watch.

Times are seconds of one monotonic clock; `math.inf` is the end of a request whose outcome nobody knows. Objects are as
the server sent them. A key is `namespace/name`.
"""

from __future__ import annotations

import math
from typing import Any

from attrs import define, field

Object = dict[str, Any]

DONE, EXISTS, CONFLICT, MISSING, REFUSED, UNKNOWN = "done", "exists", "conflict", "missing", "refused", "unknown"


def revision_of(obj: Object) -> int:
    """The resourceVersion of an object as a number."""
    return int(obj["metadata"]["resourceVersion"])


def key_of(obj: Object) -> str:
    """Namespace and name of an object."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def bare(obj: Object) -> Object:
    """An object without kind and apiVersion, which the items of a list need not have."""
    return {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}


@define(eq=False)
class Write:
    """A create, update, patch or delete. `sent` is what it wants of data and labels; `expect` the resourceVersion and
    `uid` the uid that it named as a precondition; `token` marks its content; `at` is the URL of the server."""

    verb: str
    key: str
    began: float
    token: str = ""
    sent: Object = field(factory=dict)
    expect: int = 0
    uid: str = ""
    ended: float = math.inf
    outcome: str = UNKNOWN
    answer: Object = field(factory=dict)
    at: str = ""


@define(eq=False)
class Read:
    """A get. `version` as it was asked ("": newest); `found` is None for a 404."""

    key: str
    version: str
    began: float
    ended: float
    found: Object | None


@define(eq=False)
class Page:
    """One answer of a list."""

    began: float
    ended: float
    revision: int
    items: list[Object]
    remaining: int | None
    more: bool


@define(eq=False)
class Listing:
    """A list in pages, of one namespace or of all (""); `label` selects by the label `s`."""

    namespace: str
    label: str
    version: str
    match: str
    limit: int
    pages: list[Page] = field(factory=list)


@define(eq=False)
class Watching:
    """A watch. `initial`: a streaming list. `events` are times, types and objects; `at` is the URL of the server."""

    namespace: str
    label: str
    version: str
    initial: bool
    bookmarks: bool
    began: float
    events: list[tuple[float, str, Object]] = field(factory=list)
    error: Object | None = None
    name: str = ""
    at: str = ""

    @property
    def last(self) -> int:
        """The newest revision that it told of."""
        told = [revision_of(obj) for _, _, obj in self.events]
        return max(told, default=int(self.version or 0))


@define(eq=False)
class Record:
    """All that was seen."""

    writes: list[Write] = field(factory=list)
    reads: list[Read] = field(factory=list)
    listings: list[Listing] = field(factory=list)
    watches: list[Watching] = field(factory=list)
    unserved: int = 0
    """Requests that were answered by a failure, or not at all."""
    faults: list[str] = field(factory=list)
    """What was wrong at once: an answer that no API server may give."""

    def figures(self) -> str:
        """How much was seen."""
        events = sum(len(watch.events) for watch in self.watches)
        done = sum(write.outcome == DONE for write in self.writes)
        unknown = sum(write.outcome == UNKNOWN for write in self.writes)
        pages = sum(len(listing.pages) for listing in self.listings)
        return (
            f"{len(self.writes)} writes ({done} done, {unknown} unknown), {len(self.reads)} gets, "
            f"{len(self.listings)} lists ({pages} pages), {len(self.watches)} watches ({events} events), "
            f"{self.unserved} not served"
        )
