"""Databases, workers and data that are not as they should be."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import PLUGIN, Site, job

from codex_contrib_dbos.launcher import DbosLauncher
from codex_contrib_dbos.settings import DbosSettings
from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.contract.roles.launchers import LaunchError
from codex_framework.contract.roles.outcomes import Status


def execute(site: Site, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(site.url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


class Trap:
    """Its pickled form creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def pickled(path: Path) -> str:
    """Return pickled arguments of a workflow."""
    return base64.b64encode(pickle.dumps({"args": (Trap(path),), "kwargs": {}})).decode()


async def test_pickled_data_in_the_database_runs_neither_on_a_worker_nor_in_a_program(site: Site) -> None:
    sprung = site.folder / "sprung"
    pickle.loads(base64.b64decode(pickled(sprung)))
    assert sprung.exists()  # the trap works
    sprung.unlink()
    async with site.open() as opened:
        jobs = [await opened.start(job(name)) for name in ("input", "message")]
        execute(site, "UPDATE dbos.workflow_input SET inputs = %s WHERE workflow_uuid = 'input'", pickled(sprung))
        execute(site, "UPDATE dbos.workflow_status SET serialization = 'py_pickle' WHERE workflow_uuid = 'input'")
        row = "INSERT INTO dbos.notifications (destination_uuid, topic, message, serialization) VALUES (%s, %s, %s, 'py_pickle')"
        execute(site, row, "message", "codex", pickled(sprung))
        site.start_worker()
        results = [await each.result() for each in jobs]
        assert results[0].status is Status.FAILED
        assert results[0].failure is not None
        assert "cannot be read" in results[0].failure.fact
        done = await (await opened.start(job("output", 1))).result()
        assert done.status is Status.COMPLETED
        execute(site, "UPDATE dbos.workflow_output SET output = %s WHERE workflow_uuid = 'output'", pickled(sprung))
        execute(site, "UPDATE dbos.workflow_status SET serialization = 'py_pickle' WHERE workflow_uuid = 'output'")
    async with site.open() as opened:
        with pytest.raises(LaunchError, match="a value in the database cannot be read: its format is 'py_pickle'"):
            await opened.resume("output")
    assert not sprung.exists()


async def test_what_is_stored_of_a_job_is_json(site: Site) -> None:
    site.start_worker()
    async with site.open() as opened:
        await (await opened.start(job("plain", 1))).result()
    formats = execute(site, "SELECT DISTINCT serialization FROM dbos.workflow_status")
    assert formats == [("portable_json",)]
    ((inputs, output),) = execute(
        site, "SELECT inputs, output FROM dbos.workflow_input JOIN dbos.workflow_output USING (workflow_uuid)"
    )
    assert json.loads(json.loads(inputs)["positionalArgs"][0])["key"] == "plain"
    assert json.loads(json.loads(output))["status"] == "completed"


