"""Label selectors: the text form of requests and the object form of specs, compiled to predicates over labels.

Texts are read by upstream's rules, errors are its texts. Requirements are joined by and, kept in order of key. Source:
k8s.io/apimachinery pkg/labels/selector.go, pkg/apis/meta/v1/helpers.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from attrs import field, frozen

from dashpot.model.objects import names
from dashpot.model.objects.status import Object, bad_request, shown

Labels = Mapping[str, str]
Predicate = Callable[[Labels], bool]

LONGEST = 64 * 1024
"""Characters of a selector in a request."""
_REMEMBERED = 1024

_BINARY: Final = ("in", "notin", "=", "==", "!=", "gt", "lt")
_WORDS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^=!(),<> \t\r\n\0]+)|(\Z|\0))")


class SelectorError(ValueError):
    """A selector that cannot be read; the message is upstream's."""


@frozen
class Requirement:
    """One condition on one key. `operator` is `=`, `==`, `!=`, `in`, `notin`, `exists`, `!`, `gt` or `lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        if self.operator in ("exists", "!"):
            return self.key if self.operator == "exists" else f"!{self.key}"
        return f"{self.key}{ {'gt': '>', 'lt': '<'}.get(self.operator, self.operator) }{self.values[0]}"

    def predicate(self) -> Predicate:
        """The condition as a function of labels."""
        key, operator, values = self.key, self.operator, frozenset(self.values)
        only = self.values[0] if len(self.values) == 1 else None
        if operator in ("=", "==", "in"):
            if only is not None:
                return lambda labels: labels.get(key) == only
            return lambda labels: labels.get(key) in values
        if operator in ("!=", "notin"):
            if only is not None:
                return lambda labels: labels.get(key) != only
            return lambda labels: labels.get(key) not in values
        if operator == "exists":
            return lambda labels: key in labels
        if operator == "!":
            return lambda labels: key not in labels
        bound, greater = int(self.values[0]), operator == "gt"

        def compare(labels: Labels) -> bool:
            number = _integer(labels.get(key))
            return number is not None and (number > bound if greater else number < bound)

        return compare


def _integer(text: str | None) -> int | None:
    """An int64 as Go's ParseInt reads it."""
    if text is None or not re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _everything(labels: Labels) -> bool:
    return True


def _nothing(labels: Labels) -> bool:
    return False


@frozen
class Selector:
    """Requirements joined by and; `matches(labels)` is compiled. `never`: selects nothing, whatever the labels."""

    requirements: tuple[Requirement, ...] = ()
    never: bool = False
    matches: Predicate = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "matches", self._compile())

    def _compile(self) -> Predicate:
        if self.never:
            return _nothing
        tests = [requirement.predicate() for requirement in self.requirements]
        if not tests:
            return _everything
        if len(tests) == 1:
            return tests[0]

        def every(labels: Labels) -> bool:
            for test in tests:
                if not test(labels):
                    return False
            return True

        return every

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements and not self.never

    def selects(self, obj: Object) -> bool:
        """Whether an object's labels match."""
        return self.matches((obj.get("metadata") or {}).get("labels") or {})

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector((), True)


