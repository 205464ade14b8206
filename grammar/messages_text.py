"""Slips within a line of text: characters, quotes, numbers, operators of other languages."""

from __future__ import annotations

import re
import unicodedata

from dashpot.grammar.failure import Failure
from dashpot.grammar.report import Message
from dashpot.model.span import Span

_QUOTES = "“”„‟‘’‚‛«»‹›"
_NUMBERS = ("INT", "FLOAT", "QUANTITY", "DURATION")
OPERANDS = frozenset("NAME INT FLOAT STRING QUANTITY DURATION TRUE FALSE NULL RPAR RSQB RBRACE".split())
"""The terminals that an operand may end with."""
_CONDITIONS = frozenset("if when where rule require needs assert always never sometimes eventually while to".split())


def part(failure: Failure, start: int, length: int) -> Span:
    """The region of `length` characters that begins `start` characters behind the error, on its line."""
    line = failure.text.count("\n", 0, failure.offset) + 1
    column = len(failure.before) + 1 + start
    return Span(failure.file, line, column, line, column + length)


def quotes(f: Failure) -> Message | None:
    """Typographic quotes, and strings without an end."""
    if f.value and f.value in _QUOTES:
        text = f"`{f.value}` is a typographic quotation mark."
        return Message("D013", f.span, text, 'write a straight one: `"`.')
    if f.token.type == "?" and f.value in ('"', "'"):
        fix = f"close it with `{f.value}` on the same line; a line break inside is written `\\n`."
        return Message("D015", part(f, 0, max(1, len(f.after.rstrip()))), "This string has no end on its line.", fix)
    return None


def semicolons(f: Failure) -> Message | None:
    """`;` at the end of a line or between statements."""
    if f.value != ";":
        return None
    fix = "put each statement on a line of its own." if f.after[1:].strip() else "remove it."
    return Message("D012", f.span, "A new line ends a statement; there is no `;`.", fix)


def quantifiers(f: Failure) -> Message | None:
    r"""`forall x in S: P`, `exists x : P`, `\A x \in S : P`, `∀`."""
    symbol = re.match(r"\\[AEin]+\b|∀|∃|∈", f.after)
    if symbol and f.token.type == "?":
        found, region = symbol.group(), part(f, 0, len(symbol.group()))
    elif f.last is not None and str(f.last) in ("forall", "exists", "every", "some", "all") and f.token.type == "NAME":
        found = str(f.last)
        region = part(f, (f.last.start_pos or 0) - f.offset, len(found))
    else:
        return None
    if found in ("∈", "\\in"):
        return Message("D016", region, f"Membership is written `in`, not `{found}`.", "write `x in set`.")
    method = "exists" if found in ("\\E", "∃", "exists", "some") else "all"
    text = f"`{found}` is no quantifier here: quantifiers are methods of a collection, as in CEL."
    bound = re.search(r"([A-Za-z_]\w*)\s*(?::|,|\bin\b|\\in\b|∈)\s*([A-Za-z_][\w.]*)", f.before + f.after)
    name, collection = bound.groups() if bound else ("p", "Pod")
    return Message("D016", region, text, f"write `{collection}.{method}({name}, …)`.")


_WORDS = {"and": "&&", "or": "||", "not": "!", "is": "==", "eq": "==", "ne": "!=", "div": "/", "mod": "%"}
_SYMBOLS = {
    "===": "==",
    "!==": "!=",
    "<>": "!=",
    "=<": "<=",
    "=>": "",
    "/\\": "&&",
    "\\/": "||",
    "&": "&&",
    "|": "||",
    "??": "",
    "?.": "",
    "**": "",
    "//": "/",
    "^": "!=",
    "≠": "!=",
    "≤": "<=",
    "≥": ">=",
    "∧": "&&",
    "∨": "||",
    "¬": "!",
    "&&&": "&&",
}


def operators(f: Failure) -> Message | None:
    """`and`, `&`, `===`, `<>`, `=>`, `?.` …: what other languages write for CEL's operators."""
    word = f.value if f.value in _WORDS and f.last_type in OPERANDS else ""
    if word:
        return Message("D009", f.span, f"`{word}` is no operator here.", f"write `{_WORDS[word]}`.")
    if f.last is not None and str(f.last) == "not" and f.last_type == "NAME" and not f.at_line_end:
        start = (f.last.start_pos or 0) - f.offset
        return Message("D009", part(f, start, 3), "`not` is no operator here.", f"write `!{f.value}`.")
    # The lexer may have taken the front of the operator as one of the language's own.
    for back in (0, 1, 2):
        for symbol in sorted(_SYMBOLS, key=len, reverse=True):
            text = (f.before[len(f.before) - back :] if back else "") + f.after
            adjacent = back <= len(f.before) and text.startswith(symbol) and len(symbol) > back
            if adjacent and not (symbol in ("=>", "&", "|") and back):
                return _symbol(f, symbol, part(f, -back, len(symbol)))
    return None


def _symbol(f: Failure, symbol: str, region: Span) -> Message | None:
    if symbol == "=>" and f.frames and f.frames[-1].opener == "(":
        return None  # a lambda
    if symbol == "|" and f.frames and f.frames[-1].opener == "(" and len(f.statement) == 1:
        return None  # a lambda
    other = _SYMBOLS[symbol]
    fixes = {
        "=>": "`a => b` is `!a || b`.",
        "??": "write `x != null ? x : other`.",
        "?.": "test first: `x != null && x.field`.",
        "**": "write the product out.",
    }
    fix = f"write `{other}`." if other else fixes[symbol]
    return Message("D009", region, f"`{symbol}` is no operator here.", fix)


