"""Exec-servers that do not keep to the protocol, do not answer, die, or lie."""

from __future__ import annotations

import asyncio
import os
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from codex_framework import CommandFailed, FileAccess, SandboxError
from codex_framework.contract.permissions.file_access import NetworkMode, PathRule
from codex_framework.contract.protocol.permissions import AccessMode
from codex_framework.contract.roles.sandboxes import Launch
from codex_plugin_environments import channels, processes
from codex_plugin_environments.configuration import Place
from codex_plugin_environments.environment import RemoteEnvironment
from tests.plugins.environments.conftest import alive

SCRIPT = Path(__file__).with_name("hostile.py")
SECRET = "SECRET-canary-4711"
FULL = FileAccess(full=True, network=NetworkMode.ON, elsewhere=True)
DENIED = FileAccess(
    otherwise=AccessMode.READ,
    rules=(PathRule(Path("/denied"), AccessMode.DENY),),
    network=NetworkMode.ON,
    elsewhere=True,
)


def place(*modes: str) -> Place:
    env = {"BOX_TOKEN": SECRET}
    arguments = ("-I", str(SCRIPT), *modes)
    return Place(id="box", program=sys.executable, args=arguments, env=env, initialize_timeout_s=10.0)


def play(modes: Sequence[str], act: Callable[[RemoteEnvironment], Awaitable[Any]], **changes: Any) -> Any:
    """Do something with an environment whose server has these modes; nothing of it may be left."""

    async def main() -> Any:
        environment = RemoteEnvironment(place(*modes).evolve(**changes), {"PATH": os.environ["PATH"]})
        pids: list[int] = []
        try:
            async with asyncio.timeout(20):
                return await act(environment)
        finally:
            session = environment._session
            if session is not None:
                pids.append(session._peer._channel._process.pid)  # type: ignore[attr-defined]
            await environment.aclose()
            assert not any(map(alive, pids))
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not others, others

    return asyncio.run(main())


async def ran(environment: RemoteEnvironment, access: FileAccess = FULL) -> tuple[int, bytes, str]:
    """Run a command. Return its status, its output and the explanation of its end."""
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        launch = Launch(argv=("x",), cwd="/", env={}, stdin=null, stdout=writing, stderr=writing)
        child = await environment.confine(access, "/", {}).start(launch)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        os.close(null)
    loop = asyncio.get_running_loop()
    output = loop.run_in_executor(None, _drained, reading)
    status = await child.wait()
    return status, await output, child.explain()


