"""JSON patches, RFC 6902, with Kubernetes' limits and answers.

Own code instead of a library: the object and the patch stay unchanged without a deep copy, `true` is not 1, and copies
are limited. Source of the answers: apiserver pkg/endpoints/handlers/patch.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dashpot.model.objects.mergepatch import copied
from dashpot.model.objects.status import StatusError, bad_request

Object = dict[str, Any]

MAX_OPERATIONS = 10_000
MAX_COPIED = 3 << 20
"""Bytes of JSON that the copy operations of one patch may add."""
MAX_WORK = 500_000
"""What the operations of one patch may cost beyond their own size: values walked when they are moved, and sixteen
items of a list that make room."""
MAX_DEPTH = 200
"""Levels of the result: what cannot be encoded must not be made."""


class _Refused(Exception):
    """The patch does not fit the object."""


def apply(obj: Object, patch: Any) -> Object:
    """The object with all operations applied. Neither is changed; the result shares what was not touched with the
    object, nothing with the patch.

    400 if the patch is no list; 413 beyond 10,000 operations, or for what moves too much; 422 for a failed test, a
    path that is not there, an operation that does not exist.
    """
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: a JSON patch must be an array of operations")
    if len(patch) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise StatusError("RequestEntityTooLarge", f"Request entity is too large: {message}")
    document = _Document(obj)
    try:
        for operation in patch:
            document.run(operation)
        return document.result()
    except (_Refused, RecursionError):
        raise rejected() from None


def rejected() -> StatusError:
    """422 as Kubernetes answers a JSON patch that cannot be applied, whatever the reason."""
    return StatusError("Invalid", "the server rejected our request due to an error in our request")


def _pointer(operation: Object, name: str) -> list[str]:
    """The reference tokens of a path; RFC 6901."""
    text = operation.get(name)
    if not isinstance(text, str) or (text and text[0] != "/"):
        raise _Refused
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _position(token: str, length: int) -> int:
    """An index into a list: digits without leading zeros."""
    if not token.isdecimal() or not token.isascii() or (token[0] == "0" and token != "0") or len(token) > 9:
        raise _Refused
    at = int(token)
    if at >= length:
        raise _Refused
    return at


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, booleans only to booleans."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def _too_much() -> StatusError:
    return StatusError("RequestEntityTooLarge", "Request entity is too large: the JSON patch moves too much")


class _Document:
    """The object while it is patched. Containers are copied the first time something in them changes."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.owned: dict[int, Any] = {}
        self.copied = 0
        self.work = 0

    def run(self, operation: Any) -> None:
        """Applies one operation."""
        if not isinstance(operation, dict):
            raise _Refused
        path = _pointer(operation, "path")
        name = operation.get("op")
        known = _OPERATIONS.get(name) if isinstance(name, str) else None
        if known is None:
            raise _Refused
        known(self, path, operation)

    def get(self, path: list[str]) -> Any:
        """The value at a path."""
        node = self.root
        for token in path:
            node = _step(node, token)
        return node

    def parent(self, path: list[str]) -> Any:
        """The container of a path's last token, free to be changed."""
        node = self.root = self.own(self.root)
        for token in path[:-1]:
            child = self.own(_step(node, token))
            node[token if isinstance(node, dict) else int(token)] = child
            node = child
        return node

    def own(self, node: Any) -> Any:
        """A container that no one else sees: the node, or a shallow copy."""
        if id(node) in self.owned:
            return node
        if not isinstance(node, dict | list):
            raise _Refused
        copy = node.copy()
        self.owned[id(copy)] = copy
        return copy

    def spend(self, work: int) -> None:
        """Counts what operations cost; StatusError 413 when it is too much."""
        self.work += work
        if self.work > MAX_WORK:
            raise _too_much()

    def add(self, path: list[str], value: Any) -> None:
        """Puts a value into a map, or inserts it into a list (`-`: at its end)."""
        self.spend(_check_depth(value, MAX_DEPTH - len(path)))
        if not path:
            self.root = value
            return
        node, token = self.parent(path), path[-1]
        if isinstance(node, dict):
            node[token] = value
        else:
            at = len(node) if token == "-" else _position(token, len(node) + 1)
            self.spend((len(node) - at) // 16)
            node.insert(at, value)

    def remove(self, path: list[str]) -> Any:
        """Takes the value at a path out."""
        if not path:
            raise _Refused
        node, token = self.parent(path), path[-1]
        if isinstance(node, dict):
            if token not in node:
                raise _Refused
            return node.pop(token)
        at = _position(token, len(node))
        self.spend((len(node) - at) // 16)
        return node.pop(at)

    def replace(self, path: list[str], value: Any) -> None:
        """Puts a value where there is one; in a map also where there is none, as upstream's library does (evanphx/
        json-patch v4), on which `kubectl rollout undo` relies for an object without annotations."""
        _check_depth(value, MAX_DEPTH - len(path))
        if not path:
            self.root = value
            return
        node, token = self.parent(path), path[-1]
        if isinstance(node, dict):
            node[token] = value
        else:
            node[_position(token, len(node))] = value

    def copy(self, source: list[str], path: list[str]) -> None:
        """Adds a copy of what is at another place."""
        data = msgspec.json.encode(self.get(source))
        self.copied += len(data)
        if self.copied > MAX_COPIED:
            raise _Refused
        self.add(path, msgspec.json.decode(data))

    def move(self, source: list[str], path: list[str]) -> None:
        """Takes a value out and adds it elsewhere, not into itself."""
        if source == path:
            self.get(source)
            return
        if path[: len(source)] == source:
            raise _Refused
        self.add(path, self.remove(source))

    def result(self) -> Object:
        """The object; refused if operations have made it none."""
        if not isinstance(self.root, dict):
            raise _Refused
        return self.root


def _check_depth(value: Any, levels: int) -> int:
    """Refuses a value that has more levels than are left; tells how many values it has in it."""
    if levels < 0:
        raise _Refused
    level = [value]
    count = 0
    while level := [
        child
        for node in level
        if isinstance(node, dict | list)
        for child in (node.values() if isinstance(node, dict) else node)
    ]:
        levels -= 1
        count += len(level)
        if levels < 0:
            raise _Refused
    return count


def _step(node: Any, token: str) -> Any:
    if isinstance(node, dict):
        if token not in node:
            raise _Refused
        return node[token]
    if isinstance(node, list):
        return node[_position(token, len(node))]
    raise _Refused


def _value(operation: Object) -> Any:
    if "value" not in operation:
        raise _Refused
    return operation["value"]


def _test(document: _Document, path: list[str], operation: Object) -> None:
    expected = _value(operation)
    try:
        found = document.get(path)
    except _Refused:
        if expected is None:  # upstream's library takes a missing value for null
            return
        raise
    if not same(found, expected):
        raise _Refused


_OPERATIONS: dict[str, Callable[[_Document, list[str], Object], Any]] = {
    "add": lambda document, path, operation: document.add(path, copied(_value(operation))),
    "remove": lambda document, path, operation: document.remove(path),
    "replace": lambda document, path, operation: document.replace(path, copied(_value(operation))),
    "copy": lambda document, path, operation: document.copy(_pointer(operation, "from"), path),
    "move": lambda document, path, operation: document.move(_pointer(operation, "from"), path),
    "test": _test,
}
