"""Commands of clients, in the sandbox and beside all threads. A command ends with the connection that has started it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codex_framework import Agent, Task, TaskContext, ToolError
from codex_framework.contract.roles.commands import RunningCommand
from codex_plugin_app_server.connection import Connection
from codex_plugin_app_server.errors import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from codex_plugin_app_server.server import Call
from codex_plugin_app_server.settings import turn_overrides
from codex_plugin_app_server.table import Json, MethodTable

table = MethodTable()

_TIMEOUT_MS = 10_000
_OUTPUT_BYTES = 1 << 20
"""Limits of a command whose client sets none, as in Codex. The second is for each stream."""

_TERMINAL_SIZE = {"rows": 24, "cols": 80}

_END_OF_INPUT = b"\n\x04"
"""The input that ends a terminal's input: Ctrl-D on a separate line."""

_LARGEST_RESPONSE = 4 << 20
"""The maximum size of both streams in a response in bytes, whatever the client sets. Escaped, they are up to six times as
large.
"""


@table.method("command/exec", "CommandExecParams", "CommandExecResponse", concurrent=True)
async def run_command(call: Call) -> Json:
    """Run a command in the sandbox, with `tty` on a terminal, and return its output and exit code."""
    _check(call)
    process_id = call.params.get("processId")
    key = (call.connection, object() if process_id is None else process_id)
    if key in _commands:
        raise RpcError(f"duplicate active command/exec process id: {json.dumps(process_id)}")
    command = _commands[key] = _Command(call)
    try:
        return await command.run()
    finally:
        del _commands[key]


@table.method("command/exec/write", "CommandExecWriteParams", "CommandExecWriteResponse", concurrent=True)
async def write(call: Call) -> Json:
    """Write to the stdin of a command that was started with `streamStdin` or `tty`, or close it."""
    encoded, closes = call.params.get("deltaBase64"), bool(call.params.get("closeStdin"))
    if encoded is None and not closes:
        raise RpcError("command/exec/write requires deltaBase64 or closeStdin", INVALID_PARAMS)
    try:
        data = base64.b64decode(encoded or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError(f"invalid deltaBase64: {error}", INVALID_PARAMS) from None
    await _command(call).write(data, closes=closes)
    return {}


@table.method("command/exec/resize", "CommandExecResizeParams", "CommandExecResizeResponse", concurrent=True)
async def resize(call: Call) -> Json:
    """Set the size of a command's terminal."""
    rows, columns = _size(call.params["size"])
    await _command(call).resize(rows, columns)
    return {}


@table.method("command/exec/terminate", "CommandExecTerminateParams", "CommandExecTerminateResponse", concurrent=True)
async def terminate(call: Call) -> Json:
    """End a command, with all processes of its group."""
    await _command(call).kill()
    return {}


def _check(call: Call) -> None:
    """Refuse parameters that contradict each other. Raises RpcError."""
    params = call.params
    profile, timeout_ms = params.get("permissionProfile"), params.get("timeoutMs")
    streams = any(params.get(name) for name in ("tty", "streamStdin", "streamStdoutStderr"))
    if profile is not None and not call.client.experimental:
        raise RpcError("command/exec.permissionProfile requires experimentalApi capability")
    if profile is not None and params.get("sandboxPolicy") is not None:
        raise RpcError("`permissionProfile` cannot be combined with `sandboxPolicy`")
    if not params["command"]:
        raise RpcError("command must not be empty")
    if params.get("size") is not None and not params.get("tty"):
        raise RpcError("command/exec size requires tty: true", INVALID_PARAMS)
    if params.get("disableOutputCap") and params.get("outputBytesCap") is not None:
        raise RpcError("command/exec cannot set both outputBytesCap and disableOutputCap", INVALID_PARAMS)
    if params.get("disableTimeout") and timeout_ms is not None:
        raise RpcError("command/exec cannot set both timeoutMs and disableTimeout", INVALID_PARAMS)
    if timeout_ms is not None and timeout_ms < 0:
        raise RpcError(f"command/exec timeoutMs must be non-negative, got {timeout_ms}", INVALID_PARAMS)
    if params.get("size") is not None:
        _size(params["size"])
    if streams and params.get("processId") is None:
        raise RpcError("command/exec tty or streaming requires a client-supplied processId")


def _size(size: Mapping[str, int]) -> tuple[int, int]:
    """Return rows and columns. Raises RpcError."""
    if not (size["rows"] and size["cols"]):
        raise RpcError("command/exec size rows and cols must be greater than 0", INVALID_PARAMS)
    return size["rows"], size["cols"]


def _command(call: Call) -> _Command:
    """Return the command that the client means. Raises RpcError."""
    found = _commands.get((call.connection, call.params["processId"]))
    if found is None:
        raise _inactive(call.params["processId"])
    return found


def _inactive(process_id: str) -> RpcError:
    return RpcError(f"no active command/exec for process id {json.dumps(process_id)}")


class _Starter(Task):
    """Starts a process with the permissions of the turn: the thread's permissions, narrowed by constraints.

    Attributes:
        started: The process, or the error that prevented it.
    """

    kind = "command_exec"

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], terminal_size: tuple[int, int] | None) -> None:
        self._argv = argv
        self._env = env
        self._terminal: dict[str, Any] = {} if terminal_size is None else {"tty": True, "terminal_size": terminal_size}
        self.started: RunningCommand | Exception = RpcError("the command was not started", INTERNAL_ERROR)

    async def run(self, turn: TaskContext, input: Any) -> None:  # noqa: A002, ARG002  # the words of the contract
        """Start the process. It outlives the turn, but not the thread."""
        facts = turn.facts
        start = turn.thread.start_process
        try:
            self.started = await start(
                self._argv, permissions=facts.permissions, env=self._env, cwd=facts.cwd, lossless=True, **self._terminal
            )
        except Exception as error:
            self.started = error


