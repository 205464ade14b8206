"""A body (reconcile, action, gone, admission, handler) as an automaton: nodes joined by indices.

Everything between two `Call` nodes is local and instant; each call is one atomic step of the API
server. The kernel walks the nodes symbolically, the runtime walks the same nodes on real values.
Node 0 is the entry. A loop body leads back to its `Loop` node.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from dashpot.model.expr import Assignment, Expr
from dashpot.model.span import Span, span_field

ERRORS = ("Conflict", "AlreadyExists", "NotFound", "Invalid", "Denied", "TooManyRequests", "Timeout")
"""What an API call can fail with. An error without a handler ends the body and requeues with back-off."""


@frozen
class Bind:
    """`let name = value`: value may contain cached reads (`expr.Cached`) and choices (`expr.Any`)."""

    name: str
    value: Expr
    next: int
    span: Span = span_field()


@frozen
class Assign:
    """An assignment to memory (`scope` "memory") or to the object under admission (`scope` "object").

    `path`: the variable, then field names or key terms (`placed[p.name] = null`).
    """

    scope: str
    path: tuple[str | Expr, ...]
    value: Expr
    next: int
    span: Span = span_field()


@frozen
class Branch:
    """`if test`: an undefined test is a panic."""

    test: Expr
    then: int
    other: int
    span: Span = span_field()


@frozen
class Loop:
    """`for var in over`: visits one more element of its cursor, or leaves when none is left.

    A `Bind` of the cursor (`cursor(id)`) to `over` stands before the loop, so that `over` is evaluated once, on
    entry from outside; the body leads back here. Sets and lists read from a cache are visited in any order,
    ranges and other lists in their own. `id` is unique in the automaton.
    """

    id: int
    var: str
    over: Expr
    body: int
    next: int
    span: Span = span_field()


def cursor(loop: int) -> str:
    """The hidden local that holds the elements that a loop has not visited yet; no name of a spec has a colon."""
    return f"cursor:{loop}"


def is_cursor(name: str) -> bool:
    """Whether a local is the hidden one of a loop."""
    return name.startswith("cursor:")


@frozen
class Operation:
    """One operation of a JSON patch: test, add, replace (value given) or remove."""

    op: str
    path: tuple[str | Expr, ...]
    value: Expr | None
    span: Span = span_field()


@frozen
class Call:
    """One API call.

    verb      get list create update patch apply delete evict bind (get and list: live reads)
    dialect   for patch: "merge", "strategic" or "json"
    kind      the kind called upon
    target    the object written (a local, parameter, given or any object term); None for get/list/create
    side      "spec" | "status" | "meta": the part of the object that the write may touch; an `update x {…}`
              or `patch x {…}` without `.spec`/`.status` is "meta" (metadata and spec)
    fields    assignments, paths from the object's root: ("spec", "members"), ("finalizers",), ("spec", "store", key)
    ops       operations of a JSON patch, paths from the root
    name      get: the name term
    var/where list: the filter
    to        bind: the node (name or object)
    guard     "" | "unchanged" (uid and resourceVersion) | "same" (uid)
    how       delete: "" | "foreground" | "background" | "orphan" | "now"
    force     update: send no resourceVersion; apply: take fields over
    result    local that holds the answer: for writes also the target local where the target is a plain local
    next      node after success; handlers: (error, node) for each `on Error { }`
    """

    verb: str
    kind: str
    next: int
    dialect: str = ""
    target: Expr | None = None
    side: str = "meta"
    fields: tuple[Assignment, ...] = ()
    ops: tuple[Operation, ...] = ()
    name: Expr | None = None
    var: str | None = None
    where: Expr | None = None
    to: Expr | None = None
    guard: str = ""
    how: str = ""
    force: bool = False
    result: str | None = None
    handlers: tuple[tuple[str, int], ...] = ()
    span: Span = span_field()


@frozen
class End:
    """The end of a pass. how: "done", "requeue", "after" (`delay` holds the duration), "fail" (`message`)."""

    how: str = "done"
    delay: Expr | None = None
    message: str = ""
    span: Span = span_field()


@frozen
class Note:
    """`event target Normal "Reason" message`: tells people, and changes nothing that a spec can look at.

    `type`: "Normal" or "Warning"; `message`: a text. The checker passes it by and evaluates nothing of it.
    """

    target: Expr
    type: str
    reason: str
    message: Expr
    next: int
    span: Span = span_field()


Node: TypeAlias = Bind | Assign | Branch | Loop | Call | Note | End


@frozen
class Automaton:
    """The nodes of one body and the names of its parameters (key object, action parameters)."""

    nodes: tuple[Node, ...]
    params: tuple[str, ...] = ()
