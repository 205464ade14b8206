"""The shape of the source tree itself (after TigerBeetle's tidy.zig)."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.tree import PACKAGE, ROOMS, ROOT, files, modules, shown

TEXT = (".py", ".md", ".toml", ".loop", ".lark", ".html", ".css", ".js", ".txt", ".sh", "")
MARKDOWN = list(files(".md"))
# the module that a distribution of another name brings
MODULE_OF = {
    "z3-solver": "z3",
    "PyJWT": "jwt",
    "PyYAML": "yaml",
    "google-re2": "re2",
    "protobuf": "google",
    "grpcio": "grpc",
}
EXAMPLES = sorted(p for p in (ROOT / "examples").glob("[0-9]*") if p.is_dir())


def each(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=shown)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_linked_into_the_package(room: str) -> None:
    link = PACKAGE / room
    assert link.is_symlink() and link.resolve() == ROOT / room, f"git lost the link: ln -s ../../{room} {link}"


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_not_imported_under_its_bare_name(room: str) -> None:
    spec = find_spec(f"dashpot.{room}")
    assert spec is not None and spec.origin == str(PACKAGE / room / "__init__.py")
    with pytest.raises(ImportError, match=f"import 'dashpot.{room}'"):
        __import__(room)


@each([*modules(), *files(".py", under=ROOT / "tests"), *files(".py", under=ROOT / "bench")])
def test_module_is_read_at_one_sitting(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= 500, f"{shown(path)} has {lines} lines; a module has at most 500: give the second noun its own file"


@each([*modules(), *files(".py", under=ROOT / "tests"), *files(".py", under=ROOT / "bench")])
def test_function_fits_a_screen(path: Path) -> None:
    for node in functions(parsed(path)):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        assert lines <= 70, f"{shown(path)}:{node.lineno} {node.name} has {lines} lines; a function has at most 70"


@each([*modules(), *files(".py", under=ROOT / "tests")])
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(parsed(path)), f"{shown(path)} has no docstring"


@each(modules())
def test_public_names_say_what_they_mean(path: Path) -> None:
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{shown(path)}:{node.lineno} {node.name} has no docstring"


@each([path for path in modules() if PACKAGE / "cli" not in path.parents and path != PACKAGE / "__main__.py"])
def test_only_the_command_line_prints_exits_and_reads_the_environment(path: Path) -> None:
    """Rooms return values (docs/architecture.md, rule 6)."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("print", "input", "exit", "quit"), f"{shown(path)}:{node.lineno} calls {name}()"
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            taken = ("sys.stdout", "sys.stderr", "sys.stdin", "sys.argv", "sys.exit", "os.environ", "os.getenv")
            assert name not in taken, f"{shown(path)}:{node.lineno} uses {name}"


def test_all_imports_are_declared() -> None:
    """What a room imports, pyproject.toml names: an installed dashpot never misses a module."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(w for extra in project["optional-dependencies"].values() for w in extra)]
    distributions = {re.split(r"[^\w-]", want)[0] for want in wanted}
    declared = {MODULE_OF.get(name, name.replace("-", "_").lower()) for name in distributions} | {"dashpot"}
    for path in modules():
        for node in ast.walk(parsed(path)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{shown(path)}:{node.lineno} imports relative to itself"
                names = [node.module or ""]
            for name in (name.partition(".")[0] for name in names):
                assert name in declared or name in sys.stdlib_module_names, f"{shown(path)} imports undeclared {name}"


@each([path for path in files(*TEXT) if path != Path(__file__) and path.name != "LICENSE"])
def test_text_is_for_every_reader(path: Path) -> None:
    """No unfinished business without an issue, no path of one machine, no word on who typed it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        pytest.fail(f"{shown(path)} is no UTF-8 text")
    for number, line in enumerate(text.splitlines(), 1):
        here = f"{shown(path)}:{number}"
        assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))", line), f"{here}: write TODO(#issue), or do it"
        assert not re.search(r"(?<![\w.])/(work|root|home/\w+|tmp/p)/", line), f"{here}: a path of one machine"
        assert not re.search(
            r"\b(this|that|an?|my|our|another|previous|next|later|earlier) session\b|\bsub-?agents?\b"
            r"|\b(coding|AI|LLM) (agent|assistant)s?\b|\blanguage models?\b",
            line,
            re.IGNORECASE,
        ), f"{here}: say it without who does it"
        assert not re.match(r"(<{7}|>{7}) ", line), f"{here}: a conflict is left"
        assert line == line.rstrip() or path.suffix == ".md", f"{here}: blanks at the end of the line"


def test_each_message_has_a_page() -> None:
    """The closed table of codes and docs/hints/ hold the same; a page begins with its code and title."""
    codes = pytest.importorskip("dashpot.grammar.codes", reason="the table of codes is not there yet")
    pages = {path.stem: path for path in (ROOT / "docs" / "hints").glob("[A-Z]*.md") if path.stem != "README"}
    if not pages:
        pytest.skip("no hint pages yet")
    assert set(pages) == set(codes.CODES)
    for code, page in pages.items():
        heading = page.read_text(encoding="utf-8").partition("\n")[0]
        assert heading.startswith(f"# {code}"), f"{shown(page)} begins with {heading!r}"


@each(EXAMPLES)
def test_example_can_be_read_and_checked(path: Path) -> None:
    assert re.fullmatch(r"\d\d-[a-z0-9-]+", path.name), f"{shown(path)}: an example is called NN-name"
    assert (path / "README.md").is_file(), f"{shown(path)} does not say what it shows"
    assert list(path.glob("*.loop")), f"{shown(path)} has no spec"


def test_example_numbers_are_taken_once() -> None:
    numbers = [path.name[:2] for path in EXAMPLES]
    assert len(numbers) == len(set(numbers)), numbers


def test_changelog_fragments_have_a_kind() -> None:
    for path in (ROOT / "changelog.d").iterdir():
        ok = re.fullmatch(r"(\d+|\+[a-z-]+)\.(added|changed|fixed|removed)\.md", path.name)
        assert ok, f"{shown(path)}: a fragment is called ISSUE.added.md (changed, fixed, removed); see CONTRIBUTING.md"


def slug(heading: str) -> str:
    """The anchor that Markdown renderers give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def prose(path: Path) -> str:
    """Markdown without its code."""
    return re.sub(r"^(```|~~~).*?^\1|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@each(MARKDOWN)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(<?([^)\s>]+)>?\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        page = (path.parent / name).resolve() if name else path
        assert page.exists(), f"{shown(path)} links to {target}, which is not there"
        if anchor and page.suffix == ".md":
            anchors = [slug(h) for h in re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)]
            assert anchor in anchors, f"{shown(path)} links to {target}, and {page.name} has no such heading"
