"""A batch on two workers that are killed at random, whose program is killed, and whose database is restarted and disconnected."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from proof import CALLS, configuration, postgres, postgres_store, prove
from scene import Scene

from codex_contrib_ray.settings import RaySettings


@pytest.mark.slow
def test_all_sessions_complete_and_no_effect_happens_twice(settings: RaySettings, cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("codex_contrib_postgres")
    with postgres() as (url, accidents):
        config = configuration(settings, tmp_path / "home", sessions_per_actor=8) + postgres_store(url)
        scene = Scene(tmp_path, rounds=CALLS, more=config)
        node = cluster.add_node()
        try:
            told = prove(scene, 24, accidents=accidents, kill_every_s=(3.0, 6.0), chance=random.Random(1))
        finally:
            scene.close()
            cluster.kill_node(node)
    assert told.kills > 0
    assert told.continued > 0
