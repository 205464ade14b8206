"""Where and in what state the parser gave up: what the rules for syntax messages look at."""

from __future__ import annotations

from functools import cached_property

from attrs import field, frozen
from lark import Token

from dashpot.grammar.tree import place
from dashpot.model.span import Span

_CLOSES = {"(": ")", "[": "]", "{": "}"}


@frozen
class Frame:
    """An open bracket: its token and the tokens of the statement that opened it, in front of it."""

    opener: Token
    head: tuple[Token, ...]

    @property
    def word(self) -> str:
        """The first word of the statement that opened it, "" if there is none."""
        return str(self.head[0]) if self.head else ""


@frozen(slots=False)
class Failure:
    """The first error of a text.

    text      the text, as parsed
    file      its name
    tokens    all tokens before the error, new lines (`_NL`) included
    token     the token that does not fit; its type is "$END" at the end of the text, "?" for an unknown character
    accepts   the names of the terminals that would have fitted
    """

    text: str
    file: str
    tokens: tuple[Token, ...]
    token: Token
    accepts: frozenset[str] = field(repr=False)

    @property
    def value(self) -> str:
        """The text of the token that does not fit; "" for a new line and the end."""
        return "" if self.token.type in ("_NL", "$END") else str(self.token)

    @property
    def at_line_end(self) -> bool:
        """Whether the line (or the text) ends where something was missing."""
        return self.token.type in ("_NL", "$END")

    @property
    def span(self) -> Span:
        """The region of the token; at the end of a line one column, behind its last token."""
        if not self.at_line_end:
            return place(self.token, self.file)
        last = self.last
        if last is None:
            return Span(self.file, 1, 1, 1, 2)
        end = place(last, self.file)
        return Span(self.file, end.end_line, end.end_column, end.end_line, end.end_column + 1)

    @cached_property
    def last(self) -> Token | None:
        """The last token before the error that is no new line."""
        return next((t for t in reversed(self.tokens) if t.type != "_NL"), None)

    @cached_property
    def last_type(self) -> str:
        """The type of `last`, "" if there is none."""
        return self.last.type if self.last is not None else ""

    @cached_property
    def frames(self) -> tuple[Frame, ...]:
        """The brackets that are open, outermost first."""
        return self._walk[0]

    @cached_property
    def statement(self) -> tuple[Token, ...]:
        """The tokens of the statement, clause or declaration in which the error stands, before it.

        Brackets inside it count as part of it; a `{` of the block around it does not.
        """
        return self._walk[1]

    @cached_property
    def _walk(self) -> tuple[tuple[Frame, ...], tuple[Token, ...]]:
        frames: list[Frame] = []
        begun: list[list[Token]] = [[]]
        for token in self.tokens:
            if token.value == "{" or token.value in ("(", "["):
                frames.append(Frame(token, tuple(begun[-1])))
                begun[-1].append(token)
                begun.append([])
            elif token.value in (")", "]", "}") and frames and _CLOSES[frames[-1].opener.value] == token.value:
                frames.pop()
                begun.pop()
                begun[-1].append(token)
            elif token.type == "_NL":
                begun[-1].clear()
            else:
                begun[-1].append(token)
        return tuple(frames), tuple(begun[-1])

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The texts of `statement`."""
        return tuple(str(token) for token in self.statement)

    @cached_property
    def head(self) -> str:
        """The first word of the statement; inside `(` and `[` that of the statement around them."""
        tokens = self.statement
        for frame in reversed(self.frames):
            if frame.opener.value == "{":
                break
            tokens = frame.head
        return str(tokens[0]) if tokens else ""

    @cached_property
    def block(self) -> str:
        """The first word of what the innermost open brace belongs to: "controller", "if", "spec" …; "" at the top."""
        for frame in reversed(self.frames):
            if frame.opener.value == "{":
                return frame.word
        return ""

    @property
    def first_on_line(self) -> bool:
        """Whether nothing but space stands before the error on its line."""
        return not self.before.strip()

    @cached_property
    def offset(self) -> int:
        """Where the error is in the text, counted in characters from 0."""
        return self.token.start_pos if self.token.start_pos is not None else len(self.text)

    @cached_property
    def before(self) -> str:
        """The line up to the error."""
        return self.text[self.text.rfind("\n", 0, self.offset) + 1 : self.offset]

    @cached_property
    def after(self) -> str:
        """The line from the error on."""
        end = self.text.find("\n", self.offset)
        return self.text[self.offset : end if end >= 0 else len(self.text)]
