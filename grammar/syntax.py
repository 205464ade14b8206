"""The syntax tree: Lark's trees and tokens, and their places as spans."""

from __future__ import annotations

from typing import Any, TypeAlias

from lark import Token, Tree

from dashpot.grammar.tree import place
from dashpot.model.span import Span

SpecTree: TypeAlias = Tree[Token]
"""A node: `data` is the rule or alias of `spec.lark`, children are trees, tokens, or None for an absent `[part]`."""

DECLARATIONS = (
    "use const enum struct resource fun extern controller process admission environment property check scenario"
).split()
"""The words that begin a declaration at the top level."""

VERBS = ("create", "update", "patch", "apply", "delete", "evict", "bind")
"""The words that begin a write."""

STATEMENTS = ("let", "if", "for", "return", "requeue", "fail", *VERBS)
"""The words that begin a statement of a body."""

BODIES = frozenset(("reconcile", "gone", "action", "if", "for", "else", "admission", "on", "add", "update", "delete"))
"""The words that open a block of statements."""

CLAUSES: dict[str, tuple[str, ...]] = {
    "controller": ("owns", "watches", "cache", "workers", "memory", "index", "reconcile", "gone"),
    "process": ("cache", "memory", "index", "action"),
    "environment": ("action", "fault"),
    "check": ("run", "scope", "faults", "given", "expect", "waive", "resync", "time"),
    "scenario": ("given", *VERBS, "settle", "hold", "release", "tick", "inject", "assert"),
    "resource": ("spec", "status", "rule", "columns", "cluster"),
    "index": ("add", "update", "delete"),
}
"""The words that begin a line in the block of each declaration (and of an index)."""

RESERVED = frozenset("true false null any in let if else for return requeue fail get list".split()) | frozenset(
    "create update patch apply delete evict bind".split()
)
"""The words that no local, parameter or memory may be called, because a statement or an expression begins with them."""

MAX_DEPTH = 100
"""How deep a tree may be; what reads trees may recurse."""

MAX_BRACKETS = 64
"""How many brackets may be open at once."""

MAX_BYTES = 1 << 20
"""How large a text may be, in bytes of UTF-8."""


def outer_span(node: SpecTree, file: str) -> Span:
    """The region of a node with the parentheses around it, if it has any."""
    meta: Any = node.meta  # Lark declares only a part of what it notes
    if meta.empty or not hasattr(meta, "container_line"):
        return place(node, file)
    return Span(file, meta.container_line, meta.container_column, meta.container_end_line, meta.container_end_column)
