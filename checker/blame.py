"""Why a property is false: the conjunct that failed, the values inside it, and why fairness does not help.

Everything here is computed from the trace and the core IR by the plain interpreter, so that it holds
whatever engine found the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from dashpot.checker.hindrance import hindrances
from dashpot.checker.retrace import fire
from dashpot.checker.scene import SOME, Key, Stage, absent, beyond, marks
from dashpot.checker.verdict import Trace, Violated
from dashpot.model.core import Node
from dashpot.model.interpret import evaluate, reads
from dashpot.model.span import Span
from dashpot.model.system import Cell, Label, Obligation, System, Update

WRITES = ("create", "update", "patch", "apply", "delete", "evict", "bind")
SHOWN = 8
"""How many bindings, steps or states one list of a story names before it says "and N more"."""


EARLIER = "an earlier object of the same name"
"""What is said of a copy or reference whose object is gone and whose name is taken anew."""


@frozen
class Binding:
    """A term and its value in each state of the run."""

    text: str
    values: tuple[str, ...]


@frozen
class Conjunct:
    """A part of the property that does not hold, in the words of the spec.

    values    "true" or "false" in each state of the run; empty for what only one step owes
    bindings  the terms inside it
    """

    text: str
    span: Span
    values: tuple[str, ...]
    bindings: tuple[Binding, ...]


@frozen
class Blame:
    """The parts of a property that failed. `states`: indices of those in which it is judged (a lasso: its loop)."""

    states: tuple[int, ...]
    conjuncts: tuple[Conjunct, ...]

    def judged(self, values: Sequence[str]) -> tuple[str, ...]:
        """Of one value a state, those of the states in which the property is judged."""
        return tuple(values[i] for i in self.states)


def source(sources: Mapping[str, str], span: Span) -> str:
    """The text of a region on one line, blanks collapsed; "" when the file is not at hand."""
    lines = sources.get(span.file, "").split("\n")
    if not 1 <= span.line <= len(lines):
        return ""
    region = lines[span.line - 1 : span.end_line]
    region[-1] = region[-1][: max(span.end_column - 1, 0)] if span.end_line <= len(lines) else region[-1]
    region[0] = region[0][span.column - 1 :]
    return " ".join(" ".join(region).split())


def value_text(node: Node, value: int, system: System) -> str:
    """A value as people read it: by the texts of the cell that it comes from, true or false, else the number."""
    if node.op == "cell":
        cell = system.cells[node.value]
        if cell.texts is not None:
            return cell.text(value)
    if node.op in ("not", "and", "or", "eq", "lt"):
        return "true" if value else "false"
    if node.op == "ite":
        arms = [arm for arm in node.args[1:] if arm.lo <= value <= arm.hi and not arm.is_const]
        if arms:
            return value_text(arms[0], value, system)
    return str(value)


def seen_states(violated: Violated) -> tuple[int, ...]:
    """The states of the trace in which the property is judged: the last one, or those of the loop."""
    trace = violated.trace
    if violated.obligation is not None and trace.steps:
        return (len(trace.states) - 2,)
    if trace.loop is None:
        return (len(trace.states) - 1,)
    return tuple(range(trace.loop, len(trace.states) - 1)) or (trace.loop,)


def blame(stage: Stage, violated: Violated, sources: Mapping[str, str]) -> Blame:
    """The failed conjuncts of a violated property, with their bindings."""
    states = seen_states(violated)
    rows = violated.trace.states
    if violated.obligation is not None:
        return Blame(states, (_broken(stage, violated.obligation, rows, states, sources),))
    parts, unwanted = _parts(violated)
    inner = {i for i, (span, _) in enumerate(parts) if any(_within(span, o) for o, _ in parts if o != span)}
    conjuncts = []
    for i, (span, node) in enumerate(parts):
        truth = tuple(evaluate(node, row.__getitem__) for row in rows)
        if i in inner or node.hi > 1 or node.lo < 0 or all(bool(truth[s]) != unwanted for s in states):
            continue
        terms = [(s, n) for s, n in parts if s != span and _within(s, span)]
        text = source(sources, span) or (violated.goal.property if violated.goal else "")
        named = bindings(stage, terms, rows, sources) or cell_bindings(stage, node, rows, states)
        conjuncts.append(Conjunct(text, span, tuple("true" if v else "false" for v in truth), named))
    return Blame(states, tuple(conjuncts[:SHOWN]))


def _broken(
    stage: Stage,
    obligation: Obligation,
    rows: Sequence[Sequence[int]],
    states: tuple[int, ...],
    sources: Mapping[str, str],
) -> Conjunct:
    """What a step owed and broke. It has no values in other states: it is asked of this step alone."""
    text = source(sources, obligation.span) or obligation.what or obligation.property
    return Conjunct(text, obligation.span, (), cell_bindings(stage, obligation.holds, rows, states))


def _parts(violated: Violated) -> tuple[list[tuple[Span, Node]], bool]:
    """The parts of what was violated, and the truth value that is not wanted of them."""
    if violated.goal is None:
        return [], False
    goal = violated.goal
    return list(goal.parts) or [(goal.span, goal.body)], goal.op == "never"


def _failed(violated: Violated) -> list[Node]:
    """The innermost parts that fail in the last state."""
    parts, unwanted = _parts(violated)
    row = violated.trace.states[-1]
    wrong = [(s, n) for s, n in parts if 0 <= n.lo and n.hi <= 1 and bool(evaluate(n, row.__getitem__)) == unwanted]
    return [n for s, n in wrong if not any(_within(o, s) for o, _ in wrong if o != s)] or [n for _, n in parts]


def _within(inner: Span, outer: Span) -> bool:
    if inner.file != outer.file or inner == outer:
        return False
    start = (outer.line, outer.column) <= (inner.line, inner.column)
    return start and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)


def bindings(
    stage: Stage, terms: Sequence[tuple[Span, Node]], rows: Sequence[Sequence[int]], sources: Mapping[str, str]
) -> tuple[Binding, ...]:
    """The terms of a property with their values, each text once."""
    found: dict[str, Binding] = {}
    for span, node in terms:
        text = source(sources, span)
        values = tuple(value_text(node, evaluate(node, row.__getitem__), stage.system) for row in rows)
        if text:
            found.setdefault(text if text not in found else f"{text} [{len(found)}]", Binding(text, values))
    return tuple(found.values())[:SHOWN]


def cell_bindings(
    stage: Stage, node: Node, rows: Sequence[Sequence[int]], states: Sequence[int]
) -> tuple[Binding, ...]:
    """Where a property names no terms: the fields that it reads, of the objects that are there when it is judged."""
    cells = [stage.system.cells[i] for i in sorted(reads([node]))]
    cells = _unmarked(stage, [c for c in cells if c.area != "shadow" and c.path not in ("name", "uid")])
    found: list[Binding] = []
    told: set[Key] = set()
    for cell in cells:
        key = cell.kind, cell.slot
        there = stage.row(key).get("present") if cell.area == "store" else None
        if cell.path == "present" or (there is not None and not any(rows[s][there.index] for s in states)):
            continue
        if cell.area == "store" and all(beyond(stage.row(key), cell.path, rows[s]) for s in states):
            continue
        text, values = _named(stage, cell, rows[states[-1]]), _texts(stage, cell, rows)
        if text and any(values[s] for s in states):
            found.append(Binding(text, values))
            told.add(key)
    for cell in cells:
        always = all(rows[s][cell.index] for s in states)
        lived = any(row[cell.index] for row in rows)
        if cell.path == "present" and lived and not (always and (cell.kind, cell.slot) in told):
            values = tuple("exists" if row[cell.index] else "is not there" for row in rows)
            found.append(Binding(_named(stage, cell, rows[states[-1]]), values))
    return tuple(sorted(found, key=lambda b: b.text)[:SHOWN])


def _unmarked(stage: Stage, cells: Sequence[Cell]) -> list[Cell]:
    """The cells with optional values in place of the bits that say whether they are there, each once."""
    places = {(c.area, c.actor, c.kind, c.slot, c.path): c for c in stage.system.cells}
    values = (
        places.get((c.area, c.actor, c.kind, c.slot, c.path.removesuffix(SOME)), c) if marks(c.path) else c
        for c in cells
    )
    return list({c.index: c for c in values}.values())


def _named(stage: Stage, cell: Cell, row: Sequence[int]) -> str:
    """What people call the value in a cell: "Pod web status.ready", "owner of c as Binder read it"."""
    path = "" if cell.path == "present" else cell.path
    head, _, last = path.rpartition(".")
    path = head if last == "incarnation" or marks(path) else path
    title = stage.title((cell.kind, cell.slot), row) if cell.slot >= 0 else ""
    text = " ".join(part for part in (title, path) if part)
    if cell.area == "store":
        return text or cell.kind
    return f"{text or cell.kind} that {cell.actor} {'remembers' if cell.area == 'memory' else 'read'}"


def _texts(stage: Stage, cell: Cell, rows: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """The values of a cell as texts; of a uid only that it is another one, since its number means nothing."""
    if marks(cell.path):
        return tuple("set" if row[cell.index] else "null" for row in rows)
    if cell.path.rpartition(".")[2] != "incarnation":
        fields = stage.row((cell.kind, cell.slot), cell.actor) if cell.area in ("store", "cache") else {}
        return tuple("null" if absent(fields, cell.path, row) else stage.text(cell, row) for row in rows)
    same = 1 if cell.area == "local" and cell.path.count(".") == 1 else 0  # a local may hold no object: one value more
    return tuple(EARLIER if row[cell.index] > same else "" for row in rows)


def evaluate_along(system: System, trace: Trace, node: Node) -> list[int]:
    """The value of a term in every state of a trace: what `explain --eval` shows beside each step."""
    assert all(len(state) == len(system.cells) for state in trace.states), "a trace of another system"
    return [evaluate(node, state.__getitem__) for state in trace.states]


def enabled(system: System, values: Sequence[int]) -> list[int]:
    """The updates whose guards hold in a state."""
    memo: dict[int, int] = {}
    cells = values.__getitem__
    return [i for i, u in enumerate(system.updates) if all(evaluate(g, cells, memo) for g in u.guard)]


def deed(label: Label) -> str:
    """What a step does, without who: "create Pod db-1" of a reconcile, "scale: patch Database db" of an action."""
    named = label.action if label.action not in ("", "reconcile", "gone") else ""
    if label.verb in ("act", "start", "end") and label.action:
        return f"{label.action} {label.object}".rstrip()
    what = f"{label.verb} {label.object}".rstrip()
    return f"{named}: {what}" if named and named != label.verb else what


def step_name(label: Label) -> str:
    """A step in a few words: "DatabaseOperator create Pod db-1", "clock tick"."""
    return f"{label.actor} {deed(label)}"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers, neighbours joined: "2, 4 to 6"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [", ".join(map(str, r)) if len(r) < 3 else f"{r[0]} to {r[-1]}" for r in runs]
    return ", ".join(parts[:SHOWN]) + (" …" if len(parts) > SHOWN else "")


def fairness(label: Label) -> tuple[str, ...]:
    """The key under which a step is weakly fair."""
    return label.fairness or (label.actor, label.action or label.verb, label.object)


def why_nothing_helps(stage: Stage, violated: Violated, found: Blame, sources: Mapping[str, str]) -> tuple[str, ...]:
    """Sentences that say why no fair step saves the run; empty for safety, which is past saving."""
    if violated.kind == "safety":
        return ()
    system, trace = stage.system, violated.trace
    if violated.kind == "stuck" or trace.loop is None or trace.loop == len(trace.states) - 1:
        lines = _why_stuck(system, trace.states[-1])
        return lines[:1] + hindrances(system, _failed(violated), trace.states[-1], sources) + lines[1:]
    return _flips(found) + _why_loop(system, trace, violated.kind)


def _flips(found: Blame) -> tuple[str, ...]:
    lines = []
    for conjunct in found.conjuncts:
        values = found.judged(conjunct.values)
        if len(set(values)) == 1:
            lines.append(f"`{conjunct.text}` stays {values[0]} all the way round.")
        else:
            held = ranges([s for s in found.states if conjunct.values[s] == "true"])
            lines.append(f"`{conjunct.text}` is reached and lost again: true only after step {held}.")
    return tuple(lines)


def _why_loop(system: System, trace: Trace, kind: str) -> tuple[str, ...]:
    """Each fair step either happens in the loop or is switched off somewhere in it: name those of the second sort."""
    start = trace.loop or 0
    taken = {fairness(system.updates[s].label) for s in trace.steps[start:]}
    on: dict[tuple[str, ...], set[int]] = {}
    names: dict[tuple[str, ...], str] = {}
    optional: dict[str, None] = {}
    for state in range(start, len(trace.states) - 1):
        for index in enabled(system, trace.states[state]):
            label = system.updates[index].label
            if label.role != "step" or not label.fair:
                if _changes(system, system.updates[index], trace.states[state]):
                    optional[step_name(label)] = None
            elif fairness(label) not in taken:
                on.setdefault(fairness(label), set()).add(state)
                names.setdefault(fairness(label), step_name(label))
    every = set(range(start, len(trace.states) - 1))
    lines = []
    for key, states in on.items():
        off = ranges(sorted(every - states))
        if off:
            lines.append(f"`{names[key]}` never has to happen: it is possible at times, but not after step {off}.")
    if kind == "trapped":
        lines.append("Faults and environment aside, no step leads out of these states.")
    elif not lines:
        lines.append("Every fair step that is possible happens in the loop; none is left that would have to break it.")
    lines = lines[:SHOWN] + ([f"… and {len(lines) - SHOWN} more."] if len(lines) > SHOWN else [])
    if optional:
        lines.append(f"Only steps that need not happen could change its course: {_listed(list(optional))}.")
    return tuple(lines)


def _why_stuck(system: System, values: Sequence[int]) -> tuple[str, ...]:
    """What is still possible in the last state, and who waits without being woken."""
    possible = [system.updates[i] for i in enabled(system, values)]
    fair = dict.fromkeys(_outcome(u.label) for u in possible if u.label.role == "step" and u.label.verb != "tick")
    optional = dict.fromkeys(
        step_name(u.label) for u in possible if u.label.role != "step" and _changes(system, u, values)
    )
    lines = []
    if fair:
        lines.append(f"Steps that are still possible change nothing in the store: {_listed(list(fair))}.")
    else:
        lines.append("No step is left that would have to happen.")
    for actor in sorted({c.actor for c in system.cells if c.area == "queue" and c.actor}):
        if asleep(system, actor, values):
            lines.append(f"{actor} sleeps: its queue is empty, and no event is on its way to it.")
    if optional:
        lines.append(f"Only steps that need not happen could change that: {_listed(list(optional))}.")
    return tuple(lines)


def _outcome(label: Label) -> str:
    """A step that changes nothing, with the answer that it gets: "Drainer evict Pod a (TooManyRequests)"."""
    answer = next((d for d in reversed(label.detail) if d[:1].isupper() or d == "panics"), "")
    return f"{step_name(label)} ({answer})" if answer and " " not in answer else step_name(label)


def _changes(system: System, update: Update, values: Sequence[int]) -> bool:
    """Whether a possible step changes more than its budget: the delete of what terminates already does not."""
    after = fire(system, update, values)
    aside = ("budget", "shadow", "clock")
    return any(values[c.index] != after[c.index] for c in system.cells if c.area not in aside)


def asleep(system: System, actor: str, values: Sequence[int]) -> bool:
    """Whether a controller has nothing to do and nothing under way to it: empty queue, no undelivered change."""
    own = [c for c in system.cells if c.actor == actor and c.width]
    queue = [c for c in own if c.area == "queue"]
    waiting = [c for c in own if c.area == "pending" and c.path in ("count", "")]
    return bool(queue) and all(values[c.index] == c.lo for c in queue + waiting)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
