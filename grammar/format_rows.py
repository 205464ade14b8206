"""A line of formatted text as its tokens, and the space between two of them."""

from __future__ import annotations

from attrs import define, field

_TIGHT_BEFORE = frozenset("RPAR RSQB COMMA DOT RANGE _OPT".split())
_TIGHT_AFTER = frozenset("LPAR LSQB DOT RANGE BANG MINUS".split())
_AFTER_LIST_TYPE = frozenset("NAME INT SET MAP REF MINUS LSQB".split())
_CALLED = frozenset("NAME RPAR RSQB SET MAP RBRACE STRING".split())
_BEFORE_VALUE = frozenset("COLON EQUAL LPAR LSQB COMMA QMARK RELOP ADDOP".split())
"""An empty `{}` behind one of these is a value, behind all else a block, `{ }`."""


@define
class Row:
    """One line.

    indent   in steps of two columns
    blank    whether an empty line stands before it
    begins   whether it begins a statement, clause, declaration or entry
    words    its tokens, (text, terminal) each
    comment  the comment at its end, or all there is; "" for none
    """

    indent: int
    blank: bool
    begins: bool
    words: list[tuple[str, str]] = field(factory=list)
    comment: str = ""

    def add(self, text: str, type: str) -> None:
        """Put a token at the end of the row."""
        self.words.append((text, type))

    @property
    def complete(self) -> bool:
        """Whether the row closes all brackets that it opens, and no others."""
        depth = 0
        for text, _ in self.words:
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if depth < 0:
                return False
        return depth == 0

    def text(self, start: int = 0, stop: int | None = None) -> str:
        """The tokens from `start` to `stop` with the right space between them."""
        words = self.words[:stop] if stop is not None else self.words
        ternaries: list[int] = [0]
        out: list[str] = []
        for index, (word, kind) in enumerate(words):
            if kind == "QMARK":
                ternaries[-1] += 1
            tight = index == 0 or _tight(words, index, kind == "COLON" and ternaries[-1] == 0)
            if kind == "COLON" and ternaries[-1]:
                ternaries[-1] -= 1
            if word in ("(", "[", "{"):
                ternaries.append(0)
            elif word in (")", "]", "}") and len(ternaries) > 1:
                ternaries.pop()
            if index >= start:
                out.append(word if tight or index == start else f" {word}")
        return "".join(out)


def _tight(words: list[tuple[str, str]], index: int, label: bool) -> bool:
    """Whether no space stands before the word at `index`; `label`: it is a colon that belongs to no `? :`."""
    kind = words[index][1]
    last = words[index - 1][1]
    if kind == "RBRACE" and last == "LBRACE":
        return index > 1 and words[index - 2][1] in _BEFORE_VALUE
    if kind in _TIGHT_BEFORE or last in _TIGHT_AFTER or label:
        return True
    if kind == "LPAR":
        return last == "NAME" and words[0][1] != "USE"
    if kind == "LSQB":
        return last in ("NAME", "RPAR", "RSQB", "SET", "MAP")
    return last == "RSQB" and kind in _AFTER_LIST_TYPE
