"""The real world of a replay: an API server with a store in memory, and the actors of a spec around it, all in this
process and on virtual time. Nobody acts but when a driver says so.

    async with staged(program, names, given, constants) as stage: …
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, evolve, field

from dashpot.model import types as t
from dashpot.model.kernel.clock import durations
from dashpot.model.objects.status import StatusError
from dashpot.model.program import GivenObject, Process, Program
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.inprocess import InProcess
from dashpot.runtime.client.rest import Client, Write
from dashpot.runtime.controller import wide, writes
from dashpot.runtime.controller.calls import Answer, Caller, ClientCaller
from dashpot.runtime.controller.definition import definition
from dashpot.runtime.controller.feeds import Feeds
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.manager import Instance, Manager
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.preflight import kinds_called
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.uses import Actor, caches_of
from dashpot.runtime.controller.views import View, Views, default_of
from dashpot.runtime.controller.vocabulary import terms_of
from dashpot.runtime.loop import virtual_clock
from dashpot.runtime.replay.abstracted import abstracted
from dashpot.runtime.replay.concrete import SYMBOLS, Served, complete, real

Object = dict[str, Any]

NAMESPACE = "replay"
"""Where all namespaced objects of a replay are."""
LOOK_S = 0.001
LOOKS = 5000
TURNS = 100
"""How often it is looked whether the informers have heard what the store has; virtual seconds in between."""


class CannotReplay(Exception):
    """A spec that cannot be driven; the text says which part of it, and why."""


@define(eq=False)
class Completing:
    """A caller whose creates have what real validation asks for."""

    inner: Caller

    async def perform(self, request: ApiRequest) -> Answer:
        """Makes the call; ApiError."""
        if request.verb in ("create", "apply") and isinstance(request.body, dict):
            request = evolve(request, body=complete(request.view, request.body))
        elif request.verb in ("update", "patch") and isinstance(request.body, dict):
            request = evolve(request, body=real(request.view, request.body))
        return await self.inner.perform(request)

    def note(self, about: Obj, kind: str, reason: str, message: str) -> None:
        """Events are no part of a run."""
        return


@define(eq=False)
class _Made:
    """A reader of what was made so far, for what is given of it."""

    rows: list[Obj] = field(factory=list)

    def get(self, kind: str, namespace: str, name: str) -> Obj | None:
        return next((obj for obj in self.rows if obj.view.kind == kind and obj.name == name), None)

    def all(self, kind: str, namespace: str, index: str | None = None, value: Any = None) -> Sequence[Obj]:
        rows = [obj for obj in self.rows if obj.view.kind == kind]
        return rows if index is None else [obj for obj in rows if obj.view.index(index)(obj) == value]


@define(eq=False)
class Stage:
    """A world.

    spec     the program as it was written; `program` as it runs here
    kinds    what a run looks at
    notes    what was made otherwise than the spec has it
    before   uids of what was there before the run
    """

    spec: Program
    program: Program
    client: Client
    manager: Manager
    feeds: Feeds
    views: Views
    kinds: tuple[str, ...]
    notes: list[str]
    before: set[str] = field(factory=set)

    @property
    def instances(self) -> dict[str, Instance]:
        """The actors, by name."""
        return self.manager.instances

    async def truth(self) -> dict[tuple[str, str], Obj]:
        """All objects of the run's kinds, by (kind, name)."""
        found = {}
        for kind in self.kinds:
            view = self.views[kind]
            for item in (await self.client.list(view.resource, NAMESPACE if view.namespaced else "")).items:
                obj = Obj(view, item)
                if obj.uid not in self.before:
                    found[kind, obj.name] = obj
        return found

    async def heard(self) -> None:
        """Waits until the informers have heard all that the store has; CannotReplay if they never do."""
        for number in range(LOOKS):
            if await self._level():
                return
            # a watch takes turns of the loop, and no time unless it must
            await asyncio.sleep(0 if number < TURNS else LOOK_S)
        raise CannotReplay("the informers do not come to know what the store has")

    async def _level(self) -> bool:
        for kind in self.followed():
            view = self.views[kind]
            feed = self.feeds.of(view.resource)
            items = (await self.client.list(view.resource, "")).items
            has = {(i["metadata"].get("namespace"), i["metadata"]["name"]): _version(i) for i in items}
            knows = {
                (o["metadata"].get("namespace"), o["metadata"]["name"]): _version(o) for o in feed.objects.values()
            }
            if has != knows:
                return False
        return True

    def followed(self) -> Iterable[str]:
        """The kinds of which somebody has a cache."""
        return sorted({kind for instance in self.instances.values() for kind in instance.kinds})

    async def make(self, given: Sequence[GivenObject]) -> None:
        """Creates the objects of the start; CannotReplay."""
        terms = terms_of(self.views, self.manager.site.externs) if self.manager.site is not None else None
        assert terms is not None
        clock = virtual_clock()
        there = _Made()
        frame = Frame(self.views.constants, there, lambda: int(clock.now() * 1000), NAMESPACE)
        left = list(given)
        while left:
            later: list[GivenObject] = []
            for one in left:
                view = self.views[one.kind]
                fields = writes.fields_of(one.items, view, terms)
                try:
                    written = [field.written(frame) for field in fields]
                except Undefined as problem:
                    later.append(one)
                    if len(later) == len(left):
                        raise CannotReplay(f"given {one.kind} {one.name}: {problem.text}") from None
                    continue
                what = f"given {one.kind} {one.name}"
                made = await self._given(view, one.name, written, frame.now(), what)
                there.rows.append(made)
                if one.bound:
                    frame.locals[one.name] = made
            left = later

    async def _given(self, view: View, name: str, written: Sequence[writes.Written], now_ms: int, what: str) -> Obj:
        """Creates an object; what the API server has made otherwise than the spec's defaults say is put right."""
        space = NAMESPACE if view.namespaced else ""
        body = writes.made(view, written, now_ms)
        body["metadata"]["name"] = name
        try:
            made = Obj(view, await self.client.create(view.resource, complete(view, body), space))
            wrong = _unlike(view, made, written, self.views)
            for side in ("spec", "status"):
                fields = [w for w in wrong if w.path[0] == side]
                if side == "status":
                    fields += [w for w in written if w.path[0] == side]
                if fields:
                    sub = "status" if side == "status" and view.has_status() else ""
                    json = writes.changed(made, fields, now_ms)
                    made = Obj(view, await self.client.update(view.resource, json, space, subresource=sub))
        except StatusError as error:
            raise CannotReplay(f"the API server refuses {what}: {error.message}") from None
        return made


