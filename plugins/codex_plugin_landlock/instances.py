"""The framework's side of a confined instance: sends commands, and receives the reports of their start and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codex_framework import ChildProcess, CommandFailed, Launch, SandboxError
from codex_framework.contract.roles.networks import NetworkGate, ProxyPorts
from codex_plugin_landlock.jail.messages import receive, send

__all__ = ["SET_UP_S", "ConfinedProcess", "Instance", "InstanceGone", "InstanceRefused"]

SET_UP_S = 10.0
"""Time limit in seconds for an instance to confine itself, and again for starting a command. Each usually takes milliseconds."""

_END_S = 5.0
"""Time limit in seconds for an instance to report the end of a killed command. When it expires, the instance is closed."""

_KILLED = "the process that confines commands was killed from outside, and this command with it"
"""The text must not contain "sandbox". In a command's output, this word indicates that the sandbox refused something."""

_STUCK = (
    f"the process that confines commands did not report the end of this one within {_END_S:g} s after it was killed"
)


class InstanceGone(Exception):  # noqa: N818  # an event, not an error
    """An idle instance is unusable: it has ended, or an earlier command left something in it. The new command was not started."""


class InstanceRefused(Exception):  # noqa: N818
    """An instance could not confine itself.

    Attributes:
        stage: The layer that failed.
        text: The system's error message.
        number: The system's error number, if any.
    """

    def __init__(self, stage: str, text: str, number: int | None = None) -> None:
        super().__init__(f"{stage}: {text}")
        self.stage = stage
        self.text = text
        self.number = number


class ConfinedProcess(ChildProcess):
    """A :class:`~codex_framework.ChildProcess` inside an instance."""

    def __init__(self, instance: Instance, pid: int, terminal: int | None = None) -> None:
        self._instance = instance
        self._pid = pid
        self._terminal = terminal
        self._status: int | None = None
        self._note = ""
        self._ended = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id outside of the sandbox, which is also the id of the process group."""
        return self._pid

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group, or do nothing if the group is gone."""
        if self._status is None:
            self._instance.signal(number)

    async def wait(self) -> int:
        """Wait until the process and all its descendants have ended, and return its status.

        The status is ``-SIGKILL`` if the process was killed with its sandbox.
        """
        await self._ended.wait()
        assert self._status is not None
        return self._status

    def take_terminal(self) -> int | None:
        """Return our side of the terminal that the sandbox created to replace the launch's, and make the caller its owner.

        None if the process uses the launch's terminal, or the terminal was already taken.
        """
        terminal, self._terminal = self._terminal, None
        return terminal

    def explain(self) -> str:
        """Return why the process did not end normally, or ``""`` otherwise."""
        return self._note

    def end(self, status: int, note: str = "") -> None:
        """Record that the process has ended. The instance calls this once."""
        self._status = status
        self._note = note
        self._ended.set()


