"""Whether what happened here is the violation that the model found: the same property, of the same object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define

from dashpot.model import types as t
from dashpot.model.automaton import Call
from dashpot.model.expr import Expr, Member
from dashpot.model.kernel.walk import parts
from dashpot.model.program import NoLostUpdates, OnWrite, Property, State
from dashpot.model.schedule import Schedule
from dashpot.runtime.controller import wide
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.replay.driver import Driver, Record, World
from dashpot.runtime.replay.terms import Asker

DEFAULTS = ("hot_loop", "terminates", "lost_update", "wrong_uid", "unbounded", "panic")
"""Properties that no spec needs to state."""


@define(eq=False)
class Judge:
    """Asks a property of what a driver has done. `worlds`: the states since the start; `loop`: the state to which the
    cycle leads back, if there is one."""

    driver: Driver
    schedule: Schedule
    worlds: Sequence[World]
    loop: int | None

    def violated(self) -> str:
        """Why the property of the schedule is not violated here as the model has it; "" if it is."""
        name = self.schedule.property
        asked = self._property(name)
        if asked is None:
            check = self._default(name)
            return check() if check is not None else f"{name} is no property of this spec"
        if isinstance(asked.formula, NoLostUpdates):
            return self._lost()
        if isinstance(asked.formula, OnWrite):
            return self._on_write(asked.formula)
        return self._state(asked)

    def _property(self, name: str) -> Property | None:
        program = self.driver.stage.program
        return next((p for p in program.properties if p.name == name and p.module == program.main), None)

    def _default(self, name: str) -> Callable[[], str] | None:
        return {
            "panic": self._panic,
            "wrong_uid": self._wrong_uid,
            "lost_update": self._lost,
            "unbounded": self._unbounded,
            "terminates": self._terminates,
            "hot_loop": self._hot,
            "monotone": self._back,
        }.get(name)

    # -- properties of a spec -----------------------------------------------------------------------------------

    def _state(self, asked: Property) -> str:
        asker = Asker(self.driver.stage)
        cycle = list(self.worlds[self.loop :]) if self.loop is not None else [self.worlds[-1]]
        if self.schedule.kind == "safety":
            cycle = [self.worlds[-1]]
        if self.schedule.kind == "safety" and isinstance(asked.formula, State) and asked.formula.op == "sometimes":
            return f"{asked.name} wants to be seen: a run that shows it violates nothing"
        if isinstance(asked.formula, State) and asked.formula.op == "monotone":
            return self._went_back(asker, asked, asked.formula.body)
        failed = [self._fails(asker, asked, world) for world in cycle]
        lasting = isinstance(asked.formula, State) and asked.formula.op in ("recurs", "eventually")
        met = all(failed) if lasting else any(failed)
        return "" if met else f"`{asked.name}` holds for {self.schedule.thing or 'the world'}"

    def _went_back(self, asker: Asker, asked: Property, term: Expr) -> str:
        before, after = (
            {self.driver.names.title(o) if o else "": asker.value(term, world, **bound)
             for o, bound in asker.instances(asked, world)}
            for world in self.worlds[-2:]
        )  # fmt: skip
        was, now = before.get(self.schedule.thing), after.get(self.schedule.thing)
        return "" if was is not None and now is not None and now < was else f"{asked.name} does not go back"

    def _back(self) -> str:
        """A monotone field that goes back in the last step."""
        for old, new in self.driver.history[-1].changed() if self.driver.history else ():
            if old is None or new is None or self.driver.names.title(new) != self.schedule.thing:
                continue
            declared = next(r for r in self.driver.stage.spec.resources if r.kind == new.view.kind)
            for side, fields in (("spec", declared.spec), ("status", declared.status)):
                for one in fields:
                    if one.monotone and _value(new, side, one.name) < _value(old, side, one.name):
                        return ""
        return f"no monotone field of {self.schedule.thing} goes back"

    def _fails(self, asker: Asker, asked: Property, world: World) -> bool:
        for obj, bound in asker.instances(asked, world):
            mine = obj is None or self.driver.names.title(obj) == self.schedule.thing
            if mine and not asker.state(asked, world, bound):
                return True
        return False

    def _on_write(self, formula: OnWrite) -> str:
        last = self._last()
        if last is None:
            return "the last step writes nothing"
        asker = Asker(self.driver.stage)
        actor = self.driver.stage.instances.get(last.actor)
        for old, new in last.changed():
            obj = new or old
            if obj is None or obj.view.kind != formula.kind or not _covers(formula.verbs, last):
                continue
            if self.driver.names.title(obj) == self.schedule.thing:
                if not asker.write(formula, last.before, old, new, actor):
                    return ""
                return f"the {_verb(last)} of {self.schedule.thing} is allowed"
        return f"the last step does not write {self.schedule.thing}"

    # -- defaults -----------------------------------------------------------------------------------------------

    def _last(self) -> Record | None:
        return self.driver.history[-1] if self.driver.history else None

    def _panic(self) -> str:
        last = self._last()
        if last is None or last.outcome is None or last.outcome.how != "panic":
            return "the last pass meets no undefined term"
        mine = last.actor.partition("@")[0] == self.schedule.thing.partition("[")[0]
        return "" if mine else f"it is {last.actor} whose term is undefined"

    def _wrong_uid(self) -> str:
        last = self._last()
        request = last.request if last is not None else None
        if last is None or request is None or request.target is None:
            return "the last step writes nothing that was read"
        hit = next((old for old, _ in last.changed() if old is not None and _is(old, request)), None)
        if hit is None:
            return "the last step changes nothing"
        if self.driver.names.title(hit) != self.schedule.thing:
            return f"the last step hits {self.driver.names.title(hit)}"
        return "" if hit.uid != request.target.uid else f"the last step hits the {hit.view.kind} that was read"

    def _lost(self) -> str:
        for record in reversed(self.driver.history):
            found = lost(record, self.driver.history)
            if found and self.driver.names.title(found[0]) == self.schedule.thing:
                return ""
        return f"no write to {self.schedule.thing} loses what another wrote"

    def _unbounded(self) -> str:
        kind = self.schedule.thing.partition(" ")[0]
        room = self.schedule.sizes.get(kind)
        there = sum(of == kind for of, _ in self.worlds[-1])
        if room is None:
            return f"there is no room that {self.schedule.thing or 'what grows'} could outgrow here"
        return "" if there > room else f"there are {there} {kind}s where the model has room for {room}"

    def _terminates(self) -> str:
        cycle = self.worlds[self.loop :] if self.loop is not None else [self.worlds[-1]]
        for world in cycle:
            ending = [o for o in world.values() if o.meta.get("deletionTimestamp")]
            if self.schedule.thing not in map(self.driver.names.title, ending):
                return f"{self.schedule.thing} does not go on terminating"
        return ""

    def _hot(self) -> str:
        if self.loop is None:
            return "nothing repeats"
        names = self.driver.names
        for before, after in zip(self.worlds[self.loop :], self.worlds[self.loop + 1 :], strict=False):
            for key in {*before, *after}:
                old, new = before.get(key), after.get(key)
                obj = new or old
                other = old is None or new is None or old.version != new.version
                if obj is not None and other and names.title(obj) == self.schedule.thing:
                    return ""
        return f"the cycle does not write {self.schedule.thing}"


def _covers(verbs: Sequence[str], record: Record) -> bool:
    return "write" in verbs or _verb(record) in verbs


def _verb(record: Record) -> str:
    return record.request.verb if record.request is not None else ""


def _is(obj: Obj, request: Any) -> bool:
    return bool(obj.view.kind == request.kind and obj.name == request.name)


def lost(record: Record, history: Sequence[Record]) -> tuple[Obj, str] | None:
    """(object, field) of which a write throws away what another wrote since it was read: it carries no version, the
    value that stands is another's, and is another than the one that was read."""
    request = record.request
    if request is None or record.error or request.target is None or request.verb not in ("patch", "update", "apply"):
        return None
    versioned = isinstance(request.body, dict) and (request.body.get("metadata") or {}).get("resourceVersion")
    old = record.before.get((request.kind, request.name))
    new = record.after.get((request.kind, request.name))
    if versioned or old is None or new is None or old.uid != request.target.uid:
        return None
    for side, name in _fields(request):
        was, stands, becomes = (_value(obj, side, name) for obj in (request.target, old, new))
        if was != stands and _others(record, history, side, name) and _gone(record, was, stands, becomes, side, name):
            return old, f"{side}.{name}" if side else name
    return None


