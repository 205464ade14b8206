"""Reading the parse tree: children by rule, names, strings, and the region of text that a node covers."""

from __future__ import annotations

import re
from typing import TypeAlias

from lark import Token, Tree

from dashpot.model.span import Span

Rule: TypeAlias = Tree[Token]
Part: TypeAlias = Tree[Token] | Token

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def place(part: Part, file: str) -> Span:
    """The region that a node or token covers; an empty node has no region and stands at the file's start."""
    at = part if isinstance(part, Token) else part.meta
    if getattr(at, "line", None) is None:
        return Span(file, 1, 1, 1, 1)
    return Span(file, at.line or 1, at.column or 1, at.end_line or 1, at.end_column or 1)


def rules(tree: Rule, *names: str) -> list[Rule]:
    """The children that were made by one of the rules `names`, or all rule children if none is given."""
    return [c for c in tree.children if isinstance(c, Tree) and (not names or c.data in names)]


def rule(tree: Rule, *names: str) -> Rule | None:
    """The first child made by one of `names`, if there is one."""
    found = rules(tree, *names)
    return found[0] if found else None


def tokens(tree: Rule, *kinds: str) -> list[Token]:
    """The direct tokens of a node, of the given terminals or all."""
    return [c for c in tree.children if isinstance(c, Token) and (not kinds or c.type in kinds)]


def parts(tree: Rule) -> list[Part]:
    """The children without the placeholders of absent options."""
    return [c for c in tree.children if c is not None]


def head(tree: Rule) -> Token:
    """The first name of a declaration."""
    return tokens(tree, "NAME", "STRING")[0]


def dotted(tree: Rule) -> str:
    """`a.b.c` as text."""
    return ".".join(str(t) for t in tokens(tree))


def unquote(token: Token) -> str:
    """What a string literal stands for: CEL's escapes, none in `r"…"`."""
    text = str(token)
    if text.startswith("r"):
        return text[2:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])