def _drained(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("bytes", "sent something that is not JSON: b'"),
        ("deep", "sent something that is not JSON: b'[["),
        ("huge", "sent a message of more than 65,536 bytes"),
        ("list", "sent something that is no message"),
        ("number", "the answer to initialize is invalid: 7"),
        ("no-shell", "names no shell of a POSIX system"),
        ("wrong-shell", "names no shell of a POSIX system"),
        ("silent", "there was no answer to initialize within 0.3 s"),
        ("dies", "has ended with exit code 3: no licence for (hidden)"),
        ("refuses", "the server refuses this client: ? not with (hidden)"),
        ("odd-refusal", "the server refuses this client: it was refused"),
    ],
)
def test_a_handshake_that_fails_is_an_error(mode: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_LONGEST", 1 << 16)
    changes = {"initialize_timeout_s": 0.3} if mode == "silent" else {}

    async def connected(environment: RemoteEnvironment) -> str:
        with pytest.raises(ConnectionError) as caught:
            await environment.connect()
        assert environment.fault
        assert environment.fault in str(caught.value)
        assert environment.info is None
        return str(caught.value)

    found = play([mode], connected, **changes)
    assert text in found
    assert found.startswith("the environment `box` cannot be used: ")
    assert SECRET not in found


def test_ids_that_nobody_waits_for_change_nothing() -> None:
    async def connected(environment: RemoteEnvironment) -> Any:
        info = await environment.connect()
        return info.shell, await ran(environment)

    assert play(["ids"], connected) == ("/bin/sh", (0, b"", ""))


def test_a_late_answer_is_not_taken_for_that_to_the_next_call() -> None:
    async def called(environment: RemoteEnvironment) -> Any:
        session = await environment.session()
        with pytest.raises(ConnectionError, match=r"no answer to later within 0\.05 s"):
            await session.call("later", {}, 0.05)
        return await session.call("now", {})

    assert play(["plain"], called) == {"late": False}


@pytest.mark.parametrize("status", ["true", "-1", "256", "1e3", '"0"', "null", "[0]", "1" * 40])
def test_an_exit_status_that_is_none_is_a_failure_with_a_reason(status: str) -> None:
    found, _, why = play(["status", status], ran)
    assert found == 255
    assert why.startswith("The end of the command is not known: the server gave the exit status ")
    assert len(why) < 120


@pytest.mark.parametrize(("mode", "want"), [("twice", (3, b"")), ("foreign", (0, b"")), ("burst", (0, b"x" * 5000))])
def test_messages_about_processes(mode: str, want: Any) -> None:
    assert play([mode], ran)[:2] == want


@pytest.mark.parametrize("mode", ["early", "early-flood"])
def test_output_before_its_start_ends_the_connection(mode: str) -> None:
    async def run(environment: RemoteEnvironment) -> None:
        with pytest.raises(CommandFailed, match="before it had said that the command was started"):
            await ran(environment)
        assert "before it had said" in environment.fault

    tracemalloc.start()
    try:
        play([mode], run)
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


def test_output_that_is_none_ends_the_connection() -> None:
    status, _, why = play(["bad-output"], ran)
    assert status == 255
    assert "the server sent invalid output" in why


def test_a_command_that_is_not_confined_is_ended_and_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def run(environment: RemoteEnvironment) -> None:
        with pytest.raises(SandboxError, match="the server does not confine the command"):
            await ran(environment, DENIED)
        while not log.exists():
            await asyncio.sleep(0.01)

    play(["no-sandbox", str(log)], run)


def test_a_server_that_dies_ends_its_commands_and_reads() -> None:
    async def lost(environment: RemoteEnvironment) -> Any:
        found = await ran(environment)
        with pytest.raises(ConnectionError, match="has ended with exit code 4"):
            await environment.files(FULL, "/").read("/file", 100)
        return found

    status, output, why = play(["gone"], lost)
    assert (status, output) == (255, b"before")
    assert "The end of the command is not known: " in why
    assert "has ended with exit code 4" in why


def test_a_command_that_the_server_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_END_S", 0.1)

    async def run(environment: RemoteEnvironment) -> Any:
        reading, writing = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        launch = Launch(argv=("x",), cwd="/", env={}, stdin=null, stdout=writing, stderr=writing)
        child = await environment.confine(FULL, "/", {}).start(launch)
        os.close(writing)
        os.close(null)
        child.signal(9)
        status = await child.wait()
        assert await asyncio.get_running_loop().run_in_executor(None, _drained, reading) == b"going"
        return status, child.explain()

    status, why = play(["endless"], run)
    assert status == 255
    assert "there was no answer to process/terminate within 0.1 s" in why


@pytest.mark.parametrize(
    ("mode", "kind", "text"),
    [
        ("elsewhere", PermissionError, "Permission denied"),
        ("relative", OSError, "the server sent an invalid answer"),
        ("none", OSError, "the server sent an invalid answer"),
        ("nul", OSError, "the server sent an invalid answer"),
        ("wrong-chunk", OSError, "the server sent an invalid answer"),
        ("plain", OSError, "the file is larger than 2,500 bytes"),
    ],
)
def test_files_that_are_not_what_they_should_be(mode: str, kind: type[OSError], text: str) -> None:
    async def read(environment: RemoteEnvironment) -> None:
        with pytest.raises(kind, match=text) as caught:
            await environment.files(DENIED, "/").read("/work/file", 2500)
        assert not isinstance(caught.value, ConnectionError)

    play([mode], read)


@pytest.mark.parametrize("mode", ["names", "dots", "nul-name", "surrogate", "no-name", "no-list"])
def test_a_listing_with_what_is_no_name_is_invalid(mode: str) -> None:
    async def listed(environment: RemoteEnvironment) -> None:
        with pytest.raises(OSError, match="the server sent an invalid answer"):
            await environment.files(FULL, "/").list("/work")

    play([mode], listed)


def test_a_read_that_gets_no_answer_can_be_interrupted() -> None:
    async def read(environment: RemoteEnvironment) -> None:
        await environment.connect()
        reading = asyncio.ensure_future(environment.files(FULL, "/").read("/work/file", 2500))
        for _ in range(100):
            await asyncio.sleep(0)
        reading.cancel()
        _, late = await asyncio.wait([reading], timeout=5)
        assert not late

    play(["silent-read"], read)


def test_nothing_can_be_done_after_the_end() -> None:
    async def closed(environment: RemoteEnvironment) -> None:
        files = environment.files(FULL, "/")
        plan = environment.confine(FULL, "/", {})
        await environment.connect()
        await environment.aclose()
        await environment.aclose()
        with pytest.raises(ConnectionError, match="the environment `box` is closed"):
            await files.read("/work/file", 1)
        null = os.open(os.devnull, os.O_RDWR)
        with pytest.raises(CommandFailed, match="the environment `box` is closed"):
            await plan.start(Launch(argv=("x",), cwd="/", env={}, stdin=null, stdout=null, stderr=null))
        os.close(null)

    play(["plain"], closed)
