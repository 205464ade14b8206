"""Terms: what literals become, what names mean, what `fun` leaves behind, and what is refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.grammar.codes import CODES
from dashpot.grammar.inline import free, substitute, walk
from dashpot.grammar.load import examine_text, load_text
from dashpot.grammar.nearest import distance, nearest
from dashpot.grammar.report import SpecRejected, render
from dashpot.grammar.typing import comparable, fits, join
from dashpot.model import expr as e
from dashpot.model import types as t
from dashpot.model.program import State
from tests.grammar.corpus import HERE, blocks, specs
from tests.tree import ROOT

KINDS = """\
enum Phase { Pending, Running, Failed }
struct Mark { key: Name, on: bool }
resource Site "v1" {
  spec {
    size: 0..3 = 1
    image: opaque
    host: ref Node?
    phase: Phase
    marks: []Mark
    tags: set[Name]
    levels: map[Phase]0..3
    born: Time?
    cpu: Quantity
  }
  status { ready: 0..3 = 0 }
}
resource Node "v1" { }
resource Pod "v1" { spec { nodeName: ref Node? } }
"""


def term(text: str, before: str = "") -> e.Expr:
    """The term of a property over `s`, a Site."""
    (found,) = load_text(f"{KINDS}{before}\nproperty p for s in Site = always {text}\n").properties
    assert isinstance(found.formula, State)
    return found.formula.body


def codes(text: str, before: str = "") -> list[str]:
    """Codes of the messages, warnings too, of a property over `s`."""
    try:
        loaded = examine_text(f"{KINDS}{before}\nproperty p for s in Site = always {text}\n")
    except SpecRejected as rejected:
        return [m.code for m in rejected.messages]
    return [m.code for m in loaded.warnings]


# ---------------------------------------------------------------- literals in their places
def right(text: str) -> e.Expr:
    found = term(text)
    assert isinstance(found, e.Binary)
    return found.right


def test_literals_take_the_type_of_their_place() -> None:
    phase = t.Enum("Phase", ("Pending", "Running", "Failed"))
    assert right('s.spec.image == "v1"') == e.Literal("v1", t.Opaque())
    assert right('s.spec.host == "n"') == e.Literal("n", t.Name("Node"))
    assert right('s.name == "n"') == e.Literal("n", t.Name())
    assert right("s.spec.phase == Running") == e.Literal("Running", phase)
    assert right("s.spec.phase == Phase.Running") == e.Literal("Running", phase)
    assert right("s.spec.phase in [Running, Failed]").type == t.ListOf(phase)
    assert right("s.spec.cpu > 2") == e.Literal(2000, t.Quantity())
    assert right("s.spec.cpu > 250m") == e.Literal(250, t.Quantity())
    assert right("s.generation > 0") == e.Literal(0, t.Generation())
    assert right("s.spec.tags == []") == e.ListLiteral((), t.SetOf(t.Name()))
    assert right("s.spec.host == null") == e.Literal(None, t.Null())
    assert right("s.spec.size == -1") == e.Literal(-1, t.Int())
    assert right(r"s.name == 'a\'b'") == e.Literal("a'b", t.Name())
    assert right(r's.name == r"a\b"') == e.Literal(r"a\b", t.Name())
    found = term('"x" in s.spec.tags')
    assert isinstance(found, e.Binary) and found.left == e.Literal("x", t.Name())


def test_either_side_gives_the_other_its_type() -> None:
    found = term('"v1" == s.spec.image')
    assert isinstance(found, e.Binary) and found.left == e.Literal("v1", t.Opaque())
    found = term("(s.spec.size > 1 ? Running : Failed) == s.spec.phase")
    assert isinstance(found, e.Binary) and isinstance(found.left.type, t.Enum)


def test_enums_ranges_and_kinds_are_sets() -> None:
    found = term("Phase.exists(x, x == s.spec.phase)")
    assert isinstance(found, e.Fold) and isinstance(found.base, e.Domain)
    found = term("(0..s.spec.size).all(i, i < 4)")
    assert isinstance(found, e.Fold) and found.base.type == t.ListOf(t.Int())
    found = term("Pod.all(q, q.owner != s)")
    assert isinstance(found, e.Fold) and found.base == e.Kind("Pod", "truth", t.SetOf(t.Object("Pod")))


def test_types_of_terms() -> None:
    for text, ty in {
        "s.spec.size + 1 == 2": t.Bool(),
        "since(s.creationTimestamp) > 5s": t.Bool(),
        "Site.map(x, x.spec.size).sum() > 0": t.Bool(),
        "Site.sortBy(x, [x.spec.size, x.spec.phase == Running]).take(2).size() == 1": t.Bool(),
        "s.spec.marks.filter(m, m.on).map(m, m.key) == ['a']": t.Bool(),
        "s.spec.levels[Running] > 1": t.Bool(),
        "s.spec.levels.exists(k, s.spec.levels[k] > 1)": t.Bool(),
        "has(s.spec.host) && s.spec.host.startsWith('n')": t.Bool(),
        "hash(s.spec.image) + '-' + 1 == s.name": t.Bool(),
        "s.labels['app'] == 'web' || s.labels.app == 'web'": t.Bool(),
        "s.spec.marks + [{ key: 'a', on: true }] == []": t.Bool(),
        "Site.first().spec.size == 1 || gone(s)": t.Bool(),
        "size(s.spec.marks) == min(1, 2)": t.Bool(),
        "Site.filter(x, x.spec.size > 1).map(x, x.spec.size).min() == 2": t.Bool(),
    }.items():
        assert term(text).type == ty, text
        assert not codes(text), text


def test_sums_over_sets_of_objects_do_not_lose_twins() -> None:
    found = term("Site.sum(x, x.spec.size) == 2")
    assert isinstance(found, e.Binary) and isinstance(found.left, e.Fold)
    assert found.left.base.type == t.SetOf(t.Object("Site"))


# ---------------------------------------------------------------- functions
def test_functions_are_put_in_place() -> None:
    found = term("twice(s.spec.size) == 2", "fun twice(n: int): int = n + n")
    assert isinstance(found, e.Binary)
    size = e.Member(e.Member(e.Local("s", t.Object("Site")), "spec", t.Struct("Site.spec", ())), "size", t.Int())
    assert isinstance(found.left, e.Binary)
    assert [type(x) for x in (found.left.left, found.left.right)] == [type(size), type(size)]


def test_arguments_that_cost_something_are_bound_once() -> None:
    found = term("twice(Site.size()) == 2", "fun twice(n: int): int = n + n")
    assert isinstance(found, e.Binary) and isinstance(found.left, e.Let)
    assert isinstance(found.left.body, e.Binary) and isinstance(found.left.body.left, e.Local)


def test_nothing_is_captured_by_the_variables_of_a_function() -> None:
    found = term("Pod.all(p, owned(p).size() == 0)", "fun owned(o: Pod): set[Pod] = Pod.filter(p, p.owner == o)")
    assert isinstance(found, e.Fold) and isinstance(found.body, e.Binary)
    fold = next(x for x in walk(found.body) if isinstance(x, e.Fold))
    assert fold.var != found.var
    assert isinstance(fold.body, e.Binary)
    assert fold.body.right == e.Local("p", t.Object("Pod"))
    assert fold.body.left == e.Member(e.Local(fold.var, t.Object("Pod")), "owner", t.Optional(t.OwnerRef()))


def test_functions_look_where_their_caller_looks() -> None:
    program = load_text(
        f"{KINDS}fun many(): bool = Node.size() > 1\nproperty p = always many()\n"
        "process P { action go(s: Site) when many() { delete s } }\n"
        "environment E { action go(s: Site) when many() { if many() { delete s } } }\n"
    )
    looks = [
        next(x.look for x in walk(when) if isinstance(x, e.Kind))
        for when in [program.processes[0].actions[0].when, program.environments[0].actions[0].when]
        if when is not None
    ]
    assert looks == ["cache", "truth"]


def test_extern_functions_keep_their_abstraction() -> None:
    found = term(
        "next(s.creationTimestamp, 2) != now()", "extern fun next(a: Time, n: int): Time abstract n > 1 ? a : any Time"
    )
    assert isinstance(found, e.Binary) and isinstance(found.left, e.Extern)
    abstract = found.left.abstract
    assert isinstance(abstract, e.Ternary) and isinstance(abstract.other, e.Any)
    assert abstract.then == found.left.args[0]
    assert abstract.other.base == e.Domain(t.Time(), t.SetOf(t.Time()))


@given(st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "c"]))
def test_substitution_keeps_what_is_free(var: str, other: str) -> None:
    ty = t.Int()
    body = e.Fold("map", e.Range(e.Literal(0, ty), e.Local("a", ty), t.ListOf(ty)), var, e.Local("a", ty), t.ListOf(ty))
    put = substitute(body, {"a": e.Local(other, ty)}, "truth")
    assert isinstance(put, e.Fold) and put.body is not None
    assert put.var != other
    assert other in free(put.base)
    assert put.body == (e.Local(put.var, ty) if var == "a" else e.Local(other, ty))


# ---------------------------------------------------------------- null
@pytest.mark.parametrize(
    "text",
    [
        "s.owner == null || s.owner.name == 'a'",
        "s.owner != null && s.owner.name == 'a'",
        "s.spec.born != null ? since(s.spec.born) > 1s : true",
        "!(s.spec.born == null) && since(s.spec.born) > 1s",
        "has(s.spec.born) && since(s.spec.born) > 1s",
        "s.spec.host == 'a' && s.spec.host.startsWith('a')",
        "s.spec.host == s.name",
        "s.owner == s",
        "Site.filter(x, x.owner != null).all(y, y.owner.name == 'a')",
        "Site.filter(x, x.owner != null).sortBy(x, x.name).take(2).all(y, y.owner.name == 'a')",
    ],
)
def test_guarded_reads_are_silent(text: str) -> None:
    assert codes(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "s.owner.name == 'a'",
        "s.owner == null && s.owner.name == 'a'",
        "since(s.spec.born) > 1s",
        "s.owner != null || s.owner.kind == 'a'",
    ],
)
def test_unguarded_reads_are_warned_of(text: str) -> None:
    assert codes(text) == ["L408"]


def test_guards_and_premises_are_known_behind_them() -> None:
    text = (
        f"{KINDS}process P {{ action go(s: Site) when s.spec.born != null {{\n"
        "    if since(s.spec.born) > 1s { delete s }\n  }\n}\n"
        "property p for s in Site = converges while s.spec.born != null to since(s.spec.born) > 1s\n"
    )
    assert examine_text(text).warnings == ()


@pytest.mark.parametrize(
    "body, warnings",
    [
        ("if n == null { return }\ndelete n", 0),
        ("if n != null { delete n }", 0),
        ("if n != null { delete n }\ndelete n", 1),
        ("if n == null { let x = 1 } else { delete n }", 0),
        ("let there = n != null\nif there { delete n }", 1),
        ("let all = list cached Site\nfor x in all.filter(y, y.owner != null) { let o = x.owner.name }", 0),
    ],
)
def test_bodies_remember_what_was_tested(body: str, warnings: int) -> None:
    text = f"{KINDS}controller C for Site {{\n  reconcile s {{\n    let n = get cached Node s.name\n{body}\n  }}\n}}\n"
    assert [m.code for m in examine_text(text).warnings] == ["L408"] * warnings


# ---------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "text, code",
    [
        ("s.spec.size == s.name", "D202"),
        ("s.spec.size == true", "D202"),
        ("s.spec.image == s.name", "D202"),
        ("s == s.name", "D203"),
        ("s.uid == s", "D203"),
        ("s.spec.size", "D204"),
        ("s.spec.size > 1 && s.name", "D204"),
        ("s.spec.phase < Running", "D205"),
        ("s.name < 'b'", "D205"),
        ("-s.spec.phase == Running", "D206"),
        ("s.spec.tags - ['a'] == []", "D206"),
        ("s.name + s == 'a'", "D206"),
        ("Site.sum(x, x.name) == 2", "D206"),
        ("since(s.name) > 1s", "D201"),
        ("since(s.creationTimestamp) > 1", "D202"),
        ("now(1) == now()", "D210"),
        ("s.exists(x, true)", "D211"),
        ("s.spec.tags[0] == 'a'", "D211"),
        ("'a' in s.name", "D211"),
        ("1 in s.spec.tags", "D202"),
        ("gone(s.name)", "D212"),
        ("any [true]", "D220"),
        ("[1, true].size() == 2", "D202"),
        ("{ a: 1 } == { a: 2 }", "D218"),
        ("s.spec.marks == [{ key: 'a' }]", "D207"),
        ("s.spec.marks == [{ key: 'a', on: true, off: 1 }]", "D102"),
        ("s.spec.levels == { Runing: 1 }", "D102"),
        ("s.spec.levels['Running'] == 1", "D201"),
        ("Phase.Runing == s.spec.phase", "D102"),
        ("s.spec.size == 1.5", "D219"),
        ("frobnicate(s)", "D115"),
        ("s.spec.tags.frobnicate()", "D115"),
        ("since == 3", "D101"),
        ("(s.spec.size > 1 ? 1 : 'a') == 1", "D202"),
    ],
)
def test_refused(text: str, code: str) -> None:
    assert codes(text) == [code]


@pytest.mark.parametrize(
    "body, code",
    [
        ("update t.spec { size: 1 } on Conflict { let n = 1 }", "D101"),
        ("delete s on Conflict { let n = bad } on Conflict { return }", "D101 D103"),
        ("let x = get cached Node s.name on NotFound { return }", "D120"),
        ("for x in s { }", "D211"),
        ("let x = null", "D201"),
        ("nothing = 1", "D121"),
        ("seen = 1", "D201"),
        ("seen['a'] = 'b'", "D211"),
        ("at['a'] = 1", "D201"),
        ("at['a'] = null\nat.b = 'c'", ""),
        ("requeue after 3", "D201"),
        ("bind s to 3", "D201"),
        ("delete s.spec", "D212"),
        ("update s.spec.size { a: 1 }", "D212"),
        ("update s.spec { levels[Running]: 4 }", "D216"),
        ("update s.spec { levels.Runing: 1 }", "D102"),
        ("update s.spec { born: 3 }", "D201"),
        ("patch json s.spec { add tags: 'a', add marks: { key: 'a', on: true }, replace size: 2 }", ""),
        ("patch json s.spec { add size: 'a' }", "D201"),
        ("let p = create Pod { name: 'a', owner: 'b' }", "D201"),
        ("let p = create Pod { name: 'a', owner: Site \"b\", spec: { nodeName: null } }", ""),
        ("let p = create Pod { name: 'a', spec: 3 }", "D201"),
    ],
)
def test_bodies_refused(body: str, code: str) -> None:
    text = (
        f"{KINDS}controller C for Site {{\n  memory seen: set[Name] = []\n  memory at: map[Name]Name = {{}}\n"
        f"  reconcile s {{\n{body}\n  }}\n}}\n"
    )
    try:
        found = [m.code for m in examine_text(text).warnings]
    except SpecRejected as rejected:
        found = [m.code for m in rejected.messages]
    assert " ".join(sorted(found)) == code


def test_enum_members_clash_with_everything_that_has_a_name() -> None:
    for other in ("const Running = 1", "enum Mode { Running }", "fun Running(): int = 1", 'resource Running "v1" { }'):
        assert "D114" in codes("true", other), other
    assert codes("Site.all(Running, true)") == ["D114"]


def test_a_message_comes_once() -> None:
    before = "fun bad(): bool = nothing\nfun worse(): bool = bad() && bad()"
    assert codes("bad() && worse() && bad()", before) == ["D101"]


# ---------------------------------------------------------------- the types themselves
TYPES: list[t.Type] = [
    t.Bool(), t.Int(), t.Name(), t.Name("Node"), t.Opaque(), t.Time(), t.Duration(), t.Uid(), t.Null(), t.Bottom(),
    t.Enum("P", ("a",)), t.Struct("S", ()), t.Object("Pod"), t.OwnerRef(), t.Quantity(), t.Generation(), t.Version(),
]  # fmt: skip
types = st.recursive(
    st.sampled_from(TYPES),
    lambda inner: st.one_of(
        inner.map(t.ListOf), inner.map(t.SetOf), inner.filter(lambda x: not isinstance(x, t.Optional)).map(t.Optional)
    ),
    max_leaves=3,
)


@given(types)
def test_every_type_fits_itself_and_its_optional(ty: t.Type) -> None:
    assert fits(ty, ty) and fits(ty, t.Optional(ty)) and comparable(ty, ty)


@given(types, types)
def test_what_is_joined_fits_the_join(one: t.Type, other: t.Type) -> None:
    both = join(one, other)
    if both is not None:
        assert fits(one, both) and fits(other, both)
    assert comparable(one, other) == comparable(other, one)


@given(st.text("abcd", max_size=6), st.text("abcd", max_size=6), st.text("abcd", max_size=6))
def test_edit_distance_is_symmetric(a: str, b: str, c: str) -> None:
    assert distance(a, b) == distance(b, a) and (distance(a, b) == 0) == (a == b)
    assert nearest(a, [a, b, c]) is not None


# ---------------------------------------------------------------- pages and tampering
SEMANTIC = [code for code in CODES if code[:2] in ("D1", "D2") and code not in ("D106", "D118")]


@pytest.mark.parametrize("code", SEMANTIC)
def test_pages_show_the_slip_and_its_cure(code: str) -> None:
    wrong, cure = blocks(ROOT / "docs" / "hints" / f"{code}.md")
    try:
        found = [m.code for m in examine_text(wrong).warnings]
    except SpecRejected as rejected:
        found = [m.code for m in rejected.messages]
    assert set(found) == {code}
    assert examine_text(cure).warnings == ()


SPECS = [text for name, text in specs().items() if "kubernetes" in name or "examples" in name] + [
    (HERE / "specs" / "everything.loop").read_text("utf-8")
]
WORD = re.compile(r"[A-Za-z_]\w*|\d+\w*|\"[^\"\n]*\"|[-+*/%<>=!&|]+")


@st.composite
def swapped(draw: st.DrawFn) -> str:
    """A spec that parses (mostly), with some of its words in the places of others."""
    text = draw(st.sampled_from(SPECS))
    spots = list(WORD.finditer(text))
    for _ in range(draw(st.integers(1, 6))):
        at, source = draw(st.sampled_from(spots)), draw(st.sampled_from(spots))
        if at.end() <= len(text):
            text = text[: at.start()] + source.group() + text[at.end() :]
    return text


@settings(max_examples=400)
@given(swapped())
def test_specs_with_words_in_wrong_places_are_answered(text: str) -> None:
    try:
        examine_text(text)
    except SpecRejected as rejected:
        assert rejected.messages
        for message in rejected.messages:
            assert message.text and message.fix and message.span.line >= 1
        render(rejected.messages, {"spec.loop": text})
