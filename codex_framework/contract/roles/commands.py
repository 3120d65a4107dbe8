"""A command that a plugin asks for, and what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Protocol

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
    """What a command printed between two looks at it.

    Attributes:
        text: Both streams in order of arrival, decoded. Where more than 1 MiB came, the middle is missing and a line
            ``... N bytes omitted ...`` stands there.
        total_bytes: Bytes printed in all, kept or not.
        omitted_bytes: Bytes that were not kept.
    """

    text: str
    total_bytes: int
    omitted_bytes: int = 0


class CommandRequest(Value, kw_only=True):
    """A command to run on behalf of a call: through command policy, approval and sandbox.

    Attributes:
        argv: Program and arguments; nothing is interpreted by a shell.
        cwd: Absolute, or relative to the turn's folder; None is the turn's folder.
        env: Variables on top of those the environment policy gives.
        timeout_ms: Kill the process group after this many milliseconds (exit code 124); None: never.
        tty: Run on a pseudo-terminal of 24 x 80.
        stdin: Bytes to feed; None is ``/dev/null`` (or the terminal).
        escalate: ``sandbox_permissions`` of the call.
        additional: With ``with_additional_permissions``: what it wants on top of the turn's permissions.
        justification: The model's reason for asking for more.
        prefix_rule: A command prefix the model proposes to allow from now on.
        source: ``agent``, ``unified_exec_startup`` or ``user_shell``, for events.
        announce: Whether begin, output and end events are emitted.
        drain_ms: How long to go on reading, after the command's end, while its descendants hold its output open.
        script: The shell script in ``argv``, where the tool built argv from one (policies and interception look at it).
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


class CommandResult(Value, kw_only=True):
    """A command that has ended.

    Attributes:
        exit_code: Its status; 128+N when signal N ended it; 124 when it ran out of time.
        stdout: What was kept of it (at most 1 MiB: head and tail halves), decoded; undecodable bytes are U+FFFD.
        output: Both streams in order of arrival, kept and decoded the same way.
        total_bytes: Bytes printed in all, kept or not.
        omitted_bytes: Bytes of ``output`` that were not kept.
        duration_s: Wall time, in seconds.
        timed_out: Whether ``timeout_ms`` ended it.
        denied: Whether the sandbox seems to have refused something.
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
    """A command that was started and may outlive the call (and the turn)."""

    @property
    def process_id(self) -> int:
        """The operating system's process id."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Its status once it has ended and all output was read, else None."""
        ...

    def chunks(self) -> AsyncIterator[OutputChunk]:
        """Output from now on, until the end. One reader at a time; memory is bounded whether or not somebody reads."""
        ...

    def take(self) -> OutputWindow:
        """What was printed since the last take (or the start). Independent of :meth:`chunks`."""
        ...

    async def write(self, data: bytes) -> None:
        """Feed stdin (a pipe or the terminal).

        Raises:
            ToolError: stdin is closed.
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
