"""Commands that plugins run, and their results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from codex_framework.contract.value import Value, field

if TYPE_CHECKING:
    from codex_framework.contract.protocol.permissions import AdditionalPermissions

__all__ = [
    "CommandRequest",
    "CommandResult",
    "OutputChunk",
    "OutputWindow",
    "RunningCommand",
]


class OutputChunk(Value):
    """Bytes a command has printed. ``stream`` is ``stdout`` or ``stderr`` (a terminal has only ``stdout``)."""

    stream: str
    data: bytes


class OutputWindow(Value, kw_only=True):
    """The output of a command between two calls of ``take``.

    Attributes:
        text: Both streams in order of arrival, decoded. If there was more than 1 MiB, a line ``... N bytes omitted ...`` replaces
            the
            middle.
        total_bytes: Bytes printed in all, kept or not.
        omitted_bytes: Bytes that were not kept.
    """

    text: str
    total_bytes: int
    omitted_bytes: int = 0


class CommandRequest(Value, kw_only=True):
    """A command to run on behalf of a call: through command policy, approval and sandbox.

    Attributes:
        argv: Program and arguments. No shell interprets them.
        cwd: The working folder, absolute or relative to the turn's folder. By default, the turn's folder.
        env: Environment variables in addition to the environment policy.
        timeout_ms: Time limit in milliseconds. When it expires, the process group is killed and the exit code is 124. By default,
            there is no limit.
        tty: Whether to run on a pseudo-terminal of 24 x 80.
        stdin: Bytes to write to stdin. By default, stdin is ``/dev/null`` or the terminal.
        escalate: ``sandbox_permissions`` of the call.
        additional: Permissions in addition to the turn's, with ``with_additional_permissions``.
        justification: The model's reason for requesting more.
        prefix_rule: A command prefix that the model proposes to allow permanently.
        source: ``agent``, ``unified_exec_startup`` or ``user_shell``, for events.
        announce: Whether begin, output and end events are emitted.
        drain_ms: How long to continue reading after the command's end while its descendants keep its output open, in
            milliseconds.
        script: The shell script in ``argv``, if the tool built argv from one. Policies and interception use it.
        actions: The parsed actions of the command, in the form of ``parsed_cmd`` of events. Only for display. By default, they
            are unknown.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(factory=dict)
    timeout_ms: int | None = None
    tty: bool = False
    stdin: bytes | None = None
    escalate: str = "use_default"
    additional: AdditionalPermissions | None = None
    justification: str | None = None
    prefix_rule: tuple[str, ...] | None = None
    source: str = "agent"
    announce: bool = True
    drain_ms: int = 2000
    script: str | None = None
    actions: tuple[Mapping[str, Any], ...] | None = None


class CommandResult(Value, kw_only=True):
    """A command that has ended.

    Attributes:
        exit_code: The exit status; 128+N if signal N ended the command; 124 if the time limit expired.
        stdout: The standard output, decoded, at most 1 MiB: its first and last half. Undecodable bytes are U+FFFD.
        output: Both streams in order of arrival, limited and decoded in the same way. A line ``... N bytes omitted ...`` replaces
            the middle that was not kept.
        total_bytes: Bytes printed in all, kept or not.
        omitted_bytes: Bytes of ``output`` that were not kept.
        duration_s: Wall time, in seconds.
        timed_out: Whether ``timeout_ms`` ended it.
        denied: Whether the sandbox probably denied an access.
    """

    exit_code: int
    stdout: str
    stderr: str
    output: str
    total_bytes: int
    omitted_bytes: int
    duration_s: float
    timed_out: bool = False
    denied: bool = False


class RunningCommand(Protocol):
    """A started command, which may outlive the call and the turn."""

    @property
    def process_id(self) -> int:
        """The operating system's process id."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit status. None until the command has ended and all its output was read."""
        ...

    def chunks(self) -> AsyncIterator[OutputChunk]:
        """Yield the output from now on, until the end. Only one reader at a time. Memory is bounded, even without a reader."""
        ...

    def take(self) -> OutputWindow:
        """Return the output since the last call, or since the start. Independent of :meth:`chunks`."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to stdin (a pipe or the terminal).

        Raises:
            ToolError: stdin is closed.
        """
        ...

    async def close_stdin(self) -> None:
        """Close stdin after everything is written, so that the command reads its end. A terminal stays open."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the command's terminal.

        Raises:
            ToolError: It has no terminal, or its terminal is on another machine and cannot be resized.
        """
        ...

    def interrupt(self) -> None:
        """Send SIGINT to the process group."""
        ...

    async def kill(self) -> None:
        """End the whole process group: SIGTERM, then SIGKILL after 50 ms. Returns when it is gone."""
        ...

    async def wait(self) -> CommandResult:
        """Wait for the end."""
        ...
