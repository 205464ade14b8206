"""Slips of words: statements, clauses, declarations, names."""

from __future__ import annotations

import re

from dashpot.grammar.failure import Failure
from dashpot.grammar.messages_text import part
from dashpot.grammar.nearest import nearest
from dashpot.grammar.report import Message
from dashpot.grammar.syntax import BODIES, CLAUSES, DECLARATIONS, RESERVED, STATEMENTS, VERBS
from dashpot.grammar.tree import place
from dashpot.model.span import Span


def reads(f: Failure) -> Message | None:
    """`list Pod`, `get Pod name`: a read that does not say where it looks, or binds nothing."""
    if f.last is None:
        return None
    if f.last_type in ("GET", "LIST") and (f.value.isidentifier() or f.value == "("):
        verb = str(f.last)
        kind = f.value if f.value.isidentifier() else "Pod"
        rest = " name" if verb == "get" else ""
        text = f"This `{verb}` does not say where it looks."
        fix = (
            f"write `{verb} cached {kind}{rest}` (the informer's copy, which may be old) "
            f"or `{verb} live {kind}{rest}` (the API server)."
        )
        return Message("D004", part(f, (f.last.start_pos or 0) - f.offset, len(verb)), text, fix)
    if len(f.statement) == 1 and f.head in ("get", "list") and f.value != "=":
        verb = f.head
        text = f"A read is bound to a name: this `{verb}` stands alone."
        where = f.value if f.value in ("cached", "live") else "cached"
        fix = f"write `let x = {verb} {where} Pod{' name' if verb == 'get' else ''}`."
        return Message("D004", place(f.statement[0], f.file), text, fix)
    return None


def writes(f: Failure) -> Message | None:
    """`update x.status`, `patch x.spec.members = 3`: a write without its object in braces; `delete(p)`."""
    if f.last is None or f.head not in VERBS:
        return None
    if f.value == "(" and f.words and f.words[-1] in VERBS:
        verb = f.words[-1]
        text = f"`{verb}` is a statement, not a function."
        return Message("D029", f.span, text, f"write `{verb} p{' { … }' if verb in VERBS[:4] else ''}`.")
    inside = bool(f.frames) and f.frames[-1].opener.value != "{"
    if "LBRACE" not in f.accepts or inside or f.head not in VERBS[:4] or f.words[-2:-1] == ("on",):
        return None
    verb, rest = f.head, list(f.words[1:])
    target = "".join(rest) or "x.spec"
    if f.value == "=" and "." in rest:
        dot = len(rest) - 1 - rest[::-1].index(".")
        content = f"{''.join(rest[dot + 1 :])}: {f.after[1:].strip()}"
        target = "".join(rest[:dot])
    elif f.at_line_end and "." in rest and rest[-1] not in ("spec", "status"):
        dot = len(rest) - 1 - rest[::-1].index(".")
        content, target = f"{''.join(rest[dot + 1 :])}: …", "".join(rest[:dot])
    else:
        content = "field: value"
    text = f"This `{verb}` does not say in braces which fields it writes."
    return Message("D006", f.span, text, f"write `{verb} {target} {{ {content} }}`.")


def fields(f: Failure) -> Message | None:
    """`replicas int`, `fun f(x)`: a name without `: type` or `: value`."""
    if "COLON" not in f.accepts or f.last is None or "QMARK" in f.accepts:
        return None
    if f.last_type not in ("NAME", "RSQB", "STRING") or f.block in ("faults", "environment"):
        return None
    if f.value == ":" or f.token.type == "?":
        return None
    name = str(f.last)
    value = f.after.strip().split(",")[0].split("}")[0].split(")")[0].strip() if not f.at_line_end else ""
    typed = f.block in ("spec", "status", "struct") or f.head in ("fun", "extern", "action", "memory", "index")
    value = value or ("Type" if typed else "value")
    text = f"`{name}` lacks its `:` and what follows it."
    return Message("D007", f.span, text, f"write `{name}: {value}`.")


def values(f: Failure) -> Message | None:
    """`let x`, `let x =`, `const MAX`: a name without a value."""
    if f.last is None or f.token.type == "?":
        return None
    words = f.words
    if words[:1] in (("let",), ("const",), ("memory",)) and f.at_line_end and "EQUAL" in f.accepts and len(words) == 2:
        if words[0] == "memory":
            return None
        text = f"`{words[1]}` has no value."
        return Message("D010", f.span, text, f"write `{words[0]} {words[1]} = …`.")
    # The value may be missing and the next line have been read as if it were one.
    token = next((t for t in reversed(f.tokens) if t.type == "EQUAL"), None)
    if token is None or token.end_pos is None:
        return None
    between = f.text[token.end_pos : f.offset]
    same_line, _, below = between.partition("\n")
    if same_line.split("//")[0].strip() or len(below.split()) > 1:
        return None
    if f.token.type not in ("RBRACE", "$END") and not re.fullmatch(r"\s*[a-z]+\s+", below):
        return None
    line = f.text[f.text.rfind("\n", 0, token.start_pos) + 1 : token.start_pos].strip()
    text = f"`{line}` is given nothing."
    return Message("D010", place(token, f.file), text, f"write `{line} = …` with its value on the same line.")


