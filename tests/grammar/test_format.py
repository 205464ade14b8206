"""The one layout: same tree, same comments, nothing to do a second time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashpot.grammar.format import format_text
from dashpot.grammar.parse import parse
from dashpot.grammar.report import SpecRejected
from tests.grammar.corpus import specs
from tests.grammar.test_parse_soup import SPECS, tampered

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(//[^\n]*)')


def comments(text: str) -> list[str]:
    return [found.rstrip() for found in COMMENT.findall(text) if found]


def laid_out(text: str) -> str:
    """Format, and hold the result to all that a layout promises."""
    result = format_text(text, "spec.loop")
    assert parse(result, "spec.loop") == parse(text, "spec.loop")
    assert comments(result) == comments(text)
    assert format_text(result, "spec.loop") == result
    assert "\n\n\n" not in result and "\t" not in result
    assert all(line == line.rstrip() for line in result.split("\n"))
    assert not result or (result.endswith("\n") and not result.startswith("\n") and not result.endswith("\n\n"))
    return result


@pytest.mark.parametrize("name", specs())
def test_specs_of_the_project(name: str) -> None:
    laid_out(specs()[name])


def test_the_spec_of_all_forms_is_laid_out_already() -> None:
    text = specs()["tests/grammar/specs/everything.loop"]
    assert laid_out(text) == text


@pytest.mark.parametrize(
    "text, result",
    [
        ("", ""),
        ("\n\n// a\n\n\n\n// b  \n\n", "// a\n\n// b\n"),
        ("const   A=1\r\n", "const A = 1\n"),
        ("const A = 1 // one\nconst LONG = 2 // two\n", "const A    = 1  // one\nconst LONG = 2  // two\n"),
        ("enum A{x,y}", "enum A { x, y }\n"),
        ("enum A {\n}", "enum A { }\n"),
        ("enum A { // none\n}", "enum A {  // none\n}\n"),
        ("enum A { x,\ny }", "enum A {\n  x,\n  y\n}\n"),
        (
            "fun f ( a:A,b : []ref B ? ):map [K] [] T=a . b [ 0 ].c( - 1 )",
            "fun f(a: A, b: []ref B?): map[K][]T = a.b[0].c(-1)\n",
        ),
        ("property p=always!a&&b?- 1 .. 2:{ }", "property p = always !a && b ? -1..2 : {}\n"),
        ("property p =\nalways a\n&& b\n|| c", "property p =\n  always a\n    && b\n    || c\n"),
        ("use a.b(C,D)", "use a.b (C, D)\n"),
        (
            'resource A "v1" {\nspec { a:int=1 required\nlong :Name immutable }\n}',
            'resource A "v1" {\n  spec {\n    a:    int = 1 required\n    long: Name    immutable\n  }\n}\n',
        ),
        (
            "check c {\nrun A\nscope {A:1}\n\n// why\nfaults { }\nexpect x }",
            "check c {\n  run   A\n  scope { A: 1 }\n\n  // why\n  faults { }\n  expect x\n}\n",
        ),
        (
            "controller C for A { reconcile a { if x { return }\nelse{\nrequeue } } }",
            "controller C for A {\n  reconcile a {\n    if x { return } else {\n      requeue\n    }\n  }\n}\n",
        ),
        (
            "process P { action f(a:A) when x\n&& y {\ndelete a }\n}",
            "process P {\n  action f(a: A) when x\n      && y {\n    delete a\n  }\n}\n",
        ),
        (
            "process P {\n action f(a: A) { let x = f(a,\n  b,\n )\n // last\n }\n}",
            "process P {\n  action f(a: A) {\n    let x = f(a,\n      b,\n    )\n    // last\n  }\n}\n",
        ),
    ],
)
def test_layout(text: str, result: str) -> None:
    assert laid_out(text) == result


def test_what_is_no_spec_is_not_laid_out() -> None:
    with pytest.raises(SpecRejected):
        format_text("const A\n", "spec.loop")


@settings(max_examples=80)
@given(tampered())
def test_specs_tampered_with(text: str) -> None:
    try:
        parse(text, "spec.loop")
    except SpecRejected:
        return
    laid_out(text)


@st.composite
def respaced(draw: st.DrawFn) -> str:
    """A spec of the project with its indentation, its spaces and some of its line breaks at random."""
    lines = draw(st.sampled_from(SPECS)).split("\n")
    out = []
    for line in lines:
        indent = draw(st.sampled_from(["", " ", "\t", "      "]))
        gap = draw(st.sampled_from(["\n", "\n", "\n", "\n\n", "\n\n\n", "\n  // between\n", "  // behind\n"]))
        plain = "//" not in line and '"' not in line
        body = (
            re.sub(r" *([,{}]) *", draw(st.sampled_from([r"\1", r" \1 ", r"\1  "])), line.strip())
            if plain
            else line.strip()
        )
        out.append(indent + body + gap)
    return "".join(out)


@settings(max_examples=40)
@given(respaced())
def test_spacing_does_not_matter(text: str) -> None:
    laid_out(text)


@pytest.mark.soak
@given(respaced())
def test_spacing_does_not_matter_at_length(text: str) -> None:
    laid_out(text)
