"""What tests of the doctor share."""

from __future__ import annotations

import pytest

from tests.api.admit_kit import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the webhooks' certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))
