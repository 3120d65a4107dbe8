"""Profiles for property tests: quick by default, deep with ``--deep``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run property tests with 20,000 examples each")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "quick")


@pytest.fixture
def anchors() -> Path:
    """Recorded data of the real Codex, where it is at hand."""
    folder = Path(os.environ.get("CODEX_ANCHORS") or Path(__file__).parents[2] / "shared" / "anchors")
    if not folder.is_dir():
        pytest.skip("no recorded data at hand (set CODEX_ANCHORS)")
    return folder