class _Parser:
    """Reads the text form; the same words as upstream's parser for the same mistakes."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        self._symbols: list[bool] = []
        at = 0
        while True:
            match = _TOKEN.match(text, at)
            if match is None:
                break
            at = match.end()
            symbol, identifier, _ = match.groups()
            self._tokens.append(symbol or identifier or "")
            self._symbols.append(symbol is not None)
            if not symbol and not identifier:
                break
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _named(self) -> bool:
        """Whether the next token is an identifier."""
        return bool(self._tokens[self._at]) and not self._symbols[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def selector(self) -> Selector:
        found: list[Requirement] = []
        while True:
            if not self._peek():
                break
            if not self._named() and self._peek() != "!":
                raise SelectorError(f"found '{self._peek()}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            if not self._peek():
                break
            token = self._next()
            if token != ",":
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
            if not self._named() and self._peek() != "!":
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")
        return Selector(tuple(sorted(found, key=lambda requirement: requirement.key)))

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!" and not self._named()
        if absent:
            self._next()
        if not self._named():
            raise SelectorError(f"found '{self._next()}', expected: identifier")
        key = self._next()
        wrong = names.qualified(key)
        if wrong:
            raise SelectorError(f"<nil>: Invalid value: {shown(key)}: {'; '.join(wrong)}")
        if absent or self._peek() in ("", ","):
            return Requirement(key, "!" if absent else "exists")
        token = self._next()
        operator = {">": "gt", "<": "lt"}.get(token, token)
        if operator not in _BINARY or token in ("gt", "lt"):
            raise SelectorError(f"found '{token}', expected: {', '.join(_BINARY)}")
        values = self._values() if operator in ("in", "notin") else [self._exact()]
        return _checked(key, operator, sorted(set(values)))

    def _exact(self) -> str:
        if self._peek() in ("", ","):
            return ""
        if not self._named():
            raise SelectorError(f"found '{self._next()}', expected: identifier")
        return self._next()

    def _values(self) -> list[str]:
        token = self._next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        first = self._peek()
        if first == ")":
            self._next()
            return [""]
        if not self._named() and first != ",":
            raise SelectorError(f"found '{first}', expected: ',', ')' or identifier")
        found: list[str] = []
        while True:
            if self._named():
                found.append(self._next())
                if self._peek() not in (",", ")"):
                    raise SelectorError(f"found '{self._peek()}', expected: ',' or ')'")
                if self._peek() == ")":
                    break
            elif self._peek() == ",":
                self._next()
                if not found:
                    found.append("")
                if self._peek() in (")", ","):
                    found.append("")
                    if self._peek() == ")":
                        break
            else:
                raise SelectorError(f"found '{self._peek()}', expected: ',', or identifier")
        self._next()
        return found


def _checked(key: str, operator: str, values: list[str]) -> Requirement:
    if operator in ("gt", "lt") and any(_integer(value) is None for value in values):
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise SelectorError(f"values[0]: Invalid value: {shown(values[0])}: {text}")
    for at, value in enumerate(values):
        wrong = names.label_value(value)
        if wrong:
            raise SelectorError(f"values[{at}][{key}]: Invalid value: {shown(value)}: {'; '.join(wrong)}")
    return Requirement(key, operator, tuple(values))


def parse(text: str) -> Selector:
    """Reads `app=web,tier in (a,b),!old`. SelectorError if it cannot be read."""
    if len(text) > LONGEST:
        raise SelectorError("the selector is too long")
    return _remembered(text) if len(text) <= _REMEMBERED else _Parser(text).selector()


@lru_cache(maxsize=1024)
def _remembered(text: str) -> Selector:
    return _Parser(text).selector()


def from_query(text: str) -> Selector:
    """The `labelSelector` of a request; StatusError 400 if it cannot be read."""
    try:
        return parse(text)
    except SelectorError as error:
        raise bad_request(str(error)) from None


def from_object(selector: Object | None) -> Selector:
    """A LabelSelector object: none selects nothing, an empty one everything. SelectorError for an unknown operator.

    Keys and values are not checked here: `metadata.validate_selector` does, once, when the object is written.
    """
    if selector is None:
        return NOTHING
    found = [Requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for term in selector.get("matchExpressions") or ():
        operator = _WORDS.get(term.get("operator", ""))
        if operator is None:
            raise SelectorError(f'"{term.get("operator", "")}" is not a valid label selector operator')
        values = tuple(sorted(set(term.get("values") or ())))
        if operator in ("in", "notin") and not values:
            raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
        found.append(Requirement(term.get("key", ""), operator, values))
    return Selector(tuple(sorted(found, key=lambda requirement: requirement.key)))


def from_labels(labels: Labels | None) -> Selector:
    """The selector of a Service or ReplicationController: all these labels. None or none of them selects everything."""
    rows = tuple(Requirement(key, "=", (value,)) for key, value in sorted((labels or {}).items()))
    return Selector(rows)
