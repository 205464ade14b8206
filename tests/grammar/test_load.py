"""Text to Program: what a spec says is in the Program, with names resolved and bodies as automata."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashpot.grammar.load import examine, examine_text, library, load, load_text
from dashpot.grammar.report import SpecRejected
from dashpot.model import automaton as a
from dashpot.model import expr as e
from dashpot.model import program as p
from dashpot.model import types as t
from tests.grammar.corpus import HERE, specs
from tests.grammar.test_load_bodies import SITE
from tests.tree import ROOT

SHARED = ROOT.parent / "shared"
BOUGHT = [
    *sorted((SHARED / "skeleton" / "examples").glob("*.loop")),
    *sorted((SHARED / "skeleton" / "model" / "kubernetes").glob("*.loop")),
    SHARED / "cases" / "anchor" / "anchor_literal.loop",
]
OURS = [ROOT / name for name in specs() if not (ROOT / name).is_relative_to(HERE)]


def rejected(text: str, folder: Path | None = None) -> list[str]:
    with pytest.raises(SpecRejected) as caught:
        load_text(text, folder=folder)
    return [m.code for m in caught.value.messages]


# ---------------------------------------------------------------- whole specs
@pytest.mark.parametrize("path", OURS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_specs_of_the_project_load(path: Path) -> None:
    program = load(path)
    assert program.sources[-1] == (str(path), path.read_text("utf-8"))
    assert all(c.module for c in program.checks)


@pytest.mark.parametrize("path", BOUGHT, ids=lambda path: path.name)
def test_specs_from_outside_load(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"{path.name} is not here: it is no part of the project")
    load(path)


def test_library_is_what_lies_in_its_folder() -> None:
    names = {path.stem for path in (ROOT / "model" / "kubernetes").glob("*.loop")}
    assert {f"kubernetes.{name}" for name in names} == set(library())


def test_a_library_file_by_its_path_is_the_module_of_the_library() -> None:
    assert load(ROOT / "model" / "kubernetes" / "core.loop").main == "kubernetes.core"


# ---------------------------------------------------------------- modules
def test_use_takes_files_beside_and_below(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "shared.loop").write_text("const MAX = 3\nconst MIN = 1\n")
    (tmp_path / "lib" / "x.loop").write_text("use deeper\nfun twice(n: int): int = TWO * n\n")
    (tmp_path / "lib" / "deeper.loop").write_text("const TWO = 2\n")
    main = tmp_path / "main.loop"
    main.write_text(f"use shared (MAX)\nuse lib.x\n{SITE}property small = always twice(Site.size()) < MAX\n")
    program = load(main)
    assert [c.name for c in program.constants] == ["MAX", "MIN", "TWO"]
    assert [Path(name).name for name, _ in program.sources] == ["shared.loop", "deeper.loop", "x.loop", "main.loop"]


def test_names_that_were_not_asked_for_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "shared.loop").write_text("const MAX = 3\nconst MIN = 1\n")
    text = f"use shared (MAX)\n{SITE}property small = always Site.size() < MIN\n"
    with pytest.raises(SpecRejected) as caught:
        load_text(text, folder=tmp_path)
    (message,) = caught.value.messages
    assert message.code == "D101" and "use shared (MIN)" in message.fix


def test_circles_of_modules_are_reported(tmp_path: Path) -> None:
    (tmp_path / "one.loop").write_text("use two\n")
    (tmp_path / "two.loop").write_text("use one\n")
    assert rejected("use one\n", tmp_path) == ["D106"]
    assert rejected("use spec\n") == ["D106"]


def test_a_run_may_name_a_module_of_the_library_without_using_it() -> None:
    text = "use kubernetes.core (Pod)\ncheck all {\n  run kubernetes.replicaset\n  scope { Pod: 1 }\n}\n"
    program = load_text(text)
    actors = {x.name for x in program.controllers} | {x.name for x in program.processes}
    actors |= {x.name for x in program.environments} | {x.name for x in program.admissions}
    check = next(c for c in program.checks if c.module == program.main)
    assert check.run and set(check.run) <= actors
    assert "ReplicaSetController" in check.run


def test_actors_and_constants_of_other_modules_give_way(tmp_path: Path) -> None:
    (tmp_path / "shared.loop").write_text(
        f"const MAX = 3\n{SITE}environment Users {{ action go(s: Site) when s.spec.size < MAX {{ delete s }} }}\n"
        "check theirs {\n  run Users\n  scope { MAX: 1 }\n}\n"
    )
    text = (
        "use shared (Site)\nconst MAX = 1\nenvironment Users { action go(s: Site) { delete s } }\n"
        "check mine {\n  run Users, shared.Users\n  scope { MAX: 2, shared.MAX: 1 }\n}\n"
    )
    program = load_text(text, folder=tmp_path)
    assert [c.name for c in program.constants] == ["shared.MAX", "MAX"]
    assert [x.name for x in program.environments] == ["shared.Users", "Users"]
    theirs, mine = program.checks
    assert (theirs.run, theirs.scope) == (("shared.Users",), (("shared.MAX", 1),))
    assert (mine.run, mine.scope) == (("Users", "shared.Users"), (("MAX", 2), ("shared.MAX", 1)))
    when = program.environments[0].actions[0].when
    assert isinstance(when, e.Binary) and when.right == e.Const("shared.MAX", t.Int())
    assert rejected(text.replace("shared (Site)", "shared"), tmp_path) == ["D103", "D103"]


def test_errors_of_several_modules_come_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "shared.loop").write_text("const MAX = NOPE\n")
    with pytest.raises(SpecRejected) as caught:
        load_text("use shared\nconst A = NADA\n", str(tmp_path / "x.loop"), tmp_path)
    assert [Path(m.span.file).name for m in caught.value.messages] == ["x.loop", "shared.loop"]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    bad = tmp_path / "bad.loop"
    bad.write_bytes(b"\xff\xfe\x00")
    for path in (bad, tmp_path / "missing.loop", tmp_path, tmp_path / "nul\0.loop"):
        with pytest.raises(SpecRejected) as caught:
            load(path)
        assert [m.code for m in caught.value.messages] == ["D118"]


# ---------------------------------------------------------------- declarations
def test_resources() -> None:
    program = load_text(
        'struct Mark { key: Name, on: bool }\nconst MAX = 1 + 2\nresource Site "example.com/v1" {\n'
        "  spec {\n    size: 0..MAX = 1\n    image: opaque required immutable\n"
        '    host: Name? at "spec.template.host"\n    marks: []Mark keyed key\n  }\n'
        "  status { seen: Generation = 0 monotone }\n"
        '  rule self.spec.size < MAX else "too big"\n  rule oldSelf.spec.image == self.spec.image\n  columns size\n}\n'
    )
    (site,) = program.resources
    size, image, host, marks = site.spec
    assert size.type == t.Int(e.Literal(0, t.Int()), e.Const("MAX", t.Int()))
    assert size.default == e.Literal(1, t.Int())
    assert (image.type, image.required, image.immutable) == (t.Opaque(), True, True)
    assert (host.type, host.at) == (t.Optional(t.Name()), "spec.template.host")
    assert marks.type == t.ListOf(t.Struct("Mark", (("key", t.Name()), ("on", t.Bool()))), "key")
    assert site.status[0].default == e.Literal(0, t.Generation()) and site.status[0].monotone
    assert [(r.message, r.transition) for r in site.rules] == [("too big", False), ("rule violated", True)]
    assert site.columns == ("size",) and site.api_version == "example.com/v1"
    assert program.constants[0].value == 3


def test_constants_are_folded() -> None:
    program = load_text(
        "enum M { One, Two }\nconst A = 2 * (3 - 1)\nconst B = A > 3 && !false\nconst C = 1min\n"
        'const D = Two\nconst E = "v1"\nconst F = -7 / 2\nconst G = -7 % 2\n'
    )
    assert [c.value for c in program.constants] == [4, True, 60_000, "Two", "v1", -3, -1]
    assert [type(c.type) for c in program.constants[1:5]] == [t.Bool, t.Duration, t.Enum, t.Name]


def test_quantities_and_durations_have_units() -> None:
    fields = "cpu: Quantity = 250m, memory: Quantity = 1Ki, n: Quantity = 2, d: Duration = 2h"
    (r,) = load_text(f'resource R "v1" {{ spec {{ {fields} }} }}\n').resources
    assert [f.default.value for f in r.spec if isinstance(f.default, e.Literal)] == [250, 1_024_000, 2000, 7_200_000]


def test_wakes() -> None:
    program = load_text(
        f"const FIXED = true\n{SITE}"
        "controller Web for Site as s when s.generation != old.generation {\n"
        "  owns Part, Node\n  owns Part as p when p.spec.slot != old.spec.slot\n"
        "  watches Node as n -> Site.filter(s, s.spec.host == n.name) if FIXED\n"
        "  watches Part as p -> p.spec.site new only when p.name != old.name\n"
        "  cache Part, Node read_own_writes if FIXED\n  workers 2\n"
        "  reconcile it { return }\n  gone name { }\n}\n"
    )
    (web,) = program.controllers
    assert [(w.source, w.kind, w.var, w.new_only) for w in web.wakes] == [
        ("for", "Site", "s", False),
        ("owns", "Part", "", False),
        ("owns", "Node", "", False),
        ("owns", "Part", "p", False),
        ("watches", "Node", "n", False),
        ("watches", "Part", "p", True),
    ]
    assert web.wakes[0].when is not None and web.wakes[5].when is not None
    assert web.wakes[4].only_if == e.Const("FIXED", t.Bool())
    keys = web.wakes[4].keys
    assert isinstance(keys, e.Fold) and keys.base == e.Kind("Site", "cache", t.SetOf(t.Object("Site")))
    assert [(c.kind, c.mode) for c in web.caches] == [("Part", "read_own_writes"), ("Node", "read_own_writes")]
    assert web.workers == 2 and web.reconcile.params == ("it",)
    assert web.gone is not None and web.gone.params == ("name",)


def test_index_handlers_are_automata_of_assignments() -> None:
    program = load_text(
        f"{SITE}controller Web for Site {{\n  index at: map[Name]Name = {{}} on Part {{\n"
        "    add p { at[p.name] = p.name }\n"
        "    update before -> p { if before.name != p.name { at[before.name] = null } }\n"
        "    delete p { at[p.name] = null }\n  }\n  reconcile s { }\n}\n"
    )
    (index,) = program.controllers[0].indexes
    assert index.kind == "Part" and [(n, b.params) for n, b in index.handlers] == [
        ("add", ("p",)),
        ("update", ("before", "p")),
        ("delete", ("p",)),
    ]
    first = index.handlers[0][1].nodes[0]
    assert isinstance(first, a.Assign) and first.scope == "memory"
    assert first.path == ("at", e.Member(e.Local("p", t.Object("Part")), "name", t.Name()))


def test_processes_stand_at_members_or_names() -> None:
    program = load_text(
        f"enum Seat {{ a, b }}\n{SITE}process One at me in Seat {{ action go() when me == a {{ }} }}\n"
        "process Two at me in Node { action go(p: Site, n: 0..2) when p.name == me && n > 0 at most 3 fair { } }\n"
    )
    one, two = program.processes
    assert one.place is not None and (one.place.var, one.place.of) == ("me", "Seat")
    assert one.actions[0].when == e.Binary(
        "==", e.Local("me", t.Enum("Seat", ("a", "b"))), e.Literal("a", t.Enum("Seat", ("a", "b"))), t.Bool()
    )
    (go,) = two.actions
    assert (go.limit, go.fair) == (3, True)
    assert [type(ty) for _, ty in go.params] == [t.Object, t.Int]


def test_admission() -> None:
    program = load_text(
        f"{SITE}admission Gate on create, update Part p when p.spec.slot > 0 needs Node.size() > 0 else ignore {{\n"
        '  p.spec.slot = 0\n  if p.name == "big" { fail "too big" }\n}\n'
    )
    (gate,) = program.admissions
    assert gate.verbs == ("create", "update") and gate.needs is not None and gate.needs[1] == "ignore"
    assign, branch, fail, done = gate.body.nodes
    assert isinstance(assign, a.Assign) and (assign.scope, assign.path) == ("object", ("p", "spec", "slot"))
    assert isinstance(branch, a.Branch) and (branch.then, branch.other) == (2, 3)
    assert fail == a.End("fail", message="too big") and done == a.End("done")


# ---------------------------------------------------------------- checks and scenarios
def test_check() -> None:
    program = load_text(
        f"const FIX = false\nconst TTL = 3s\n{SITE}controller Web for Site {{\n  reconcile s {{ }}\n}}\n"
        "property fine = always Site.size() < 2\ncheck small {\n  run Web\n"
        '  scope { Site: 1, lag: 3, FIX: true, TTL: 5s, opaque: ["v1", "v2"] }\n'
        "  faults { crash: 1, crash Web: 2, relist Site for Web: 1 }\n  resync on\n  time free\n"
        '  given Node n { }\n  given Site s { spec: { size: 2, host: "n" } }\n  given Part "p-0" { owner: s }\n'
        '  given Part "p-1" { owner: Site "s" }\n  expect fine\n'
        "  expect violation of hot_loop, panic as loop within 12\n"
        '  waive hot_loop for Site.spec.size "why"\n  waive panic "so"\n}\n'
    )
    (check,) = program.checks
    assert check.run == ("Web",)
    assert dict(check.scope) == {"Site": 1, "lag": 3, "FIX": True, "TTL": 5000, "opaque": ("v1", "v2")}
    assert check.faults is not None
    assert [(f.name, f.target, f.limit, f.by) for f in check.faults] == [
        ("crash", None, 1, None),
        ("crash", "Web", 2, None),
        ("relist", "Site", 1, "Web"),
    ]
    assert check.resync and check.time == "free"
    assert [(g.kind, g.name, g.bound) for g in check.given] == [
        ("Node", "n", True),
        ("Site", "s", True),
        ("Part", "p-0", False),
        ("Part", "p-1", False),
    ]
    site = e.Given("Site", "s", t.Object("Site"))
    assert [g.items[0].value for g in check.given[2:]] == [site, site]
    assert check.given[1].items[1].value == e.Literal("n", t.Name("Node"))
    assert check.expects == (
        p.Expect(("fine",), False, None, None),
        p.Expect(("hot_loop", "panic"), True, "loop", 12),
    )
    assert [(w.name, w.kind, w.path) for w in check.waives] == [
        ("hot_loop", "Site", ("spec", "size")),
        ("panic", None, ()),
    ]


def test_no_faults_and_the_faults_of_the_environment_differ() -> None:
    text = f"{SITE}controller Web for Site {{\n  reconcile s {{ }}\n}}\n"
    one, two = load_text(text + "check a { run Web }\ncheck b {\n  run Web\n  faults { }\n}\n").checks
    assert one.faults is None and two.faults == ()


def test_formulas() -> None:
    program = load_text(
        f"{SITE}process Op at me in Node {{ action go(s: Site) {{ delete s }} }}\n"
        "property a for s in Site = converges while s.spec.size > 0 to s.status.ready == s.spec.size\n"
        "property b = Site.size() > 0 leads to Site.size() == 0\nproperty c = eventually always Site.size() == 0\n"
        "property d = always eventually Site.size() == 0\nproperty f for s in Site = monotone s.generation\n"
        "property g = no lost updates to Site.spec\n"
        "property h = on delete, evict Site s by Op.go at me require s.name != me\n"
    )
    a_, b, c, d, f, g, h = (x.formula for x in program.properties)
    assert isinstance(a_, p.Converges) and a_.premise is not None and program.properties[0].each == ("s", "Site")
    assert isinstance(b, p.LeadsTo)
    assert isinstance(c, p.State) and c.op == "stabilizes"
    assert isinstance(d, p.State) and d.op == "recurs"
    assert isinstance(f, p.State) and f.op == "monotone"
    assert g == p.NoLostUpdates("Site", ("spec",))
    assert isinstance(h, p.OnWrite) and (h.verbs, h.actor, h.me) == (("delete", "evict"), "Op.go", "me")


def test_scenario() -> None:
    program = load_text(
        f"{SITE}controller Web for Site {{\n  reconcile s {{ }}\n}}\n"
        'scenario "one" {\n  given Site s { spec: { size: 2 } }\n  settle\n'
        "  hold Part for Web\n  patch s.spec { size: 1 }\n"
        "  inject relist Part for Web\n  inject crash Web\n  release Part\n  tick 2\n  assert s.spec.size == 1\n}\n"
    )
    (scenario,) = program.scenarios
    assert scenario.name == "one"
    assert [s.verb for s in scenario.steps] == (
        ["settle", "hold", "write", "inject", "inject", "release", "tick", "assert"]
    )
    write = scenario.steps[2].call
    assert write is not None and write.target == e.Given("Site", "s", t.Object("Site"))
    assert (scenario.steps[3].fault, scenario.steps[3].target, scenario.steps[3].actor) == ("relist", "Part", "Web")
    assert scenario.steps[6].count == 2


def test_warnings_do_not_reject() -> None:
    body = "    let n = get cached Node s.name\n    delete n\n"
    text = f"{SITE}controller Web for Site {{\n  reconcile s {{\n{body}  }}\n}}\n"
    loaded = examine_text(text)
    assert [(m.code, m.severity, m.span.line) for m in loaded.warnings] == [("L408", "warning", 10)]
    assert load_text(text) == loaded.program


def test_loading_twice_gives_the_same_program() -> None:
    for path in OURS[:8]:
        assert examine(path) == examine(path)


def test_spans_lie_in_the_text() -> None:
    path = ROOT / "model" / "kubernetes" / "replicaset.loop"
    program = load(path)
    sources = dict(program.sources)
    for check in program.checks:
        first = sources[check.span.file].split("\n")[check.span.line - 1]
        assert re.match(rf"check {check.name}\b", first[check.span.column - 1 :])


def test_a_module_in_a_run_stands_for_what_it_does_not_for_what_may_happen() -> None:
    """Environments bring accidents and users: a check names them."""

    def run(words: str) -> tuple[str, ...]:
        return load_text(f"use kubernetes.core (Pod)\ncheck c {{ run {words} }}\n").checks[-1].run

    assert run("kubernetes.kubelet") == ("Kubelet",)
    assert run("kubernetes.kubelet, kubernetes.kubelet.Containers") == ("Kubelet", "Containers")
    assert run("kubernetes.quota") == ("QuotaGate", "QuotaController")
    assert run("kubernetes.hands") == ("Drain",)
    with pytest.raises(SpecRejected, match="declares no controller, process or admission hook"):
        run("kubernetes.core")


def test_what_is_rejected_carries_the_texts_that_were_read(tmp_path: Path) -> None:
    (tmp_path / "lib.loop").write_text("resource X { spec { n: 0..Y = 0 } }\n")
    text = "use lib (X)\nuse kubernetes.core (Pod)\n"
    with pytest.raises(SpecRejected) as caught:
        load_text(text, str(tmp_path / "a.loop"), tmp_path)
    sources = caught.value.sources
    assert sources[str(tmp_path / "a.loop")] == text and "0..Y" in sources[caught.value.messages[0].span.file]
    assert sources["kubernetes/core.loop"].startswith("//")
