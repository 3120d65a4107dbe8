"""The fixture of all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from web_client import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "home").mkdir()
    return Site(tmp_path)
