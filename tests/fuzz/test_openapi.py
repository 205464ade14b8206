"""Requests from the served OpenAPI, right and wrong: every answer is one that Kubernetes could give.

The seed is printed, and gives the same requests each time. DASHPOT_FUZZ_SEED sets it, DASHPOT_FUZZ_REQUESTS the number
of the soak's requests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.clients.running import Running
from tests.fuzz.barrage import Barrage
from tests.fuzz.cases import cases
from tests.fuzz.wire import Wire, memory

SEED = int(os.environ.get("DASHPOT_FUZZ_SEED", "20"))
SOAK = int(os.environ.get("DASHPOT_FUZZ_REQUESTS", "10000"))
TIME_S = 300.0
"""For all requests of the soak, of both kinds."""
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture
def server(folder: Path) -> Iterator[Running]:
    """A server of its own: what is random may leave anything behind."""
    with Running(folder / "data") as running:
        yield running


def judged(server: Running, barrage: Barrage, requests: int, begun: float, before: int) -> None:
    """Nothing was wrong with any answer, the server lives, and it has not grown."""
    found = barrage.found
    asked = found.codes.total()
    told = f"seed {SEED}: {asked} requests in {time.monotonic() - begun:.0f} s, slowest {found.slowest:.2f} s"
    print(f"{told}, sha256 {barrage.digest.hexdigest()[:16]}, answers {dict(sorted(found.codes.items()))}")
    for why, count in sorted(found.excuses.items()):
        print(f"  {count} x {why}")
    assert not found.wrong, f"{told}, {len(found.wrong)} wrong answers, such as\n" + "\n".join(found.wrong[:5])
    assert asked >= requests
    assert {200, 201, 400, 404, 422} <= set(found.codes), f"too little was reached: {found.codes}"
    assert barrage.wire.ask("GET", "/readyz").code == 200
    grown = memory(server.process.pid) - before
    assert grown < 100 * MIB, f"memory grew by {grown / MIB:.0f} MiB"
    errors = server.errors()
    assert "Traceback" not in errors and "mistake" not in errors, errors[-3000:]


def shoot(server: Running, requests: int) -> str:
    """A barrage, judged; the digest of all that was sent."""
    with Wire(server.kubeconfig) as wire:
        barrage = Barrage(wire, SEED)
        begun, before = time.monotonic(), memory(server.process.pid)
        barrage.fire(requests)
        judged(server, barrage, requests, begun, before)
        return barrage.digest.hexdigest()


def explore(server: Running, folder: Path, requests: int) -> str:
    """What schemathesis, which knows nothing of Kubernetes, makes of the served OpenAPI v3; judged, and its digest."""
    with Wire(server.kubeconfig) as wire:
        barrage = Barrage(wire, SEED)
        documents = folder / "openapi.json"
        documents.write_bytes(msgspec.json.encode(barrage.documents))
        begun, before = time.monotonic(), memory(server.process.pid)
        barrage.plant()
        for number, case in enumerate(cases(documents, SEED, requests)):
            if number % 200 == 199:
                barrage.calm()
            barrage.send(case.method, case.path, case.body, case.headers)
        judged(server, barrage, requests, begun, before)
        return barrage.digest.hexdigest()


def test_a_barrage(server: Running) -> None:
    """Objects near to valid ones, wrecked; patches of all kinds; protobuf; queries and headers of all sorts."""
    shoot(server, 1000)


def test_schemathesis(server: Running, folder: Path) -> None:
    explore(server, folder, 500)


def test_a_seed_gives_the_same_requests(folder: Path) -> None:
    """On two servers that differ in what Python leaves to chance (the order of sets), and in what they answer."""
    digests = []
    for number in (1, 2):
        with (
            Running(folder / f"data{number}", "--store", "memory", env={"PYTHONHASHSEED": str(number)}) as running,
            Wire(running.kubeconfig) as wire,
        ):
            documents = folder / f"openapi{number}.json"
            barrage = Barrage(wire, SEED)
            documents.write_bytes(msgspec.json.encode(barrage.documents))
            if number == 2:
                assert wire.ask("DELETE", "/api/v1/namespaces/default").code in (200, 403)
            barrage.fire(120)
            made = [(case.method, case.path, case.headers, case.body) for case in cases(documents, SEED, 40)]
            digests.append((barrage.digest.hexdigest(), made))
    assert digests[0] == digests[1]


@pytest.mark.soak
def test_all_in_five_minutes(folder: Path) -> None:
    """All requests of schemathesis, and as many of the barrage, each against a server of its own."""
    begun = time.monotonic()
    with Running(folder / "explored") as server:
        explore(server, folder, SOAK)
    with Running(folder / "shot") as server:
        shoot(server, SOAK)
    seconds = time.monotonic() - begun
    print(f"seed {SEED}: both in {seconds:.0f} s")
    assert seconds < TIME_S, f"seed {SEED}: took {seconds:.0f} s"
