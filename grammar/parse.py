"""Text to tree: the whole file, or every message that its syntax deserves.

Several errors come at once: after an error the parser goes on at the next declaration, that is at the next line
that begins in its first column with a word that declares something.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from dashpot.grammar.failure import Failure
from dashpot.grammar.messages import explain
from dashpot.grammar.report import Message, SpecRejected
from dashpot.grammar.review import review
from dashpot.grammar.syntax import DECLARATIONS, MAX_BRACKETS, MAX_BYTES, SpecTree
from dashpot.grammar.table import parser
from dashpot.model.span import Span

MAX_ERRORS = 20
_DECLARATION = re.compile(rf"^(?:{'|'.join(DECLARATIONS)})\b", re.MULTILINE)
_PIECE = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'[^\'\\\n]*(?:\\.[^\'\\\n]*)*\'|[(){}\[\]]')


def parse(text: str, file: str) -> SpecTree:
    """The tree of a spec. `file` is the name that messages and spans carry.

    Raises SpecRejected, and nothing else, for whatever is no spec: with at most MAX_ERRORS messages, at most one
    for each declaration, in the order of the text.
    """
    text = text.removeprefix("\ufeff")
    _check_size(text, file)
    try:
        tree: SpecTree = parser().parse(text)
    except UnexpectedInput:
        raise SpecRejected(_errors(text, file)) from None
    messages = review(tree, text, file)
    if messages:
        raise SpecRejected(messages)
    return tree


def _check_size(text: str, file: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        where = Span(file, 1, 1, 1, 1)
        words = f"This file has {size:,} bytes; a spec has at most {MAX_BYTES:,}."
        raise SpecRejected([Message("D025", where, words, "split it into modules and name them with `use`.")])
    depth = 0
    for match in _PIECE.finditer(text):
        if match.group() in ("(", "[", "{"):
            depth += 1
        elif match.group() in (")", "]", "}"):
            depth = max(0, depth - 1)
        if depth > MAX_BRACKETS:
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            words = f"More than {MAX_BRACKETS} brackets are open here."
            fix = "name the inner parts with `let` or `fun`."
            raise SpecRejected([Message("D024", Span(file, line, column, line, column + 1), words, fix)])


def _errors(text: str, file: str) -> list[Message]:
    """The messages of a text that does not parse, one for each declaration that fails."""
    messages: list[Message] = []
    begin = 0
    while len(messages) < MAX_ERRORS:
        # What is done with becomes empty lines, so that the places stay right.
        padding = "\n" * text.count("\n", 0, begin)
        failure = first_failure(padding + text[begin:], file)
        if failure is None:
            break
        messages.append(explain(failure))
        following = _DECLARATION.search(text, max(begin + 1, begin - len(padding) + _resume(failure)))
        if following is None:
            break
        begin = following.start()
    return messages


def _resume(failure: Failure) -> int:
    """The offset from which the next declaration is looked for.

    It is the line of the error itself if what came before that line was not complete (a block not closed, a value
    missing): then that line is not to blame. Else it is the line below.
    """
    start = failure.text.rfind("\n", 0, failure.offset) + 1
    before = [token for token in failure.tokens if (token.start_pos or 0) < start]
    depth = sum((token.value in ("(", "[", "{")) - (token.value in (")", "]", "}")) for token in before)
    complete = depth <= 0 and (not before or before[-1].type == "_NL")
    return start + 1 if complete else start


def first_failure(text: str, file: str) -> Failure | None:
    """Where the parser gives up, with all that the rules for messages look at; None if it does not."""
    session: Any = parser().parse_interactive(text)  # Lark leaves its methods without types
    tokens: list[Token] = []
    try:
        for token in session.lexer_thread.lex(session.parser_state):
            session.feed_token(token)
            tokens.append(token)
        end = Token.new_borrow_pos("$END", "", tokens[-1]) if tokens else Token("$END", "", 0, 1, 1, 1, 1, 0)
        session.feed_token(end)
        return None
    except UnexpectedToken as error:
        found = error.token if error.token.type != "$END" else Token("$END", "", len(text))
    except UnexpectedCharacters as error:
        start = error.pos_in_stream or 0
        found = Token("?", text[start], start, error.line, error.column, error.line, error.column + 1, start + 1)
    return Failure(text, file, tuple(tokens), found, frozenset(session.accepts()))


def tokens(text: str) -> list[Token]:
    """The tokens of a text that parses, with the new lines (`_NL`) that end statements; comments are not among them."""
    session: Any = parser().parse_interactive(text.removeprefix("\ufeff"))
    found: list[Token] = []
    for token in session.lexer_thread.lex(session.parser_state):
        session.feed_token(token)
        found.append(token)
    return found
