"""A world as a finite transition system: what a search needs, and nothing of the spec."""

from __future__ import annotations

from attrs import field, frozen

from dashpot.model.core import Graph, Node
from dashpot.model.span import NOWHERE, Span


@frozen
class Cell:
    """One bounded integer of the state.

    area     store | cache | pending | local | control | memory | queue | clock | budget | shadow
             (shadow: bookkeeping nobody wrote, such as currency bits, last writers, bases)
    actor    the actor instance it belongs to ("" for the store and budgets)
    kind, slot, path   the object and field it holds, where it holds one: ("Pod", 0, "status.ready"); slot -1: none
    lo, hi   inclusive range
    initial  value at the start
    texts    what each value from lo on is called in a story ("null", "Pending", "web-0"); None: the number itself
    dims     symmetric groups that index this cell: (("Pod", 2),) for a cell of pod slot 2; a family of cells
             is all cells equal but for the elements of their dims
    ref      the symmetric group whose elements this cell's values name, with `lo..` shift `base`: value v
             names element v - base for v >= base (smaller values, such as null, are fixed)
    family   the path with the elements of `dims` left out, where the path names them ("" otherwise)
    root     never dropped by `prune`: part of the truth that a run observes
    """

    index: int
    area: str
    actor: str
    kind: str
    slot: int
    path: str
    lo: int
    hi: int
    initial: int
    texts: tuple[str, ...] | None = None
    dims: tuple[tuple[str, int], ...] = ()
    ref: str | None = None
    base: int = 0
    root: bool = False
    family: str = ""

    @property
    def name(self) -> str:
        where = f"{self.kind}[{self.slot}]" if self.slot >= 0 else self.kind
        return ".".join(part for part in (self.area, self.actor, where, self.path) if part)

    @property
    def width(self) -> int:
        """Bits that the packed cell takes; 0 for a constant cell."""
        return (self.hi - self.lo).bit_length()

    def text(self, value: int) -> str:
        return self.texts[value - self.lo] if self.texts else str(value)


@frozen
class Label:
    """What a step is called, and what the searches must know of it.

    actor     actor instance ("DatabaseOperator", "Operator[a]", "kubernetes" for the collector and the clock)
    verb      create update patch apply delete evict bind get list | start | end | deliver | tick | collect |
              crash relist drop stale_restart timeout pause resume … (fault steps) | act (an action without a call)
    action    the reconcile ("reconcile", "gone") or action it belongs to
    object    the object acted upon, as people call it ("Pod web-0"); "" for none
    detail    outcome and arguments as people read them ("AlreadyExists", "replicas = 2", "d = 1"), in order
    fair      weakly fair, under the key `fairness`: (actor instance, action, object)
    role      step | fault | environment: the last two are masked when convergence is judged
    changes   fields of the truth that this step changes when it fires, as (kind, path) ("Pod", "*") for create
              and delete; empty: the store stays as it is
    reads     cached objects that decided it, as (kind, slot): the story compares them with the truth
    span      the call or declaration that made it
    decided   the tests on the way to the call, latest last: (place, truth value)
    """

    actor: str
    verb: str
    action: str = ""
    object: str = ""
    detail: tuple[str, ...] = ()
    fair: bool = True
    fairness: tuple[str, ...] = ()
    role: str = "step"
    changes: tuple[tuple[str, str], ...] = ()
    reads: tuple[tuple[str, int], ...] = ()
    span: Span = field(default=NOWHERE, eq=False)
    decided: tuple[tuple[Span, bool], ...] = field(default=(), eq=False)


@frozen
class Obligation:
    """What must hold when an update fires: `holds` over the pre-state, else `property` is violated by that step.

    `property` "@bound" marks an overflow of the scope (what: "Pod slots"): the search reports Unknown for it.
    `about` names object and field for the verdict: ("Pod web-0", "status.ready").
    """

    property: str
    holds: Node
    about: tuple[str, str] = ("", "")
    what: str = ""
    span: Span = field(default=NOWHERE, eq=False)


@frozen
class Update:
    """A guarded update: when all of `guard` hold in the pre-state, all `assigns` happen at once.

    Cells not assigned stay. Afterwards every rank class that was touched is renumbered.
    """

    label: Label
    guard: tuple[Node, ...]
    assigns: tuple[tuple[int, Node], ...]
    obligations: tuple[Obligation, ...] = ()


@frozen
class RankClass:
    """Cells in which only order counts (incarnations, generations of one object).

    After every step the values of its cells that are >= `floor` are renumbered floor, floor+1, … in order,
    so that loops close; smaller values are fixed ("none"). A step may write one more than the highest.
    """

    cells: tuple[int, ...]
    floor: int = 1


@frozen
class Goal:
    """A property over states of one instance (one object of `for x in K`, or the whole world).

    op      always | never | sometimes | eventually | stabilizes | recurs | leads_to | converges
    alive   states in which the instance exists (true without `for`)
    premise `while P` or the trigger of leads_to (true otherwise)
    body    the state predicate that the property is about
    about   the instance as people call it
    parts   the conjuncts of body with their places and the terms inside whose values a story shows:
            (place, node) pairs, so that "which conjunct failed" can be answered
    """

    property: str
    op: str
    alive: Node
    premise: Node
    body: Node
    about: str = ""
    parts: tuple[tuple[Span, Node], ...] = field(default=(), eq=False)
    span: Span = field(default=NOWHERE, eq=False)


@frozen
class Group:
    """Interchangeable elements (slots of a kind, members of an enum): any permutation maps runs to runs."""

    name: str
    size: int


@frozen
class Symmetry:
    """Groups that may be permuted, and for each kind or enum that may not, the line that breaks it."""

    groups: tuple[Group, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()


@frozen
class System:
    """A world for one check: everything a search needs, nothing of the spec.

    observed   named state predicates for views, stories and `--eval`: (name, node)
    vacuity    (what, place, update indices): an action or handler that can never fire is reported when
               none of its updates ever fired
    waiting    (fairness key, node): where the node holds, the class waits its turn behind other work of its actor
               (a queued key, an action whose guard holds): it counts as enabled although no step of it is
    terms      the graph that all nodes come from
    """

    terms: Graph
    cells: tuple[Cell, ...]
    updates: tuple[Update, ...]
    ranks: tuple[RankClass, ...]
    goals: tuple[Goal, ...]
    symmetry: Symmetry
    observed: tuple[tuple[str, Node], ...] = ()
    vacuity: tuple[tuple[str, Span, tuple[int, ...]], ...] = ()
    waiting: tuple[tuple[tuple[str, ...], Node], ...] = ()
