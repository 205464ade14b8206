"""The answers of 500 and above that Kubernetes gives, too: to which requests, in which words, and why. All else is a
fault of the server."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from attrs import frozen

from tests.fuzz.wire import Answer


@frozen
class Excuse:
    """One code on some paths. `path` matches the whole of it without the query, `query` and `text` some part."""

    code: int
    path: re.Pattern[str]
    text: re.Pattern[str]
    why: str
    query: re.Pattern[str] = re.compile("")
    methods: frozenset[str] = frozenset()
    """Empty: all."""


def _excuse(code: int, path: str, text: str, why: str, query: str = "", methods: str = "") -> Excuse:
    return Excuse(code, re.compile(path), re.compile(text), why, re.compile(query), frozenset(methods.split()))


_ANY = r"/.*"
_NAMESPACED = r"/api/v1/namespaces/[^/]+/"
EXCUSES = (
    _excuse(
        500, _ANY, r'^Internal error occurred: failed calling webhook "[^"]+": failed to call webhook: ',
        "a random webhook configuration names a webhook that nobody serves, with failurePolicy Fail",
        methods="POST PUT PATCH DELETE",
    ),
    _excuse(
        504, _ANY, r"^request did not complete within the allotted timeout$",
        "its query asks for a time-out that is too short to do anything", query=r"(^|&)timeout=1ms(&|$)",
    ),
    _excuse(
        503, r"/api/v1/namespaces/[^/]+/services/[^/]+/proxy(/.*)?",
        r"^(no endpoints available for|no service port .* found for|error trying to reach) service",
        "the proxy of a Service that has no pods behind it",
    ),
    _excuse(
        503, r"/api/v1/(namespaces/[^/]+/pods|nodes)/[^/]+/proxy(/.*)?", r"^error trying to reach service: ",
        "the proxy of a pod or node that listens nowhere",
    ),
    _excuse(
        504, r"/api.*", r"^Timeout: Too large resource version: \d+, current: \d+$",
        "its query asks for a resourceVersion of the future", query=r"(^|&)resourceVersion=\d+(&|$)",
    ),
    _excuse(
        500, _NAMESPACED + r"services(/[^/]+)?", r"failed to allocate ",
        "a Service asks for an address or port that is taken or out of range", methods="POST PUT PATCH",
    ),
    _excuse(
        500, r"/apis/[^/]+/[^/]+/.*", r"^conversion webhook for .* failed",
        "a random CustomResourceDefinition converts by a webhook that nobody serves",
    ),
    _excuse(
        500, r"/api.*", r"^Internal error occurred: (unable to find .* API resource|error resolving )",
        "an object names a kind, to be resolved, that is not served", methods="POST PUT PATCH",
    ),
)  # fmt: skip


def excused(method: str, path: str, answer: Answer) -> Excuse | None:
    """Why this answer is none of the server's faults; None if it is."""
    parts = urlsplit("//x" + path if path.startswith("/") else path)
    for row in EXCUSES:
        if (
            answer.code == row.code
            and (not row.methods or method in row.methods)
            and row.path.fullmatch(parts.path)
            and row.query.search(parts.query)
            and row.text.search(answer.message)
        ):
            return row
    return None
