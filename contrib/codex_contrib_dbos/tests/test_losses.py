"""Workers, programs and databases that go away."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Server, Site, job
from proxy import Proxy

from codex_framework.contract.roles.launchers import LaunchError
from codex_framework.contract.roles.outcomes import Status

PATH = Path(__file__).parent


async def test_the_sessions_of_a_killed_worker_go_on_elsewhere_and_repeat_nothing(site: Site) -> None:
    async with site.open() as opened:
        first = site.start_worker()
        running = await opened.start(job("survivor", 4, pause_s=0.3))
        await site.wait_for_step("survivor", 2)
        first.kill()
        site.start_worker()
        result = await running.result()
    assert (result.status, result.message) == (Status.COMPLETED, "survivor: 4 steps"), result.failure
    assert result.attempts == 2
    assert site.steps("survivor") == [1, 2, 3, 4]


async def test_a_worker_that_is_ended_gives_its_sessions_back_at_once(site: Site) -> None:
    async with site.open(lease_s=600.0) as opened:
        first = site.start_worker(lease_s=600.0)
        running = await opened.start(job("handed", 3, pause_s=0.3))
        await site.wait_for_step("handed", 1)
        first.send_signal(signal.SIGTERM)
        site.start_worker(lease_s=600.0)
        result = await running.result()
        assert first.wait(30) == 0
    assert (result.status, result.message) == (Status.COMPLETED, "handed: 3 steps"), result.failure
    assert site.steps("handed") == [1, 2, 3]


async def test_a_worker_of_the_launcher_is_replaced_when_it_dies(site: Site) -> None:
    async with site.open(workers=1, lease_s=600.0) as opened:
        running = await opened.start(job("replaced", 3, pause_s=0.2, die_at=2))
        result = await running.result()
    assert (result.status, result.message) == (Status.COMPLETED, "replaced: 3 steps"), result.failure
    assert site.steps("replaced") == [1, 2, 3]
    for pid in site.pids("replaced"):
        assert not Path(f"/proc/{pid}").exists()


async def test_a_suspended_worker_ends_its_call_when_another_one_has_taken_the_session(site: Site) -> None:
    async with site.open() as opened:
        first = site.start_worker()
        running = await opened.start(job("frozen", 1, pause_s=600))
        await site.wait_for_step("frozen", 1)
        first.send_signal(signal.SIGSTOP)
        second = site.start_worker()
        result = await running.result()
        assert result.status is Status.COMPLETED
        first.send_signal(signal.SIGCONT)
        await site.wait_for_file("frozen.cancelled")
        assert (await (await opened.start(job("after", 1))).result()).status is Status.COMPLETED
        assert await (await opened.resume("frozen")).result() == result
    assert result.worker.endswith(f":{second.pid}")
    assert site.steps("frozen") == [1]


async def test_postgresql_is_restarted_and_connections_are_cut_while_sessions_run(server: Server, site: Site) -> None:
    proxy = Proxy(site.url)
    direct, site.url = site.url, proxy.url
    try:
        site.start_worker()
        async with site.open() as opened:
            started = [await opened.start(job(f"cut-{number}", 4, pause_s=0.3)) for number in range(4)]
            await site.wait_for_step("cut-0", 1)
            proxy.cut()
            await site.wait_for_step("cut-0", 2)
            server.stop()
            await asyncio.sleep(0.5)
            server.start()
            results = []
            for each in started:  # a session whose record could not be saved has failed, and can be continued
                while (result := await each.result()).failure is not None and result.failure.retryable:
                    each = await opened.resume(each.key)  # noqa: PLW2901
                results.append(result)
    finally:
        site.url = direct
        proxy.close()
    assert {each.status for each in results} == {Status.COMPLETED}, [each.failure for each in results]
    assert [site.steps(f"cut-{number}") for number in range(4)] == [[1, 2, 3, 4]] * 4


async def test_a_program_that_was_killed_finds_its_jobs_again(site: Site) -> None:
    site.start_worker()
    code = """if True:
        import asyncio, os, sys
        from conftest import Site, job
        from pathlib import Path
        async def main(folder, url, model):
            async with Site(Path(folder), url, model).open() as opened:
                for number in range(3):
                    await opened.start(job(f"found-{number}", 3, pause_s=0.2))
                os.kill(os.getpid(), 9)
        asyncio.run(main(*sys.argv[1:]))
    """
    command = [sys.executable, "-c", code, str(site.folder), site.url, site.model]
    path = {"PYTHONPATH": str(PATH), "PATH": "/usr/bin:/bin"}
    killed = await asyncio.to_thread(subprocess.run, command, env=path, check=False)
    assert killed.returncode == -9
    async with site.open() as opened:
        results = [await (await opened.resume(f"found-{number}")).result() for number in range(3)]
    assert {each.status for each in results} == {Status.COMPLETED}
    assert [site.steps(f"found-{number}") for number in range(3)] == [[1, 2, 3]] * 3


async def test_a_database_that_stays_away_ends_the_waiting(server: Server, site: Site) -> None:
    proxy = Proxy(site.url.replace("postgres@", "postgres:secret-word@"))
    try:
        async with site.open(url=proxy.url, patience_s=0.5) as opened:
            running = await opened.start(job("away", 1))
            proxy.is_refusing = True
            proxy.cut()
            with pytest.raises(LaunchError, match="cannot read results in postgresql://") as caught:
                await running.result()
            assert "secret-word" not in f"{caught.value} {caught.value.hint}"
            proxy.is_refusing = False
            async with site.open() as again:
                site.start_worker()
                assert (await (await again.resume("away")).result()).status is Status.COMPLETED
    finally:
        proxy.close()
