"""Rate limits in a database: several processes and clocks, a server's Retry-After, and a database that is away."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from conftest import Server
from proxy import Proxy

from codex_contrib_postgres.database import Database
from codex_contrib_postgres.rate_limits import BucketTable, DatabaseLimiter
from codex_framework import Kernel
from codex_framework.config import load_config
from codex_framework.testing import ResponsesServer, check_interceptor, say
from codex_plugin_rate_limits.buckets import Buckets
from codex_plugin_rate_limits.settings import ProviderLimits

LIMITS = ProviderLimits(requests_per_minute=600, tokens_per_minute=6000, burst_s=1)

WORKER = """
import asyncio, sys, time
from codex_contrib_postgres.database import Database
from codex_contrib_postgres.rate_limits import BucketTable
from codex_plugin_rate_limits.buckets import Buckets
from codex_plugin_rate_limits.settings import ProviderLimits

url, skew, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
now, monotonic = time.time, time.monotonic
time.time = lambda: now() + skew
limits = ProviderLimits(requests_per_minute=1200, burst_s=0.5)
print("ready", flush=True)
sys.stdin.readline()

async def main():
    buckets = Buckets(BucketTable(Database(url)))
    for _ in range(count):
        wait = await buckets.reserve("a", limits)
        while wait > 0:
            await asyncio.sleep(wait)
            wait = await buckets.delay("a", limits)
        print(monotonic(), flush=True)

