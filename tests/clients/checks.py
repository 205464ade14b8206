"""Checks of kubectl as data: files `cases/*.txt`, and how one check runs in a shell with a namespace of its own.

A file holds blocks. `== NAME [words]` opens a check, `@@ NAME` a manifest, `## …` is a comment. In a check:

    lines of bash          k is kubectl in the check's namespace, $N its name, $NS its namespace, $D a scratch folder
    > regex                stdout must have it, behind the match of the line before
    ! regex                stderr must have it, anywhere: the order of causes is no promise
    ~ regex                neither stdout nor stderr may have it
    ? status               the exit status of the script (default 0)

Words: `soak` leaves the check out of the ordinary run; `new` means kubectl 1.37 only; `old` marks the core, which runs
with every kubectl.
`m NAME` prints a manifest with $N and $NS filled in; `ka NAME` applies it, `kc NAME` creates it without output;
`raw METHOD PATH [curl options]` asks the server as the administrator, for headers that kubectl cannot set.
In expectations @N and @NS stand for the names.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attrs import define, field, frozen

from tests.clients.running import TOOLS, Running

CASES = Path(__file__).parent / "cases"
LIMIT_S = 60.0
WORKERS = 4

PRELUDE = r"""
W=widgets.$NS.example.com
k() { "$KUBECTL" --cache-dir="$CACHE" -n "$NS" "$@"; }
m() { sed -e "s/\$NS/$NS/g; s/\$N/$N/g" "$CASES_DIR/$1.yaml"; }
ka() { m "$1" | k apply -f - ; }
kc() { m "$1" | k create -f - >/dev/null; }
raw() { method=$1; path=$2; shift 2
  curl -s --cacert "$PKI/ca.crt" --cert "$PKI/client.crt" --key "$PKI/client.key" -X "$method" "$@" "$SERVER$path"; }
as() { sa=$1; shift; k --as="system:serviceaccount:$NS:$sa" --as-group=system:serviceaccounts \
  --as-group="system:serviceaccounts:$NS" --as-group=system:authenticated "$@"; }
version_of() { raw GET "/api/v1/namespaces/$NS/$1" |
  grep -o '"metadata":{"resourceVersion":"[0-9]*' | head -1 | tr -dc 0-9; }
established() { k wait --for=condition=Established "crd/$1" --timeout=20s >/dev/null
  for i in 1 2 3 4 5 6 7 8 9 10; do k get "$1" >/dev/null 2>&1 && return; sleep .1; done; }
"""


@frozen
class Check:
    """One check; expectations are (kind, regex) in file order."""

    name: str
    area: str
    words: frozenset[str]
    script: str
    expects: tuple[tuple[str, str], ...]
    status: int


@define
class _Open:
    kind: str
    head: list[str]
    lines: list[str] = field(factory=list)


def _blocks(text: str) -> list[_Open]:
    found: list[_Open] = []
    for line in text.splitlines():
        if line.startswith(("== ", "@@ ")):
            found.append(_Open(line[:2], line[3:].split()))
        elif found and not line.startswith("## "):
            found[-1].lines.append(line)
    return found


def _check(area: str, block: _Open) -> Check:
    script, expects, status = [], [], 0
    for line in block.lines:
        if line.startswith(("> ", "! ", "~ ")):
            expects.append((line[0], line[2:]))
        elif line.startswith("? "):
            status = int(line[2:])
        else:
            script.append(line)
    return Check(block.head[0], area, frozenset(block.head[1:]), "\n".join(script), tuple(expects), status)


def areas(where: str = "") -> list[str]:
    """The files of cases: those for an API server alone, or those in a folder, such as `plane`."""
    return sorted(path.relative_to(CASES).with_suffix("").as_posix() for path in (CASES / where).glob("*.txt"))


def load(area: str) -> list[Check]:
    """The checks of one file."""
    return [_check(area, b) for b in _blocks((CASES / f"{area}.txt").read_text(encoding="utf-8")) if b.kind == "=="]


def manifests() -> dict[str, str]:
    """All manifests of all files by name."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(CASES.rglob("*.txt"))]
    return {b.head[0]: "\n".join(b.lines) + "\n" for text in texts for b in _blocks(text) if b.kind == "@@"}


