"""The command line: the only room that prints, exits, reads the environment and wires the others.

A command is a module with SUMMARY, USAGE, DESCRIPTION, EXAMPLE, `configure(parser)` and `run(args) -> status`.
Exit status: 0 holds or as expected, 1 violated, 2 wrong spec or usage, 3 unknown, 4 something outside failed.
Everything that takes long to import (lark, graphviz, the kernel) is imported inside `run`, so that
`dashpot --help` is instant.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from dashpot.cli.problem import CLOSED_PIPE, HOLDS, INTERRUPTED, OUTSIDE, UNKNOWN, WRONG, Problem

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; no traceback ever reaches the user."""
    from dashpot.cli import console
    from dashpot.cli.parser import build

    status = _guarded(lambda: build().dispatch(sys.argv[1:] if argv is None else list(argv)))
    # What is still in the buffers is part of the answer: a full disk or a closed pipe may only show now.
    flushed = _guarded(_flush)
    if flushed != HOLDS:
        console.discard(sys.stdout)
        return flushed
    return status


def _flush() -> int:
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()
    return HOLDS


def _guarded(command: Callable[[], int]) -> int:
    from dashpot.cli import console, files, speech

    try:
        return command()
    except Problem as problem:
        speech.tell(problem)
        return problem.status
    except BrokenPipeError:
        console.discard(sys.stdout)
        return CLOSED_PIPE
    except KeyboardInterrupt:
        console.err("dashpot: interrupted")
        return INTERRUPTED
    except OSError as error:
        console.discard(sys.stdout)
        where = f" '{error.filename}'" if error.filename else ""
        console.err(f"dashpot: the system refused{where}: {files.reason(error)}")
        return OUTSIDE
    except MemoryError:
        console.err("dashpot: out of memory")
        console.err("  hint: --max-memory gives up in time and keeps what was found")
        return UNKNOWN
    except Exception as error:
        return _explained(error)


def _explained(error: Exception) -> int:
    """A spec that is wrong is told as such; all else is a mistake of ours."""
    if "dashpot.grammar.report" in sys.modules:
        from dashpot.cli.speech import say
        from dashpot.grammar.report import SpecRejected, from_fault
        from dashpot.model.fault import SpecError

        if isinstance(error, SpecRejected | SpecError):
            if isinstance(error, SpecRejected):
                say(error.messages, error.sources)
            else:
                say([from_fault(error)])
            return WRONG
    from dashpot.cli.crash import record

    record(error)
    return OUTSIDE
