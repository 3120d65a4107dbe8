"""Sessions whose workers are killed at random, while PostgreSQL is restarted and its connections are cut."""

from __future__ import annotations

import pytest
from conftest import Server, Site
from proof import prove


@pytest.mark.slow
async def test_all_sessions_complete_and_no_call_has_its_effect_twice(server: Server, site: Site) -> None:
    assert await prove(server, site, 30, kills=3) > 0
