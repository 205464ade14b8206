"""Objects made in expressions of mutating policies: `Object.spec{replicas: 2}`, `JSONPatch{op: "add", …}`.

The types of these messages mirror the fields of whatever is admitted, so they say nothing that the schema does not say
when the result is merged. They are read as maps: `{"replicas": dyn(2)}`. Source: k8s.io/apiserver pkg/cel/mutation,
release 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import define

STRING = r"""[rRbB]{0,2}(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")"""
TOKEN = re.compile(
    rf"""(?P<string>{STRING})
    |(?P<comment>//[^\n]*)
    |(?P<name>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)
    |(?P<space>\s+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
MESSAGE = re.compile(r"(?:Object(?:\s*\.\s*\w+)*|JSONPatch)", re.ASCII)
OPEN, CLOSE = "([{", ")]}"
ESCAPES = (("__dot__", "."), ("__dash__", "-"), ("__slash__", "/"), ("__underscores__", "__"))
DEPTH_MAX = 100


class MessageError(Exception):
    """A message that is not written as one."""


@define
class _Reader:
    """Tokens, one at a time: kind and text."""

    tokens: list[tuple[str, str]]
    at: int = 0
    depth: int = 0

    def peek(self) -> tuple[str, str]:
        """The next token; kind `end` after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def skip(self) -> tuple[str, str]:
        """The next token that is no blank; blanks are consumed."""
        while self.peek()[0] == "space":
            self.at += 1
        return self.peek()

    def opens(self) -> bool:
        """Whether a brace comes next, after blanks."""
        at = self.at
        while at < len(self.tokens) and self.tokens[at][0] == "space":
            at += 1
        return at < len(self.tokens) and self.tokens[at][1] == "{"

    def take(self) -> tuple[str, str]:
        """The next token, consumed."""
        found = self.peek()
        self.at += 1
        return found

    def expect(self, text: str) -> None:
        """Consumes one sign."""
        self.skip()
        kind, found = self.take()
        if found != text:
            raise MessageError(f"expected '{text}' instead of '{found}'" if kind != "end" else f"'{text}' is missing")

    def until(self, ends: str) -> Iterator[str]:
        """An expression up to one of `ends` at its own depth, with the messages in it read as maps."""
        while True:
            kind, text = self.peek()
            if kind == "end" or (kind == "other" and text in ends):
                return
            self.take()
            if kind == "name" and MESSAGE.fullmatch(text) and self.opens():
                yield self.message()
            elif kind == "other" and text in OPEN:
                close = CLOSE[OPEN.index(text)]
                self.enter()
                yield text
                yield from self.until(close)
                self.expect(close)
                yield close
                self.depth -= 1
            elif kind == "other" and text in CLOSE:
                raise MessageError(f"'{text}' closes nothing")
            else:
                yield text

    def enter(self) -> None:
        """One bracket deeper."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise MessageError("nested too deeply")

    def message(self) -> str:
        """The fields of a message as the entries of a map."""
        self.expect("{")
        self.enter()
        entries = []
        while self.skip()[1] != "}":
            optional = self.peek()[1] == "?"
            if optional:
                self.take()
                self.skip()
            kind, name = self.take()
            if kind != "name" or "." in name:
                raise MessageError(f"'{name}' is no name of a field")
            self.expect(":")
            value = "".join(self.until(",}")).strip()
            if not value:
                raise MessageError(f"the field {name} has no value")
            entries.append(f'?"{unescape(name)}": {value}' if optional else f'"{unescape(name)}": dyn({value})')
            if self.peek()[1] == ",":
                self.take()
        self.expect("}")
        self.depth -= 1
        return "{" + ", ".join(entries) + "}"


def unescape(name: str) -> str:
    """A field's own name: `a__dash__b` is `a-b`, a reserved word has underscores around it."""
    for escaped, real in ESCAPES:
        name = name.replace(escaped, real)
    return name[2:-2] if len(name) > 4 and name.startswith("__") and name.endswith("__") else name


def as_maps(expression: str) -> str:
    """The expression with its messages written as maps; MessageError where brackets or fields are wrong."""
    tokens = []
    for match in TOKEN.finditer(expression):
        kind = str(match.lastgroup)
        # A comment counts as a blank: it must not swallow what follows once the lines are joined.
        tokens.append(("space", " ") if kind in ("space", "comment") else (kind, match.group()))
    reader = _Reader(tokens)
    found = "".join(reader.until(""))
    if reader.peek()[0] != "end":
        raise MessageError(f"'{reader.peek()[1]}' closes nothing")
    return found
