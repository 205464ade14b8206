"""JUnit and SARIF carry what was found, whatever characters it has."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from dashpot.checker.junit import Case, Suite, junit
from dashpot.checker.sarif import Finding, sarif
from dashpot.model.span import Span

HERE = Span("dir with space/a.loop", 3, 5, 3, 9)


def test_junit_counts_failures_errors_and_skipped() -> None:
    cases = (Case("a", "passed"), Case("b", "failed", "why\nmore"), Case("c", "error", "time"), Case("d", "skipped"))
    root = ElementTree.fromstring(junit([Suite("a.loop.small", "a.loop", cases, 1.5)]))
    (suite,) = root
    for element in (root, suite):
        counts = [element.get(k) for k in ("tests", "failures", "errors", "skipped", "time")]
        assert counts == ["4", "1", "1", "1", "1.500"]
    failure = suite[1].find("failure")
    assert failure is not None and failure.get("message") == "why" and failure.text == "why\nmore"
    assert [c.tag for case in suite for c in case] == ["failure", "error", "skipped"]
    assert suite[0].get("classname") == "a.loop.small"


@given(st.text(), st.text())
def test_junit_is_well_formed_for_any_text(name: str, text: str) -> None:
    root = ElementTree.fromstring(junit([Suite(name, name, (Case(name, "failed", text),))]))
    assert root[0][0].tag == "testcase"


def test_sarif_points_at_lines_and_tells_the_steps() -> None:
    flow = ((HERE, "creates Pod web-0"), (Span("", 0, 0, 0, 0), "time passes"))
    log = json.loads(sarif([Finding("scaled", "error", "too many", HERE, flow, "small/scaled", "help")], "0.1"))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    (result,) = run["results"]
    region = result["locations"][0]["physicalLocation"]
    assert region["artifactLocation"]["uri"] == "dir%20with%20space/a.loop"
    assert region["region"] == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 9}
    (step,) = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert step["location"]["message"]["text"] == "creates Pod web-0"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "scaled"


def test_sarif_fingerprints_outlive_moved_lines() -> None:
    moved = Span("dir with space/a.loop", 30, 5, 30, 9)
    one, two = (json.loads(sarif([Finding("r", "error", "t", s, key="k")], "1")) for s in (HERE, moved))
    prints = [log["runs"][0]["results"][0]["partialFingerprints"] for log in (one, two)]
    assert prints[0] == prints[1]


@given(st.text(), st.text(), st.text())
def test_sarif_is_json_for_any_text(rule: str, text: str, file: str) -> None:
    log = json.loads(sarif([Finding(rule, "note", text, Span(file, 0, 0, 0, 0))], "1"))
    assert log["runs"][0]["results"][0]["message"]["text"] == text


def test_nothing_found_is_a_log_too() -> None:
    assert json.loads(sarif([], "1"))["runs"][0]["results"] == []
    assert ElementTree.fromstring(junit([])).get("tests") == "0"
