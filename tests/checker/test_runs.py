"""A saved run explains itself without the search; whatever else lies in its place is an error with a text."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.checker.ghosts import SOURCES, TEXT, tide, twins

from dashpot.checker import runs
from dashpot.checker.runs import Run, RunError, changed_since, load, run_of, save
from dashpot.checker.story import story
from dashpot.checker.tell import tell


def a_run(check: str = "small") -> Run:
    system, violated = twins()
    told = story(system, violated, SOURCES)
    return run_of(system, violated, told, spec="fleet.loop", text=TEXT, check=check, seed=7)


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    run = a_run()
    name = save(run, tmp_path)
    assert run.id.startswith(name) and len(name) == 4
    assert load(name, tmp_path) == run
    assert load(run.id, tmp_path) == load(name.upper(), tmp_path) == load(str(tmp_path / f"{run.id}.json")) == run
    assert tell(load(name, tmp_path).story) == tell(run.story)
    assert run.trace() == twins()[1].trace


def test_a_lasso_is_kept_with_its_loop(tmp_path: Path) -> None:
    system, violated = tide()
    run = run_of(system, violated, story(system, violated, SOURCES), spec="f.loop", text=TEXT, check="c")
    assert load(save(run, tmp_path), tmp_path).trace().loop == violated.trace.loop


def test_the_id_is_the_content() -> None:
    assert a_run().id == a_run().id != a_run("other").id
    system, violated = twins()
    told = story(system, violated, SOURCES, replay="dashpot explain 1234")
    assert run_of(system, violated, told, spec="fleet.loop", text=TEXT, check="small", seed=7).id == a_run().id


def test_a_run_is_for_its_owner_alone_and_written_whole(tmp_path: Path) -> None:
    save(a_run(), tmp_path)
    save(a_run(), tmp_path)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_short_ids_grow_where_they_would_clash(tmp_path: Path) -> None:
    run = a_run()
    save(run, tmp_path)
    twin = run.id[:5] + ("0" if run.id[5] != "0" else "1") + run.id[6:]
    (tmp_path / f"{twin}.json").write_text("{}")
    assert runs.short(run.id, tmp_path) == run.id[:6]
    with pytest.raises(RunError, match="give more digits"):
        load(run.id[:4], tmp_path)


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    for name, text in (
        ("abc", "hexadecimal"),
        ("../x", "hexadecimal"),
        ("beef", "none yet"),
        ("no.json", "cannot read"),
    ):
        with pytest.raises(RunError, match=text):
            load(name, tmp_path)


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    run = a_run()
    save(run, tmp_path)
    file = tmp_path / f"{run.id}.json"
    whole = file.read_bytes()
    spoilt = json.loads(whole)
    for content, text in (
        (b"", "not whole JSON"),
        (whole[: len(whole) // 2], "not whole JSON"),
        (b"\xff\xfe", "not whole JSON"),
        (b"[1, 2]", "not whole JSON"),
        (b'{"a": 1}', "is no run"),
        (b'{"dashpot": 99}', "format 99"),
        (b'{"dashpot": 1}', "damaged"),
        (json.dumps(spoilt | {"check": "else"}).encode(), "does not match its id"),
        (b"[" * 100_000, "not whole JSON"),
    ):
        file.write_bytes(content)
        with pytest.raises(RunError, match=text):
            load(run.id, tmp_path)


def test_inconsistent_runs_are_refused(tmp_path: Path) -> None:
    run = a_run()
    for wrong in (
        evolve(run, steps=run.steps[:1]),
        evolve(run, columns=run.columns[:1]),
        evolve(run, loop=99),
        evolve(run, loop=-1),
    ):
        named = evolve(wrong, id=runs._identity(wrong))
        with pytest.raises(RunError, match="damaged"):
            load(save(named, tmp_path), tmp_path)


def test_a_folder_that_cannot_be_written_is_an_error_with_a_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot keep the run"):
        save(a_run(), tmp_path / "file" / "runs")


def test_a_run_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = save(a_run(), tmp_path)
    monkeypatch.setattr(runs, "MAX_BYTES", 1000)
    with pytest.raises(RunError, match="too large to keep"):
        save(a_run("other"), tmp_path)
    with pytest.raises(RunError, match="too large to be a run"):
        load(name, tmp_path)


def test_a_run_knows_whether_its_spec_has_changed() -> None:
    assert not changed_since(a_run(), TEXT) and changed_since(a_run(), TEXT + " ")


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_run_error(data: bytes) -> None:
    with pytest.raises(RunError):
        runs._decode(data, Path("x.json"))