class _Command:
    """A command of a client."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._process: RunningCommand | None = None
        self._attempted = asyncio.Event()
        self._output: dict[str, bytearray] = defaultdict(bytearray)
        self._room: dict[str, int] = defaultdict(lambda: self._cap)  # bytes of each stream that are still wanted
        self._full: set[str] = set()
        self._writable = any(call.params.get(name) for name in ("tty", "streamStdin"))
        self._is_closed = False

    @property
    def _cap(self) -> int:
        if self._call.params.get("disableOutputCap"):
            return sys.maxsize
        cap = self._call.params.get("outputBytesCap")
        return _OUTPUT_BYTES if cap is None else int(cap)

    async def run(self) -> Json:
        """Run it to its end, and return the response. Raises RpcError."""
        params, server = self._call.params, self._call.server
        size = _size(params.get("size") or _TERMINAL_SIZE) if params.get("tty") else None
        starter = _Starter(*_launch(params), size)
        servers = server.kernel.config.get("mcp_servers") or {}
        config: dict[str, Any] = {"mcp_servers": {name: {"enabled": False} for name in servers}}  # nobody calls them
        if params.get("permissionProfile") is not None:
            config["default_permissions"] = params["permissionProfile"]
        overrides: dict[str, Any] = {}
        if params.get("sandboxPolicy") is not None:
            overrides["sandbox_policy"] = turn_overrides({"sandboxPolicy": params["sandboxPolicy"]}).sandbox_policy
        if params.get("cwd") is not None:
            overrides["cwd"] = _folder(params["cwd"])
        thread = None
        try:
            agent = Agent(name="command_exec", loop=starter)
            async with server.kernels.at(None) as kernel:
                thread = await kernel.start_thread(agent=agent, config=config, ephemeral=True, **overrides)
            thread.start(" ")
            await thread.settled()
            process = _process_of(starter)
            self._process = process
            self._attempted.set()
            if not self._writable:
                await process.close_stdin()
            return await self._finish(process)
        finally:
            self._attempted.set()
            if thread is not None:
                await thread.shutdown()
                server.kernels.close_idle()

    async def _finish(self, process: RunningCommand) -> Json:
        """Take the output, up to the end of the command, the time limit, or the end of the connection."""
        params = self._call.params
        limit_ms = _TIMEOUT_MS if params.get("timeoutMs") is None else params["timeoutMs"]
        reading = asyncio.ensure_future(self._read(process))
        leaving = asyncio.ensure_future(self._call.connection.left.wait())
        try:
            done, _ = await asyncio.wait(
                (reading, leaving),
                timeout=None if params.get("disableTimeout") else limit_ms / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            leaving.cancel()
            if not reading.done():
                reading.cancel()
                await process.kill()
        if reading in done:
            reading.result()
        result = await process.wait()
        texts = {name: self._output[name].decode("utf-8", "replace") for name in ("stdout", "stderr")}
        return {"exitCode": result.exit_code if done else 124, **texts}

    async def _read(self, process: RunningCommand) -> None:
        async for chunk in process.chunks():
            stream = chunk.stream
            if stream in self._full:
                continue
            data = chunk.data[: self._room[stream]]
            self._room[stream] -= len(data)
            if not self._room[stream]:
                self._full.add(stream)
            if self._call.params.get("streamStdoutStderr") or self._call.params.get("tty"):
                await self._send(stream, data)
                continue
            self._output[stream] += data
            if sum(map(len, self._output.values())) > _LARGEST_RESPONSE:
                await process.kill()
                fact = f"the output exceeds {_LARGEST_RESPONSE} bytes: stream it, or set outputBytesCap"
                raise RpcError(fact, INTERNAL_ERROR)

    async def _send(self, stream: str, data: bytes) -> None:
        """Send output, once the client has read earlier output."""
        connection = self._call.connection
        await connection.room()
        delta = {
            "processId": self._call.params["processId"],
            "stream": stream,
            "deltaBase64": base64.b64encode(data).decode("ascii"),
            "capReached": stream in self._full,
        }
        connection.notify("command/exec/outputDelta", delta)

    async def write(self, data: bytes, *, closes: bool) -> None:
        """Write to stdin, and close it afterwards if that is wanted. Raises RpcError."""
        if not self._writable:
            raise RpcError("stdin streaming is not enabled for this command/exec")
        process = await self._started()
        is_terminal = bool(self._call.params.get("tty"))
        try:
            if self._is_closed:
                raise ToolError("stdin is closed")
            await process.write(data + (_END_OF_INPUT if closes and is_terminal else b""))
        except ToolError:
            raise RpcError("stdin is already closed") from None
        if closes:
            self._is_closed = True
            await process.close_stdin()

    async def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal. Raises RpcError."""
        process = await self._started()
        try:
            process.resize(rows, columns)
        except ToolError:
            raise RpcError("failed to resize PTY: process is not attached to a PTY") from None

    async def kill(self) -> None:
        """End the command. Raises RpcError."""
        await (await self._started()).kill()

    async def _started(self) -> RunningCommand:
        await self._attempted.wait()
        if self._process is None:
            raise _inactive(self._call.params["processId"])
        return self._process


