"""Webhooks of a running server: dead ones, and what `dashpot doctor` says about one that is fast when idle only."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.api.admit_kit import Authority, Object, configuration
from tests.clients.people import People
from tests.clients.running import Running
from tests.tree import ROOT

CONFIGURATIONS = "hooks/-:{}webhookconfigurations"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """The clients of a running server."""
    with Running(tmp_path_factory.mktemp("hooks") / "data", "--store", "memory") as running, People(running) as found:
        yield found


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@contextmanager
def registered(people: People, kind: str, one: Object) -> Iterator[None]:
    """A configuration that the server follows; it is gone at the end."""
    where = CONFIGURATIONS.format(kind.lower())
    people.make(where, one)
    try:
        yield
    finally:
        assert people.ask("root", "DELETE", f"{where}/{one['metadata']['name']}").code == 200
        followed(people, one["webhooks"][0]["name"], asked=False)


def followed(people: People, name: str, asked: bool) -> None:
    """Waits until writes are, or are not, sent past a webhook that answers nothing or is gone."""
    until = time.monotonic() + 20
    while asked is not (name in people.ask("root", "POST", "default:configmaps?dryRun=All", cm("probe")).message):
        assert time.monotonic() < until, "the server does not follow its configurations"


def cm(name: str) -> Object:
    return {"metadata": {"name": name}}


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
@pytest.mark.parametrize(("policy", "timeout", "silent"), [("Fail", 1, True), ("Ignore", 1, True), ("Fail", 1, False)])
def test_a_dead_webhook(
    people: People, authority: Authority, kind: str, policy: str, timeout: int, silent: bool
) -> None:
    """Fail: the write waits its time-out and fails in Kubernetes' words; Ignore: it waits as long and is done."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1] if silent else 1
        one = configuration(kind, authority, port, failurePolicy=policy, timeoutSeconds=timeout)
        name = f"{kind}-{policy}-{silent}".lower()
        with registered(people, kind, one):
            if policy == "Fail":
                followed(people, "hook.example.com", asked=True)
            until, answer = time.monotonic() + 20, people.ask("root", "POST", "default:configmaps", cm(f"{name}0"))
            while answer.code == 201 and answer.seconds < timeout and time.monotonic() < until:
                answer = people.ask("root", "POST", "default:configmaps", cm(f"{name}{time.monotonic_ns()}"))
    assert answer.seconds < timeout + 1.5 and (answer.seconds >= timeout) is silent, answer.seconds
    if policy == "Ignore":
        assert answer.code == 201
        return
    why = "context deadline exceeded" if silent else f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert answer.code == 500 and answer.json["reason"] == "InternalError"
    assert answer.message == (
        'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: Post '
        f'"https://127.0.0.1:{port}/do?timeout={timeout}s": {why}'
    )


@contextmanager
def busy_hook(folder: Path, seconds: float) -> Iterator[Object]:
    """A webhook in a process of its own; the value is its clientConfig."""
    command = [sys.executable, "-m", "tests.clients.busy_hook", str(folder), str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        port, bundle = msgspec.json.decode(process.stdout.readline())
        yield {"url": f"https://127.0.0.1:{port}/do", "caBundle": bundle}
        process.stdin.close()


def doctor(kubeconfig: Path, *options: str) -> tuple[int, Object]:
    """`dashpot doctor --webhooks -o json` as its users call it: status and report."""
    words = [sys.executable, "-m", "dashpot", "doctor", "--webhooks", "-o", "json", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run([*words, *options], capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, msgspec.json.decode(done.stdout)


@pytest.mark.parametrize(
    ("busy", "seconds", "each"), [(60, 1, 0.05), pytest.param(500, 3, 0.008, marks=pytest.mark.soak)]
)
def test_the_doctor_finds_what_is_slow_when_busy(
    people: People, authority: Authority, tmp_path: Path, busy: int, seconds: int, each: float
) -> None:
    with busy_hook(tmp_path, each) as client:
        one = configuration("Validating", authority, 0, name="slow.x.y", timeoutSeconds=10, clientConfig=client)
        exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
        one["webhooks"][0]["namespaceSelector"] = {"matchExpressions": [exempt]}
        with registered(people, "Validating", one):
            options = ("--qps", f"5,{busy}", "--duration", f"{seconds}s", "--slow", "300ms")
            status, report = doctor(people.kubeconfig, *options)
    assert status == 1 and not report["healthy"], report
    (hook,) = report["webhooks"]
    idle, loaded = hook["rates"]
    print(f"added p99 at 5: {idle['added_p99_ms']:.0f} ms, at {busy}: {loaded['added_p99_ms']:.0f} ms")
    assert idle["added_p99_ms"] < 300 < loaded["added_p99_ms"]
    (finding,) = report["findings"]
    assert finding["code"] == "slow" and "at 5 it was" in finding["text"]


def test_the_doctor_finds_a_dead_one_that_need_not_answer(people: People, authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        one = configuration("Validating", authority, port, failurePolicy="Ignore", timeoutSeconds=1)
        with registered(people, "Validating", one):
            status, report = doctor(people.kubeconfig, "--qps", "5", "--duration", "400ms")
    found = [(one["severity"], one["code"]) for one in report["findings"]]
    assert status == 1 and ("danger", "no-answer") in found, report
    assert report["webhooks"][0]["rates"][0]["failed_open"] == 2
