"""JSONPath as printer columns use it: `.spec.a`, `['a.b']`, `[0]`, `[*]`, `[1:3]`, `..a`, `[?(@.type=="Ready")].b`.

Source: k8s.io/client-go util/jsonpath, release 1.34, with missing keys allowed. Paths are compiled once; a step maps
the values found so far to the values below them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Values = list[Any]
Step = Callable[[Values], Values]
Test = Callable[[Any], bool]

MAX_LENGTH = 4096
MAX_STEPS = 100
MAX_FOUND = 10_000
"""Values that one step may give: `..*` after `..*` must not explode."""


class PathError(ValueError):
    """A path that is none: what is wrong, and where."""


def compile_path(text: str) -> Callable[[Any], Values]:
    """The function that finds the values at a path. PathError if the text is none."""
    if len(text) > MAX_LENGTH:
        raise PathError(f"path is longer than {MAX_LENGTH} characters")
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    steps = _Parser(body.removeprefix("$")).steps()

    def find(value: Any) -> Values:
        found = [value]
        for step in steps:
            found = step(found)
            if not found:
                break
        return found

    return find


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, why: str) -> PathError:
        return PathError(f"{why} in {self.text!r}")

    def steps(self) -> list[Step]:
        found: list[Step] = []
        while self.at < len(self.text):
            found.append(self.step())
            if len(found) > MAX_STEPS:
                raise self.fail("too many steps")
        return found

    def step(self) -> Step:
        if self.text.startswith("..", self.at):
            self.at += 2
            return _deep(self.name() if self.more_name() else "*")
        if self.text[self.at] == ".":
            self.at += 1
            if self.at == len(self.text) or self.text[self.at] == "[":
                return lambda found: found
            return _wild if (name := self.name()) == "*" else _field(name)
        if self.text[self.at] == "[":
            return self.bracket()
        return _wild if (name := self.name()) == "*" else _field(name)

    def more_name(self) -> bool:
        return self.at < len(self.text) and self.text[self.at] not in ".["

    def name(self) -> str:
        """A key; a backslash takes the next character as it is."""
        out = []
        while self.at < len(self.text) and self.text[self.at] not in ".[":
            if self.text[self.at] in " \t\n]{}":
                raise self.fail(f"unexpected character {self.text[self.at]!r}")
            if self.text[self.at] == "\\":
                self.at += 1
                if self.at == len(self.text):
                    raise self.fail("unterminated escape")
            out.append(self.text[self.at])
            self.at += 1
        if not out:
            raise self.fail("empty name")
        return "".join(out)

    def bracket(self) -> Step:
        inner = self.inside()
        if inner.startswith("?(") and inner.endswith(")"):
            return _filter(_test(inner[2:-1], self))
        if inner == "*":
            return _wild
        parts = _split(inner)
        names = [_unquoted(part.strip()) for part in parts]
        if all(name is not None for name in names):
            keys = [name for name in names if name is not None]
            return lambda found: [
                value[key] for value in found for key in keys if isinstance(value, dict) and key in value
            ]
        slices = [self.slice(part.strip()) for part in parts]
        return lambda found: [
            item for value in found if isinstance(value, list) for cut in slices for item in value[cut]
        ]

    def inside(self) -> str:
        """The text up to the bracket that closes this one; quotes hide brackets."""
        depth, quote, start = 0, "", self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if quote:
                if char == "\\":
                    self.at += 1
                elif char == quote:
                    quote = ""
            elif char in "'\"":
                quote = char
            elif char == "[":
                depth += 1
            elif char == "]":
                depth -= 1
                if not depth:
                    self.at += 1
                    return self.text[start + 1 : self.at - 1].strip()
            self.at += 1
        raise self.fail("unterminated array")

    def slice(self, text: str) -> slice:
        parts = text.split(":")
        try:
            numbers = [int(part) if part.strip() else None for part in parts]
        except ValueError:
            raise self.fail(f"invalid array index {text}") from None
        if len(numbers) == 1 and numbers[0] is not None:
            only = numbers[0]
            return slice(only, only + 1 if only != -1 else None)
        step = numbers[2] if len(numbers) == 3 else None
        if len(numbers) not in (2, 3) or (step is not None and step <= 0):
            raise self.fail(f"invalid array index {text}")
        return slice(*numbers)


def _split(text: str) -> list[str]:
    """The parts of a union, commas in quotes apart."""
    parts, quote, start = [], "", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _unquoted(text: str) -> str | None:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace("\\" + text[0], text[0])
    return None


def _field(name: str) -> Step:
    return lambda found: [value[name] for value in found if isinstance(value, dict) and name in value]


def _below(value: Any) -> Values:
    if isinstance(value, dict):
        return [value[key] for key in sorted(value)]
    return value if isinstance(value, list) else []


def _wild(found: Values) -> Values:
    return [inner for value in found for inner in _below(value)][:MAX_FOUND]


def _deep(name: str) -> Step:
    def step(found: Values) -> Values:
        out: Values = []
        left = list(reversed(found))
        while left and len(out) < MAX_FOUND:
            value = left.pop()
            if name == "*":
                out += _below(value)
            elif isinstance(value, dict) and name in value:
                out.append(value[name])
            left += reversed(_below(value))
        return out

    return step


def _filter(test: Test) -> Step:
    return lambda found: [item for value in found if isinstance(value, list) for item in value if test(item)]


_OPERATORS = ("==", "!=", "<=", ">=", "<", ">")


def _test(text: str, parser: _Parser) -> Test:
    """`@.type=="Ready"`, `@.a > 3`, or `@.a`: whether it is there."""
    left, operator, right = _compared(text)
    one = _operand(left, parser)
    if not operator:
        return lambda item: bool(one(item))
    other = _operand(right, parser)

    def test(item: Any) -> bool:
        a, b = one(item), other(item)
        return bool(a) and bool(b) and _holds(a[0], operator, b[0])

    return test


def _compared(text: str) -> tuple[str, str, str]:
    quote = ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            for operator in _OPERATORS:
                if text.startswith(operator, at):
                    return text[:at].strip(), operator, text[at + len(operator) :].strip()
    return text.strip(), "", ""


def _operand(text: str, parser: _Parser) -> Callable[[Any], Values]:
    if text.startswith("@"):
        return compile_path(text[1:])
    literal: Any = _unquoted(text)
    if literal is None:
        if text in ("true", "false"):
            literal = text == "true"
        else:
            try:
                literal = float(text) if "." in text else int(text)
            except ValueError:
                raise parser.fail(f"unrecognized operand {text}") from None
    return lambda item: [literal]


def _holds(a: Any, operator: str, b: Any) -> bool:
    if isinstance(a, bool) != isinstance(b, bool):
        return operator == "!="
    if operator in ("==", "!="):
        return bool(a == b) == (operator == "==")
    try:
        return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator])
    except TypeError:
        return False
