"""A schedule: a counterexample as a driver of the real thing needs it, with nothing in it of the search that found it.

Objects go by what the model calls them: `Pod Pod~0` is a pod whose name the API server makes up. Fields are dotted
paths with their values as texts: `status.phase` → `Running`, `finalizers.cleanup` → `yes`.
"""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Thing:
    """An object in one state."""

    kind: str
    name: str
    fields: dict[str, str]

    @property
    def title(self) -> str:
        """As people call it: `Pod web-0`."""
        return f"{self.kind} {self.name}"


@frozen
class Moment:
    """One state.

    truth    the objects in the store
    caches   actor → what its caches show, of the kinds that may lag
    pending  actor → kind → undelivered changes
    busy     actor → passes that are under way
    """

    truth: tuple[Thing, ...]
    caches: dict[str, tuple[Thing, ...]] = field(factory=dict)
    pending: dict[str, dict[str, int]] = field(factory=dict)
    busy: dict[str, int] = field(factory=dict)


@frozen
class ScheduleStep:
    """One step, and the state that it leads to.

    number   counted from 1
    verb     a call (create, update, …, get, list), start | end | act | read, deliver, collect, tick, or a fault
    action   "reconcile", "gone", or the action of a process or environment
    subject  whom the pass is for (`ReplicaSet web`), or the parameters of the action (`p = Pod~0, n = 2`)
    object   what is acted upon: `Pod web-0`, or a kind alone
    detail   outcome and written values (`AlreadyExists`, `spec.replicas = 2`)
    role     step | fault | environment
    changes  kinds of which it changes an object
    line, column  of the call in the spec; 0: none
    text     the step in words
    """

    number: int
    actor: str
    verb: str
    action: str
    subject: str
    object: str
    detail: tuple[str, ...]
    role: str
    changes: tuple[str, ...]
    line: int
    column: int
    text: str
    after: Moment

    @property
    def kind(self) -> str:
        """The kind that is acted upon."""
        return self.object.partition(" ")[0]

    @property
    def name(self) -> str:
        """The name of what is acted upon; "" where there is none."""
        return self.object.partition(" ")[2]


@frozen
class Schedule:
    """A run, step by step.

    property, kind  what it violates, and how: safety, stuck, trapped or loop
    thing, field    about which object (`ReplicaSet web`, an actor, or "") and which field of it
    loop            the state to which the last step leads back
    tick_ms         how much time a tick is
    sizes           kind → how many objects the world has room for
    """

    property: str
    kind: str
    thing: str
    field: str
    start: Moment
    steps: tuple[ScheduleStep, ...]
    loop: int | None
    tick_ms: int
    sizes: dict[str, int]
