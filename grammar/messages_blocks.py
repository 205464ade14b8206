"""Slips of structure: brackets, braces, blocks, line breaks."""

from __future__ import annotations

import re

from lark import Token

from dashpot.grammar.failure import Failure, Frame
from dashpot.grammar.messages_text import OPERANDS, part
from dashpot.grammar.report import Message
from dashpot.grammar.syntax import BODIES, CLAUSES, DECLARATIONS, STATEMENTS
from dashpot.grammar.tree import place
from dashpot.model.span import Span

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_OPENS = {close: opener for opener, close in _CLOSES.items()}
_OPERATORS = ("RELOP", "ADDOP", "MULOP", "EQUAL", "RANGE", "ARROW", "COMMA")
_BEGINS = frozenset(STATEMENTS).union(DECLARATIONS, *CLAUSES.values())


def unclosed(f: Failure) -> Message | None:
    """A `{`, `(` or `[` that nothing closes, seen at the next declaration, the end, or a bracket of another kind."""
    if not f.frames:
        return None
    word = re.match(r"[a-z]+\b", _line(f))
    inner = f.frames[-1].opener
    later = (inner.line or 0) < (f.token.line or 0)
    at_next = bool(word) and word is not None and word.group() in DECLARATIONS and later
    at_end = f.token.type == "$END"
    opener = _OPENS.get(f.value)
    crossed = opener is not None and opener != inner.value and any(x.opener == opener for x in f.frames)
    in_parens = inner.value in ("(", "[") and (
        (later and f.first_on_line and f.token.type != "?") or (f.value == "{" and "RPAR" in f.accepts)
    )
    word_follows = f.token.type == f.value.upper() and {"(": "RPAR", "[": "RSQB"}.get(inner.value, "") in f.accepts
    if not (at_next or at_end or crossed or in_parens or word_follows):
        return None
    frame = _culprit(f) if inner.value == "{" else f.frames[-1]
    sign = frame.opener.value
    seen = f.span if not at_next else _first_word(f)
    where = "the text ends" if at_end else "the next declaration begins" if at_next else "something else begins"
    if crossed or word_follows:
        where = f"`{f.value}` comes"
    if sign == "{":
        what = f"block of `{frame.word}`" if frame.word else "block"
        text = f"The {what} is not closed: {where} before its `}}`."
    else:
        text = f"This `{sign}` is not closed: {where} before its `{_CLOSES[sign]}`."
    note = () if at_end else ((seen, f"Here {where}:"),)
    fix = f"add `{_CLOSES[sign]}`" + (" where the block ends." if sign == "{" else " where it ends.")
    return Message("D005" if sign == "{" else "D036", place(frame.opener, f.file), text, fix, note)


def _line(f: Failure) -> str:
    """The whole line of the error."""
    return f.before + f.after


def _first_word(f: Failure) -> Span:
    found = re.match(r"\s*(\w+)", _line(f))
    end = found.end() if found else 1
    line = f.token.line or 1
    return Span(f.file, line, 1, line, end + 1)


def _culprit(f: Failure) -> Frame:
    """The block that is most likely the open one: one whose `}` is indented less, else the innermost.

    A `}` closes the innermost block, which is not the one its writer meant if a brace is missing further in; the
    indentation tells which was meant.
    """
    lines = f.text.split("\n")
    stack: list[Frame] = []
    heads: list[Token] = []
    for token in f.tokens:
        if token.value == "{":
            stack.append(Frame(token, tuple(heads)))
            heads = []
        elif token.value == "}" and stack:
            frame = stack.pop()
            closing = lines[(token.line or 1) - 1]
            own_line = not closing[: (token.column or 1) - 1].strip()
            opening = lines[(frame.opener.line or 1) - 1]
            if own_line and _indent(closing) < _indent(opening):
                return frame
            heads = []
        elif token.type == "_NL":
            heads = []
        else:
            heads.append(token)
    return next((x for x in reversed(f.frames) if x.opener.value == "{"), f.frames[-1])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def unopened(f: Failure) -> Message | None:
    """A closing bracket that fits nothing."""
    if f.value not in _OPENS or (f.frames and f.frames[-1].opener == _OPENS[f.value]):
        return None
    text = f"This `{f.value}` closes nothing: no `{_OPENS[f.value]}` is open here."
    return Message("D021", f.span, text, f"remove it, or open a `{_OPENS[f.value]}` before it.")


def lone_brace(f: Failure) -> Message | None:
    """`{` at the beginning of a line, below what it belongs to."""
    gap = re.match(r"\s*\{", f.text[f.offset :])
    if f.token.type != "_NL" or "LBRACE" not in f.accepts or gap is None or f.last is None:
        return None
    brace = f.offset + gap.end() - 1
    line, column = f.text.count("\n", 0, brace) + 1, brace - f.text.rfind("\n", 0, brace)
    text = "The line above has ended, so this `{` belongs to nothing."
    fix = f"put the `{{` behind `{f.last}`, on the same line."
    note = ((place(f.last, f.file), "The line that ends here:"),)
    return Message("D022", Span(f.file, line, column, line, column + 1), text, fix, note)


