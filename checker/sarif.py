"""Findings as SARIF 2.1.0, the format in which code hosts show problems at the lines they come from.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from attrs import frozen

from dashpot.model.span import NOWHERE, Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@frozen
class Finding:
    """One thing to show at a line of a spec.

    rule   stable name: a property, a default property or a message code
    level  "error" | "warning" | "note"
    text   one or a few sentences
    flow   the counterexample, a step a line: (place, what happens); empty for none
    key    what tells it from the others of its rule wherever the lines move to (check and property)
    help   what the rule looks for, one sentence
    """

    rule: str
    level: str
    text: str
    span: Span = NOWHERE
    flow: tuple[tuple[Span, str], ...] = ()
    key: str = ""
    help: str = ""


def sarif(findings: Iterable[Finding], version: str) -> str:
    """A SARIF log of one run, as text; the order of the findings is kept. `version` is that of dashpot."""
    listed = list(findings)
    rules = list(dict.fromkeys(f.rule for f in listed))
    driver = {
        "name": "dashpot",
        "version": version,
        "rules": [_rule(rule, [f for f in listed if f.rule == rule]) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, rules) for f in listed],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str, findings: Sequence[Finding]) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": name}
    helped = next((f.help for f in findings if f.help), "")
    if helped:
        rule["shortDescription"] = {"text": helped}
    return rule


def _result(finding: Finding, rules: Sequence[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": finding.level,
        "message": {"text": finding.text},
        "locations": _locations(finding.span),
        "partialFingerprints": {"dashpot/v1": _fingerprint(finding)},
    }
    steps = [{"location": {**_location(s), "message": {"text": t}}} for s, t in finding.flow if s.line > 0]
    if steps:
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _locations(span: Span) -> list[dict[str, Any]]:
    return [_location(span)] if span.file else []


def _location(span: Span) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(span.file)}}
    if span.line > 0:
        region = {"startLine": span.line, "startColumn": span.column}
        if (span.end_line, span.end_column) > (span.line, span.column):
            region |= {"endLine": span.end_line, "endColumn": span.end_column}
        place["region"] = region
    return {"physicalLocation": place}


def _uri(file: str) -> str:
    from urllib.parse import quote

    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _fingerprint(finding: Finding) -> str:
    # Without line numbers: the finding stays the same one while the text around it is edited.
    text = "\0".join((finding.rule, finding.key or finding.text, PurePath(finding.span.file).name))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