def _version(item: Object) -> str:
    return str(item["metadata"].get("resourceVersion"))


def _unlike(view: View, made: Obj, written: Sequence[writes.Written], views: Views) -> list[writes.Written]:
    """The fields that nobody gave, and that are not what the spec says that they are then."""
    said = {one.path[:2] for one in written}
    found = []
    for side in ("spec", "status"):
        for one in getattr(view.declared, side):
            path = (side, one.name)
            if path in said or not isinstance(one.type, t.Bool | t.Int | t.Enum | t.ListOf | t.SetOf):
                continue
            default = default_of(one, views.constants)
            if not (one.at or "").startswith("metadata") and _read(view, made, *path) != default:
                found.append(writes.Written(path, view.slot(path), default, ()))
    return found


def _read(view: View, obj: Obj, side: str, name: str) -> Any:
    try:
        return view.get(obj.json, side, name)
    except Undefined:
        return None


@asynccontextmanager
async def staged(
    program: Program, names: Sequence[str], given: Sequence[GivenObject], constants: Mapping[str, Any], kinds: set[str]
) -> AsyncIterator[Stage]:
    """A world in which all caches have listed the given objects. `names`: the actors of the check; `kinds`: what the
    run speaks of beside what they do. CannotReplay."""
    for admission in program.admissions:
        if admission.name in names:
            raise CannotReplay(f"{admission.name} is an admission policy: a replay drives controllers and processes")
    complaints: list[str] = []
    clock = virtual_clock()
    server = await ApiServer.start(
        Settings(store="memory"), listen=False, seed=1, clock=clock, complain=complaints.append
    )
    manager: Manager | None = None
    feeds: Feeds | None = None
    try:
        client = Client(InProcess(server.local), NAMESPACE, user_agent="dashpot-replay", retries=0)
        plain, externs = abstracted(_peopled(program, names))
        whole = Served(plain)
        known: dict[str, Actor] = {a.name: a for a in whole.program.controllers}
        known |= {a.name: a for a in whole.program.processes}
        acting = [known[name] for name in names if name in known]
        named = (caches_of(actor, program) | kinds_called(actor) for actor in acting)
        used = sorted(kinds.union({one.kind for one in given}, *named))
        for declared in program.resources:
            if declared.kind in used and "*" in declared.api_version:
                raise CannotReplay(f"{declared.kind} is no kind of its own: it stands for a part of many kinds")
        await _furnish(client, whole, constants, used)
        if externs:
            whole.notes.append(f"extern functions are what their `abstract` terms say: {', '.join(externs)}")
        feeds = Feeds(client, chance=random.Random(1))
        manager = Manager(
            whole.program,
            client,
            clock=clock,
            chance=random.Random(1),
            constants=constants,
            private=True,
            workers=False,
            caller=lambda actor: Completing(ClientCaller(client, actor)),
            resync_s=0,
            feeds=feeds,
            opaque=SYMBOLS,
        )
        actors = [actor.name for actor in acting]
        site = await manager.prepare(actors)
        stage = Stage(program, whole.program, client, manager, feeds, site.views, tuple(used), whole.notes)
        stage.before = {obj.uid for obj in (await stage.truth()).values()}
        await stage.make(given)
        longest = max(durations([whole.program], site.views.constants), default=0) / 1000
        await asyncio.sleep(2 * longest + 1)  # what is given is as old as it gets
        await manager.start(actors)
        yield stage
    finally:
        if manager is not None:
            await manager.stop(now=True)
        if feeds is not None:
            await feeds.stop()
        await server.stop()