def lone_operator(f: Failure) -> Message | None:
    """A line that begins with `+`, `==` …"""
    sign = f.token.type in _OPERATORS or f.value in ("in", "and", "or")
    if not sign or not f.first_on_line or f.last is None or f.tokens[-1].type != "_NL":
        return None
    text = f"The line above has ended, so this line cannot begin with `{f.value}`."
    fix = f"put `{f.value}` at the end of the line above (only `.`, `&&`, `||`, `?` and `:` may begin a line)."
    return Message("D023", f.span, text, fix)


def misplaced_else(f: Failure) -> Message | None:
    """`else` that follows no `if` block, `elif`."""
    if f.value == "else" and "else" not in f.words:
        text = "This `else` does not follow the block of an `if`."
        return Message("D008", f.span, text, "write `if condition { … } else { … }`.")
    word = next((w for w in (*f.words[:1], f.value) if w in ("elif", "elsif", "elseif", "otherwise")), None)
    if word is None:
        return None
    span = f.span if word == f.value else place(f.statement[0], f.file)
    instead = "else" if word == "otherwise" else "else if"
    text = f"`{word}` is written `{instead}`."
    return Message("D008", span, text, f"write `}} {instead} {{`, on the line of the `}}` or below.")


_HEADS = frozenset("if for else reconcile gone action given scope faults".split()) | set(DECLARATIONS) - {
    "use",
    "const",
    "fun",
}


def missing_block(f: Failure) -> Message | None:
    """`if x return`, `if x:`, `if x then`, `for p in pods:`, `reconcile db` without braces."""
    if "LBRACE" not in f.accepts or f.last is None:
        return None
    head = f.words[0] if f.words else ""
    if head not in _HEADS:
        return None
    if _handler(f):
        return None
    if f.token.type in OPERANDS and head in ("if", "for") and f.value not in STATEMENTS and f.value != "then":
        return None
    if f.value not in (":", "then", "do", "begin") and not f.at_line_end and f.value not in STATEMENTS:
        return None
    text = f"`{head}` needs a block in braces."
    start = " ".join(_trim(_line(f)[: len(f.before)]).split())
    instead = f.after if f.value in STATEMENTS else "…"
    return Message("D026", f.span, text, f"write `{start} {{ {instead.strip()} }}`.")


def _trim(text: str) -> str:
    return text.strip().rstrip(":")


def _handler(f: Failure) -> bool:
    return len(f.words) >= 2 and f.words[-2] == "on"


def handlers(f: Failure) -> Message | None:
    """`on Conflict requeue`, `catch`, `try`."""
    word = next((w for w in (*f.words[:1], f.value) if w in ("try", "catch", "except", "rescue", "finally")), None)
    if word is not None and f.block in BODIES:
        span = f.span if word == f.value else place(f.statement[0], f.file)
        text = f"There is no `{word}`: an error is handled behind the call that can fail."
        return Message("D040", span, text, "write `update x.status { … } on Conflict { requeue }`.")
    if not _handler(f) or "LBRACE" not in f.accepts:
        return None
    error = f.words[-1]
    if f.value == ",":
        fix = f"write one handler for each error: `on {error} {{ … }} on … {{ … }}`."
        return Message("D040", f.span, "A handler is for one error.", fix)
    body = f.after.strip() if f.value in STATEMENTS else "requeue"
    return Message("D040", f.span, f"The handler of {error} needs braces.", f"write `on {error} {{ {body} }}`.")


def commas(f: Failure) -> Message | None:
    """Two things in a row that need a comma between them."""
    if f.token.type not in OPERANDS | {"LPAR", "LSQB", "LBRACE", "BANG"} or f.last_type not in OPERANDS | {"_OPT"}:
        return None
    if "COMMA" not in f.accepts or f.value in (")", "]", "}"):
        return None
    if f.first_on_line and f.tokens[-1].type == "_NL":
        return None
    text = f"Between `{f.last}` and `{f.value}` a comma is missing."
    return Message("D028", f.span, text, f"write `{f.last}, {f.value}`.")


def breaks(f: Failure) -> Message | None:
    """Two statements, clauses or declarations on one line."""
    if f.first_on_line or f.at_line_end or f.last is None:
        return None
    if "_NL" not in f.accepts and not (not f.frames and "$END" in f.accepts):
        return None
    if f.last_type not in OPERANDS and not f.last.value.isidentifier():
        return None
    if f.value not in _BEGINS and not re.match(r"[\w.]+\s*[=:]", f.after):
        return None
    text = f"`{f.value}` begins something new on the same line."
    return Message("D041", part(f, 0, len(f.value)), text, f"put a line break in front of `{f.value}`.")
