"""Requests that schemathesis makes of a served OpenAPI, each a line of JSON on stdout: a process of its own.

    python -m tests.fuzz.cases DOCUMENTS SEED COUNT

It asks no server, so that the same documents and seed give the same requests whatever is answered; and Hypothesis takes
constants from the modules that are loaded, which in a process of its own are always the same ones.
"""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from attrs import frozen

from tests.tree import ROOT

Object = dict[str, Any]
KNOWN = {"namespace": ("default", "default", "kube-system"), "name": ("a", "b", "default", "kubernetes")}
"""What path parameters are called in about half of the requests: with names of no meaning nothing is ever found."""
WORKERS = 2


@frozen
class Case:
    """One request. `path` with its query; no body is None."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes | None


def cases(documents: Path, seed: int, count: int) -> Iterator[Case]:
    """At least so many requests, made by several processes at once; their order, too, depends on the seed alone."""
    share = -(-count // WORKERS)
    with ExitStack() as stack:
        workers = []
        for number in range(WORKERS):
            command = [sys.executable, "-m", __name__, str(documents), str(seed * WORKERS + number), str(share)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
            stack.callback(process.wait)
            stack.callback(process.kill)
            workers.append(process)
        while workers:
            for process in list(workers):
                assert process.stdout is not None
                if line := process.stdout.readline():
                    yield _case(line)
                    continue
                process.stdout.close()
                workers.remove(process)
                assert process.wait() == 0, "schemathesis failed"


def _case(line: bytes) -> Case:
    method, path, headers, body = msgspec.json.decode(line)
    return Case(method, path, [(name, value) for name, value in headers], None if body is None else b64decode(body))


def named(document: Object) -> Object:
    """The document with path parameters that can be KNOWN names, or what they were."""
    document = deepcopy(document)
    for operations in document["paths"].values():
        rows = [row for part in operations.values() for row in (part if isinstance(part, list) else [part])]
        for row in (*rows, *(inner for part in rows if isinstance(part, dict) for inner in part.get("parameters", ()))):
            if isinstance(row, dict) and row.get("in") == "path" and row.get("name") in KNOWN:
                row["schema"] = {"anyOf": [{"type": "string", "enum": list(KNOWN[row["name"]])}, row["schema"]]}
    return document


def main(documents: str, seed_text: str, count: str) -> None:
    """Writes the cases."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st
    from schemathesis.core.result import Ok
    from schemathesis.generation import GenerationMode

    operations = []
    for _, document in sorted(msgspec.json.decode(Path(documents).read_bytes()).items()):
        schema = schemathesis.openapi.from_dict(named(document))
        operations += [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) > 600, len(operations)
    operations = operations[int(seed_text) % WORKERS :: WORKERS]
    right, wrong = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
    made: dict[tuple[int, Any], st.SearchStrategy[Any]] = {}

    @seed(int(seed_text))
    @settings(
        max_examples=int(count),
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        derandomize=False,
        database=None,
        deadline=None,
    )
    @given(data=st.data())
    def write(data: Any) -> None:
        key = data.draw(st.integers(0, len(operations) - 1)), data.draw(st.sampled_from((right, right, wrong)))
        if key not in made:  # making a strategy costs more than drawing from it
            made[key] = operations[key[0]].as_strategy(generation_mode=key[1])
        sys.stdout.buffer.write(line(data.draw(made[key])))

    write()
    sys.stdout.buffer.flush()


def line(case: Any) -> bytes:
    """One case of schemathesis as a line."""
    query = urlencode({text(key): text(value) for key, value in (case.query or {}).items()})
    headers = [(text(key), text(value)) for key, value in (case.headers or {}).items()]
    body = None
    if type(case.body).__name__ != "NotSet":
        raw = case.body if isinstance(case.body, bytes) else msgspec.json.encode(case.body)
        body = b64encode(raw).decode()
        headers.append(("Content-Type", case.media_type or "application/json"))
    headers = [row for row in headers if not any(end in part for part in row for end in "\r\n")]
    path = case.formatted_path + (f"?{query}" if query else "")
    return msgspec.json.encode([case.method, path, headers, body]) + b"\n"


def text(value: Any) -> str:
    """A parameter's value as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


if __name__ == "__main__":
    main(*sys.argv[1:])
