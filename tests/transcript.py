"""Console blocks of Markdown files, run as a reader would type them.

A block that is fenced as `console` is a transcript:

    ```console
    $ dashpot check shop.loop
    small   Shop + Users  ...
    $ echo $?
    1
    ```

A line that begins with `$ ` is a command for sh, a line that begins with `> ` goes on with it; the lines below are
what it prints (stdout; if its status is 2 or more stderr too, which else holds only progress and notes). All blocks
of one file run in order, in one folder. In the expected text `...` stands for anything within a line, and a line of
nothing but `...` for any lines; `RUN` stands for the id of a saved run, and for that id in the commands below. A
command must succeed, unless the next one is `echo $?`. With `pytest --rewrite` what differs is written anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from attrs import define, frozen

from tests.tree import ROOT

TIMEOUT_S = 120
TOOLS = ROOT / ".dashpot" / "tools"
"""Where the set-up puts kubectl."""
_BLOCK = re.compile(r"^(?P<indent> *)```console\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@frozen
class Command:
    """One command with what it is said to print. `line` counts from 1 in the file."""

    text: str
    expected: str
    line: int


@frozen
class Outcome:
    """What a command printed, and its exit status."""

    printed: str
    status: int


@define
class Shell:
    """A folder where commands run one after the other; `$?` is the status of the one before.

    `dashpot` is the one of the Python that runs the tests.
    """

    folder: Path
    status: int = 0

    def run(self, command: str) -> Outcome:
        """Run a command with sh; output is plain text, as in a pipe."""
        env = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(TOOLS), os.environ["PATH"]]),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "LC_ALL": "C.UTF-8",
            "PYTHONUTF8": "1",
        }
        done = subprocess.run(
            ["sh", "-c", f"(exit {self.status})\n{command}"],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            encoding="utf-8",
            check=False,
        )
        self.status = done.returncode
        return Outcome(done.stdout + (done.stderr if done.returncode >= 2 else ""), done.returncode)


def commands(text: str) -> list[Command]:
    """The commands of all console blocks of a Markdown text, in order."""
    found: list[Command] = []
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start("body")) + 1
        indent = block["indent"]
        for number, raw in enumerate(block["body"].splitlines(), first):
            line = raw.removeprefix(indent)
            if line.startswith("$ "):
                found.append(Command(line[2:], "", number))
                continue
            if not found or found[-1].line < first:
                raise ValueError(f"line {number}: a console block begins with a command ('$ …')")
            last = found[-1]
            if line.startswith("> ") and not last.expected:
                found[-1] = Command(f"{last.text}\n{line[2:]}", "", last.line)
            else:
                found[-1] = Command(last.text, f"{last.expected}{line}\n", last.line)
    return found


def matched(expected: str, printed: str) -> re.Match[str] | None:
    """The match of printed text with what is expected; group "run" is the id that `RUN` stands for.

    Blanks at the end of a line do not count. None if the text is not as expected.
    """
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    first, *others = re.split(r"\bRUN\b", pattern)
    if others:
        pattern = first + r"(?P<run>[0-9a-f]{4,})" + "(?P=run)".join(others)
    text = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text)


def play(path: Path, folder: Path, *, rewrite: bool = False) -> list[str]:
    """Run all console blocks of a Markdown file in a folder; the differences, as text for a person."""
    text = path.read_text(encoding="utf-8")
    shell = Shell(folder)
    wrong: list[str] = []
    script = commands(text)
    run = "RUN"
    for here, after in zip(script, [*script[1:], None], strict=True):
        outcome = shell.run(re.sub(r"\bRUN\b", run, here.text))
        title = f"{path.name}:{here.line}: $ {here.text}"
        allowed = outcome.status == 0 or (after is not None and after.text == "echo $?")
        if not allowed:
            wrong.append(f"{title}\nexit status {outcome.status}\n{outcome.printed}")
        elif found := matched(here.expected, outcome.printed):
            run = found.groupdict().get("run") or run
        else:
            if rewrite:
                text = _rewritten(text, here, outcome.printed)
            else:
                wrong.append(f"{title}\n--- expected\n{here.expected}--- printed\n{outcome.printed}")
    if rewrite and not wrong:
        path.write_text(text, encoding="utf-8")
    return wrong


def _rewritten(text: str, command: Command, printed: str) -> str:
    # Looked up by its text, since lines move as blocks above are rewritten; the same command twice with the same
    # output is the same place for a reader too.
    before = "".join(f"{'$' if i == 0 else '>'} {part}\n" for i, part in enumerate(command.text.splitlines()))
    return text.replace(before + command.expected, before + printed, 1)
