"""What the grammar lets pass but the language does not: reserved names, `!x in y`, `a < b < c`, depth."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token, Tree

from dashpot.grammar.report import Message
from dashpot.grammar.syntax import MAX_DEPTH, RESERVED, SpecTree, outer_span
from dashpot.grammar.tree import place

_BINDERS = frozenset("let for param field const function extern reconcile gone on_add on_delete enum".split())
_ORDERS = ("<", "<=", ">", ">=")


def review(tree: SpecTree, text: str, file: str) -> list[Message]:
    """The messages of a tree that parsed, in the order of the text."""
    messages: list[Message] = []
    # A stack of our own: a deep tree must become a message, not a RecursionError.
    stack: list[tuple[SpecTree, int, str]] = [(tree, 0, "")]
    while stack:
        node, depth, inside = stack.pop()
        if depth > MAX_DEPTH:
            words = f"This is nested more than {MAX_DEPTH} levels deep."
            return [Message("D024", place(node, file), words, "name the inner parts with `let` or `fun`.")]
        messages += _review(node, text, file, inside)
        rule = str(node.data)
        where = rule if rule in ("spec", "status", "struct") else inside
        stack += [(child, depth + 1, where) for child in node.children if isinstance(child, Tree)]
    return sorted(messages, key=lambda m: (m.span.line, m.span.column))


def _review(node: SpecTree, text: str, file: str, inside: str) -> Iterator[Message]:
    rule = str(node.data)
    if rule in _BINDERS and not (rule == "field" and inside):
        names = node.children[1:] if rule == "enum" else node.children[:1]
        for name in (name for name in names if isinstance(name, Token) and name in RESERVED):
            words = f"`{name}` begins a statement or an expression, so nothing can be called so."
            yield Message("D020", place(name, file), words, f"choose another name, such as `my_{name}`.")
    elif rule == "var":
        yield from _reserved_value(node, text, file)
    elif rule == "compare":
        yield from _compared(node, text, file)


def _reserved_value(node: SpecTree, text: str, file: str) -> Iterator[Message]:
    """A word like `return` that was read as a value: mostly the value before it is missing."""
    name = node.children[0]
    if not isinstance(name, Token) or name not in RESERVED or name.start_pos is None:
        return
    before = text[: name.start_pos].rstrip(" \t")
    if before.endswith("\n") and before.rstrip().endswith("="):
        at = len(before.rstrip()) - 1
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        equal = Token("EQUAL", "=", at, line, column)
        yield Message(
            "D010", place(equal, file), "Behind this `=` the value is missing.", "write the value on the same line."
        )
    else:
        words = f"`{name}` begins a statement or an expression; it is no value."
        yield Message("D020", place(name, file), words, "choose another name for what is meant.")


def _compared(node: SpecTree, text: str, file: str) -> Iterator[Message]:
    left, operator = node.children[0], node.children[1]
    if not isinstance(left, Tree) or not isinstance(operator, Token):
        return
    bare = outer_span(left, file) == place(left, file)
    if left.data == "not" and operator == "in" and bare:
        words = "`!` binds tighter than `in`: this asks whether `!x` is in the set."
        inner = text[node.meta.start_pos + 1 : node.meta.end_pos]
        yield Message("D033", place(node, file), words, f"write `!({inner})`.")
    if left.data == "compare" and bare and operator in _ORDERS and left.children[1] in _ORDERS:
        middle = left.children[2]
        shown = text[middle.meta.start_pos : middle.meta.end_pos] if isinstance(middle, Tree) else "b"
        first = text[left.meta.start_pos : left.meta.end_pos]
        rest = text[operator.end_pos or 0 : node.meta.end_pos].strip()
        words = f"`{left.children[1]}` and `{operator}` do not chain: a comparison compares two things."
        fix = f"write `{first} && {shown} {operator} {rest}`."
        yield Message("D034", place(operator, file), words, fix)
