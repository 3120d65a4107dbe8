"""The framework's side of a confined instance: give it a command, hear of its beginning and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_framework import CommandFailed, Launch, SandboxError
from codex_framework.roles.networks import NetworkGate, ProxyPorts
from codex_plugin_landlock.jail.messages import receive, send

__all__ = ["SET_UP_S", "ConfinedProcess", "Instance", "InstanceGone", "InstanceRefused"]

SET_UP_S = 10.0
"""How long an instance may take to confine itself, and then to start a command; some milliseconds are usual."""

_KILLED = "the process that confines commands was killed from outside, and this command with it"
"""Does not say "sandbox": that word in a command's output counts as a sign that the sandbox has refused something."""


class InstanceGone(Exception):  # noqa: N818  # a turn of events, not a fault
    """An idle instance was found dead when it was to be used; the command has not been handed over."""


class InstanceRefused(Exception):  # noqa: N818
    """An instance could not confine itself.

    Attributes:
        stage: Which layer it was.
        text: What the system said.
    """

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(f"{stage}: {text}")
        self.stage = stage
        self.text = text


class ConfinedProcess:
    """A :class:`~codex_framework.ChildProcess` that lives inside an instance."""

    def __init__(self, instance: Instance, pid: int, terminal: int | None = None) -> None:
        self._instance = instance
        self._pid = pid
        self._terminal = terminal
        self._status: int | None = None
        self._note = ""
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """Its id and its group's, as seen from here."""
        return self._pid

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group; nothing happens when it is gone."""
        if self._status is None:
            self._instance.signal(number)

    async def wait(self) -> int:
        """The status once it has ended; every descendant has ended too, then. Killed with its sandbox, it is ``-SIGKILL``."""
        await self._ended.wait()
        assert self._status is not None
        return self._status

    def take_terminal(self) -> int | None:
        """The other side of a terminal in the sandbox that it has got in place of its launch's; the caller's from now on."""
        terminal, self._terminal = self._terminal, None
        return terminal

    def explain(self) -> str:
        """What its end was if it was not its own; ``""`` otherwise."""
        return self._note

    def end(self, status: int, note: str = "") -> None:
        """Called by the instance, once."""
        self._status = status
        self._note = note
        self._ended.set()


class Instance:
    """One connection to a confined instance. It runs one command at a time.

    Args:
        connection: A packet socket whose other end the instance has, or will get.
        signature: What its mounts depend on.
        level: ``namespaces`` or ``landlock``.
        told: Called with what it holds back, by which layer, when it has confined itself.
        set_up_s: How long that may take.
    """

    def __init__(
        self,
        connection: socket.socket,
        signature: tuple[object, ...],
        level: str,
        told: Callable[[Mapping[str, str]], None],
        *,
        set_up_s: float = SET_UP_S,
    ) -> None:
        connection.setblocking(False)  # noqa: FBT003
        self.signature = signature
        self.level = level
        self.ready = False
        self._told = told
        self._set_up_s = set_up_s
        self._gate: NetworkGate | None = None
        self._listening: list[socket.socket] = []
        self.retire: asyncio.TimerHandle | None = None
        self._connection = connection
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Future[Any] | None = None
        self._process: ConfinedProcess | None = None
        self._released: Callable[[Instance], None] | None = None
        self._refused: Callable[[InstanceRefused], None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        """Whether its process was there just now. Only for an idle one."""
        if self._connection.fileno() < 0:
            return False
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def listen(self, refused: Callable[[InstanceRefused], None]) -> None:
        """Before there is a command: note when it is ready, and call ``refused`` if it cannot confine itself."""
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._connection, self._read)

    async def run(
        self, launch: Launch, released: Callable[[Instance], None], gate: NetworkGate | None = None
    ) -> ConfinedProcess:
        """Start a command; ``released`` is called when the instance is free again.

        Cancelling it ends the instance, and the command with it.

        Args:
            launch: The command.
            released: Not called for an instance that has ended.
            gate: What is to carry the traffic of the instance's own network from now on, instead of any earlier one.

        Raises:
            InstanceGone: It died before it got the command.
            InstanceRefused: It could not confine itself; nothing has run.
            CommandFailed: The command cannot be started.
            SandboxError: It died in the middle, or its set-up hangs.
        """
        env = dict(launch.env)
        try:
            if gate is not None:
                env |= gate.environment(await self._serve(gate))
            named = launch.tty and launch.may_replace_terminal and self.level == "namespaces"
            wanted = {"argv": launch.argv, "cwd": launch.cwd, "env": env, "tty": launch.tty, "named": named}
            self._released = released
            process = await self._asked({"run": wanted}, (launch.stdin, launch.stdout, launch.stderr))
        except (CommandFailed, InstanceGone, InstanceRefused):
            raise  # the first leaves it as good as before, the others have closed it
        except BaseException:
            self.close()
            raise
        assert isinstance(process, ConfinedProcess)
        return process

    async def _serve(self, gate: NetworkGate) -> ProxyPorts:
        """Let ``gate`` have new listening sockets; those of an earlier one are shut, whoever still holds them."""
        if self._gate is not None and self._gate is not gate:
            await self._gate.aclose()
        self._gate = None
        self._stop_listening()
        descriptors = await self._asked({"listen": True})
        self._listening = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        http, socks = self._listening
        self._gate = gate
        await gate.serve(http, socks)
        return ProxyPorts(*(one.getsockname()[1] for one in self._listening))

    def _stop_listening(self) -> None:
        for one in self._listening:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # reaches copies as well
            one.close()
        self._listening.clear()

    async def _asked(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Send a message and wait for what comes of it. Raises as :meth:`run`."""
        self._stop_reading()
        self._loop = asyncio.get_running_loop()
        self._starting = self._loop.create_future()
        try:
            send(self._connection, message, descriptors)
        except OSError as error:
            refusal = self._refusal()
            self._starting = None
            self.close()
            raise refusal or InstanceGone(str(error)) from error
        self._loop.add_reader(self._connection, self._read)
        self._set_deadline()
        return await self._starting

    def _set_deadline(self) -> None:
        self._cancel_deadline()
        if self._loop is not None and self._starting is not None:
            self._deadline = self._loop.call_later(self._set_up_s, self._too_late)

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        try:
            send(self._connection, {"signal": number})
        except OSError:
            self.close()

    def close(self) -> None:
        """End the instance and everything in it. Its command, if any, counts as killed."""
        self._end("")

    def _end(self, note: str) -> None:
        if self._connection.fileno() < 0:
            return
        if self.retire is not None:
            self.retire.cancel()
        self._stop_reading()
        self._connection.close()
        self._stop_listening()
        self._gate = None
        self._lost(note)

    def _refusal(self) -> InstanceRefused | None:
        """What an instance said before it ended, if it was why."""
        while True:
            try:
                message, descriptors = receive(self._connection, socket.MSG_DONTWAIT)
            except ConnectionResetError:
                continue
            except OSError:
                return None
            _close(descriptors)
            if message is None:
                return None
            if "refused" in message:
                return InstanceRefused(message["refused"], message["text"])

    def _too_late(self) -> None:
        what = "the sandbox did not answer" if self.ready else "the sandbox was not set up"
        self._fail(
            SandboxError(
                f"{what} within {self._set_up_s:g} s",
                hint="look whether a writable root, or the program's folder, lies on a file system that does not answer",
            )
        )
        self.close()

    def _read(self) -> None:
        while self._loop is not None:
            try:
                message, descriptors = receive(self._connection, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # it ended without reading all we sent; what it said before that comes now
            except OSError:
                message, descriptors = None, []
            if message is None:
                self._end(_KILLED)
            elif "listening" in message:
                if not self._answer(descriptors):
                    _close(descriptors)
            else:
                self._heard(message, descriptors)

    def _heard(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        if "started" in message:
            self._process = ConfinedProcess(self, message["started"] or self._pid, *descriptors)
            if not self._answer(self._process):
                _close(descriptors)
        elif "ended" in message:
            process, self._process = self._process, None
            self._free()
            assert process is not None
            process.end(message["ended"])
        elif "failed" in message:
            text = message["text"] + (f" (os error {message['failed']})" if message["failed"] else "")
            self._fail(CommandFailed(text, hint="check that the program is on PATH and that the folder exists"))
            self._free()
        elif "instance" in message:
            self._pid = message["instance"]
        elif "ready" in message:
            self.ready = True
            self._set_deadline()
            self._told(message["enforced"])
        elif "refused" in message:
            refused = InstanceRefused(message["refused"], message["text"])
            told, self._refused = self._refused, None
            if self._starting is None and told is not None:
                told(refused)
            self._fail(refused)
            self.close()

    def _answer(self, answer: object) -> bool:
        """Whether anybody still waits for it."""
        starting, self._starting = self._starting, None
        self._cancel_deadline()
        if starting is None or starting.done():
            return False
        starting.set_result(answer)
        return True

    def _fail(self, error: Exception) -> None:
        starting, self._starting = self._starting, None
        self._cancel_deadline()
        if starting is not None and not starting.done():
            starting.set_exception(error)

    def _lost(self, note: str) -> None:
        self._fail(
            SandboxError(
                "the sandbox ended before the command had started",
                hint="try again; if it stays so, look for a process that kills others (the system's log names it)",
            )
        )
        process, self._process = self._process, None
        if process is not None:
            process.end(-signal.SIGKILL, note)

    def _free(self) -> None:
        self._stop_reading()
        released, self._released = self._released, None
        if released is not None:
            released(self)

    def _cancel_deadline(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def _stop_reading(self) -> None:
        self._cancel_deadline()
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._connection)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
