"""Small random spec texts: a controller or two, a process, users, faults, and properties, over two kinds."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[str]], str]

KINDS = """
enum Phase { New, Old }
resource Box {
  spec   { n: 0..2 = 1; on: bool; to: ref Note?; names: []Name }
  status { seen: 0..2; phase: Phase; marks: set[Name]; at: Time? }
}
resource Note {
  spec { k: 0..1; of: ref Box? }
  rule oldSelf.spec.k == 0 || self.spec.k == 1 else "k stays"
}
"""


class Body:
    """One body under construction, and what is in scope in it."""

    def __init__(self, draw: Draw, me: str, memory: bool, live: bool) -> None:
        self.draw = draw
        self.boxes = [me]
        self.notes: list[str] = []
        self.lists: list[str] = []
        self.numbers: list[str] = []
        self.memory = memory
        self.live = live
        self.fresh = 0

    def one(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    # ------------------------------------------------------------------ terms
    def number(self) -> str:
        box = self.one(*self.boxes)
        options = ["0", "1", "2", f"{box}.spec.n", f"{box}.status.seen", *self.numbers]
        options += [f"{xs}.size()" for xs in self.lists] + [f"{xs}.count(q, q.spec.k == 1)" for xs in self.lists]
        if self.memory:
            options.append("m")
        a, b = self.one(*options), self.one(*options)
        return self.one(a, a, f"min(2, {a} + {b})", f"max(0, {a} - {b})", f"min(2, max(0, ({a} == {b} ? {a} : 1)))")

    def small(self) -> str:
        return f"min(2, {self.number()})"

    def test(self) -> str:
        box = self.one(*self.boxes)
        a, b = self.number(), self.number()
        options = [
            f"{a} < {b}",
            f"{a} == {b}",
            f"{box}.spec.on",
            f"{box}.status.phase == Old",
            f"{box}.spec.to != null",
        ]
        options += [f"{box}.deletionTimestamp == null", f'"x" in {box}.status.marks', f"{box}.spec.names.isEmpty()"]
        options += [f"{xs}.exists(q, q.spec.of == {box}.name)" for xs in self.lists]
        options += [f"{xs}.all(q, q.owner == {box})" for xs in self.lists]
        options += [f"{n}.spec.k == 1" for n in self.notes]
        first = self.one(*options)
        return self.one(
            first, first, f"!({first})", f"{first} && {self.one(*options)}", f"{first} || {self.one(*options)}"
        )

    # ------------------------------------------------------------------ statements
    def block(self, depth: int, most: int = 3) -> str:
        """Some statements; what they bind ends with the block."""
        kept = list(self.boxes), list(self.notes), list(self.lists), list(self.numbers)
        lines = [self.statement(depth) for _ in range(int(self.one(*"123"[:most])))]
        self.boxes, self.notes, self.lists, self.numbers = kept
        return "; ".join(lines)

    def statement(self, depth: int) -> str:
        kinds = ["write", "write", "create", "read"]
        if depth:
            kinds += ["if", "if", "loop", "choose", "delete"]
        if self.memory:
            kinds.append("memory")
        return str(getattr(self, "_" + self.one(*kinds))(depth))

    def _write(self, depth: int) -> str:
        box = self.one(*self.boxes)
        fields = self.one(
            f"status {{ seen: {self.small()} }}", f"spec {{ n: {self.small()} }}", "spec { on: true }",
            f"spec {{ on: {self.test()} }}", "status { phase: Old }", 'spec { to: "n" }', "spec { to: null }",
            f'status {{ marks: {box}.status.marks + ["x"] }}', 'spec { names: ["x"] }', "status { at: now() }",
        )  # fmt: skip
        return self.one(
            f"patch {box}.{fields} on NotFound {{ }}",
            f"update {box}.{fields} on Conflict {{ {self._leave()} }} on NotFound {{ }}",
            f"patch {box}.{fields} if unchanged on Conflict {{ }} on NotFound {{ }}",
            f"update {box}.{fields} force on NotFound {{ }}",
            f'patch {box} {{ finalizers: ["f"] }} on NotFound {{ }} on Invalid {{ }}',
            f"patch {box} {{ finalizers: [] }} on NotFound {{ }}",
            f"patch json {box} {{ test spec.n: 1, replace spec.n: {self.small()} }} on Invalid {{ }} on NotFound {{ }}",
        )

    def _leave(self) -> str:
        return self.one("return", "requeue", "") if self.live else self.one("return", "")

    def _create(self, depth: int) -> str:
        box = self.one(*self.boxes)
        how = self.one('name: "n"', 'name: "m"', f'name: "m-" + {box}.name', 'generateName: "g-"')
        more = self.one("", f", owner: {box}", f", spec.of: {box}.name", ", spec.k: 1")
        return f"create Note {{ {how}{more} }} on AlreadyExists {{ {self._leave()} }}"

    def _read(self, depth: int) -> str:
        name = self.name()
        look = self.one("cached", "cached", "live")
        if self.one("list", "get") == "list":
            where = self.one("", f" where q -> q.owner == {self.boxes[0]}", " where q -> q.spec.k == 1")
            self.lists.append(name)
            return f"let {name} = list {look} Note{where}"
        self.notes.append(name)
        return f'let {name} = get {look} Note "n"; if {name} == null {{ return }}'

    def _if(self, depth: int) -> str:
        other = self.one("", f" else {{ {self.block(depth - 1, 1)} }}")
        return f"if {self.test()} {{ {self.block(depth - 1, 2)} }}{other}"

    def _loop(self, depth: int) -> str:
        if self.lists and self.one("list", "range") == "list":
            name, xs = self.name(), self.one(*self.lists)
            over = self.one(xs, f"{xs}.filter(q, q.spec.k == 0)", f"{xs}.sortBy(q, q.spec.k).take(1)")
            call = self.one(
                f"delete {name} on NotFound {{ }}", f"delete {name} if same on NotFound {{ }} on Conflict {{ }}",
                f"patch {name}.spec {{ k: 1 }} on NotFound {{ }}",
            )  # fmt: skip
            test = self.one("", f"if {name}.spec.k == 0 ")
            return f"for {name} in {over} {{ {test + '{ ' + call + ' }' if test else call} }}"
        name = self.name()
        self.numbers.append(name)
        call = self.block(0, 1)
        self.numbers.remove(name)
        return f"for {name} in {self.one('0..1', f'1..{self.small()}')} {{ {call} }}"

    def _choose(self, depth: int) -> str:
        name = self.name()
        self.numbers.append(name)
        return f"let {name} = any 0..{self.one('1', '2')}"

    def _delete(self, depth: int) -> str:
        if self.notes:
            note = self.one(*self.notes)
            return self.one(
                f"delete {note} on NotFound {{ }}", f"delete {note} if unchanged on NotFound {{ }} on Conflict {{ }}",
            )  # fmt: skip
        return f"delete {self.boxes[0]} on NotFound {{ }}"

    def _memory(self, depth: int) -> str:
        return f"m = {self.small()}"


@st.composite
def spec_texts(draw: st.DrawFn) -> str:
    """A spec with one check, mostly one that loads."""

    def one(*options: str) -> str:
        return draw(st.sampled_from(options))

    text, run = KINDS, []
    for name in ("A", "B")[: int(one("1", "1", "2"))]:
        run.append(name)
        when = one("", "", " as b when b.spec.n != old.spec.n", " as b when b.generation != old.generation")
        clauses = one(
            "", "owns Note", "watches Note as n -> n.spec.of", "watches Note as n -> Box", "owns Note; workers 2"
        )
        clauses += one("", "; cache Note read_own_writes", "; cache Note live")
        index = one(
            "",
            "",
            "; index size: 0..3 = 0 on Note { add n { size = min(3, size + 1) }; delete n { size = max(0, size - "
            "1) } }",
        )
        end = one("", "", "requeue", "requeue after 2s")
        gone = one("", "", '; gone name { create Note { name: "m" } on AlreadyExists { } }')
        body = Body(draw, "b", True, True)
        text += f"""