_commands: dict[tuple[Connection, object], _Command] = {}
"""The running commands, by connection and the client's id. A command without an id gets one that no client can use."""


def _launch(params: Json) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the arguments of a command, and the variables that it gets besides the configured ones. Raises RpcError."""
    argv, variables = tuple(params["command"]), params.get("env") or {}
    if any("\0" in text for text in (*argv, *variables, *variables.values()) if text is not None):
        raise RpcError("failed to spawn command: nul byte found in provided data", INTERNAL_ERROR)
    removed = [option for name, value in variables.items() if value is None for option in ("-u", name)]
    if removed:
        argv = ("env", *removed, "--", *argv)
    return argv, {name: value for name, value in variables.items() if value is not None}


def _folder(text: str) -> Path:
    folder = Path.cwd() / text
    if "\0" in text or not folder.is_dir():
        raise RpcError("failed to spawn command: No such file or directory (os error 2)", INTERNAL_ERROR)
    return folder


def _process_of(starter: _Starter) -> RunningCommand:
    """Return the started process. Raises the error that prevented it."""
    if isinstance(starter.started, ToolError):
        raise RpcError(f"failed to spawn command: {starter.started}", INTERNAL_ERROR)
    if isinstance(starter.started, Exception):
        raise starter.started
    return starter.started
