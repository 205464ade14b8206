"""The specs that the grammar's tests start from: those of the project and one with every form of the language."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tree import ROOT, files, shown

HERE = Path(__file__).parent
EVERYTHING = HERE / "specs" / "everything.loop"


def specs() -> dict[str, str]:
    """Name to text of all well-formed specs: library, examples, and those of these tests."""
    folders = (ROOT / "model" / "kubernetes", ROOT / "examples", HERE / "specs")
    return {shown(path): path.read_text("utf-8") for folder in folders for path in files(".loop", under=folder)}


def blocks(page: Path) -> list[str]:
    """The texts of the code blocks of a Markdown page that are marked as specs."""
    return re.findall(r"^```loop\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
