"""Go's rule: a new line ends a statement if the token before it can end one; inside ( ) and [ ] it is nothing.

Lines that begin with `.`, `&&`, `else` … are joined to the one above by the terminal JOIN of the grammar. A filter
that looked one token ahead would make the contextual lexer read that token in the wrong state.
"""

from collections.abc import Iterator

from lark import Token

_ENDS = frozenset(
    "NAME INT FLOAT STRING QUANTITY DURATION RPAR RSQB RBRACE _OPT TRUE FALSE NULL "
    "RETURN REQUEUE FAIL SETTLE IMMUTABLE REQUIRED MONOTONE UNCHANGED CHANGED SAME FORCE FAIR "
    "FOREGROUND BACKGROUND ORPHAN NOW ONLY LAGGING READ_OWN_WRITES LIVE ON OFF URGENT FREE WIDE".split()
)


class Newlines:
    """The filter behind Lark's lexer: drops the new lines that end nothing."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens without the new lines that end nothing. Keeps no state between texts."""
        nesting: list[str] = []
        last = ""
        for token in stream:
            if token.type == "_NL":
                if last not in _ENDS or (nesting and nesting[-1] != "{"):
                    continue
            elif token.value in ("(", "[", "{"):
                nesting.append(token.value)
            elif token.value in (")", "]", "}") and nesting:
                nesting.pop()
            last = token.type
            yield token