async def test_workers_of_another_version_are_named(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with site.open():
        pass  # the tables exist
    row = "INSERT INTO dbos.codex_workers VALUES ('x', 'host9:1', 'codex', 'codex-framework 0.0.1', EXTRACT(epoch FROM now()))"
    execute(site, row)
    with pytest.raises(LaunchError, match=r"other versions than this program .*: host9:1 \(codex-framework 0.0.1\)"):
        async with site.open():
            pass


async def test_jobs_without_a_worker_wait_and_a_warning_says_so(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codex_contrib_dbos.launcher._WARN_AFTER_S", 0.1)
    async with site.open() as opened:
        running = await opened.start(job("waits", 1))
        with caplog.at_level(logging.WARNING):
            while "1 jobs wait: the queue 'codex'" not in caplog.text:
                await asyncio.sleep(0.05)
        await running.interrupt()
        result = await running.result()
        assert result.status is Status.INTERRUPTED
        site.start_worker()
        assert (await (await opened.resume("waits")).result()).status is Status.COMPLETED


async def test_a_full_queue_lets_programs_wait(site: Site) -> None:
    async with site.open(max_queued=1) as opened:
        first = await opened.start(job("first", 1))
        second = asyncio.create_task(opened.start(job("second", 1)))
        await asyncio.wait([second], timeout=0.3)
        assert not second.done()
        await first.interrupt()
        await second


async def test_tables_of_an_older_version_are_refused(site: Site) -> None:
    async with site.open():
        pass
    execute(site, "UPDATE dbos.dbos_migrations SET version = 5")
    with pytest.raises(LaunchError, match="have version 5 of DBOS") as caught:
        async with site.open():
            pass
    assert "dbos migrate" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "error", "fact"),
    [
        ("", ConfigError, "no usable URL"),
        ("mysql://u:secret-word@h/d", ConfigError, "no usable URL"),
        ("postgresql://u:secret-word@h", ConfigError, "no usable URL"),
        ("sqlite://", ConfigError, "no usable URL"),
        ("postgresql://u:secret-word@127.0.0.1:1/d", LaunchError, "cannot open the queue"),
        ("sqlite:////nowhere/at/all", LaunchError, "cannot open the queue"),
    ],
)
async def test_a_database_that_cannot_be_used_is_an_error_without_its_password(
    site: Site, url: str, error: type[CodexError], fact: str
) -> None:
    with pytest.raises(error, match=fact) as caught:
        await DbosLauncher(DbosSettings(), url).open(site.workplace())
    assert "secret-word" not in f"{caught.value} {caught.value.hint}"


async def test_a_worker_that_cannot_start_says_why(site: Site) -> None:
    workplace = site.workplace(workers=1)
    broken = workplace.evolve(overrides=[*workplace.overrides, 'sandbox_mode="nonsense"'])
    with pytest.raises(LaunchError, match=r"a worker did not start: .*sandbox_mode"):
        await DbosLauncher(DbosSettings(workers=1), site.url).open(broken)


def test_a_worker_warns_of_a_store_that_it_does_not_have(site: Site) -> None:
    site.overrides.append('framework.plugins.postgres.url="nowhere"')
    site.start_worker()
    assert "warning: plugin 'postgres'" in site.told
    assert "no usable URL" in site.told


def test_the_command_ends_with_an_error_if_its_database_is_away(site: Site) -> None:
    command = [sys.executable, "-P", "-m", "codex_framework", "--plugin", str(PLUGIN), "dbos-worker"]
    command += ["-c", 'framework.plugins.dbos.url="postgresql://u@127.0.0.1:1/d"']
    ran = subprocess.run(command, capture_output=True, text=True, cwd=site.folder, check=False)
    assert ran.returncode == 1
    assert "cannot open the queue in postgresql://" in ran.stderr
    assert "Traceback" not in ran.stderr


NO_SANDBOX = """
from codex_framework import SandboxReport, hookimpl

class Broken:
    name = "faulty"
    def probe(self): return SandboxReport(available=False, reason="no kernel support", hint="Use a newer kernel.")
    def confine(self, access, cwd): raise AssertionError
    async def aclose(self): pass

@hookimpl
def codex_sandboxes(): return [Broken()]
"""


async def test_a_worker_without_a_sandbox_fails_a_job_that_needs_one_and_runs_the_others(site: Site) -> None:
    broken = site.folder / "broken.py"
    broken.write_text(NO_SANDBOX)
    site.plugins.append(str(broken))
    site.overrides += ['sandbox_mode="workspace-write"', 'framework.sandbox="faulty"', 'approval_policy="never"']
    site.start_worker()
    async with site.open() as opened:
        jobs = [await opened.start(job("needs", 1, command="true")), await opened.start(job("other", 1))]
        needs, other = [await each.result() for each in jobs]
    assert needs.failure is not None
    assert (needs.status, needs.failure.slug) == (Status.FAILED, "no-sandbox")
    assert "'needs'" in needs.failure.fact
    assert needs.worker in needs.failure.fact
    assert other.status is Status.COMPLETED
