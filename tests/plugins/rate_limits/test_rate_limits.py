"""Rate limits that processes share: places, tokens, Retry-After, and a file that cannot be used."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ConfigError, ProviderInfo
from codex_framework.contract.protocol.events import WarningEvent
from codex_framework.testing import check_interceptor, fault, say
from codex_plugin_rate_limits.buckets import Buckets, StoreError
from codex_plugin_rate_limits.file_store import FileStore
from codex_plugin_rate_limits.limiter import RateLimiter, bucket_name
from codex_plugin_rate_limits.settings import ProviderLimits

LIMITS = ProviderLimits(requests_per_minute=60, tokens_per_minute=6000, burst_s=2)


@pytest.fixture
def buckets(tmp_path: Path) -> Any:
    made = Buckets(FileStore(tmp_path / "b.sqlite"))
    yield made
    made.close()


def test_requests_beyond_the_burst_wait_one_behind_the_other(buckets: Buckets) -> None:
    waits = [asyncio.run(buckets.reserve("a", LIMITS)) for _ in range(6)]
    assert waits == pytest.approx([0, 0, 0, 1, 2, 3], abs=0.5)
    assert asyncio.run(buckets.reserve("other", LIMITS)) == 0


def test_tokens_are_paid_for_by_those_who_come_later(buckets: Buckets) -> None:
    asyncio.run(buckets.charge("a", 200, LIMITS))  # two seconds: the burst
    assert asyncio.run(buckets.reserve("a", LIMITS)) == pytest.approx(0, abs=0.3)
    asyncio.run(buckets.charge("a", 1000, LIMITS))
    assert asyncio.run(buckets.reserve("a", LIMITS)) == pytest.approx(10, abs=0.5)


def test_a_hold_lasts_for_all_and_what_waits_for_it_does_not_begin_at_once(buckets: Buckets) -> None:
    asyncio.run(buckets.reserve("a", LIMITS))
    asyncio.run(buckets.hold("a", 20, LIMITS))
    assert asyncio.run(buckets.delay("a", LIMITS)) == pytest.approx(20, abs=0.5)
    waits = [asyncio.run(buckets.reserve("a", LIMITS)) for _ in range(5)]
    assert waits == pytest.approx([20, 20, 20, 21, 22], abs=0.5)


@pytest.mark.parametrize("seconds", [1e300, float("inf"), -5.0])
def test_a_server_cannot_hold_all_for_ever(buckets: Buckets, seconds: float) -> None:
    asyncio.run(buckets.hold("a", seconds, LIMITS))
    assert 0 <= asyncio.run(buckets.delay("a", LIMITS)) <= 3600


def test_a_clock_that_was_wrong_does_not_stop_all(tmp_path: Path, buckets: Buckets) -> None:
    asyncio.run(buckets.reserve("a", LIMITS))
    with sqlite3.connect(tmp_path / "b.sqlite") as connection:
        connection.execute("update buckets set requests_at = 1e12, tokens_at = 1e12, held_until = 1e12")
    connection.close()
    assert asyncio.run(buckets.reserve("a", LIMITS)) <= 3600


RESERVE = """
import asyncio, sys, time
from pathlib import Path
from codex_plugin_rate_limits.buckets import Buckets
from codex_plugin_rate_limits.file_store import FileStore
from codex_plugin_rate_limits.file_store import FileStore
from codex_plugin_rate_limits.settings import ProviderLimits

buckets = Buckets(FileStore(Path(sys.argv[1])))
limits = ProviderLimits(requests_per_minute=60, burst_s=0)
for _ in range(20):
    print(time.time() + asyncio.run(buckets.reserve("a", limits)))
