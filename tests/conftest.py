"""What all tests share: one seed for random examples, and the tools that a test may need."""

from __future__ import annotations

import os
import shutil

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("exact", derandomize=True, deadline=None, database=None, print_blob=False)
settings.register_profile(
    "soak", settings.get_profile("exact"), max_examples=5000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("exact")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: tests that hold output against a file write the file anew."""
    parser.addoption("--rewrite", action="store_true", help="write expected output anew (read the diff afterwards)")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expected output is to be written anew instead of compared."""
    return bool(request.config.getoption("--rewrite"))


def tool(*names: str) -> str:
    """The path of the first program of these names; CI must have it, elsewhere its tests are skipped."""
    for name in names:
        if path := shutil.which(name):
            return path
    if os.environ.get("CI"):
        pytest.fail(f"{names[0]} is missing, and CI must have it (see .ci/setup)")
    pytest.skip(f"{names[0]} is not installed (`make setup` installs it where it may)")


@pytest.fixture(scope="session")
def dot() -> str:
    """Graphviz' `dot`."""
    return tool("dot")


@pytest.fixture(scope="session")
def chromium() -> str:
    """Headless Chromium, for tests that are marked `browser`."""
    return tool("chromium", "chromium-browser", "google-chrome")
