"""The driver: does on the real thing what a step of the model does, and says where the two part."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import define, field

from dashpot.model import types as t
from dashpot.model.automaton import ERRORS, Call
from dashpot.model.schedule import Moment, ScheduleStep
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.body import Outcome
from dashpot.runtime.controller.calls import Answer, ApiError
from dashpot.runtime.controller.controller import Running
from dashpot.runtime.controller.manager import Instance
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.process import MODES, Candidate, RunningProcess
from dashpot.runtime.controller.request import ApiRequest
from dashpot.runtime.controller.wakes import Key
from dashpot.runtime.loop import TIE_S, virtual_clock
from dashpot.runtime.replay.collector import collect
from dashpot.runtime.replay.gates import Gate, Log, gates_of
from dashpot.runtime.replay.likeness import model_name, nothing, runtime_name, stamps, text_of
from dashpot.runtime.replay.naming import Difference, Names, compared, shown
from dashpot.runtime.replay.passes import Next, Pass
from dashpot.runtime.replay.stage import NAMESPACE, Stage

World = dict[tuple[str, str], Obj]

CALLS = 1000
"""Calls of one pass, at most."""

QUIET = ("pause", "partition", "reconnect", "start", "read", "node_down")
"""Steps by which nothing happens to an actor but that it stands still, or goes on."""


@define(eq=False)
class Record:
    """A step of a pass that was taken: the call that it made, the error it came to, how the pass ended (None: not yet),
    and the objects before and after."""

    number: int
    actor: str
    action: str
    subject: str
    request: ApiRequest | None
    error: str
    outcome: Outcome | None
    before: World
    after: World
    call: Call | None = None

    def changed(self) -> list[tuple[Obj | None, Obj | None]]:
        """The objects that became others: before and after."""
        keys = dict.fromkeys([*self.before, *self.after])
        pairs = ((self.before.get(key), self.after.get(key)) for key in keys)
        return [(old, new) for old, new in pairs if old is None or new is None or old.version != new.version]


@define(eq=False)
class Driver:
    """Steps through a world. `differences`: where it has parted from the model so far."""

    stage: Stage
    names: Names = field(factory=Names)
    passes: list[Pass] = field(factory=list)
    gates: dict[tuple[str, str], Gate] = field(factory=dict)
    history: list[Record] = field(factory=list)
    differences: list[Difference] = field(factory=list)
    world: World = field(factory=dict)
    tick_ms: int = 1000
    _logs: dict[str, Log] = field(factory=dict)
    _frozen: dict[str, dict[str, tuple[dict[str, Any], str, int]]] = field(factory=dict)
    _down: set[str] = field(factory=set)
    _stamped: float = 0.0

    async def begin(self) -> None:
        """Shuts the gates."""
        for kind in self.stage.followed():
            view = self.stage.views[kind]
            log = self._logs[kind] = Log(view)
            self.stage.feeds.of(view.resource).join(log)
        await self.stage.heard()
        # times are in whole seconds and milliseconds: none may be a hair short of one
        await asyncio.sleep(1 - virtual_clock().now() % 1 + 0.0005)
        for name in self.stage.instances:
            self._shut(name)
        self.world = await self.stage.truth()

    def _shut(self, name: str) -> None:
        for key in [key for key in self.gates if key[0] == name]:
            del self.gates[key]
        for gate in gates_of(self.stage.instances[name], name):
            self.gates[name, gate.kind] = gate

    # -- following ----------------------------------------------------------------------------------------------

    async def follow(self, step: ScheduleStep) -> list[Difference]:
        """Takes a step just as the model does; where the two part after it."""
        self.differences = []
        before = self.world
        await self._take(step)
        self._sort(step, before)
        self.compare(step.after)
        return self.differences

    def _sort(self, step: ScheduleStep, before: World) -> None:
        for gate in self.gates.values():
            expected = step.after.pending.get(model_name(gate.actor), {}).get(gate.kind)
            versions = {name: obj.version for (kind, name), obj in before.items() if kind == gate.kind}
            gate.take_in(self.names, expected, gate.kind in step.changes, versions)
            while step.verb == "stale_restart" and expected is not None and len(gate.groups) > expected:
                gate.deliver()  # the list of the server that lags was full
            if expected is not None and len(gate.groups) != expected:
                where = f"{model_name(gate.actor)}'s cache of {gate.kind}"
                self._differ(where, "undelivered changes", str(expected), str(len(gate.groups)))

    def compare(self, moment: Moment) -> None:
        """Adds where store and caches differ from the model's."""
        self.differences += compared(moment.truth, self.world.values(), self.names)
        for actor, things in moment.caches.items():
            name = runtime_name(actor)
            for kind in moment.pending.get(actor, {}):
                gate = self.gates.get((name, kind))
                if gate is not None:
                    mine = [thing for thing in things if thing.kind == kind]
                    objects = [obj for obj in gate.cache.all() if obj.uid not in self.stage.before]
                    for one in compared(mine, objects, self.names):
                        self._differ(f"{one.object} in {actor}'s cache", one.field, one.model, one.runtime)

    def _differ(self, thing: str, field: str, model: str, runtime: str) -> None:
        self.differences.append(Difference(thing, field, model, runtime))

    async def _take(self, step: ScheduleStep) -> None:
        name = runtime_name(step.actor)
        match step.verb:
            case "deliver":
                gate = self.gates.get((name, step.kind))
                if gate is None or not gate.deliver():
                    self._differ(f"{step.actor}'s cache of {step.kind}", "undelivered changes", "some", "none")
            case "tick" | "collect" | "finalize":
                await self.world_step(step)
            case _ if step.verb in QUIET and (not step.object or step.verb == "node_down"):
                pass
            case "crash" | "stale_restart" | "freeze" | "relist" | "drop" | "down" | "resume" | "resync":
                await self.fault(step)
            case _:
                await self._act(step, name)

    async def world_step(self, step: ScheduleStep) -> bool:
        """Time that passes, or what the garbage collector does; whether that was possible."""
        if step.verb == "tick":
            await asyncio.sleep(self.tick_ms / 1000 + 2 * TIE_S)
            return True
        obj = self.world.get((step.kind, self.names.real(step.kind, step.name)))
        if obj is None:
            self._differ(step.object, "", "there", "not there")
            return False
        await collect(self.stage, obj)
        await self.look()
        return True

    async def look(self) -> None:
        """Looks at the store, once the informers know what it has."""
        await self.stage.heard()
        self.world = await self.stage.truth()
        for obj in self.world.values():
            self.names.saw(obj)

    # -- another spec -------------------------------------------------------------------------------------------

    async def attempt(self, step: ScheduleStep) -> bool:
        """Does what a step says as far as it applies to the actors that are here; whether it did."""
        self.differences = []
        name = runtime_name(step.actor)
        applied = True
        if step.verb == "deliver":
            gate = self.gates.get((name, step.kind))
            applied = gate is not None and gate.deliver()
        elif step.verb in ("tick", "collect", "finalize"):
            applied = await self.world_step(step)
        elif (step.role == "fault" and not step.action) or step.verb in ("resume", "resync", "reconnect"):
            applied = step.verb in QUIET or await self.fault(step)
        else:
            applied = await self._try(step, name)
        for gate in self.gates.values():
            gate.queue(self.names)
        return applied

    async def _try(self, step: ScheduleStep, name: str) -> bool:
        instance = self.stage.instances.get(name)
        if instance is None:
            return False
        one = self._any_pass(name, step) or self.start(instance, step)
        if one is None:
            return False
        await self.later(one)
        found, _ = await one.ahead(lambda it: self._wanted(step, it))
        await self.go(one, found, step)
        busy = step.after.busy.get(step.actor, 0)
        if one in self.passes and not busy:  # the pass that it stands for is over: this one goes on to its end
            for _ in range(CALLS):
                found, _ = await one.ahead(lambda it: isinstance(it, Outcome))
                await self.go(one, found, step)
                if isinstance(found, Outcome):
                    break
        return True

    def _any_pass(self, name: str, step: ScheduleStep) -> Pass | None:
        return next((p for p in self.passes if p.instance.name == name and p.subject == step.subject), None)

    # -- faults -------------------------------------------------------------------------------------------------

    async def fault(self, step: ScheduleStep) -> bool:
        """What befalls an actor or its caches; whether there is such an actor."""
        name = runtime_name(step.actor)
        instance = self.stage.instances.get(name)
        if instance is None:
            self._differ(step.actor, "", "there", "not there")
            return False
        gate = self.gates.get((name, step.kind))
        match step.verb:
            case "crash":
                await self._crash(name)
            case "freeze":
                self._freeze(name)
            case "stale_restart":
                await self._restart_behind(name)
            case "relist" if gate is not None:
                log = self._logs[step.kind]
                gate.relist(log.objects, log.version)
            case "drop" if gate is not None:
                gate.drop()
            case "down":
                self._down.add(name)
                self._forget(name)
            case "resume":
                if name in self._down:
                    self._down.discard(name)
                    await self._crash(name)
            case "resync":
                for cache in instance.caches.values():
                    cache.resync()
            case _:
                return False
        return True

    def _forget(self, name: str) -> None:
        self.passes = [one for one in self.passes if one.instance.name != name]

    async def _crash(self, name: str) -> None:
        self._forget(name)
        await self.stage.manager.crash(name)
        self._shut(name)

    def _freeze(self, name: str) -> None:
        kinds = self.stage.instances[name].kinds
        self._frozen[name] = {
            kind: (dict(log.objects), log.version, len(log.changes))
            for kind, log in self._logs.items()
            if kind in kinds
        }

    async def _restart_behind(self, name: str) -> None:
        self._forget(name)
        frozen_lists = self._frozen.pop(name, {})
        lists = {kind: (objects, version) for kind, (objects, version, _) in frozen_lists.items()}
        await self.stage.manager.crash(name, lists=lists)
        self._shut(name)
        for kind, (_, _, since) in frozen_lists.items():
            self.gates[name, kind].behind(self._logs[kind].changes[since:], self.names)

    # -- acting -------------------------------------------------------------------------------------------------

    async def _act(self, step: ScheduleStep, name: str) -> None:
        instance = self.stage.instances.get(name)
        if instance is None:
            self._differ(step.actor, "", "there", "not there")
            return
        one = self.under_way(name, step) or self.start(instance, step)
        if one is None:
            return
        await self.later(one)
        found, fits = await one.ahead(lambda it: self._wanted(step, it))
        if not fits:
            self._differ(step.actor, "next call", step.text, self.told(found))
        await self.go(one, found, step)
        busy = step.after.busy.get(step.actor, 0)
        if one in self.passes and sum(p.instance.name == name for p in self.passes) > busy:
            found, fits = await one.ahead(lambda it: isinstance(it, Outcome))
            if isinstance(found, Outcome):
                self.finish(one, found)
                self.history[-1].outcome = found
            else:
                self._differ(step.actor, "next call", "none: the pass ends", self.told(found))
        elif one not in self.passes and sum(p.instance.name == name for p in self.passes) < busy:
            self._differ(step.actor, "next call", "one more", "none: the pass ends")

    async def later(self, one: Pass) -> None:
        """Lets a second pass where a time is written that would else be the same as the last."""
        if stamps(one.body):
            if virtual_clock().now() < self._stamped + 1:
                await asyncio.sleep(1)
            self._stamped = virtual_clock().now()

    def under_way(self, name: str, step: ScheduleStep) -> Pass | None:
        """The pass that a step goes on with."""
        mine = (p for p in self.passes if p.instance.name == name and p.action == step.action)
        # a process does one thing at a time, and what is left of it does not say again for whom
        return next((p for p in mine if step.subject in ("", p.subject)), None)

    def start(self, instance: Instance, step: ScheduleStep) -> Pass | None:
        """A new pass, of a key that waits or a candidate whose guard holds; None: there is none."""
        if isinstance(instance, Running):
            kind, _, name = step.subject.partition(" ")
            view = self.stage.views[instance.actor.kind]
            key = Key(NAMESPACE if view.namespaced else "", self.names.real(kind, name))
            if not instance.queue.take(key):
                there = instance.caches[instance.actor.kind].get(key.namespace, key.name) is not None
                if not there and instance.gone_body is None:
                    return None  # nothing is to be done for it, whether it waits or not
                self._differ(step.subject, f"queue of {step.actor}", "waits", "does not wait")
                return None
            if not instance.own.seen(key):
                self._differ(step.subject, f"queue of {step.actor}", "may be reconciled", "waits for its own writes")
            return self.of_key(instance, key, step.subject)
        candidate = self._candidate(instance, step)
        frame = instance.ready(candidate) if candidate is not None else None
        if candidate is None or frame is None:
            self._differ(f"{step.actor} {step.action}({step.subject})", "when", "holds", "does not hold")
            return None
        body = instance.actions[step.action].body
        params = {name: frame.locals[name] for name, _ in instance.actions[step.action].action.params}
        one = Pass(instance, body, candidate, step.subject, step.action, frame.namespace, params)
        self.passes.append(one)
        return one

    def of_key(self, instance: Running, key: Key, subject: str) -> Pass:
        """A pass for a key that was taken from the queue."""
        obj = instance.caches[instance.actor.kind].get(key.namespace, key.name)
        body = instance.reconcile_body if obj is not None else instance.gone_body
        action = "reconcile" if obj is not None else "gone"
        value: Obj | str = obj if obj is not None else key.name
        params = {} if body is None else dict.fromkeys(body.automaton.params, value)
        one = Pass(instance, body or nothing(instance), key, subject, action, key.namespace, params)
        self.passes.append(one)
        return one

    def _candidate(self, instance: RunningProcess, step: ScheduleStep) -> Candidate | None:
        ready = instance.actions.get(step.action)
        if ready is None:
            return None
        pairs = [pair.partition(" = ") for pair in step.subject.split(", ")]
        said = {before: after for before, _, after in pairs}
        params: list[Any] = []
        for name, ty in ready.action.params:
            text = said.get(name, "")
            if isinstance(ty, t.Object):
                space = NAMESPACE if self.stage.views[ty.kind].namespaced else ""
                params.append(Key(space, self.names.real(ty.kind, text)))
            else:
                domain = wide.elements(ty, self.stage.views.constants)
                params.append(next((v for v in domain if text_of(v) == text), text))
        return Candidate(step.action, tuple(params))

    # -- calls --------------------------------------------------------------------------------------------------

    def _wanted(self, step: ScheduleStep, found: Next) -> bool:
        if isinstance(found, Outcome):
            return step.verb in ("end", "act") and (found.how == "panic") == ("panics" in step.detail)
        if step.verb == "act":
            return any(text.startswith("overflows") for text in step.detail)
        if found.verb != step.verb or found.kind != step.kind:
            return False
        if step.line and found.span.line and (found.span.line, found.span.column) != (step.line, step.column):
            return False
        name = found.name or str((found.body or {}).get("metadata", {}).get("name") or "")
        # a name that is computed from an opaque value (`web-#v1`) is another one here
        computed = found.verb == "create" and "#" in step.name
        if step.name and name and not computed and self.names.model(found.kind, name) != step.name:
            return False
        return all(self._says(found, text) for text in step.detail)

    def _says(self, request: ApiRequest, text: str) -> bool:
        """Whether a request agrees with a detail of the step's label: "spec.replicas = 2"."""
        path, equals, value = text.partition(" = ")
        side = path.partition(".")[0]
        if not equals or side not in ("spec", "status") or value in ("…", "set") or not isinstance(request.body, dict):
            return True
        body = Obj(request.view, {"kind": request.kind, **request.body})
        real = shown(body, path, value, self.names)
        return real is None or real == value

    def told(self, found: Next) -> str:
        """What a pass comes to, in words."""
        if isinstance(found, Outcome):
            return f"the pass ends ({found.how}{': ' + found.message if found.message else ''})"
        name = found.name or "a new one"
        return f"{found.verb} {found.kind} {self.names.model(found.kind, name)} at line {found.span.line}"

    async def go(self, one: Pass, found: Next, step: ScheduleStep) -> None:
        """Takes the step of a pass that `found` is: makes the call, or ends the pass."""
        before = self.world
        if isinstance(found, Outcome):
            self.finish(one, found)
            self._record(one, step, None, "", found, before)
            return
        lost = "Timeout" in step.detail
        answer = await self.perform(one, found, made=not lost or bool(step.changes), lost=lost)
        if isinstance(answer, Obj) and found.verb == "create" and step.name and found.kind == step.kind:
            self.names.learn(found.kind, step.name, answer.name)
        error = answer.name or "error" if isinstance(answer, ApiError) else ""
        wanted = next((word for word in step.detail if word in ERRORS), "")
        if error != wanted and step.verb == found.verb:
            said = str(answer) if isinstance(answer, ApiError) else "it is done"
            self._differ(
                step.object, f"answer to {found.verb}", wanted or "it is done", f"{error}: {said}" if error else said
            )
        self._record(one, step, found, error, None, before)

    async def perform(
        self, one: Pass, request: ApiRequest, *, made: bool = True, lost: bool = False
    ) -> Answer | ApiError:
        """Makes the call of a pass. `lost`: its answer is; `made`: whether it reaches the server."""
        answer: Answer | ApiError = None
        modes = MODES if isinstance(one.instance, RunningProcess) else ("read_own_writes",)
        if made:
            try:
                answer = await one.instance.pass_caller(one.key, modes).perform(request)
            except ApiError as error:
                answer = error
        if lost:
            answer = ApiError("Timeout", TimeoutError("the answer was lost"))
        one.answered(request, answer)
        if request.writes:
            await self.look()
        return answer

    def _record(
        self,
        one: Pass,
        step: ScheduleStep,
        request: ApiRequest | None,
        error: str,
        outcome: Outcome | None,
        before: World,
    ) -> None:
        node = one.body.automaton.nodes[request.node] if request is not None else None
        self.history.append(
            Record(
                step.number,
                one.instance.name,
                one.action,
                one.subject,
                request,
                error,
                outcome,
                before,
                self.world,
                node if isinstance(node, Call) else None,
            )
        )

    def finish(self, one: Pass, outcome: Outcome) -> None:
        """Ends a pass: a key that is to come again waits once more; its back-off takes no time."""
        self.passes.remove(one)
        if isinstance(one.instance, Running):
            queue = one.instance.queue
            queue.done(one.key)
            if outcome.how == "after":
                queue.add_after(one.key, outcome.delay_ms / 1000)
            elif outcome.how != "done":
                queue.add(one.key)
