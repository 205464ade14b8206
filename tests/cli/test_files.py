"""Whatever a person names as a file ends in a spec, or in a sentence."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dashpot.cli import files
from dashpot.cli.problem import OUTSIDE, WRONG, Problem


def test_a_missing_file_names_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "shop.loop").write_text("")
    with pytest.raises(Problem, match="there is no file") as caught:
        files.read_spec(str(tmp_path / "shpo.loop"))
    assert caught.value.status == WRONG and "shop.loop" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\0\1", "binary"),
        (b"// a\n// caf\xe9\n", "line 2 has the byte 0xe9"),
        (b"x" * (files.LARGEST_BYTES + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_text_is_said(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.loop"
    path.write_bytes(content)
    with pytest.raises(Problem, match=words) as caught:
        files.read_spec(str(path))
    assert caught.value.status == WRONG


def test_a_folder_a_bad_name_and_an_endless_device_are_no_specs(tmp_path: Path) -> None:
    for name in (str(tmp_path), "a\0b", "/dev/zero"):
        with pytest.raises(Problem) as caught:
            files.read_spec(name)
        assert caught.value.status == WRONG


def test_a_forbidden_file_is_the_machines_no(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    with pytest.raises(Problem, match="permission denied") as caught:
        files.read_spec(str(tmp_path / "a.loop"))
    assert caught.value.status == OUTSIDE


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    path = tmp_path / "a.loop"
    path.write_bytes(b"\xef\xbb\xbfconst A = 1\n")
    assert files.read_spec(str(path)) == "const A = 1\n"


def test_a_folder_stands_for_its_specs_in_order(tmp_path: Path) -> None:
    for name in ("b.loop", "a.loop", "sub/c.loop", ".hidden/d.loop", "note.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = files.specs([str(tmp_path), str(tmp_path / "a.loop")])
    assert [os.path.relpath(f, tmp_path) for f in found] == ["a.loop", "b.loop", "sub/c.loop"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(Problem, match=r"no \.loop file"):
        files.specs([str(tmp_path / "empty")])


def test_writing_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "a.loop", tmp_path / "link.loop"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.write_whole(str(link), "new\n")
    assert path.read_text() == "new\n" and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.loop", "link.loop"], "no temporary file is left"


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.loop"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Problem, match="no space left on device") as caught:
        files.write_whole(str(path), "new")
    assert caught.value.status == OUTSIDE
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.loop"]


def test_a_device_is_written_through() -> None:
    files.write_whole(os.devnull, "text")
    with pytest.raises(Problem, match="cannot write"):
        files.write_whole("/dev/full", "text")
