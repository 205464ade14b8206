"""/metrics has every name of Kubernetes with its type and its labels, in a text that Prometheus reads."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.metrics_of_release import GONE, RELEASE_134

from dashpot.runtime.api.metrics_cells import SERIES_MAX, Family, Hist, Registry, Row
from dashpot.runtime.api.metrics_table import rows

EXPECTED = [line.split() for line in RELEASE_134.strip().splitlines()]
ROWS = {row.name: row for row in rows()}


@pytest.mark.parametrize("expected", EXPECTED, ids=[line[0] for line in EXPECTED])
def test_the_table_has_the_name_with_type_and_labels(expected: list[str]) -> None:
    name, kind, *labels = expected
    row = ROWS[name]
    assert row.kind == kind
    assert sorted(row.labels) == sorted(labels)
    assert not row.until
    assert bool(row.buckets) == (kind == "histogram")


def test_older_names_are_there_and_nothing_else() -> None:
    assert set(GONE.split()) | {line[0] for line in EXPECTED} == set(ROWS)
    for name in GONE.split():
        assert ROWS[name].until or name == "apiserver_dropped_requests_total"


def test_rows_are_well_made() -> None:
    release = re.compile(r"(1\.\d+)?")
    for row in ROWS.values():
        assert release.fullmatch(row.since) and release.fullmatch(row.until), row.name
        assert list(row.buckets) == sorted(set(row.buckets)), row.name
        assert row.help.endswith("."), row.name
        assert len(set(row.labels)) == len(row.labels), row.name


def registry_of(kind: str, *labels: str, buckets: tuple[float, ...] = ()) -> tuple[Registry, Family]:
    registry = Registry([Row("n", kind, labels, buckets, "", "", "A thing.")])
    return registry, registry["n"]


def test_every_name_is_on_the_page_with_its_type() -> None:
    registry = Registry(rows())
    for made in registry:
        labels = [f"v-{name}" for name in made.row.labels]
        if made.row.kind in ("histogram", "summary"):
            made.hist(*labels).observe(0.3)
        else:
            made.cell(*labels).inc()
    found = set()
    for text in registry.pages():
        (family,) = text_string_to_metric_families(text)
        row = ROWS[text.split()[2]]
        found.add(row.name)
        assert family.type == row.kind
        assert family.samples
        for sample in family.samples:
            assert sample.name.startswith(row.name)
            told = {name: value for name, value in sample.labels.items() if name != "le"}
            assert told == {name: f"v-{name}" for name in row.labels}, row.name
    assert found == set(ROWS)


def test_histograms_are_cumulative() -> None:
    registry, family = registry_of("histogram", "a", buckets=(1.0, 2.5))
    for value in (0.5, 1.0, 2.0, 9.0):
        family.hist("x").observe(value)
    assert list(registry.pages()) == [
        "# HELP n A thing.\n# TYPE n histogram\n"
        'n_bucket{a="x",le="1"} 2\nn_bucket{a="x",le="2.5"} 3\nn_bucket{a="x",le="+Inf"} 4\n'
        'n_sum{a="x"} 12.5\nn_count{a="x"} 4\n'
    ]


def test_labels_are_escaped() -> None:
    registry, family = registry_of("counter", "a")
    family.cell('q"\\\n').inc(2)
    assert 'n{a="q\\"\\\\\\n"} 2\n' in "".join(registry.pages())


def test_what_strangers_name_does_not_fill_the_memory() -> None:
    _, family = registry_of("counter", "a")
    for index in range(SERIES_MAX + 1_000):
        family.cell(f"{index}").inc()
    assert len(family.cells) == SERIES_MAX + 1
    assert family.cells[("other",)].value == 1_000


def test_many_is_as_often_once() -> None:
    one, many = Hist((1, 2)), Hist((1, 2))
    for _ in range(7):
        one.observe(1.5)
    many.many(1.5, 7)
    assert (one.counts, one.sum) == (many.counts, many.sum)
