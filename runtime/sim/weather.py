"""The way between the parts of the plane and the API server, and what happens on it.

    weather = Weather(truth, log); Plane(server, way=weather.way, wrap=weather.wrap)

A fault is armed, and fires when a call or a watch event meets it; `fired` tells which did.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import msgspec
from attrs import define, evolve, field, frozen

from dashpot.runtime.client.transport import Answer, Call, Transport, TransportTimeout
from dashpot.runtime.controller.calls import Answer as Reply
from dashpot.runtime.controller.calls import ApiError, Caller
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.sim.deed import DEED, Deed
from dashpot.runtime.sim.pipe import Pipe
from dashpot.runtime.sim.truth import Truth

Object = dict[str, Any]
READS = ("GET", "HEAD", "OPTIONS")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
GONE = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old resource version",
    "reason": "Expired", "code": 410,
}  # fmt: skip
BROKEN = {
    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "the server is broken",
    "reason": "InternalError", "code": 500,
}  # fmt: skip
_ENCODE = msgspec.json.encode
_LISTED = msgspec.json.Decoder(Object)
PATIENCE_S = 2.0
"""How long a client waits for an answer that is lost."""


@frozen
class Firing:
    """A fault that fired. `name` as specs call it, or "" for one that no check knows of; `item` of the plan."""

    at: float
    item: int
    name: str
    text: str


@define(eq=False)
class Snare:
    """Waits for a call of a controller: the `skip`-th after it was armed.

    what  crash_before, crash_after, lost_before, lost_after, broken, contended
    """

    item: int
    what: str
    skip: int
    times: int = 1


@frozen
class Stale:
    """What a restart is shown: the state of a revision, and nothing newer until `until`."""

    revision: int
    until: float


async def _nothing(_: object) -> None:
    return


@define(eq=False)
class Weather:
    """All that is armed. `part` whose lists are stale is in `stale`."""

    truth: Truth
    now: Callable[[], float]
    tell: Callable[[str], None]
    crash: Callable[[str], Awaitable[None]] = _nothing
    """Ends an instance and starts another in its place."""
    meddle: Callable[[Deed], Awaitable[None]] = _nothing
    """Writes to the object of a deed, as another client."""
    controllers: Callable[[str], bool] = lambda part: False
    """Whether a part is one of the controllers' process."""
    snares: list[Snare] = field(factory=list)
    pipes: list[Pipe] = field(factory=list)
    expired: set[tuple[str, str]] = field(factory=set)
    stale: Stale | None = None
    fired: list[Firing] = field(factory=list)
    deeds: list[tuple[float, Deed, str]] = field(factory=list)
    """Every call of a controller that writes: when it was answered, and how ("" well, else the error)."""
    _counts: defaultdict[str, Counter[str]] = field(factory=lambda: defaultdict(Counter))
    _tasks: set[asyncio.Task[None]] = field(factory=set)

    def way(self, part: str, transport: Transport) -> Transport:
        """The way of a part of the plane."""
        return _Way(self, part, transport)

    def wrap(self, actor: str, key: str, caller: Caller) -> Caller:
        """The caller of a pass."""
        return _Witness(self, actor, key, caller)

    def fire(self, item: int, name: str, whom: str, text: str) -> None:
        """Notes that a fault fired."""
        self.fired.append(Firing(self.now(), item, name, text))
        if name and whom:
            self.hit(name, [whom])
        self.tell(f"{self.now():.6f} fault {text}")

    def counts(self, whom: str) -> Counter[str]:
        """How often each fault that checks know of has hit an actor."""
        return self._counts[whom]

    def hit(self, name: str, actors: Iterable[str]) -> None:
        """Counts a fault for those whom it hits."""
        for actor in actors:
            self._counts[actor][name] += 1

    def snared(self, deed: Deed) -> Snare | None:
        """The fault that hits this call, if one does."""
        for snare in self.snares:
            if snare.what == "contended" and deed.verb != "update":
                continue
            if snare.skip > 0:
                snare.skip -= 1
                continue
            snare.times -= 1
            if snare.times <= 0:
                self.snares.remove(snare)
            return snare
        return None

    def begin_crash(self, actor: str) -> None:
        """Crashes an instance from within its own call."""
        task = asyncio.get_running_loop().create_task(self._crashed(actor), name=f"crash of {actor}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _crashed(self, actor: str) -> None:
        await self.crash(actor)

    def matching(self, chance: random.Random, wanted: Callable[[Pipe], bool]) -> Pipe | None:
        """One of the open watches."""
        rows = sorted((pipe for pipe in self.pipes if wanted(pipe)), key=lambda pipe: (pipe.part, pipe.resource))
        return chance.choice(rows) if rows else None

    def expire(self, pipe: Pipe) -> None:
        """Cuts a watch, and lets the next one find its version gone: everything is listed anew."""
        self.expired.add((pipe.part, pipe.resource))
        pipe.cut()

    def heal(self) -> None:
        """Nothing more happens; what was lost is listed again."""
        self.snares.clear()
        self.stale = None
        for pipe in list(self.pipes):
            pipe.calm()
            if pipe.lossy:
                self.expire(pipe)
            else:
                pipe.release()

    async def close(self) -> None:
        """Ends crashes that are under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Witness:
    """Notes what a pass does."""

    def __init__(self, weather: Weather, actor: str, key: str, caller: Caller) -> None:
        self._weather = weather
        self._actor = actor
        self._key = key
        self._caller = caller

    async def perform(self, request: ApiRequest) -> Reply:
        """Makes the call, known as this actor's; ApiError."""
        if not request.writes:
            return await self._caller.perform(request)
        weather = self._weather
        name = f"{request.namespace}/{request.name}" if request.namespace else request.name
        deed = Deed(self._actor, self._key, request.verb, request.kind, name, request.span, len(weather.deeds))
        weather.deeds.append((weather.now(), deed, "?"))
        token = DEED.set(deed)
        how = "?"
        try:
            answer = await self._caller.perform(request)
            how = ""
            return answer
        except ApiError as error:
            how = error.name or type(error.error).__name__
            raise
        finally:
            DEED.reset(token)
            weather.deeds[deed.number] = (weather.now(), deed, how)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """An event is told in the log of the run; as an object it would cost a write and steer nothing."""
        weather = self._weather
        weather.tell(f"{weather.now():.6f} {self._actor} notes {reason} of {about!r}: {message}")


class _Way:
    """The transport of one part."""

    def __init__(self, weather: Weather, part: str, inner: Transport) -> None:
        self._weather = weather
        self._part = part
        self._inner = inner

    async def close(self) -> None:
        """Ends all connections."""
        await self._inner.close()

    async def send(self, call: Call) -> Answer:
        """Sends a request, unless something happens; TransportError."""
        if call.method in READS:
            if any(name == "watch" and value in ("1", "true") for name, value in call.query):
                return await self._watch(call)
            return await self._inner.send(call)
        deed = DEED.get()
        if deed.span.file:
            return await self._write(call, deed)
        token = DEED.set(Deed(self._part, verb=VERBS.get(call.method, call.method)))
        try:
            return await self._inner.send(call)
        finally:
            DEED.reset(token)

    # -- writes of controllers ----------------------------------------------------------------------------------

    async def _write(self, call: Call, deed: Deed) -> Answer:
        weather = self._weather
        snare = weather.snared(deed)
        if snare is None:
            return await self._inner.send(call)
        told = f"{deed.actor} at {deed.span}: {deed.verb} {deed.kind} {deed.name}"
        match snare.what:
            case "crash_before":
                weather.fire(snare.item, "crash", deed.actor, f"crash before {told}")
                return await self._die(deed)
            case "crash_after":
                await self._inner.send(call)
                weather.fire(snare.item, "crash", deed.actor, f"crash after {told}")
                return await self._die(deed)
            case "lost_before":
                weather.fire(snare.item, "timeout", deed.actor, f"time-out before the effect of {told}")
                await asyncio.sleep(PATIENCE_S)
                raise TransportTimeout(f"{call.method} {call.path}: no answer")
            case "lost_after":
                await self._inner.send(call)
                weather.fire(snare.item, "timeout", deed.actor, f"time-out after the effect of {told}")
                await asyncio.sleep(PATIENCE_S)
                raise TransportTimeout(f"{call.method} {call.path}: no answer")
            case "broken":
                weather.fire(snare.item, "", deed.actor, f"500 for {told}")
                return _answer(500, BROKEN)
            case _:
                weather.fire(snare.item, "", deed.actor, f"another writer just before {told}")
                await weather.meddle(deed)
                return await self._inner.send(call)

    async def _die(self, deed: Deed) -> Answer:
        """The call never returns to the pass: the crash ends both."""
        self._weather.begin_crash(deed.actor)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("a call that was cut off went on")

    # -- watches ------------------------------------------------------------------------------------------------

    async def _watch(self, call: Call) -> Answer:
        weather, part = self._weather, self._part
        resource = _resource(call.path)
        query = dict(call.query)
        initial = query.get("sendInitialEvents") == "true"
        if (part, resource) in weather.expired:
            if not initial:
                weather.expired.discard((part, resource))
                return _answer(410, GONE)
            weather.expired.discard((part, resource))
        stale = weather.stale
        first: list[bytes] = []
        if initial and stale is not None and weather.controllers(part):
            first, call = await self._past(call, stale.revision)
        answer = await self._inner.send(call)
        if answer.code != 200:
            return answer
        pipe = Pipe(part, resource, answer.chunks, first, self._ended)
        if first and stale is not None and weather.now() < stale.until:
            pipe.hold()
            loop = asyncio.get_running_loop()
            loop.call_at(loop.time() + stale.until - weather.now(), pipe.release)
        weather.pipes.append(pipe)
        return Answer(answer.code, answer.headers, pipe.lines(), answer.closing)

    def _ended(self, pipe: Pipe) -> None:
        if pipe in self._weather.pipes:
            self._weather.pipes.remove(pipe)

    async def _past(self, call: Call, revision: int) -> tuple[list[bytes], Call]:
        """The lines of a streaming list as of a revision, and the call for what came after."""
        kept = [(n, v) for n, v in call.query if n in ("labelSelector", "fieldSelector")]
        exact = [*kept, ("resourceVersion", str(revision)), ("resourceVersionMatch", "Exact")]
        listed = await self._inner.send(evolve(call, query=exact))
        body = _LISTED.decode(await listed.read())
        lines = []
        if listed.code == 200:
            item_kind = str(body.get("kind", "")).removesuffix("List")
            for item in body.get("items") or ():
                item = {"apiVersion": body.get("apiVersion"), "kind": item_kind, **item}
                lines.append(_ENCODE({"type": "ADDED", "object": item}) + b"\n")
            mark = {"resourceVersion": str(revision), "annotations": {"k8s.io/initial-events-end": "true"}}
            end = {
                "type": "BOOKMARK",
                "object": {"kind": item_kind, "apiVersion": body.get("apiVersion"), "metadata": mark},
            }
            lines.append(_ENCODE(end) + b"\n")
            gone = ("sendInitialEvents", "resourceVersion", "resourceVersionMatch")
            rest = [(n, v) for n, v in call.query if n not in gone]
            call = evolve(call, query=[*rest, ("resourceVersion", str(revision))])
        return lines, call


def _resource(path: str) -> str:
    """The plural that a path watches."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def _answer(code: int, body: Object) -> Answer:
    async def once() -> AsyncIterator[bytes]:
        yield _ENCODE(body)

    return Answer(code, {"content-type": "application/json"}, once())