buckets.close()
"""


def test_processes_share_a_bucket(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", RESERVE, str(tmp_path / "b.sqlite")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    texts = [process.communicate(timeout=60)[0] for process in running]
    starts = sorted(float(line) for text in texts for line in text.splitlines())
    assert len(starts) == 40
    assert starts[-1] - starts[0] == pytest.approx(39, abs=3)


def test_the_bucket_depends_on_server_and_key_and_does_not_tell_the_key() -> None:
    provider = ProviderInfo(id="one", base_url="http://localhost/v1", env_key="KEY")
    names = {
        bucket_name(provider, {"KEY": "sk-a"}),
        bucket_name(provider, {"KEY": "sk-b"}),
        bucket_name(provider.evolve(base_url="http://other/v1"), {"KEY": "sk-a"}),
    }
    assert len(names) == 3
    assert not any("sk-" in name for name in names)


def config(url: str, more: str = "requests_per_minute = 6000") -> str:
    return f"""
model_provider = "one"
[model_providers.one]
base_url = {json.dumps(url)}
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 1
[framework.plugins.rate_limits.providers.one]
{more}
"""


def test_a_retry_after_holds_the_other_threads(make_kernel: Any, responses_server: Any) -> None:
    slow_down = fault(429, headers={"retry-after": "1"}, body={"error": {"message": "slow down"}})
    server = responses_server([slow_down, *[say("x")] * 3])

    async def run() -> None:
        async with make_kernel(config=config(server.url)) as kernel:
            first, second = [await kernel.start_thread() for _ in range(2)]
            running = asyncio.ensure_future(first.run("Hi!"))
            while not server.requests:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            began = time.monotonic()
            await second.run("Hi!")
            assert time.monotonic() - began > 0.4
            await running

    asyncio.run(run())


def test_a_file_that_cannot_be_used_is_one_warning_and_requests_go_on(make_kernel: Any, responses_server: Any) -> None:
    server = responses_server([say("x")] * 2)

    async def run() -> list[str]:
        async with make_kernel(config=config(server.url)) as kernel:
            (kernel.config.codex_home / "rate_limits.sqlite").write_bytes(b"no database" * 1000)
            thread = await kernel.start_thread()
            results = [await thread.run("Hi!") for _ in range(2)]
            assert [result.final_message for result in results] == ["x", "x"]
            return [event.message for result in results for event in result.events if isinstance(event, WarningEvent)]

    (warning,) = asyncio.run(run())
    assert warning.startswith("Rate limits are not shared: file is not a database. This process keeps to them alone.")


@pytest.mark.parametrize("row", ["requests_per_minute = 0", "tokens_per_minute = -5", "burst_s = -1", "burst_s = inf"])
def test_a_number_that_is_no_limit_is_refused(make_kernel: Any, row: str) -> None:
    async def run() -> None:
        async with make_kernel(config=config("http://127.0.0.1:1", row)):
            pass

    with pytest.raises(ConfigError, match=row.partition(" ")[0]):
        asyncio.run(run())


def test_a_provider_that_is_not_named_is_not_limited(tmp_path: Path) -> None:
    limiter = RateLimiter({}, FileStore(tmp_path / "b.sqlite"), os.environ)
    client: Any = object()
    assert limiter.client(client, ProviderInfo(id="one")) is client


def test_the_interceptor_fulfils_the_contract(tmp_path: Path) -> None:
    check_interceptor(RateLimiter({"one": LIMITS}, FileStore(tmp_path / "b.sqlite"), os.environ))


class LostStore:
    """A store that cannot be used."""

    share = 0.5

    def __init__(self) -> None:
        self.asked = 0

    async def change(self, name: str, change: Any) -> float:
        self.asked += 1
        raise StoreError("it is lost")

    def close(self) -> None: ...


def test_a_process_without_its_store_keeps_to_its_share_and_does_not_ask_the_store_each_time() -> None:
    store = LostStore()
    buckets = Buckets(store)

    async def reserve() -> list[float]:
        return [await buckets.reserve("a", LIMITS) for _ in range(5)]

    assert asyncio.run(reserve()) == pytest.approx([0, 2, 4, 6, 8], abs=0.5)
    assert store.asked == 1
    assert buckets.fault is not None
