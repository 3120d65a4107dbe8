"""The check of launchers, with workers that the launcher starts."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from conftest import Server

from codex_contrib_dbos.launcher import DbosLauncher
from codex_contrib_dbos.settings import DbosSettings
from codex_framework.testing.conformance.launchers import check_launcher


def children() -> list[int]:
    """Return the workers that this process has started."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found if b"codex_contrib_dbos.local" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_the_launcher_fulfils_its_role(kind: str, server: Server, tmp_path: Path) -> None:
    url = server.new_database() if kind == "postgresql" else f"sqlite:///{tmp_path}/queue.sqlite"
    settings = {"url": url, "workers": 1, "poll_s": 0.05, "lease_s": 2.0}
    overrides = [f"framework.plugins.dbos.{key}={json.dumps(value)}" for key, value in settings.items()]
    if kind == "postgresql":
        overrides += ['framework.thread_store="postgres"', f"framework.plugins.postgres.url={json.dumps(url)}"]
        overrides += ["framework.plugins.postgres.lease_s=1.0"]
    check_launcher(
        DbosLauncher(DbosSettings(**settings), url),
        overrides=overrides,
        kill_worker=lambda: [os.kill(pid, signal.SIGKILL) for pid in children()],
    )
