"""From a failure of the parser to a message: the first rule that knows the slip speaks."""

from __future__ import annotations

from collections.abc import Callable

from dashpot.grammar import messages_blocks as blocks
from dashpot.grammar import messages_text as text
from dashpot.grammar import messages_words as words
from dashpot.grammar.failure import Failure
from dashpot.grammar.report import Message

Rule = Callable[[Failure], Message | None]

RULES: tuple[Rule, ...] = (
    text.quotes,
    text.semicolons,
    text.temporal,
    text.quantifiers,
    words.lambdas,
    text.updates,
    text.operators,
    text.numbers,
    text.characters,
    blocks.unclosed,
    blocks.unopened,
    blocks.lone_brace,
    blocks.misplaced_else,
    words.functions,
    words.declarations,
    words.reads,
    words.returns,
    words.budgets,
    words.values,
    words.writes,
    words.loops,
    blocks.handlers,
    text.equals,
    blocks.missing_block,
    blocks.lone_operator,
    words.formulas,
    words.reserved,
    words.calls,
    words.clauses,
    words.fields,
    blocks.commas,
    blocks.breaks,
)
"""In this order: what is wrong with a word comes before what is wrong with the place it stands in."""

WORDS = {
    "_NL": "a new line",
    "$END": "the end of the file",
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number with a fraction",
    "STRING": "a string",
    "QUANTITY": "a quantity",
    "DURATION": "a duration",
    "RELOP": "a comparison",
    "ADDOP": "`+` or `-`",
    "MULOP": "`*`, `/` or `%`",
    "VERB": "a verb (create, update, patch, delete …)",
    "_OPT": "`?`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "EQUAL": "`=`",
    "QMARK": "`?`",
    "BANG": "`!`",
    "MINUS": "`-`",
    "BOTH": "`&&`",
    "EITHER": "`||`",
    "RANGE": "`..`",
    "ARROW": "`->`",
}


def explain(failure: Failure) -> Message:
    """The message of a failure: the slip by its own code if a rule knows it, else D001 with what would have fitted."""
    for rule in RULES:
        message = rule(failure)
        if message is not None:
            return message
    return unexpected(failure)


def unexpected(failure: Failure) -> Message:
    """The message for what no rule knows."""
    what = "the line ends" if failure.token.type == "_NL" else "the text ends"
    said = f"{what} where more is needed." if failure.at_line_end else f"`{failure.value}` does not fit here."
    if failure.value and failure.last is not None and failure.value == failure.last:
        return Message("D001", failure.span, f"`{failure.value}` stands here twice.", "remove one of the two.")
    fitting = _fitting(failure.accepts)
    listed = ", ".join(fitting[:8]) + (" …" if len(fitting) > 8 else "")
    fix = f"here can stand {listed}." if listed else "remove it."
    return Message("D001", failure.span, said[0].upper() + said[1:], fix)


def _fitting(accepts: frozenset[str]) -> list[str]:
    """What would have fitted, in words: what is special to this place first, values and operators summed up."""
    rest, summed = set(accepts), []
    if {"NAME", "TRUE", "INT"} <= accepts:
        rest -= _VALUES
        summed.append("a value")
    if {"RELOP", "ADDOP"} <= accepts:
        rest -= _OPERATORS
        summed.append("an operator")
    return sorted(WORDS.get(name, f"`{name.lower()}`") for name in rest) + summed


_VALUES = frozenset("NAME INT FLOAT STRING QUANTITY DURATION TRUE FALSE NULL LPAR LSQB LBRACE BANG MINUS ANY".split())
_OPERATORS = frozenset("RELOP ADDOP MULOP DOT LSQB LPAR QMARK BOTH EITHER RANGE STRING".split())