def _peopled(program: Program, names: Sequence[str]) -> Program:
    """The program with its environments as processes: what they do is asked of them by name."""
    made = tuple(Process(e.name, None, (), (), (), e.actions, e.module, e.span) for e in program.environments)
    return evolve(program, processes=(*program.processes, *(p for p in made if p.name in names)))


async def _furnish(client: Client, served: Served, constants: Mapping[str, Any], used: Sequence[str]) -> None:
    """Namespace, account and definitions; fields that do not fit their kind are moved."""
    await client.create("namespaces", {"metadata": {"name": NAMESPACE}})
    await client.create("serviceaccounts", {"metadata": {"name": "default"}}, NAMESPACE)
    views = Views(served.program, constants=constants)
    served.notes[:] = [note for note in served.notes if note.partition(" ")[0] in used]
    for kind in (k for k in served.custom if k in used):
        made = definition(views[kind], views.constants)
        try:
            await client.create("customresourcedefinitions", made.json)
        except StatusError as error:
            raise CannotReplay(f"the API server refuses the definition of {kind}: {error.message}") from None
        for _ in range(LOOKS):
            found = await client.get("customresourcedefinitions", made.json["metadata"]["name"])
            conditions = (found.get("status") or {}).get("conditions") or ()
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
            await asyncio.sleep(LOOK_S)
    for kind in used:
        if kind not in served.custom:
            await _try_out(client, served, views[kind], views)
    await client.discovery.resources(fresh=True)


async def _try_out(client: Client, served: Served, view: View, views: Views) -> None:
    """Tries each field of a built-in kind's spec on the API server, without effect."""
    space = NAMESPACE if view.namespaced else ""
    for one in view.declared.spec:
        sample = _sample(one.type, views)
        if sample is None or (one.at or "").startswith("metadata"):
            continue
        path = ("spec", one.name)
        try:
            body = writes.made(view, [writes.Written(path, view.slot(path), sample, ())], 0)
            body["metadata"]["name"] = "sample"
            await client.create(view.resource, complete(view, body), space, how=Write("", True, "Strict"))
        except StatusError:
            at = one.at or f"spec.{one.name}"
            served.annotate(view.kind, one.name, f"{at} of a real {view.kind} holds no such value")


def _sample(ty: t.Type, views: Views) -> Any:
    match wide.bare(ty):
        case t.Name():
            return "sample"
        case t.Bool():
            return True
        case t.Enum(members=members):
            return members[0]
        case t.Int():
            return 1
        case _:
            return None
