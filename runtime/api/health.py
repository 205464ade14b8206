"""/healthz, /livez and /readyz: `ok`, or the checks one by one.

Source: k8s.io/apiserver pkg/server/healthz, release 1.34.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from dashpot.runtime.api.exchange import Request, Response

Check = Callable[[], Awaitable[str]]
"""Empty where all is well, else why not."""

PATHS = ("healthz", "livez", "readyz")
SHUTDOWN = "shutdown"
"""The check that only /readyz has: a server that stops is alive, and should be sent nothing more."""


async def answer(request: Request, parts: list[str], checks: Mapping[str, Check]) -> Response | None:
    """Answers `/readyz`, `/readyz?verbose`, `/readyz/ping`; None for other paths."""
    if not parts or parts[0] not in PATHS or len(parts) > 2:
        return None
    excluded = set(request.all("exclude"))
    if len(parts) == 2:
        check = checks.get(parts[1]) if has(parts[0], parts[1]) else None
        if check is None:
            return None
        found = await check()
        return _text(500 if found else 200, f"internal server error: {found}\n" if found else "ok")
    lines = []
    failed = False
    for name, check in checks.items():
        if not has(parts[0], name):
            continue
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok\n")
            continue
        found = await check()
        failed = failed or bool(found)
        lines.append(f"[-]{name} failed: reason withheld\n" if found else f"[+]{name} ok\n")
    if failed:
        return _text(500, "".join(lines) + f"{parts[0]} check failed\n")
    if any(key == "verbose" for key, _ in request.query):
        return _text(200, "".join(lines) + f"{parts[0]} check passed\n")
    return _text(200, "ok")


def has(path: str, check: str) -> bool:
    """Whether one of PATHS looks at a check."""
    return check != SHUTDOWN or path == "readyz"


def _text(code: int, text: str) -> Response:
    return Response(code, text.encode(), "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})