def updates(f: Failure) -> Message | None:
    """`i++`, `x += 1`."""
    joined = (f.before[-1:] if f.before[-1:] in ("+", "-") else "") + f.after
    match = re.match(r"\+\+|--|[-+*/%|&]=", joined)
    if match is None or not f.statement:
        return None
    words = list(f.words)
    back = len(joined) - len(f.after)
    target = "".join(words[:-1] if back else words)
    step = "1" if match.group() in ("++", "--") else "…"
    if not re.fullmatch(r"[\w.\[\]\"]+", target):
        return None
    text = f"There is no `{match.group()}`."
    fix = f"write `{target} = {target} {match.group()[0]} {step}`."
    return Message("D019", part(f, -back, len(match.group())), text, fix)


def numbers(f: Failure) -> Message | None:
    """`1.5s`, `0x10`, `1_000`, `.5`, `5sec`."""
    if f.last is not None and f.last_type in _NUMBERS and f.last.end_pos == f.offset and re.match(r"[\w.]", f.after):
        start = f.last.start_pos or 0
    elif re.match(r"\.\d", f.after) and f.last_type not in OPERANDS:
        start = f.offset
    else:
        return None
    begin = len(f.before) - (f.offset - start)
    found = re.match(r"[\w.]+", (f.before + f.after)[begin:])
    written = found.group() if found else str(f.value)
    text = f"`{written}` has no form of a number that the language knows."
    fix = "numbers are `12`, `1.5`, durations `500ms 3s 5min 2h 1d`, quantities `250m 64Mi`."
    return Message("D035", part(f, start - f.offset, len(written)), text, fix)


def equals(f: Failure) -> Message | None:
    """`=` where two things are compared, and `==` where a name is bound."""
    if f.value == "=" and "COLON" in f.accepts:
        region = f.span
        name = str(f.last) if f.last is not None else "name"
        follow = f.after[1:].strip().split("}")[0].split(",")[0].strip() or "value"
        text = "Here a `:` stands between the name and what it is given."
        return Message("D007", region, text, f"write `{name}: {follow}`.")
    doubled = f.value == "=" and f.last_type == "EQUAL" and f.before.endswith("=")
    if doubled or (f.value == ":" and "EQUAL" in f.accepts and f.after.startswith(":=") and f.statement):
        sign, words = ("==", f.words[:-1]) if doubled else (":=", f.words)
        text = f"A name is bound with `=`, not with `{sign}`."
        lead = "let " if sign == ":=" and words[0] != "let" else ""
        value = f.after[1 if doubled else 2 :].split("//")[0].strip() or "…"
        return Message("D003", part(f, -doubled, 2), text, f"write `{lead}{' '.join(words)} = {value}`.")
    if f.value == "=" and f.last_type in OPERANDS and not f.after.startswith(("=>", "==")) and _compares(f):
        left = (f.before.rstrip().split() or ["x"])[-1].lstrip("(!")
        right = re.match(r"=\s*([^\s){]+)", f.after)
        text = "`=` binds a name; two things are compared with `==`."
        return Message("D002", f.span, text, f"write `{left} == {right.group(1) if right else 'y'}`.")
    return None


def _compares(f: Failure) -> bool:
    inside = bool(f.frames) and f.frames[-1].opener in ("(", "[")
    return inside or bool(_CONDITIONS & set(f.words)) or "RELOP" in f.accepts


def temporal(f: Failure) -> Message | None:
    """`[]P`, `<>P`, `P ~> Q`, `[]<>P`, `leadsto`."""
    if f.head != "property":
        return None
    if f.after.startswith("~>") or f.value in ("leadsto", "leads_to", "~>"):
        sign = "~>" if f.after.startswith("~>") else f.value
        return Message("D032", part(f, 0, len(sign)), f"`{sign}` is written in words.", "write `P leads to Q`.")
    equal = next((t for t in f.statement if t.type == "EQUAL"), None)
    if equal is None or equal.end_pos is None:
        return None
    begin = equal.end_pos + len(f.text[equal.end_pos :]) - len(f.text[equal.end_pos :].lstrip())
    box = re.match(r"\[\]<>|<>\[\]|\[\]|<>", f.text[begin:])
    if box is None or begin + len(box.group()) < f.offset - 1:
        return None
    meanings = {"[]<>": "always eventually", "<>[]": "eventually always", "[]": "always", "<>": "eventually"}
    text = f"`{box.group()}` is written in words."
    return Message("D032", part(f, begin - f.offset, len(box.group())), text, f"write `{meanings[box.group()]} P`.")


def characters(f: Failure) -> Message | None:
    """What has no meaning at all."""
    if f.token.type != "?" and not (f.value in ("/", "*") and f.after.startswith(("/*", "*/"))):
        return None
    if f.value == "#" or f.after.startswith("/*"):
        sign = "#" if f.value == "#" else "/*"
        text = f"`{sign}` begins no comment."
        return Message("D014", part(f, 0, len(sign)), text, "a comment begins with `//` and ends with its line.")
    code = f"U+{ord(f.value):04X}"
    name = unicodedata.name(f.value, "")
    shown = f"`{f.value}` ({code}{', ' + name.lower() if name else ''})" if f.value.isprintable() else code
    fix = "names are made of the letters a-z and A-Z, digits and `_`." if f.value.isalpha() else "remove it."
    return Message("D014", f.span, f"The character {shown} has no meaning here.", fix)