def _fields(request: Any) -> list[tuple[str, str]]:
    view = request.view
    named = [("", "finalizers")] if "finalizers" in (request.body.get("metadata") or {}) else []
    for side in ("spec", "status"):
        for one in getattr(view.declared, side):
            if _touches(request.body, view.path(side, one.name)):
                named.append((side, one.name))
    return named


def _touches(body: Any, path: Sequence[Any]) -> bool:
    for step in path:
        if isinstance(body, list):
            return True
        if not isinstance(body, dict) or step not in body:
            return False
        body = body[step]
    return True


def _value(obj: Obj, side: str, name: str) -> Any:
    if not side:
        return list(obj.meta.get(name) or ())
    try:
        return obj.view.get(obj.json, side, name)
    except Undefined:
        return None


def _others(record: Record, history: Sequence[Record], side: str, name: str) -> bool:
    """Whether it was another, or another pass for another key, that wrote the value that stands."""
    assert record.request is not None
    key = (record.request.kind, record.request.name)
    for one in reversed(history[: history.index(record)]):
        old, new = one.before.get(key), one.after.get(key)
        if old is not None and new is not None and _value(old, side, name) != _value(new, side, name):
            return (one.actor, one.subject) != (record.actor, record.subject)
    return False


def _gone(record: Record, was: Any, stands: Any, becomes: Any, side: str, name: str) -> bool:
    """Whether a write takes away what stands. A set loses an entry that came, or has one back that went."""
    request = record.request
    assert request is not None
    ty: t.Type = wide.bare(request.view.field(side, name).type) if side else t.SetOf(t.Name())
    if isinstance(ty, t.SetOf | t.ListOf):
        came = [row for row in stands or () if row not in (was or ())]
        went = [row for row in was or () if row not in (stands or ())]
        return any(row not in (becomes or ()) for row in came) or any(row in (becomes or ()) for row in went)
    return bool(becomes != stands) or _computed(record.call, name)


def _computed(call: Call | None, name: str) -> bool:
    """Whether the written value is computed from the field itself."""
    written = [one.value for one in call.fields if one.path[-1] == name] if call is not None else []
    return any(isinstance(part, Member) and part.name == name for value in written for part in parts(value))
