"""JSON bodies: decoded once, fields that are named twice found, depth bounded; failures are 400 in Go's words.

msgspec keeps the last of two equal keys, as Go does. A body that is its value's encoding, byte for byte, has no
doubles; else the keys are counted, and only a body that has doubles is scanned for their paths. Source: apimachinery
pkg/runtime/serializer/json, apiserver pkg/endpoints/handlers/rest.go.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dashpot.model.objects.status import StatusError, bad_request

DEEPEST = 200
"""Levels of nesting in a body. Upstream takes 10,000; no object of Kubernetes comes near 100."""
LARGE = 64 * 1024
"""Bytes of a body from which it is looked at more closely."""
MOST = 100_000
"""Objects and lists in a large body, each of which costs us more than a byte of text does."""
PATHS = 64 << 20
"""Characters of the paths to all of them: messages name places, and a place may lie behind a key of a megabyte."""
TOLD = 100
"""Unknown and duplicate fields that are told (sigs.k8s.io/json tells as many)."""
_DOUBLES = 10_000
_SHOWN = 30

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_KEY = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?', re.DOTALL)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_LOOSE = re.compile(rb'"[ \t\r\n]+:')
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:]', re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")


def decode_json(body: bytes, doubles: list[str] | None = None) -> Any:
    """The value of a body; into `doubles` go the paths of fields that it names twice: `spec.containers[0].name`.

    StatusError 400 for what is no JSON, for numbers that nothing can hold and for nesting beyond 200 levels.
    """
    opening = body.count(b"{") + body.count(b"[")
    if opening > MOST:
        plain = _STRING.sub(b"", body)  # strings may hold brackets, too
        if plain.count(b"{") + plain.count(b"[") > MOST:
            raise _too_many()
    try:
        found = _decode(body)
    except msgspec.MsgspecError as error:
        raise _refused(body, _go_text(body, str(error))) from None
    except (RecursionError, ValueError):
        raise _refused(body, "exceeded max depth") from None
    if opening > DEEPEST and too_deep(found):
        raise _refused(body, "exceeded max depth")
    if len(body) > LARGE:
        check_bulk(found)
    if doubles is not None and opening and _encode(found) != body.rstrip():
        _doubles(body, found, doubles)
    return found


def too_deep(value: Any, limit: int = DEEPEST) -> bool:
    """Whether a value nests deeper than the limit; level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _too_many() -> StatusError:
    why = f"more than {MOST} objects and lists, or far too deep"
    return StatusError("RequestEntityTooLarge", f"Request entity too large: {why}")


def check_bulk(value: Any) -> None:
    """StatusError 413 for a value of which each walk would take seconds."""
    count = paths = 0
    stack = [(value, 0)]
    while stack:
        outer, path = stack.pop()
        count += 1
        paths += path
        if count > MOST or paths > PATHS:
            raise StatusError(
                "RequestEntityTooLarge",
                f"Request entity too large: more than {MOST} objects and lists, or far too deep",
            )
        if outer.__class__ is dict:
            for key, inner in outer.items():
                if inner.__class__ is dict or inner.__class__ is list:
                    stack.append((inner, path + len(key) + 1))
        elif outer.__class__ is list:
            stack += [(inner, path + 8) for inner in outer if inner.__class__ is dict or inner.__class__ is list]


def _keys(value: Any) -> int:
    """How many keys a value has in all."""
    count = 0
    stack = [value]
    while stack:
        outer = stack.pop()
        if outer.__class__ is dict:
            count += len(outer)
            outer = outer.values()
        stack += [inner for inner in outer if inner.__class__ is dict or inner.__class__ is list]
    return count


def _doubles(body: bytes, found: Any, doubles: list[str]) -> None:
    kept = _keys(found)
    if body.count(b'":') == kept and not _LOOSE.search(body):
        return  # every key is followed by its colon: a double would be one too many
    if sum(1 for match in _KEY.finditer(body) if match.group(1)) != kept:
        doubles += _double_paths(body)


def _double_paths(body: bytes) -> list[str]:
    """The paths of the first hundred keys that their object has already, each told once, in order of the text."""
    paths: dict[str, None] = {}
    seen: list[set[Any] | None] = []  # a set for each open object, None for a list
    path: list[str | int] = []  # the key or index at which each open object or list stands, and the current one
    doubles = 0
    waiting = ""  # a string that may turn out to be a key
    for match in _TOKEN.finditer(body):
        token = match.group()
        if token in (b"{", b"["):
            seen.append(set() if token == b"{" else None)
            path.append("" if token == b"{" else 0)
        elif token in (b"}", b"]"):
            seen.pop()
            path.pop()
        elif token == b",":
            if seen and seen[-1] is None:
                path[-1] = int(path[-1]) + 1
        elif token == b":":
            path[-1] = waiting
            keys = seen[-1]
            if keys is not None:
                if waiting in keys:
                    doubles += 1
                    # told once: the second time it is there with a mark that no key has
                    if (waiting, 2) not in keys:
                        keys.add((waiting, 2))
                        paths[_path(path)] = None
                    if len(paths) == TOLD or doubles == _DOUBLES:
                        break
                else:
                    keys.add(waiting)
        else:
            waiting = _decode(token)
    return list(paths)


def _path(parts: list[str | int]) -> str:
    told = ""
    for part in parts:
        told += f"[{part}]" if isinstance(part, int) else f".{part}" if told else part
    return told


def _go_text(body: bytes, error: str) -> str:
    """What Go's decoder says where msgspec stops."""
    if "utf-8" in error.lower() or "surrogate" in error.lower():
        return "invalid UTF-8 in string"
    at = _BYTE.search(error)
    if "truncated" in error or at is None:
        return "unexpected end of JSON input" if "range" not in error else "number out of range"
    here = int(at.group(1))
    if "trailing" in error:
        # msgspec points behind the blank that follows the value; Go names the first character that is none
        rest = body[here - 1 :].lstrip()
        return f"invalid character {_quoted(rest)} after top-level value"
    return f"invalid character {_quoted(body[here:])} looking for beginning of value"


def _quoted(rest: bytes) -> str:
    """A character as Go quotes it."""
    char = rest[:4].decode("utf-8", "replace")[:1]
    if char == "'":
        return "'\\''"
    return f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'" if char else "' '"


def _refused(body: bytes, why: str) -> StatusError:
    return bad_request(f"couldn't get version/kind; json parse error: {why} ({summary(body)})")


def summary(body: bytes) -> str:
    """The beginning of a body for a message: text of an object, hexadecimal digits of anything else."""
    if not body:
        return "<empty>"
    start = body[:_SHOWN]
    told = start.decode("utf-8", "replace") if start[:1] == b"{" else start.hex()
    return f"{told} ..." if len(body) > _SHOWN else told