asyncio.run(main())
"""


@pytest.fixture
def buckets(url: str) -> Iterator[Buckets]:
    made = Buckets(BucketTable(Database(url)))
    yield made
    made.close()


def reserve(buckets: Buckets, name: str = "a") -> float:
    return asyncio.run(buckets.reserve(name, LIMITS))


def test_the_limits_of_the_plugin_apply(buckets: Buckets) -> None:
    waits = [reserve(buckets) for _ in range(13)]
    assert waits[:5] == pytest.approx([0] * 5, abs=0.02)
    assert 0 < waits[-1] <= 0.3
    asyncio.run(buckets.charge("a", 1000, LIMITS))
    assert reserve(buckets) == pytest.approx(9, abs=1)
    assert reserve(buckets, "other") == 0
    assert buckets.fault is None


def test_a_retry_after_of_one_machine_holds_the_others(url: str) -> None:
    one, other = (Buckets(BucketTable(Database(url))) for _ in range(2))
    assert reserve(other) == 0
    asyncio.run(one.hold("a", 20, LIMITS))
    assert asyncio.run(other.delay("a", LIMITS)) == pytest.approx(20, abs=2)
    one.close()
    other.close()


def test_processes_with_other_clocks_never_exceed_the_limit_together_and_each_gets_its_part(postgres_url: str) -> None:
    """Four processes want 20 requests a second, with half a second as burst."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, postgres_url, str(skew), "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for skew in (0, 7200, -7200, 1)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    texts = [worker.communicate(timeout=100)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    times = [[float(line) for line in text.splitlines()] for text in texts]
    starts = sorted(moment for each in times for moment in each)
    assert len(starts) == 100
    assert starts[-1] - starts[0] >= 89 / 20 - 0.3
    slack = 10  # requests that a busy machine begins late
    for number in range(len(starts) - 40):
        assert starts[number + 40] - starts[number] >= (40 - 11 - slack) / 20
    ends = [each[-1] for each in times]
    assert max(ends) - min(ends) < (max(ends) - starts[0]) / 2  # nobody waits until the others are done


def test_while_the_database_is_away_each_process_keeps_to_its_share(postgres_url: str, server: Server) -> None:
    one, other = (Buckets(BucketTable(Database(postgres_url))) for _ in range(2))
    for buckets in (one, other):
        reserve(buckets)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DELETE FROM codex_rate_limits")
    third = Buckets(BucketTable(Database(postgres_url)))
    reserve(third)
    assert third.share == pytest.approx(1 / 3)
    server.stop()
    try:
        began = time.monotonic()
        waits = [reserve(third) for _ in range(30)]
        assert time.monotonic() - began < 8
        assert third.fault is not None
        assert "use the rate limits" in third.fault.fact
        # ten requests a second for three processes, and a second as burst
        assert waits[-1] + (time.monotonic() - began) >= 29 / (10 / 3) - 1.5
    finally:
        server.start()
    deadline = time.monotonic() + 60
    while third.fault is not None and time.monotonic() < deadline:
        time.sleep(0.1)
        reserve(third)
    assert third.fault is None
    for buckets in (one, other, third):
        buckets.close()


def test_a_retry_after_lasts_although_the_database_is_lost(postgres_url: str) -> None:
    proxy = Proxy(postgres_url)
    one, other = Buckets(BucketTable(Database(postgres_url))), Buckets(BucketTable(Database(proxy.url)))
    reserve(other)
    asyncio.run(one.hold("a", 30, LIMITS))
    asyncio.run(other.delay("a", LIMITS))
    proxy.is_refusing = True
    proxy.cut()
    assert reserve(other) == pytest.approx(30, abs=8)
    assert other.fault is not None
    for buckets in (one, other):
        buckets.close()
    proxy.close()


def test_a_database_that_does_not_answer_stops_no_request(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codex_contrib_postgres.rate_limits._PATIENCE_S", 0.5)
    buckets = Buckets(BucketTable(Database(postgres_url)))
    reserve(buckets)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT * FROM codex_rate_limits FOR UPDATE")
        began = time.monotonic()
        reserve(buckets)
        assert time.monotonic() - began < 5
        assert "does not answer" in str(buckets.fault)
    buckets.close()


def test_the_interceptor_fulfils_the_contract(url: str) -> None:
    check_interceptor(DatabaseLimiter({"one": LIMITS}, BucketTable(Database(url)), {}))


def test_the_limits_of_the_table_apply_beside_another_thread_store_and_the_key_is_in_no_row(
    postgres_url: str, tmp_path: Path
) -> None:
    """The second turn waits, and the database has the bucket."""
    server = ResponsesServer([say("x")], repeat_last=True).start()
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(
        f"""
model = "gpt-5.5"
model_provider = "one"
[model_providers.one]
name = "one"
base_url = "{server.url}"
env_key = "KEY"
wire_api = "responses"
[framework.plugins.postgres.rate_limits.one]
requests_per_minute = 120
burst_s = 0
"""
    )
    environ = {
        "CODEX_HOME": str(home),
        "CODEX_DATABASE_URL": postgres_url,
        "KEY": "sk-secret",
        "PATH": os.environ["PATH"],
    }

    async def run() -> float:
        config = load_config(cwd=tmp_path, environ=environ)
        async with await Kernel.create(config, environ=environ) as kernel:
            thread = await kernel.start_thread()
            assert (await thread.run("Hi!")).final_message == "x"
            began = time.monotonic()
            for _ in range(3):
                assert (await thread.run("Hi!")).final_message == "x"
            return time.monotonic() - began

    seconds = asyncio.run(run())
    server.stop()
    assert seconds > 1.0
    with psycopg.connect(postgres_url) as connection:
        rows = [str(row) for row in connection.execute("SELECT * FROM codex_rate_limits")]
    assert len(rows) == 1
    assert "sk-secret" not in rows[0]


def test_no_place_is_given_twice(url: str) -> None:
    """Two stores reserve at once."""
    stores = [Buckets(BucketTable(Database(url))) for _ in range(2)]

    async def run() -> list[float]:
        async def many(buckets: Buckets) -> list[float]:
            return [time.time() + await buckets.reserve("a", LIMITS) for _ in range(50)]

        one, other = await asyncio.gather(*map(many, stores))
        return sorted(one + other)

    starts = asyncio.run(run())
    assert starts[-1] - starts[0] >= 99 * 0.1 - 1 - 0.5
    for buckets in stores:
        buckets.close()