controller {name} for Box{when} {{
  {clauses}{index}
  memory m: 0..2 = 0
  reconcile b {{ {body.block(2)}; {f"if {body.test()} {{ {end} }}" if end else ""} }}{gone}
}}
"""
    if one("process", "") and one("", "at"):
        run.append("P")
        body = Body(draw, "x", False, False)
        text += f"process P {{ action act(x: Box) when {body.test()} {{ {body.block(1, 2)} }} }}\n"
    run.append("U")
    body = Body(draw, "x", False, False)
    text += f"environment U {{ action one(x: Box) at most 1 {{ {body.block(1, 2).replace('cached', 'live')} }}"
    text += one("", '; action two() at most 1 { create Note { name: "n" } on AlreadyExists { } }',
                "; action three(n: Note) at most 1 { delete n }") + " }\n"  # fmt: skip
    faults = one(
        "",
        "",
        "crash: 1",
        "drop: 1",
        "relist: 1",
        "stale_restart: 1",
        "timeout: 1",
        "pause: 1",
        "down: 1",
        "partition: 1",
    )
    text += f"""
property p1 for b in Box = always b.status.seen <= b.spec.n || b.spec.on
property p2 for b in Box = converges to b.status.seen == b.spec.n
property p3 = sometimes Note.exists(q, q.owner != null)
property p4 for b in Box = monotone b.status.seen
property p5 = on write Box b by A require b.spec.n > 0
check c {{
  run {", ".join(run)}
  scope {{ Box: {one("1", "1", "2")}; Note: 2; lag: {one("1", "2")}; list: 2 }}
  faults {{ {faults} }}
  {one("", "", "resync on")}
  {one("", "time free")}
  given Box "b" {{ spec: {{ n: {one("0", "2")} }} }}
  {one("", 'given Note "n" { spec: { of: "b" } }')}
}}
"""
    return text
