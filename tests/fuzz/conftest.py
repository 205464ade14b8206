"""One server for all attacks of a module."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.clients.running import Running
from tests.fuzz.victim import CONFIGMAPS, JSON, TOKEN, Victim
from tests.fuzz.wire import Wire


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A server with an audit log and a token; at the end it must have had nothing to complain about."""
    folder = tmp_path_factory.mktemp("victim")
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{TOKEN},ann,1,"system:masters"\n')
    audit = folder / "audit.log"
    with Running(folder / "data", "--token-file", str(tokens), "--audit-log", str(audit)) as running:
        with Wire(running.kubeconfig) as wire:
            assert (
                wire.ask(
                    "POST", CONFIGMAPS, msgspec.json.encode({"metadata": {"name": "victim"}, "data": {"a": "b"}}), JSON
                ).code
                == 201
            )
        yield Victim(running, audit)
        errors = running.errors()
        assert "Traceback" not in errors and "mistake" not in errors, errors[-3000:]
