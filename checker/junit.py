"""Results as JUnit XML, the format in which build servers show tests.

Source: the de-facto schema of Jenkins' xUnit plug-in (testsuites, testsuite, testcase, failure, error, skipped).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from attrs import frozen

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot carry, even escaped."""


@frozen
class Case:
    """One question and how it came out.

    outcome  "passed" | "failed" (violated, or not as expected) | "error" (undecided, or the spec is wrong) | "skipped"
    text     why, in one or a few sentences; the first line is the short form
    seconds  time it took; 0 where only the whole suite was timed
    """

    name: str
    outcome: str
    text: str = ""
    seconds: float = 0.0


@frozen
class Suite:
    """The cases of one check, named "file.check"; seconds is its total time."""

    name: str
    file: str
    cases: tuple[Case, ...]
    seconds: float = 0.0


def junit(suites: Iterable[Suite]) -> str:
    """The XML text; suites and cases stay in order."""
    listed = list(suites)
    cases = [case for suite in listed for case in suite.cases]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f"<testsuites {_counts(cases)} time={_attribute(_time(sum(s.seconds for s in listed)))}>")
    for suite in listed:
        head = f"name={_attribute(suite.name)} file={_attribute(suite.file)} time={_attribute(_time(suite.seconds))}"
        lines.append(f"  <testsuite {head} {_counts(suite.cases)}>")
        for case in suite.cases:
            lines += _case(suite, case)
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _counts(cases: Iterable[Case]) -> str:
    outcomes = [case.outcome for case in cases]
    names = (("failures", "failed"), ("errors", "error"), ("skipped", "skipped"))
    parts = [f'{name}="{outcomes.count(outcome)}"' for name, outcome in names]
    return f'tests="{len(outcomes)}" {" ".join(parts)}'


def _case(suite: Suite, case: Case) -> list[str]:
    head = f"name={_attribute(case.name)} classname={_attribute(suite.name)} time={_attribute(_time(case.seconds))}"
    tag = {"failed": "failure", "error": "error", "skipped": "skipped"}.get(case.outcome)
    if tag is None:
        return [f"    <testcase {head}/>"]
    short = case.text.partition("\n")[0]
    return [
        f"    <testcase {head}>",
        f"      <{tag} message={_attribute(short)}>{escape(_legal(case.text))}</{tag}>",
        "    </testcase>",
    ]


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"


def _attribute(text: str) -> str:
    return quoteattr(_legal(text), {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _legal(text: str) -> str:
    return FORBIDDEN.sub("?", text)
