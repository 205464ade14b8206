"""An installed dashpot is whole: the links become files of the wheel, and data files come along (docs/adr/0002)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tree import PACKAGE, ROOMS, ROOT, files

DATA = (".lark", ".loop", ".json", ".html", ".css", ".js", ".typed")


def run(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(kind: str, tree: Path, into: Path) -> Path:
    code = f"import sys; from setuptools import build_meta as b; b.build_{kind}(sys.argv[1])"
    run(sys.executable, "-c", code, into, cwd=tree)
    (made,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from the unpacked sdist of a copy of the tree: what is missing in either is missing here."""
    work = tmp_path_factory.mktemp("package")
    skip = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "venv")
    shutil.copytree(ROOT, work / "tree", symlinks=True, ignore=skip)
    sdist = build("sdist", work / "tree", work)
    with tarfile.open(sdist) as archive:
        # Debian 12's Python 3.11.2 has no extraction filters yet; the archive is our own.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(work / "unpacked", filter="data")
        else:
            archive.extractall(work / "unpacked")
    (unpacked,) = (work / "unpacked").iterdir()
    return build("wheel", unpacked, work)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with that wheel; the libraries it needs come from the environment of the tests."""
    env = tmp_path_factory.mktemp("installed")
    venv.create(env, with_pip=False)
    python = env / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=env).strip())
    libraries = sysconfig.get_path("purelib")  # a .pth in a .pth is not read, so the editable dashpot stays out
    (site / "libraries.pth").write_text(f"{libraries}\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=env)
    return python


def test_wheel_holds_all_modules_and_data(wheel: Path) -> None:
    wanted = {f"dashpot/{p.relative_to(PACKAGE).as_posix()}" for p in files(".py", *DATA, under=PACKAGE)}
    for room in ROOMS:
        wanted |= {f"dashpot/{p.relative_to(ROOT).as_posix()}" for p in files(".py", *DATA, under=ROOT / room)}
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert wanted - held == set()
    assert {name.split("/")[0] for name in held if "dist-info" not in name} == {"dashpot"}
    assert any(name.endswith("licenses/LICENSE") for name in held)


@pytest.mark.parametrize("room", ROOMS)
def test_installed_room_is_the_wheel_s(python: Path, room: str, tmp_path: Path) -> None:
    where = run(python, "-c", f"import dashpot.{room} as room; print(room.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parent.parent)


def test_installed_command_says_what_it_can_do(python: Path, tmp_path: Path) -> None:
    assert "dashpot check" in run(python.parent / "dashpot", "--help", cwd=tmp_path)
