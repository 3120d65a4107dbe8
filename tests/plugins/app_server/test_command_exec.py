"""Commands of clients: the sandbox, streams, limits, and the end with the connection."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from codex_framework import Constraint, hookimpl
from codex_framework.contract.permissions.profile import Permissions, permissions_of
from codex_framework.contract.protocol.policies import ReadOnly

FULL = {"type": "dangerFullAccess"}
WORKSPACE = {"type": "workspaceWrite"}

confined = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of Linux")


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@pytest.fixture
def work(home: Any) -> Path:
    home.serve()
    folder: Path = home.work
    return folder


async def gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)


async def written(path: Path) -> int:
    """Wait until a process has written its id."""
    async with asyncio.timeout(60):
        while not (path.exists() and path.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return int(path.read_text())


def test_a_command_gives_its_output_and_exit_code(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            script = shell("pwd; cat; echo $A-${HOME-none} >&2; exit 3")
            result = await client.call("command/exec", command=script, env={"A": "1", "HOME": None}, sandboxPolicy=FULL)
            assert result == {"exitCode": 3, "stdout": f"{work}\n", "stderr": "1-none\n"}
            (work / "in").mkdir()
            result = await client.call("command/exec", command=["pwd"], cwd=str(work / "in"), sandboxPolicy=FULL)
            assert result["stdout"] == f"{work / 'in'}\n"
            assert "command/exec/outputDelta" not in client.methods()

    asyncio.run(run())


@confined
def test_a_command_runs_in_the_sandbox_of_the_configuration_or_of_the_call(
    work: Path, connected: Callable[..., Any]
) -> None:
    async def run() -> None:
        async with connected('sandbox_mode="read-only"', experimentalApi=True) as client:

            async def attempt(path: object, **params: Any) -> bool:
                result = await client.call("command/exec", command=["touch", str(path)], **params)
                return bool(result["exitCode"] == 0)

            outside = work.parent / "home" / "x"
            assert not await attempt(work / "a")
            assert not await attempt(work / "a", sandboxPolicy={"type": "readOnly"})
            assert not await attempt(work / "a", permissionProfile=":read-only")
            assert await attempt(work / "b", sandboxPolicy=WORKSPACE)
            assert await attempt(work / "c", permissionProfile=":workspace")
            assert not await attempt(work / ".git", sandboxPolicy=WORKSPACE)
            assert not await attempt(outside, sandboxPolicy=WORKSPACE)
            assert await attempt(outside, sandboxPolicy=FULL)

    asyncio.run(run())
    assert sorted(path.name for path in work.iterdir()) == ["b", "c"]


class ReadOnlyTurns(Constraint):
    name = "read_only"

    def narrow(self, permissions: Permissions, *_: object) -> Permissions:
        return permissions_of(ReadOnly()).evolve(options=permissions.options)


class Narrowing:
    """A plugin that leaves commands no place to write."""

    @hookimpl
    def codex_constraints(self) -> Iterable[Constraint]:
        return [ReadOnlyTurns()]


@confined
@pytest.mark.parametrize("policy", [WORKSPACE, FULL, None])
def test_a_constraint_narrows_what_commands_may_do(
    work: Path, connected: Callable[..., Any], policy: dict[str, Any] | None
) -> None:
    async def run() -> None:
        async with connected('sandbox_mode="danger-full-access"', plugins=[Narrowing()]) as client:
            result = await client.call("command/exec", command=["touch", str(work / "a")], sandboxPolicy=policy)
            assert result["exitCode"] != 0

    asyncio.run(run())
    assert list(work.iterdir()) == []


def test_a_command_starts_no_mcp_server(home: Any, connected: Callable[..., Any]) -> None:
    started = home.path / "started"
    home.serve(more=f'[mcp_servers.x]\ncommand = "/bin/sh"\nargs = ["-c", "touch {started}; cat"]')

    async def run() -> None:
        async with connected() as client:
            for _ in range(2):
                await client.call("command/exec", command=["true"], sandboxPolicy=FULL)
            assert (await client.call("thread/loaded/list"))["data"] == []

    asyncio.run(run())
    assert not started.exists()


def test_output_and_input_are_streamed(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            options = {"processId": "p", "streamStdin": True, "streamStdoutStderr": True, "sandboxPolicy": FULL}
            number = client.start("command/exec", command=["cat"], **options)
            first = client.start("command/exec/write", processId="p", deltaBase64=encoded(b"on"))
            client.start("command/exec/write", processId="p", deltaBase64=encoded(b"e\n"))
            assert (await client.response(first))["result"] == {}
            text = b""
            while len(text) < 4:
                delta = await client.notification("command/exec/outputDelta")
                assert (delta["processId"], delta["stream"], delta["capReached"]) == ("p", "stdout", False)
                text += base64.b64decode(delta["deltaBase64"])
            assert text == b"one\n"
            await client.call("command/exec/write", processId="p", deltaBase64=encoded(b"x"), closeStdin=True)
            delta = await client.notification("command/exec/outputDelta")
            assert base64.b64decode(delta["deltaBase64"]) == b"x"
            assert (await client.response(number))["result"] == {"exitCode": 0, "stdout": "", "stderr": ""}
            error = await client.fail("command/exec/write", processId="p", closeStdin=True)
            assert error == {"code": -32600, "message": 'no active command/exec for process id "p"'}

    asyncio.run(run())
    assert work.exists()


@pytest.mark.parametrize("policy", [FULL, pytest.param(WORKSPACE, marks=confined)], ids=["free", "confined"])
def test_a_command_can_have_a_terminal(policy: dict[str, str], work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            command = shell('test -t 0 && test -t 2 && stty size; read x; stty size; echo "got $x" >&2; cat; exit 4')
            size = {"rows": 33, "cols": 99}
            number = client.start(
                "command/exec", command=command, processId="p", tty=True, size=size, sandboxPolicy=policy
            )
            first = await client.notification("command/exec/outputDelta")
            assert base64.b64decode(first["deltaBase64"]) == b"33 99\r\n"
            assert await client.call("command/exec/resize", processId="p", size={"rows": 40, "cols": 120}) == {}
            await client.call("command/exec/write", processId="p", deltaBase64=encoded(b"typed\n"))
            await client.call("command/exec/write", processId="p", closeStdin=True)
            response = await client.response(number)
            assert response["result"] == {"exitCode": 4, "stdout": "", "stderr": ""}
            deltas = [each["params"] for each in client.seen if each.get("method") == "command/exec/outputDelta"]
            assert {delta["stream"] for delta in deltas} == {"stdout"}
            shown = b"".join(base64.b64decode(delta["deltaBase64"]) for delta in deltas)
            assert b"40 120\r\n" in shown  # what is typed is echoed in between
            assert b"got typed\r\n" in shown

    asyncio.run(run())


def test_a_terminal_takes_no_input_after_its_end(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            command = shell("cat; sleep 600")
            number = client.start("command/exec", command=command, processId="p", tty=True, sandboxPolicy=FULL)
            await client.call("command/exec/write", processId="p", closeStdin=True)
            error = await client.fail("command/exec/write", processId="p", deltaBase64=encoded(b"more"))
            assert error == {"code": -32600, "message": "stdin is already closed"}
            await client.call("command/exec/terminate", processId="p")
            await client.response(number)

    asyncio.run(run())


def test_only_a_terminal_can_be_resized(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            number = client.start("command/exec", command=["cat"], processId="p", streamStdin=True, sandboxPolicy=FULL)
            error = await client.fail("command/exec/resize", processId="p", size={"rows": 1, "cols": 1})
            assert error == {"code": -32600, "message": "failed to resize PTY: process is not attached to a PTY"}
            error = await client.fail("command/exec/resize", processId="p", size={"rows": 1, "cols": 0})
            assert error["code"] == -32602
            assert (await client.fail("command/exec/resize", processId="q", size={"rows": 1, "cols": 1}))[
                "code"
            ] == -32600
            await client.call("command/exec/terminate", processId="p")
            await client.response(number)

    asyncio.run(run())


def test_nothing_is_written_after_the_end_of_stdin(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            client.start(
                "command/exec",
                command=["sleep", "600"],
                processId="p",
                streamStdin=True,
                disableTimeout=True,
                cwd=str(work),
            )
            await client.call("command/exec/write", processId="p", closeStdin=True)
            error = await client.fail("command/exec/write", processId="p", deltaBase64=encoded(b"x"))
            assert error == {"code": -32600, "message": "stdin is already closed"}
            await client.call("command/exec/terminate", processId="p")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("params", "out", "err"),
    [
        ({"outputBytesCap": 3}, 3, 3),
        ({"outputBytesCap": 0}, 0, 0),
        ({}, 1 << 20, 4),
        ({"disableOutputCap": True}, 1_500_000, 4),
    ],
)
def test_output_is_bounded(
    work: Path, connected: Callable[..., Any], params: dict[str, Any], out: int, err: int
) -> None:
    async def run() -> None:
        async with connected() as client:
            command = shell("head -c 1500000 /dev/zero | tr '\\0' a; echo xyz >&2")
            result = await client.call("command/exec", command=command, sandboxPolicy=FULL, cwd=str(work), **params)
            assert (len(result["stdout"]), len(result["stderr"]), result["exitCode"]) == (out, err, 0)

    asyncio.run(run())


def test_a_response_is_never_larger_than_a_client_can_take(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            for params in ({"disableOutputCap": True}, {"outputBytesCap": 1 << 40}):
                endless = {"command": ["cat", "/dev/zero"], "sandboxPolicy": FULL, "cwd": str(work), **params}
                error = await client.fail("command/exec", disableTimeout=True, **endless)
                assert "the output exceeds" in error["message"]

    asyncio.run(run())


def test_streamed_output_says_where_it_was_cut(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            options = {"processId": "p", "streamStdoutStderr": True, "outputBytesCap": 3, "cwd": str(work)}
            await client.call(
                "command/exec", command=shell("echo abcdef; sleep 0.1; echo more"), sandboxPolicy=FULL, **options
            )
            deltas = [each["params"] for each in client.seen if each.get("method") == "command/exec/outputDelta"]
            end = {"processId": "p", "stream": "stdout", "deltaBase64": encoded(b"abc"), "capReached": True}
            assert deltas == [end]

    asyncio.run(run())


def test_a_client_that_does_not_read_holds_its_command_up(work: Path, serving: Callable[..., Any]) -> None:
    async def run() -> None:
        async with serving() as running:
            client = running.connect()
            await client.hello()
            client.reading.clear()
            script = "i=0; while [ $i -lt 300 ]; do head -c 100000 /dev/zero; i=$((i+1)); echo $i > n; done"
            options = {"processId": "p", "streamStdoutStderr": True, "disableOutputCap": True, "disableTimeout": True}
            number = client.start("command/exec", command=shell(script), cwd=str(work), sandboxPolicy=FULL, **options)
            async with asyncio.timeout(60):
                count, before = "", "-"
                while not count or count != before:  # it has come to a halt
                    before = count
                    await asyncio.sleep(0.3)
                    count = (work / "n").read_text() if (work / "n").exists() else ""
            assert int(count) < 250
            client.reading.set()
            assert (await client.response(number))["result"]["exitCode"] == 0
            sizes = (
                len(base64.b64decode(each["params"]["deltaBase64"]))
                for each in client.seen
                if each.get("method") == "command/exec/outputDelta"
            )
            assert sum(sizes) == 30_000_000

    asyncio.run(run())


def test_a_time_limit_ends_a_command(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            command = shell("echo $$ > pid; exec sleep 600")
            result = await client.call("command/exec", command=command, timeoutMs=1000, sandboxPolicy=FULL)
            assert result == {"exitCode": 124, "stdout": "", "stderr": ""}
            await gone(await written(work / "pid"))

    asyncio.run(run())


def test_a_client_ends_its_command(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected() as client:
            command = shell("sleep 600 & echo $! > pid; wait")
            options = {"processId": "p", "sandboxPolicy": FULL, "disableTimeout": True}
            number = client.start("command/exec", command=command, **options)
            pid = await written(work / "pid")
            error = await client.fail("command/exec", command=["true"], processId="p")
            assert error == {"code": -32600, "message": 'duplicate active command/exec process id: "p"'}
            error = await client.fail("command/exec/write", processId="p", closeStdin=True)
            assert error == {"code": -32600, "message": "stdin streaming is not enabled for this command/exec"}
            error = await client.fail("command/exec/resize", processId="p", size={"rows": 1, "cols": 1})
            assert error == {"code": -32600, "message": "failed to resize PTY: process is not attached to a PTY"}
            assert await client.call("command/exec/terminate", processId="p") == {}
            assert (await client.response(number))["result"]["exitCode"] != 0
            await gone(pid)

    asyncio.run(run())


def test_a_command_belongs_to_its_connection_and_ends_with_it(work: Path, serving: Callable[..., Any]) -> None:
    async def run() -> None:
        async with serving() as running:
            client, other = running.connect(), running.connect()
            await client.hello()
            await other.hello()
            command = shell("echo $$ > pid; exec sleep 600")
            client.start("command/exec", command=command, processId="p", sandboxPolicy=FULL, disableTimeout=True)
            pid = await written(work / "pid")
            error = await other.fail("command/exec/terminate", processId="p")
            assert error["message"] == 'no active command/exec for process id "p"'
            os.kill(pid, 0)
            assert (await other.call("command/exec", command=["true"], processId="p", sandboxPolicy=FULL))[
                "exitCode"
            ] == 0
            client.leave()
            await client.until_closed()
            await gone(pid)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("params", "code", "message"),
    [
        ({"command": []}, -32600, "command must not be empty"),
        ({"command": ["/no/such"]}, -32603, "failed to spawn command: No such file or directory (os error 2)"),
        ({"command": ["a\0b"]}, -32603, "failed to spawn command: nul byte found in provided data"),
        ({"env": {"A": "\0"}}, -32603, "failed to spawn command: nul byte found in provided data"),
        ({"cwd": "/no/such"}, -32603, "failed to spawn command: No such file or directory (os error 2)"),
        ({"streamStdin": True}, -32600, "command/exec tty or streaming requires a client-supplied processId"),
        ({"streamStdoutStderr": True}, -32600, "command/exec tty or streaming requires a client-supplied processId"),
        ({"size": {"rows": 1, "cols": 1}}, -32602, "command/exec size requires tty: true"),
        (
            {"tty": True, "processId": "p", "size": {"rows": 0, "cols": 1}},
            -32602,
            "command/exec size rows and cols must be greater than 0",
        ),
        (
            {"timeoutMs": 1, "disableTimeout": True},
            -32602,
            "command/exec cannot set both timeoutMs and disableTimeout",
        ),
        ({"timeoutMs": -1}, -32602, "command/exec timeoutMs must be non-negative, got -1"),
        (
            {"outputBytesCap": 1, "disableOutputCap": True},
            -32602,
            "command/exec cannot set both outputBytesCap and disableOutputCap",
        ),
        (
            {"permissionProfile": ":workspace"},
            -32600,
            "command/exec.permissionProfile requires experimentalApi capability",
        ),
    ],
)
def test_errors_are_those_of_codex(
    work: Path, connected: Callable[..., Any], params: dict[str, Any], code: int, message: str
) -> None:
    async def run() -> None:
        async with connected() as client:
            command = {"command": shell("touch made"), "sandboxPolicy": FULL}
            assert await client.fail("command/exec", **command | params) == {"code": code, "message": message}

    asyncio.run(run())
    assert list(work.iterdir()) == []


def test_two_sources_of_permissions_are_refused(work: Path, connected: Callable[..., Any]) -> None:
    async def run() -> None:
        async with connected(experimentalApi=True) as client:
            both = {"permissionProfile": ":workspace", "sandboxPolicy": FULL}
            error = await client.fail("command/exec", command=["touch", "made"], **both)
            assert error["message"] == "`permissionProfile` cannot be combined with `sandboxPolicy`"
            error = await client.fail("command/exec", command=["touch", "made"], permissionProfile=":nope")
            assert (error["code"], ":nope" in error["message"]) == (-32600, True)
            for params in ({}, {"deltaBase64": "!!"}):
                assert (await client.fail("command/exec/write", processId="p", **params))["code"] == -32602

    asyncio.run(run())
    assert list(work.iterdir()) == []