class Instance:
    """One connection to a confined instance, which runs one command at a time.

    Args:
        connection: A packet socket. The instance has the other end, or will receive it.
        signature: The facts about the file system on which its mounts depend.
        level: ``namespaces`` or ``landlock``.
        on_confined: Called when the instance has confined itself, with the layer that enforces each protection.
        set_up_s: Time limit in seconds for its set-up.
    """

    def __init__(
        self,
        connection: socket.socket,
        signature: tuple[object, ...],
        level: str,
        on_confined: Callable[[Mapping[str, str]], None],
        *,
        set_up_s: float = SET_UP_S,
    ) -> None:
        connection.setblocking(False)  # noqa: FBT003
        self.signature = signature
        self.level = level
        self.ready = False
        self._on_confined = on_confined
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
        self._killing: asyncio.TimerHandle | None = None

    @property
    def alive(self) -> bool:
        """Whether this idle instance can be used. A ready instance sends a message only when it ends."""
        if self._connection.fileno() < 0:
            return False
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) and not self.ready
        except BlockingIOError:
            return True
        except OSError:
            return False

    def listen(self, refused: Callable[[InstanceRefused], None]) -> None:
        """Watch an instance that has no command yet, and call ``refused`` if it cannot confine itself."""
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._connection, self._read)

    async def run(
        self, launch: Launch, released: Callable[[Instance], None], gate: NetworkGate | None = None
    ) -> ConfinedProcess:
        """Start a command. Cancelling this call ends the instance and its command.

        Args:
            launch: The command.
            released: Called when the instance is free again. Not called if the instance has ended.
            gate: The gate for the traffic of the instance's own network. It replaces any earlier gate. By default,
                there is no gate.

        Raises:
            InstanceGone: The instance ended before it received the command.
            InstanceRefused: The instance could not confine itself, and the command was not started.
            CommandFailed: The command cannot be started.
            SandboxError: The instance ended while it started the command, or its set-up took too long.
        """
        env = dict(launch.env)
        try:
            if gate is not None:
                env |= gate.environment(await self._serve(gate))
            named = launch.tty and launch.may_replace_terminal and self.level == "namespaces"
            request = {"argv": launch.argv, "cwd": launch.cwd, "env": env, "tty": launch.tty, "named": named}
            self._released = released
            process = await self._ask({"run": request}, (launch.stdin, launch.stdout, launch.stderr))
        except (CommandFailed, InstanceGone, InstanceRefused):
            raise  # only CommandFailed leaves the instance usable; the others have closed it
        except BaseException:
            self.close()
            raise
        assert isinstance(process, ConfinedProcess)
        return process

    async def _serve(self, gate: NetworkGate) -> ProxyPorts:
        """Give ``gate`` new listening sockets, and shut down the sockets of an earlier gate, including all copies."""
        if self._gate is not None and self._gate is not gate:
            await self._gate.aclose()
        self._gate = None
        self._stop_listening()
        descriptors = await self._ask({"listen": True})
        self._listening = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        http, socks = self._listening
        self._gate = gate
        await gate.serve(http, socks)
        return ProxyPorts(*(listener.getsockname()[1] for listener in self._listening))

    def _stop_listening(self) -> None:
        for listener in self._listening:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # also affects copies of the socket
            listener.close()
        self._listening.clear()

    async def _ask(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> Any:
        """Send a message and wait for the answer.

        Raises:
            InstanceGone, InstanceRefused, CommandFailed, SandboxError: As for :meth:`run`.
        """
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
            return
        if number == signal.SIGKILL and self._killing is None and self._loop is not None:
            self._killing = self._loop.call_later(_END_S, self._end, _STUCK)

    def close(self) -> None:
        """End the instance and everything in it. If it has a command, the command counts as killed."""
        self._end("")

    def _end(self, note: str) -> None:
        if self._connection.fileno() < 0:
            return
        if self.retire is not None:
            self.retire.cancel()
        self._cancel_killing()
        self._stop_reading()
        self._connection.close()
        self._stop_listening()
        self._gate = None
        self._lost(note)

    def _refusal(self) -> InstanceRefused | None:
        """Return the refusal that an instance sent before it ended, or None if it sent none."""
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
                return _refused(message)

    def _too_late(self) -> None:
        what = "the sandbox did not answer" if self.ready else "the sandbox was not set up"
        self._fail(
            SandboxError(
                f"{what} within {self._set_up_s:g} s",
                hint="check whether a writable root or the program's folder is on a file system that does not respond",
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
                continue  # the instance ended before it read all data; its last messages follow
            except OSError:
                message, descriptors = None, []
            if message is None:
                self._end(_KILLED)
            elif "listening" in message:
                if not self._answer(descriptors):
                    _close(descriptors)
            else:
                self._handle(message, descriptors)

    def _handle(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        if "started" in message:
            self._process = ConfinedProcess(self, message["started"] or self._pid, *descriptors)
            if not self._answer(self._process):
                _close(descriptors)
        elif "ended" in message:
            process, self._process = self._process, None
            self._cancel_killing()
            self._free()
            assert process is not None
            process.end(message["ended"])
        elif "failed" in message:
            text = message["text"] + (f" (os error {message['failed']})" if message["failed"] else "")
            failed = CommandFailed(text, hint="check that the program is on PATH and that the folder exists")
            failed.__cause__ = OSError(message["failed"], message["text"])
            self._fail(failed)
            self._free()
        elif "worn" in message:
            self._fail(InstanceGone("an earlier command has left something in it"))
            self.close()
        elif "instance" in message:
            self._pid = message["instance"]
        elif "ready" in message:
            self.ready = True
            self._set_deadline()
            self._on_confined(message["enforced"])
        elif "refused" in message:
            refused = _refused(message)
            callback, self._refused = self._refused, None
            if self._starting is None and callback is not None:
                callback(refused)
            self._fail(refused)
            self.close()

    def _answer(self, answer: object) -> bool:
        """Deliver an answer to the waiting call. Return whether a call was still waiting."""
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
                hint="try again; if this repeats, look for a process that kills others (the system log names it)",
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

    def _cancel_killing(self) -> None:
        killing, self._killing = self._killing, None
        if killing is not None:
            killing.cancel()

    def _stop_reading(self) -> None:
        self._cancel_deadline()
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._connection)


def _refused(message: Mapping[str, Any]) -> InstanceRefused:
    return InstanceRefused(message["refused"], message["text"], message["errno"])


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
