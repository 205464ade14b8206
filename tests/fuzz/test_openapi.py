"""Requests from the served OpenAPI, right and wrong: every answer is one that Kubernetes could give.

The seed is printed with a failure; DASHPOT_FUZZ_SEED sets it, DASHPOT_FUZZ_REQUESTS the number of the soak's requests.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.core import NotSet
from schemathesis.core.result import Ok

from tests.clients.running import Running
from tests.fuzz.barrage import Barrage
from tests.fuzz.wire import Wire, memory

SEED = int(os.environ.get("DASHPOT_FUZZ_SEED", "20"))
SOAK = int(os.environ.get("DASHPOT_FUZZ_REQUESTS", "10000"))
MIB = 1 << 20
GROUPS = (
    "api/v1",
    "apis/apps/v1",
    "apis/rbac.authorization.k8s.io/v1",
    "apis/autoscaling/v2",
    "apis/fuzz.example.com/v1",
)
"""Whose documents schemathesis reads; the barrage reads all."""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of its own: what is random may leave anything behind."""
    with Running(tmp_path_factory.mktemp("fuzz") / "data") as running:
        yield running


def judged(server: Running, barrage: Barrage, requests: int, begun: float, before: int) -> None:
    """Nothing was wrong with any answer, the server lives, and it has not grown."""
    found = barrage.found
    asked = found.codes.total()
    told = f"seed {SEED}: {asked} requests in {time.monotonic() - begun:.0f} s, slowest {found.slowest:.2f} s"
    print(f"{told}, answers {dict(sorted(found.codes.items()))}")
    assert not found.wrong, f"{told}, {len(found.wrong)} wrong answers, such as\n" + "\n".join(found.wrong[:5])
    assert asked >= requests
    assert {200, 201, 400, 404, 422} <= set(found.codes), f"too little was reached: {found.codes}"
    assert barrage.wire.ask("GET", "/readyz").code == 200
    grown = memory(server.process.pid) - before
    assert grown < 100 * MIB, f"memory grew by {grown / MIB:.0f} MiB"
    errors = server.errors()
    assert "Traceback" not in errors and "mistake" not in errors, errors[-3000:]


@pytest.mark.parametrize("requests", [1000, pytest.param(SOAK, marks=pytest.mark.soak)])
def test_a_barrage(server: Running, requests: int) -> None:
    """Objects near to valid ones, wrecked; patches of all kinds; protobuf; queries and headers of all sorts."""
    with Wire(server.kubeconfig) as wire:
        barrage = Barrage(wire, SEED)
        begun, before = time.monotonic(), memory(server.process.pid)
        barrage.fire(requests)
        judged(server, barrage, requests, begun, before)


@pytest.mark.parametrize("requests", [100, pytest.param(SOAK // 10, marks=pytest.mark.soak)])
def test_schemathesis(server: Running, requests: int) -> None:
    """What a tool that knows nothing of Kubernetes makes of the served OpenAPI v3."""
    with Wire(server.kubeconfig) as wire:
        barrage = Barrage(wire, SEED)
        operations = []
        for row in GROUPS:
            document = wire.ask("GET", f"/openapi/v3/{row}").json
            schema = schemathesis.openapi.from_dict(document)
            operations += [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        assert len(operations) > 250
        begun, before = time.monotonic(), memory(server.process.pid)
        barrage.plant()

        @seed(SEED)
        @settings(
            max_examples=requests,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
            derandomize=False,
            database=None,
            deadline=None,
        )
        @given(data=st.data())
        def ask(data: Any) -> None:
            operation = data.draw(st.sampled_from(operations))
            send(barrage, data.draw(operation.as_strategy()))

        ask()
        judged(server, barrage, requests, begun, before)


def send(barrage: Barrage, case: Any) -> None:
    """One case of schemathesis as bytes."""
    query = urlencode({key: text(value) for key, value in (case.query or {}).items()})
    path = case.formatted_path + (f"?{query}" if query else "")
    headers = [(str(key), text(value)) for key, value in (case.headers or {}).items()]
    body = None
    if not isinstance(case.body, NotSet):
        body = case.body if isinstance(case.body, bytes) else msgspec.json.encode(case.body)
        headers.append(("Content-Type", case.media_type or "application/json"))
    barrage.send(case.method, path, body, [row for row in headers if not row[1].startswith(("\r", "\n"))])


def text(value: Any) -> str:
    """A parameter's value as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