def functions(f: Failure) -> Message | None:
    """`func f(`, `def f(`, `fun f(…): T { … }`, `fun f(…) -> T`."""
    word = f.words[0] if f.words else f.value
    if word in ("func", "def", "fn", "function", "lambda"):
        region = place(f.statement[0], f.file) if f.words else f.span
        text = f"Functions are declared with `fun`, not `{word}`, at the top level of a file."
        return Message("D011", region, text, "write `fun name(x: Kind): Type = expression`.")
    if f.head != "fun" or f.frames:
        return None
    if f.value == "->":
        text = "The type of a `fun` stands behind a `:`."
        return Message("D011", f.span, text, "write `fun name(x: Kind): Type = …`.")
    if f.value in ("{", "return") and "EQUAL" in f.accepts:
        text = "A `fun` is an expression, not a block."
        return Message("D011", f.span, text, f"write `{' '.join(f.words[:2])}(…): Type = expression`.")
    if f.value == "=" and "COLON" in f.accepts:
        return Message("D007", f.span, "This `fun` does not say its type.", "write `: Type` in front of the `=`.")
    return None


def loops(f: Failure) -> Message | None:
    """`for x of y`, `for (x in y)`, `for i := 0; …`, `while c`."""
    word = f.words[0] if f.words else ""
    if word in ("while", "foreach", "loop", "until") and f.block in BODIES:
        text = f"There is no `{word}`: a body that repeats itself is woken again."
        return Message("D017", place(f.statement[0], f.file), text, "write `for x in collection { … }`, or `requeue`.")
    if word != "for" or f.block not in BODIES or "in" in f.words:
        return None
    text = "The only loop is over the elements of a collection."
    region = f.span if not f.at_line_end else place(f.statement[0], f.file)
    name = f.words[1] if len(f.words) > 1 else "x"
    return Message("D017", region, text, f"write `for {name} in collection {{ … }}` (`for i in 0..n - 1` counts).")


def returns(f: Failure) -> Message | None:
    """`return x`."""
    if f.last_type != "RETURN" or f.at_line_end or f.value in ("}", ";", *STATEMENTS):
        return None
    text = "A body returns nothing: `return` just ends the pass."
    return Message("D018", f.span, text, "write `return` alone; `requeue after 5s` asks for another pass.")


def declarations(f: Failure) -> Message | None:
    """`var x = 1`, `int x = 1`, `x := 1`."""
    word = f.words[0] if f.words else f.value
    if word not in ("var", "val", "mut", "const", "static", "auto", "int", "bool", "string", "let", "def"):
        return None
    region = place(f.statement[0], f.file) if f.words else f.span
    if f.block in BODIES and word not in ("let",):
        text = f"`{word}` binds no name here."
        fix = "write `let x = …`; what lives longer than a pass is a `memory` of the controller."
        return Message("D027", region, text, fix)
    if f.block in ("controller", "process"):
        text = f"`{word}` declares nothing in a {f.block}."
        return Message("D027", region, text, "write `memory x: Type = value`.")
    if not f.frames and word != "const":
        return Message("D027", region, f"`{word}` declares nothing at the top level.", "write `const X = value`.")
    return None


def lambdas(f: Failure) -> Message | None:
    """`where p.owner == db`, `.filter(p -> …)`, `watches Node -> …`: a predicate that does not name its object."""
    words = f.words
    text = "`where` names the object it speaks of first."
    if words[-2:-1] == ("where",) and f.value != "->" and f.last_type == "NAME":
        name = words[-1]
        region = part(f, (f.last.start_pos or 0) - f.offset, len(name)) if f.last is not None else f.span
        return Message("D037", region, text, f"write `where {name} -> …`, for example `where p -> p.owner == db`.")
    if f.last_type == "WHERE":
        return Message("D037", f.span, text, "write `where p -> p.owner == db`.")
    if f.head == "watches" and f.value in ("->", "when") and len(words) == 2:
        text = "`watches` names the object that changed."
        return Message("D037", f.span, text, f"write `watches {words[1]} as x -> keys`.")
    rest, back = f.after, 0
    if words[-1:] == ("-",) and f.value == ">":  # the lexer has read the arrow as a minus
        rest, back, words = "->", 1, words[:-1]
    inside = bool(f.frames) and f.frames[-1].opener == "(" and len(words) == 1 and words[0].isidentifier()
    sign = next((s for s in ("->", "=>", "|", ":") if rest.startswith(s)), None)
    if not inside or sign is None or f.frames[-1].head[-2:-1] != (".",):
        return None
    method = str(f.frames[-1].head[-1])
    text = f"The name in `.{method}(…)` is followed by a comma, as in CEL."
    return Message("D037", part(f, -back, len(sign)), text, f"write `.{method}({words[0]}, …)`.")


