"""How a job finds its pods, and the indexes that its rules about success name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.rule_kit import told

from dashpot.model.objects.status import shown
from dashpot.runtime.api.rules.jobs import counted

Object = dict[str, Any]
JOB = "batch/jobs"


def made(name: str, uid: str) -> Object:
    """A job whose selector and labels the server has made."""
    labels = {"controller-uid": uid, "job-name": name}
    labels |= {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "uid": uid},
        "spec.manualSelector": None,
        "spec.selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "spec.template.metadata.labels": {"app": "x", **labels},
    }


def test_a_selector_of_ones_own_needs_manual_selector() -> None:
    assert told(JOB, made("j", "u")) == []
    own = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u", "app": "x"}}
    assert told(JOB, {**made("j", "u"), "spec.selector": own}) == [
        f"spec.selector: Invalid value: {shown(own)}: `selector` not auto-generated"
    ]
    assert told(JOB, {**made("j", "u"), "spec.selector": own, "spec.manualSelector": True}) == []
    labels = {**made("j", "u")["spec.template.metadata.labels"], "job-name": "k"}
    found = told(JOB, {**made("j", "u"), "spec.template.metadata.labels": labels})
    assert found == [f"spec.template.metadata.labels[job-name]: Invalid value: {shown(labels)}: must be 'j'"]


@pytest.mark.parametrize(
    ("text", "total", "wrong"),
    [
        ("", 0, ""),
        ("0", 1, ""),
        ("0,2-4,7", 5, ""),
        ("1-", 0, 'cannot convert string to integer for index: ""'),
        ("a", 0, 'cannot convert string to integer for index: "a"'),
        ("10", 0, 'too large index: "10"'),
        ("3-3", 0, "non-increasing order, previous: 3, current: 3"),
        ("3,2", 0, "non-increasing order, previous: 3, current: 2"),
        (
            "1-2-3",
            0,
            'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated'
            " by '-'",
        ),
    ],
)
def test_indexes_of_a_job(text: str, total: int, wrong: str) -> None:
    assert counted(text, 10) == (total, wrong)