class Bench:
    """A scratch folder, manifests as files, and namespaces on one server for the checks of one kubectl."""

    def __init__(self, server: Running, version: str, folder: Path, *, plane: bool = False) -> None:
        self.plane = plane
        """Whether controllers are there: they make the default account of a namespace."""
        self.folder = folder
        self.version = version
        self.prefix = "c" + version.replace(".", "")
        files, pki = folder / "manifests", folder / "pki"
        files.mkdir(parents=True, exist_ok=True)
        pki.mkdir(exist_ok=True)
        for name, text in manifests().items():
            (files / f"{name}.yaml").write_text(text, encoding="utf-8")
        self.env = {
            **server.environment(folder / "home"),
            "KUBECTL": str(TOOLS / f"kubectl-{version}"),
            "CASES_DIR": str(files),
            "PKI": str(pki),
            "SERVER": server.url,
            "CACHE": str(folder / "cache"),
            "VERSION": version,
        }
        self._credentials(pki)

    def _credentials(self, pki: Path) -> None:
        for name, path in (
            ("ca.crt", "clusters[0].cluster.certificate-authority-data"),
            ("client.crt", "users[0].user.client-certificate-data"),
            ("client.key", "users[0].user.client-key-data"),
        ):
            command = f'"$KUBECTL" config view --raw -o jsonpath={{.{path}}} | base64 -d > {pki / name}'
            subprocess.run(["bash", "-c", command], env=self.env, check=True)

    def namespace(self, check: Check) -> str:
        return f"{self.prefix}-{check.name}"

    def prepare(self, checks: list[Check]) -> None:
        """A namespace with its default account for each check, all in one command."""
        items = []
        for name in map(self.namespace, checks):
            items.append(f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
            if not self.plane:
                items.append(f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: default, namespace: {name}}}\n")
        command = [self.env["KUBECTL"], "create", "-f", "-"]
        text = "---\n".join(items)
        done = subprocess.run(command, input=text, env=self.env, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        for name in map(self.namespace, checks if self.plane else []):
            words = ["-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=20s"]
            done = subprocess.run([self.env["KUBECTL"], *words], env=self.env, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def run(self, check: Check) -> str:
        """Runs one check; "" if all is as expected, else what is not, with script and output."""
        scratch = self.folder / check.name
        scratch.mkdir()
        env = {**self.env, "N": check.name, "NS": self.namespace(check), "D": str(scratch)}
        with (scratch / "out").open("wb") as out_file, (scratch / "err").open("wb") as err_file:
            process = subprocess.Popen(
                ["bash", "-c", PRELUDE + check.script],
                stdout=out_file,
                stderr=err_file,
                stdin=subprocess.DEVNULL,
                env=env,
                cwd=scratch,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # watches that the script left behind
            process.wait()
        out, err = ((scratch / name).read_text(encoding="utf-8", errors="replace") for name in ("out", "err"))
        wrong = _differences(check, env["NS"], status, out, err)
        if not wrong:
            return ""
        return "\n".join([f"{check.area}/{check.name}:", *wrong, "--- script", check.script, "--- stdout", out, err])

    def run_all(self, checks: list[Check]) -> list[str]:
        """Runs checks side by side; the reports of those that failed."""
        self.prepare(checks)
        with ThreadPoolExecutor(WORKERS) as pool:
            return [report for report in pool.map(self.run, checks) if report]


def _differences(check: Check, ns: str, status: int | None, out: str, err: str) -> list[str]:
    ended = f"exit status {status}" if status is not None else f"still running after {LIMIT_S:.0f} s"
    wrong = [] if status == check.status else [f"  {ended}, not {check.status}"]
    at = {">": 0, "!": 0}
    texts = {">": out, "!": err}
    for kind, regex in check.expects:
        pattern = re.compile(regex.replace("@NS", re.escape(ns)).replace("@N", re.escape(check.name)), re.M)
        if kind == "~":
            if pattern.search(out) or pattern.search(err):
                wrong.append(f"  found what must not be: {regex}")
        elif match := pattern.search(texts[kind], at[kind]):
            at[kind] = match.end() if kind == ">" else 0
        else:
            wrong.append(f"  {'stdout' if kind == '>' else 'stderr'} lacks {regex}")
    return wrong
