"""What the tests of the API share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.admit_kit import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of webhooks: made once, it costs a key."""
    return Authority(Path(tmp_path_factory.mktemp("pki")))
