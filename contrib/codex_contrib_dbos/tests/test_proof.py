"""Sessions whose workers and program are killed, while PostgreSQL is restarted and its connections are cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Server, Site
from proof import prove


@pytest.mark.slow
def test_all_sessions_complete_and_no_call_has_its_effect_twice(server: Server, site: Site) -> None:
    assert prove(site, server, 30, kills=3) > 0


@pytest.mark.slow
def test_all_sessions_of_a_sqlite_file_complete(model: str, tmp_path: Path) -> None:
    assert prove(Site(tmp_path, f"sqlite:///{tmp_path}/queue.sqlite", model), None, 20, kills=2) > 0
