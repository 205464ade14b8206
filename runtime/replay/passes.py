"""One pass of an actor, call by call.

A body cannot be stopped in the middle and tried another way. So a pass is told again from its start for each of its
steps: what was read and answered until then is kept, and told the same; only what comes next is new. What the spec
leaves open (`any`, ties, the order of sets) is tried in every way until the next call is the one that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from dashpot.runtime.client.indexer import key_of
from dashpot.runtime.controller.body import Body, Outcome
from dashpot.runtime.controller.caches import CacheReader, KindCache
from dashpot.runtime.controller.calls import Answer, ApiError
from dashpot.runtime.controller.frame import Frame, Reader
from dashpot.runtime.controller.manager import Instance
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest

TRIES = 5000
"""Ways of settling the choices of a pass that are tried at most."""

Next = ApiRequest | Outcome
"""What a pass comes to: its next call, or its end."""


@frozen(eq=False)
class Look:
    """What a pass saw when it went on: caches, memory and time."""

    reader: Reader
    memory: dict[str, Any]
    now: int


@frozen(eq=False)
class Told:
    """A call that was made and its answer."""

    request: ApiRequest
    answer: Answer | ApiError


def look(instance: Instance) -> Look:
    """What an actor sees now."""
    caches = {}
    for kind, cache in instance.caches.items():
        copy = caches[kind] = KindCache(cache.view)
        copy.replace({key_of(obj.json): obj for obj in cache.all()}, "")
    return Look(CacheReader(caches), dict(instance.memory), instance.site.now_ms())


class _Reached(Exception):
    """The next call."""

    def __init__(self, request: ApiRequest) -> None:
        super().__init__()
        self.request = request


class _Strayed(Exception):
    """With these choices the pass would not have made the calls that it made."""


@define(eq=False)
class Pass:
    """A pass under way. `key` is what the actor's bookkeeping calls it; `params` are the values of the body's
    parameters; `subject` is whom it is for, as the model calls it."""

    instance: Instance
    body: Body
    key: Any
    subject: str
    action: str
    namespace: str
    params: dict[str, Any]
    told: list[Told] = field(factory=list)
    looks: list[Look] = field(factory=list)

    async def ahead(self, wanted: Callable[[Next], bool]) -> tuple[Next, bool]:
        """What comes next, such as it is wanted if there is such a way; whether it is. The memory is as it is then."""
        here = look(self.instance)
        first: tuple[Next, dict[str, Any]] | None = None
        for choices in _ways():
            try:
                found, memory = await self._again(here, choices)
            except _Strayed:
                continue
            if wanted(found):
                self._settle(here, memory)
                return found, True
            first = first or (found, memory)
        assert first is not None, "the pass has come this far in some way"
        self._settle(here, first[1])
        return first[0], False

    def _settle(self, here: Look, memory: dict[str, Any]) -> None:
        self.instance.memory.clear()
        self.instance.memory.update(memory)
        del self.looks[len(self.told) :]
        self.looks.append(here)

    def answered(self, request: ApiRequest, answer: Answer | ApiError) -> None:
        """Notes what became of the call that `ahead` came to."""
        self.told.append(Told(request, answer))

    async def _again(self, here: Look, choices: _Choices) -> tuple[Next, dict[str, Any]]:
        looks = [*self.looks[: len(self.told)], here]
        reader = _Switch(looks[0].reader)
        memory = dict(looks[0].memory)
        actor = self.instance
        moment = [looks[0].now]
        frame = Frame(
            actor.site.views.constants, reader, lambda: moment[0], self.namespace, memory, actor.me, choices.choose
        )
        if actor.actor.place is not None:
            frame.locals[actor.actor.place.var] = actor.me
        frame.locals.update(self.params)

        def onward(look: Look) -> None:
            reader.now = look.reader
            memory.clear()
            memory.update(look.memory)
            moment[0] = look.now

        teller = _Teller(self.told, looks[1:], onward)
        try:
            outcome = await self.body.run(frame, teller)
        except _Reached as reached:
            return reached.request, memory
        if teller.count < len(self.told):
            raise _Strayed
        return outcome, memory


@define(eq=False)
class _Switch:
    """A reader of what the pass sees now."""

    now: Reader

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        return self.now.get(kind, namespace, name)

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        return self.now.all(kind, namespace, index, value)


@define(eq=False)
class _Teller:
    """Answers as was answered before, as long as the pass asks the same."""

    told: Sequence[Told]
    looks: Sequence[Look]
    onward: Callable[[Look], None]
    count: int = 0

    async def perform(self, request: ApiRequest) -> Answer:
        if self.count == len(self.told):
            raise _Reached(request)
        known = self.told[self.count]
        if not _same(known.request, request):
            raise _Strayed
        self.onward(self.looks[self.count])
        self.count += 1
        if isinstance(known.answer, ApiError):
            raise known.answer
        return known.answer

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        return


def _same(one: ApiRequest, other: ApiRequest) -> bool:
    return (one.verb, one.kind, one.namespace, one.name, one.subresource, one.node, one.body) == (
        other.verb, other.kind, other.namespace, other.name, other.subresource, other.node, other.body,
    )  # fmt: skip


@define(eq=False)
class _Choices:
    """One way of settling what is left open: the first choices are given, all after them are 0."""

    given: list[int]
    made: list[tuple[int, int]] = field(factory=list)

    def choose(self, count: int) -> int:
        at = len(self.made)
        found = min(self.given[at], count - 1) if at < len(self.given) else 0
        self.made.append((found, count))
        return found


def _ways() -> Iterator[_Choices]:
    """All ways, the first choices changing last."""
    given: list[int] = []
    for _ in range(TRIES):
        way = _Choices(given)
        yield way
        made = way.made
        while made and made[-1][0] + 1 >= made[-1][1]:
            made.pop()
        if not made:
            return
        given = [choice for choice, _ in made]
        given[-1] += 1
