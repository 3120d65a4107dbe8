from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, fault, say


def wait_until(true: Callable[[], object], timeout_s: float = 20) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return _runs(pid)
    except (ProcessLookupError, FileNotFoundError):  # it may end between the two
        return False


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" if Path("/proc").is_dir() else True


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_kills_the_command_and_keeps_the_thread(
    cli: Any, user_texts: Any, number: signal.Signals, status: int
) -> None:
    pid_file = cli.work / "pid"
    server = cli.serve(call("exec_command", cmd="echo $$ > pid; exec sleep 100", yield_time_ms=30000), say("again"))
    process = cli.start("exec", "--json", "-s", "danger-full-access", "remember me")
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
    pid = int(pid_file.read_text())
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    events = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == status, err
    assert events[-1] == {"type": "turn.failed", "error": {"message": "turn interrupted"}}
    wait_until(lambda: not alive(pid))

    resumed = cli.json("resume", events[0]["thread_id"], "go on")
    assert resumed.status == 0
    said = user_texts(server.requests[1].json)
    assert "remember me" in said
    assert said[-1] == "go on"
    kinds = [item["type"] for item in server.requests[1].json["input"]]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 1


def test_a_signal_while_the_model_thinks_ends_at_once(cli: Any, user_texts: Any) -> None:
    server = cli.serve(say("never") + fault(hang_s=60, after=1), say("again"))
    process = cli.start("exec", "--json", "remember me")
    server.wait_for(1)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    thread_id = json.loads(out.splitlines()[0])["thread_id"]
    assert cli.json("resume", thread_id, "go on").status == 0
    assert "remember me" in user_texts(server.requests[1].json)


SLOW_GUARD = """
import asyncio
from pathlib import Path
from codex_framework import Interceptor, hookimpl

class Slow(Interceptor):
    name = "slow"
    async def input(self, text, turn):
        if not Path("go").exists():
            await asyncio.sleep(60)
        return text

@hookimpl
def codex_interceptors():
    return [Slow()]
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_a_thread_that_was_announced_can_be_resumed_after_a_kill(cli: Any, user_texts: Any, guarded: bool) -> None:
    server = cli.serve(
        lambda request: say("again") if "go on" in str(request.body) else say("never") + fault(hang_s=60),
        repeat_last=True,
    )
    guard = cli.work / "guard.py"
    guard.write_text(SLOW_GUARD)
    options = ("--plugin", str(guard)) if guarded else ()
    process = cli.start("exec", "--json", *options, "remember me")
    thread_id = json.loads(process.stdout.readline())["thread_id"]
    process.kill()
    process.communicate()
    (cli.work / "go").touch()
    resumed = cli.json(*options, "resume", thread_id, "go on")
    assert (resumed.status, resumed.items("agent_message")) == (0, [{"type": "agent_message", "text": "again"}])
    said = user_texts(server.requests[-1].json)
    assert said[-1] == "go on"
    assert guarded or "remember me" in said


def waiting_bytes(descriptor: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0])


def test_a_signal_before_the_start_ends_it_too(cli: Any) -> None:
    cli.serve(say("ok"))
    reading, writing = os.pipe()
    process = cli.start("exec", stdin=reading)
    os.write(writing, b"the beginning of a prompt")
    wait_until(lambda: not waiting_bytes(reading))  # it is at the reading of it
    os.close(reading)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    os.close(writing)
    assert process.returncode in (130, -signal.SIGINT), err
    assert b"Traceback" not in err


def test_a_command_left_running_ends_with_the_run(cli: Any) -> None:
    cli.serve(call("exec_command", cmd="echo $$ > pid; exec sleep 100", yield_time_ms=250), say("Done."))
    ran = cli.exec("-s", "danger-full-access", "hi")
    assert ran.status == 0
    pid = int((cli.work / "pid").read_text())
    wait_until(lambda: not alive(pid))


def test_a_signal_that_is_ignored_stays_ignored(cli: Any) -> None:
    server = cli.serve(call("exec_command", cmd="sleep 0.5"), say("Done."))
    process = cli.start("exec", "hi", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    server.wait_for(1)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, b"Done.\n"), err


@pytest.mark.parametrize("command", ["demo --no-sandbox", "sandbox -- sh -c 'touch begun; sleep 100'"])
def test_other_commands_end_by_an_interrupt_without_a_traceback(cli: Any, command: str) -> None:
    scratch = cli.work / "scratch"
    scratch.mkdir()
    cli.env["TMPDIR"] = str(scratch)
    (cli.home / "config.toml").write_text('sandbox_mode = "danger-full-access"\n')
    process = cli.start(*shlex.split(command), start_new_session=True)
    wait_until(lambda: (cli.work / "begun").exists() or list(scratch.glob("*/repository")))
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), err
    assert b"Traceback" not in err
