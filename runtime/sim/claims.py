"""What the specs claim of the plane, asked of the truth: properties that a check of their module expects to hold.

A property of states is asked after each write by an actor of its module, one of writes before it; goals at the end.
What a client's own write breaks is what the client wanted. What breaks under more faults than any check that expects
the property has, or after deeds of users that none of them knows, was never claimed: it is excused, and told.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from dashpot.model.automaton import Call
from dashpot.model.program import Check, Converges, Environment, OnWrite, Program, Property, State
from dashpot.model.span import Span
from dashpot.runtime.controller.caches import CacheReader, Change, KindCache
from dashpot.runtime.controller.externs import Externs
from dashpot.runtime.controller.frame import Frame
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.terms import Term
from dashpot.runtime.controller.undefined import Undefined
from dashpot.runtime.controller.uses import kinds_in
from dashpot.runtime.controller.views import View, Views
from dashpot.runtime.controller.vocabulary import terms_of
from dashpot.runtime.sim.deed import CLIENT, Deed
from dashpot.runtime.sim.truth import Commit

Object = dict[str, Any]
Budget = dict[str, int]
Change_ = tuple[str, str, str]
"""What a person does: delete or update, a kind, and the field of it."""
LAG_S = 15.0
"""So long what a person did may be unknown to a controller: watches that are held, answers that are lost."""


@frozen
class Broken:
    """A claim that failed.

    kind    safety, stuck or loop, as `dashpot check` has them
    about   the object
    line    where in a spec it was decided; `property_at`: where it is claimed
    excuse  the fault beyond every budget; "" where there is none
    """

    property: str
    module: str
    kind: str
    about: str
    text: str
    at: float
    line: Span
    property_at: Span
    deed: Deed | None = None
    excuse: str = ""


@define(eq=False)
class Claim:
    """One property, compiled.

    budgets  of the checks that expect it
    people   what users do in those checks
    spoiled  the objects of which it is false now, and which were told
    """

    prop: Property
    module: str
    kinds: frozenset[str]
    budgets: list[Budget]
    people: frozenset[Change_]
    body: Term | None = None
    premise: Term | None = None
    spoiled: set[str] = field(factory=set)


def expected(program: Program, module: str) -> dict[str, list[Check]]:
    """The properties that checks of a module expect to hold, and those checks."""
    found: dict[str, list[Check]] = {}
    for check in program.checks:
        if check.module == module:
            for name in dict.fromkeys(n for expect in check.expects if not expect.violation for n in expect.names):
                found.setdefault(name, []).append(check)
    return found


def _environments(program: Program, check: Check) -> list[Environment]:
    run = {name.rsplit(".", 1)[-1] for name in check.run}
    return [env for env in program.environments if env.name in run]


def budget_of(program: Program, check: Check) -> Budget:
    """Which faults a check explores, and how many of each."""
    faults = check.faults
    if faults is None:
        faults = tuple(f for env in _environments(program, check) for f in env.faults)
    total: Counter[str] = Counter()
    for fault in faults:
        total[fault.name] += fault.limit
    return dict(total)


def people_of(program: Program, check: Check) -> set[Change_]:
    """What users do in a check."""
    found: set[Change_] = set()
    for env in _environments(program, check):
        calls = [node for action in env.actions for node in action.body.nodes if isinstance(node, Call)]
        for call in calls:
            if call.verb in ("delete", "evict"):
                found.add(("delete", call.kind, ""))
            for item in call.fields:
                names = [step for step in item.path if isinstance(step, str)]
                found.add(("update", call.kind, ".".join(names[:2])))
    return found


@frozen
class _Deed:
    """What a person did, to which objects (uids: its own and its owners')."""

    at: float
    family: frozenset[str]
    change: Change_
    text: str


def family(obj: Object) -> frozenset[str]:
    """The uids of an object and of its owners."""
    meta = obj["metadata"]
    return frozenset({meta["uid"], *(one["uid"] for one in meta.get("ownerReferences") or ())})


class Claims:
    """The claims of one module about the truth.

    now     milliseconds since 1970
    counts  how often each fault has hit an actor
    told    hears of what is broken
    """

    def __init__(
        self,
        program: Program,
        module: str,
        actors: Mapping[str, Any],
        now: Callable[[], int],
        seconds: Callable[[], float],
        counts: Callable[[str], Counter[str]],
        told: Callable[[Broken], None],
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.module = module
        self.actors = frozenset(actors)
        self._now, self._seconds, self._counts, self._told = now, seconds, counts, told
        self._views = Views(program, constants=constants)
        self._terms = terms_of(self._views, Externs())
        asked = expected(program, module)
        self.claims = [
            self._claim(prop, asked[prop.name], program)
            for prop in program.properties
            if prop.module == module and prop.name in asked
        ]
        wanted = {kind for claim in self.claims for kind in claim.kinds}
        self._caches = {kind: KindCache(self._views[kind]) for kind in sorted(wanted)}
        self._reader = CacheReader(self._caches)
        self.kinds = frozenset(self._caches)
        """What it has to be told of."""
        self._people: deque[_Deed] = deque()

    # -- compiling ----------------------------------------------------------------------------------------------

    def _claim(self, prop: Property, checks: list[Check], program: Program) -> Claim:
        budgets = [budget_of(program, check) for check in checks]
        people = frozenset(change for check in checks for change in people_of(program, check))
        formula = prop.formula
        body: Term | None = None
        premise: Term | None = None
        kinds: set[str] = {prop.each[1]} if prop.each is not None else set()
        match formula:
            case State():
                body = self._terms.term(formula.body)
                kinds |= set(kinds_in(formula.body))
            case Converges():
                body = self._terms.term(formula.goal)
                kinds |= set(kinds_in(formula.goal))
                if formula.premise is not None:
                    premise = self._terms.term(formula.premise)
                    kinds |= set(kinds_in(formula.premise))
            case OnWrite():
                body = self._terms.term(formula.require)
                kinds |= set(kinds_in(formula.require)) | {formula.kind}
            case _:
                pass
        return Claim(prop, self.module, frozenset(kinds), budgets, people, body, premise)

    def _frame(self, namespace: str, names: Mapping[str, Any]) -> Frame:
        return Frame(self._views.constants, self._reader, self._now, namespace, locals=dict(names))

    # -- hearing of writes --------------------------------------------------------------------------------------

    def before(self, commit: Commit) -> None:
        """Properties of writes, asked of the truth just before the write."""
        if commit.deed.actor == CLIENT:
            self._note(commit)
        if commit.deed.actor not in self.actors:
            return
        for claim in self.claims:
            formula = claim.prop.formula
            if isinstance(formula, OnWrite) and self._meant(formula, commit):
                self._ask_write(claim, formula, commit)

    def _note(self, commit: Commit) -> None:
        """Remembers what a person does to what the module looks at."""
        cache = self._caches.get(commit.kind)
        if cache is None or commit.old is None:
            return
        changes: list[Change_] = []
        if commit.new is None or (
            commit.new["metadata"].get("deletionTimestamp") and not commit.old["metadata"].get("deletionTimestamp")
        ):
            changes.append(("delete", commit.kind, ""))
        else:
            for side in ("spec", "status"):
                for one in getattr(cache.view.declared, side):
                    if _differs(cache.view, commit, side, one.name):
                        changes.append(("update", commit.kind, f"{side}.{one.name}"))
        for change in changes:
            text = f"{change[0]} of {commit.kind} {commit.key} {change[2]}".rstrip()
            self._people.append(_Deed(commit.at, family(commit.object), change, text))

    def _meant(self, formula: OnWrite, commit: Commit) -> bool:
        deed = commit.deed
        if formula.kind != commit.kind or deed.kind != commit.kind or deed.verb not in formula.verbs:
            return False
        if deed.name and not commit.key.endswith(deed.name.rsplit("/", 1)[-1]):
            return False
        return formula.actor is None or formula.actor == deed.actor.split("@")[0]

    def _ask_write(self, claim: Claim, formula: OnWrite, commit: Commit) -> None:
        view = self._views[commit.kind]
        names: dict[str, Any] = {formula.var: Obj(view, commit.object)}
        if commit.old is not None:
            names["old"] = Obj(view, commit.old)
            if commit.deed.verb in ("delete", "evict"):
                names[formula.var] = names["old"]
        frame = self._frame(commit.object["metadata"].get("namespace", ""), names)
        if not self._holds(claim, frame):
            self._break(claim, commit, commit.key, family(commit.object))

    def after(self, commit: Commit) -> None:
        """The write counts: properties of states."""
        cache = self._caches.get(commit.kind)
        if cache is None or cache.view.api_version != commit.api_version:
            return
        new = Obj(cache.view, commit.new) if commit.new is not None else None
        cache.offer(Change(commit.key, new, str(commit.revision)))
        ours = commit.deed.actor in self.actors
        for claim in self.claims:
            if isinstance(claim.prop.formula, State) and commit.kind in claim.kinds:
                self._ask_state(claim, claim.prop.formula, commit, ours)

    def _ask_state(self, claim: Claim, formula: State, commit: Commit, ours: bool) -> None:
        if formula.op == "monotone":
            if ours:
                self._ask_growth(claim, commit)
            return
        if formula.op not in ("always", "never") or not (ours or claim.spoiled):
            # what others break was theirs to break, and is looked at when the module acts again
            return
        for name, frame in self._instances(claim, commit.object["metadata"].get("namespace", "")):
            good = self._holds(claim, frame) == (formula.op == "always")
            if good:
                claim.spoiled.discard(name)
            elif name not in claim.spoiled:
                claim.spoiled.add(name)
                if ours and self._was_good(claim, formula, name, commit):
                    self._break(claim, commit, name, self._kin(claim, frame))

    def _was_good(self, claim: Claim, formula: State, name: str, commit: Commit) -> bool:
        """Whether it held just before this write: else others broke it."""
        cache = self._caches[commit.kind]
        current = cache.get(commit.object["metadata"].get("namespace", ""), commit.object["metadata"]["name"])
        old = Obj(cache.view, commit.old) if commit.old is not None else None
        cache.offer(Change(commit.key, old, ""))
        try:
            found = dict(self._instances(claim, commit.object["metadata"].get("namespace", "")))
            frame = found.get(name)
            return frame is None or self._holds(claim, frame) == (formula.op == "always")
        finally:
            cache.offer(Change(commit.key, current, ""))

    def _ask_growth(self, claim: Claim, commit: Commit) -> None:
        each = claim.prop.each
        if each is None or each[1] != commit.kind or commit.old is None or commit.new is None:
            return
        view = self._views[commit.kind]
        values = []
        for json in (commit.old, commit.new):
            frame = self._frame(json["metadata"].get("namespace", ""), {each[0]: Obj(view, json)})
            try:
                assert claim.body is not None
                values.append(claim.body(frame))
            except Undefined:
                return
        if values[1] is not None and values[0] is not None and values[1] < values[0]:
            self._break(claim, commit, commit.key, family(commit.object))

    @staticmethod
    def _kin(claim: Claim, frame: Frame) -> frozenset[str] | None:
        """The family that a property of states speaks of; None: everybody."""
        each = claim.prop.each
        return family(frame.locals[each[0]].json) if each is not None else None

    def _instances(self, claim: Claim, namespace: str) -> list[tuple[str, Frame]]:
        """The objects (of a namespace; "": of all) that a property speaks of, each with its frame."""
        each = claim.prop.each
        if each is None:
            spaces = [namespace] if namespace else self._spaces(claim)
            return [(space, self._frame(space, {})) for space in spaces]
        var, kind = each
        cache = self._caches[kind]
        rows = cache.all(namespace if cache.view.namespaced else "")
        return [
            (f"{kind} {obj.namespace}/{obj.name}" if obj.namespace else f"{kind} {obj.name}",
             self._frame(obj.namespace or namespace, {var: obj}))
            for obj in rows
        ]  # fmt: skip

    def _spaces(self, claim: Claim) -> list[str]:
        found = {obj.namespace for kind in claim.kinds for obj in self._caches[kind].all()}
        return sorted(found) or [""]

    @staticmethod
    def _holds(claim: Claim, frame: Frame) -> bool:
        assert claim.body is not None
        try:
            return bool(claim.body(frame))
        except Undefined:
            return False

    def _break(self, claim: Claim, commit: Commit, about: str, kin: frozenset[str] | None) -> None:
        said = f"{claim.prop.name} does not hold of {about}"
        excuse = self._excuse(claim, commit.deed.actor) or self._asked_for(claim, commit.at, kin)
        self._told(
            Broken(
                claim.prop.name, self.module, "safety", about, said, commit.at, commit.deed.span, claim.prop.span,
                commit.deed, excuse,
            )
        )  # fmt: skip

    def _excuse(self, claim: Claim, actor: str) -> str:
        """The fault that no check which expects the property has so often; "" if one has them all."""
        hits = self._counts(actor)
        beyond = ""
        for budget in claim.budgets:
            over = [f"{name} ({count} times)" for name, count in sorted(hits.items()) if count > budget.get(name, 0)]
            if not over:
                return ""
            beyond = beyond or f"no check that expects it has so many faults: {', '.join(over)}"
        return beyond

    def _asked_for(self, claim: Claim, at: float, kin: frozenset[str] | None) -> str:
        """What a person did just before, as nobody does in the checks that expect the property; "" if nothing."""
        while self._people and self._people[0].at < at - LAG_S:
            self._people.popleft()
        for deed in self._people:
            if deed.change[1] in claim.kinds and deed.change not in claim.people and (kin is None or kin & deed.family):
                return f"nobody does this in a check that expects it: {deed.text} at {deed.at:.3f}"
        return ""

    # -- the end ------------------------------------------------------------------------------------------------

    def unmet(self) -> list[tuple[Claim, str]]:
        """The goals that do not hold now: claim and object."""
        found = []
        for claim in self.claims:
            if not isinstance(claim.prop.formula, Converges):
                continue
            for name, frame in self._instances(claim, ""):
                if self._due(claim, frame) and not self._holds(claim, frame):
                    found.append((claim, name))
        return found

    @staticmethod
    def _due(claim: Claim, frame: Frame) -> bool:
        if claim.premise is None:
            return True
        try:
            return bool(claim.premise(frame))
        except Undefined:
            return False


def _differs(view: View, commit: Commit, side: str, name: str) -> bool:
    assert commit.old is not None and commit.new is not None
    try:
        return bool(view.get(commit.old, side, name) != view.get(commit.new, side, name))
    except Undefined:
        return True


__all__ = ["Broken", "Claim", "Claims", "expected"]
