"""Work that must be finished although the turn is interrupted or the process ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from codex_framework.cli import shutdown
from codex_framework.toolkit import finishing


def test_a_coroutine_is_finished_although_its_caller_and_the_loop_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown, "GRACE_S", 0.05)
    done: list[str] = []

    async def save() -> str:
        await asyncio.sleep(0.1)
        done.append("saved")
        return "new"

    async def forget() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            done.append("cancelled")

    async def main() -> None:
        caller = asyncio.create_task(finishing.finish(save()))
        other = asyncio.create_task(forget())
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not other.done()

    shutdown.run_loop(main())
    assert done == ["saved", "cancelled"]
    assert asyncio.run(finishing.finish(save())) == "new"


def test_the_end_of_a_run_waits_no_longer_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing, "FINISH_S", 0.05)
    ended: list[bool] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(True)

    async def main() -> None:
        asyncio.create_task(finishing.finish(slow()))  # noqa: RUF006  # left on purpose
        await asyncio.sleep(0)

    shutdown.run_loop(main())
    assert ended == [True]


def test_an_error_that_nobody_waits_for_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("nobody asks")

    async def main() -> None:
        caller = asyncio.create_task(finishing.finish(fail()))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(0.03)

    shutdown.run_loop(main())
    assert caplog.records == []


PROGRAM = """
import sys, threading, time
from pathlib import Path
from codex_framework.cli import shutdown
from codex_framework.toolkit import finishing

shutdown.GRACE_S, finishing.FINISH_S = 0.25, float(sys.argv[1])
begun = threading.Event()

def work():
    with finishing.must_finish("the refresh of the login"):
        begun.set()
        time.sleep(0.3)
        Path(sys.argv[2]).write_text("new")
    time.sleep(0.1)
    try:
        with finishing.must_finish("another one"):
            Path(sys.argv[2]).write_text("too late")
    except RuntimeError:
        pass

threading.Thread(target=work).start()
begun.wait(60)
shutdown.end_process(3)
"""


@pytest.mark.parametrize(
    ("limit_s", "warning"),
    [("5", ""), ("0.05", "warning: the refresh of the login was not finished when the process ended\n")],
)
def test_a_thread_that_must_finish_is_waited_for_within_the_limit(limit_s: str, warning: str, tmp_path: Path) -> None:
    file = tmp_path / "saved"
    command = [sys.executable, "-c", PROGRAM, limit_s, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr == warning
    assert (file.read_text() if file.exists() else "") == ("" if warning else "new")