def formulas(f: Failure) -> Message | None:
    """`property p = x == y`: a condition without its temporal word."""
    if f.head != "property" or f.frames or "LEADS" not in f.accepts:
        return None
    if not (f.token.type in ("_NL", "$END") or f.first_on_line):
        return None
    text = "This property does not say when its condition holds."
    fix = "write `= always …`, `never`, `sometimes`, `eventually`, `converges to …` or `P leads to Q`."
    return Message("D038", f.span, text, fix)


def budgets(f: Failure) -> Message | None:
    """`fault crash A: 1`, `fault crash 1`, `faults { crash at most 1 }`."""
    words = f.words
    if f.head == "fault" and "AT" in f.accepts and f.block == "environment":
        text = "A fault of an environment says how often it may happen."
        name = " ".join(words[:1]) + " " + "".join(words[1:2]) + (" " + "".join(words[2:]) if len(words) > 2 else "")
        return Message("D039", f.span, text, f"write `{name} at most 1`.")
    if f.block == "faults" and "COLON" in f.accepts:
        text = "A budget of a check is a number behind a `:`."
        most = words[-1:] == ("at",) and f.value == "most"
        name = " ".join(words[:-1] if most else words)
        count = re.search(r"\d+", f.after)
        return Message("D039", f.span, text, f"write `{name}: {count.group() if count else 1}`.")
    return None


def reserved(f: Failure) -> Message | None:
    """A word of the language where a name is needed."""
    if f.last is None or f.last_type == "NAME" or str(f.last) not in RESERVED:
        return None
    if f.value not in ("=", ".", "[", ",", ")") or str(f.last) in ("true", "false", "null"):
        return None
    word = str(f.last)
    region = place(f.last, f.file)
    text = f"`{word}` begins a statement or an expression; here it stands for a name."
    return Message("D020", region, text, f"choose another name, such as `{word}_` or `my_{word}`.")


def calls(f: Failure) -> Message | None:
    """`pods.size()`, `p.delete()`, `x`: an expression where a statement is needed."""
    if f.block not in BODIES or not f.words or f.statement[0].type != "NAME" or "EQUAL" not in f.accepts:
        return None
    if f.value != "(" and not f.at_line_end and f.value != "}":
        return None
    verb = f.words[-1]
    start = place(f.statement[0], f.file)
    if (f.value == "(" and verb in VERBS) or verb in ("remove", "destroy", "save", "write"):
        target = "".join(f.words[:-2]) or "p"
        verb = {"remove": "delete", "destroy": "delete", "save": "update", "write": "update"}.get(verb, verb)
        body = " { … }" if verb in VERBS[:4] else ""
        text = "API calls are statements that begin with their verb."
        return Message("D029", start, text, f"write `{verb} {target}{body}`.")
    near = nearest(f.words[0], STATEMENTS) if len(f.words) == 1 else None
    fix = f"did you mean `{near}`?" if near else "bind it: `let x = …`, or write a field: `update x.spec { … }`."
    return Message("D029", start, f"`{''.join(f.words)}` is no statement.", fix)


def clauses(f: Failure) -> Message | None:
    """A line that begins with no word known there: D030 at the top level, D031 in a block."""
    if f.frames and f.frames[-1].opener.value != "{":
        return None
    if not f.statement and f.value.isidentifier():
        word, region = f.value, f.span
    elif len(f.statement) == 1 and f.statement[0].type == "NAME" and f.block in BODIES and f.value.isidentifier():
        word, region = f.words[0], place(f.statement[0], f.file)
    else:
        return None
    return _undeclared(word, region) if not f.frames else _unknown(f, word, region)


def _undeclared(word: str, region: Span) -> Message:
    home = _home(word)
    if home or word in STATEMENTS:
        text = f"`{word}` belongs in a {home or 'body'}, and here is the top level."
        return Message("D030", region, text, "check whether a `}` above closes too much.")
    near = nearest(word, DECLARATIONS)
    fix = f"did you mean `{near}`?" if near else f"declarations begin with {', '.join(DECLARATIONS[:-1])} or scenario."
    return Message("D030", region, f"`{word}` begins no declaration.", fix)


def _home(word: str) -> str:
    return next((block for block, words in CLAUSES.items() if word in words), "")


def _unknown(f: Failure, word: str, region: Span) -> Message | None:
    known = CLAUSES.get(f.block) or (STATEMENTS if f.block in BODIES else None)
    if known is None or word in known:
        return None
    near, home = nearest(word, known), _home(word)
    if near:
        fix = f"did you mean `{near}`?"
    elif home:
        fix = f"`{word}` belongs in a {home}."
    elif f.block == "resource":
        field = f'`spec {{ {word}: … at "{word}" }}`'
        fix = f"fields stand in spec or status, also those of kinds that have neither: {field}."
    else:
        fix = f"here can begin {', '.join(known)}."
    return Message("D031", region, f"`{word}` begins nothing that a block of `{f.block}` can contain.", fix)
