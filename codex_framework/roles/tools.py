"""The role of a tool: what the model may call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs

from codex_framework.protocol.items import ContentItem
from codex_framework.value import Value

if TYPE_CHECKING:
    from codex_framework.protocol.events import EventMsg, FileChange
    from codex_framework.protocol.permissions import AdditionalPermissions
    from codex_framework.protocol.policies import ReviewDecision
    from codex_framework.roles.providers import ModelInfo
    from codex_framework.roles.sandboxes import FileAccess

__all__ = [
    "Aliased",
    "BringsPrograms",
    "CommandRequest",
    "CommandResult",
    "FreeformFormat",
    "FreeformSpec",
    "FunctionSpec",
    "NativeSpec",
    "Offered",
    "OutputChunk",
    "OutputWindow",
    "ParallelSafe",
    "PatchRequest",
    "RunningCommand",
    "StreamsArguments",
    "SuitsModel",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolOutput",
    "ToolSpec",
    "TurnFacts",
]

T = TypeVar("T")


class FunctionSpec(Value):
    """A tool called with JSON arguments.

    Attributes:
        name: 1 to 64 of ``[a-zA-Z0-9_.-]``.
        parameters: A JSON Schema of type ``object``.
        strict: Whether the model is held to the schema (only schemas of the strict subset).
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool = False


class FreeformFormat(Value):
    """The grammar of a freeform tool. ``syntax`` is ``lark`` or ``regex``."""

    syntax: str
    definition: str


class FreeformSpec(Value):
    """A tool called with plain text that follows a grammar (wire type ``custom``)."""

    name: str
    description: str
    format: FreeformFormat


class NativeSpec(Value):
    """A tool the model knows by itself (``local_shell``); sent as ``{"type": type, **options}``."""

    name: str
    type: str
    options: Mapping[str, Any] = attrs.field(factory=dict)


ToolSpec: TypeAlias = FunctionSpec | FreeformSpec | NativeSpec


class ToolCall(Value):
    """One call by the model.

    Attributes:
        call_id: The model's id of the call; unique within the thread.
        name: The name as called (an alias, perhaps).
        arguments: JSON text of a function call, the plain text of a freeform call, or the JSON of a native call's action.
        kind: ``function``, ``custom`` or ``local_shell``.
    """

    call_id: str
    name: str
    arguments: str
    kind: str = "function"


class ToolOutput(Value):
    """What a call gave.

    Attributes:
        content: Text, or content parts (text and images), for the model.
        success: Whether the call did what it was for; told to observers, not to the model.
        truncate: Whether the kernel may shorten the text to the model's limit (a tool that has done so itself says no).
    """

    content: str | tuple[ContentItem, ...]
    success: bool = True
    truncate: bool = True


class TurnFacts(Value, kw_only=True):
    """What a tool may know of the turn when deciding whether to offer itself."""

    model: ModelInfo
    config: Mapping[str, Any]
    """The merged ``config.toml`` as plain tables."""


class Tool(Protocol):
    """What the model may call. Implement it, or decorate a function with ``codex_framework.tool``."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and form of the arguments. Read once, at registration."""
        ...

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput | str:
        """Carry out one call.

        Raises:
            ToolError: The call failed; the text goes to the model as its output.
            ToolRefused: The call was not allowed; the text goes to the model.
            FatalToolError: The turn has to end.
            asyncio.CancelledError: The turn was interrupted; clean up and let it through.
        """
        ...


@runtime_checkable
class ParallelSafe(Protocol):
    """A tool whose calls may overlap with other such calls. Without it, a call runs alone."""

    parallel_safe: bool


@runtime_checkable
class Aliased(Protocol):
    """A tool that also answers to other names, which are never offered to the model."""

    @property
    def aliases(self) -> Sequence[str]:
        """The other names."""
        ...


@runtime_checkable
class Offered(Protocol):
    """A tool that is offered to the model in some turns only. It can be *called* in all of them."""

    def offered(self, facts: TurnFacts) -> bool:
        """Whether to offer it in a turn with these facts. Cheap: asked once a turn."""
        ...


@runtime_checkable
class SuitsModel(Protocol):
    """A tool whose form depends on the model. ``spec`` stays the form it is registered with; the name must be the same."""

    def spec_for(self, facts: TurnFacts) -> ToolSpec:
        """The form to offer in a turn with these facts. Cheap: asked once a turn, for an offered tool."""
        ...


@runtime_checkable
class StreamsArguments(Protocol):
    """A tool that wants to see its input while the model is still writing it (for a preview)."""

    def preview(self, call_id: str, text: str) -> EventMsg | None:
        """Take all input so far; return an event to show, or None. Must not have effects; errors are ignored."""
        ...


@runtime_checkable
class BringsPrograms(Protocol):
    """A tool that puts commands on the ``PATH`` of what the model runs (``apply_patch`` within a shell script)."""

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        """Program name to the argv it stands for; further arguments are appended."""
        ...


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
    env: Mapping[str, str] = attrs.field(factory=dict)
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


class PatchRequest(Value, kw_only=True):
    """File changes that need the same approval as a patch.

    Attributes:
        changes: By absolute path.
        reason: Shown to the person.
        grant_root: A folder whose grant for the session would make this and later patches pass.
    """

    changes: Mapping[str, FileChange]
    reason: str | None = None
    grant_root: str | None = None


class ToolContext(Protocol):
    """What a tool gets for one call, and no more."""

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        ...

    @property
    def thread_id(self) -> str:
        """The thread's id (a UUID)."""
        ...

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        ...

    @property
    def cwd(self) -> Path:
        """The turn's working folder, absolute."""
        ...

    @property
    def model(self) -> ModelInfo:
        """What is known of the turn's model."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The merged ``config.toml`` as plain tables."""
        ...

    @property
    def access(self) -> FileAccess:
        """Which files this turn may read and write."""
        ...

    def resolve(self, path: str) -> Path:
        """The absolute path of ``path``, taken relative to ``cwd``; not checked for existence or permission."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """Read a file.

        Raises:
            ToolError: It does not exist, is no file, or may not be read.
        """
        ...

    async def read_text(self, path: str) -> str:
        """Read a file as UTF-8; undecodable bytes become U+FFFD. Raises as :meth:`read_bytes`."""
        ...

    async def write_text(self, path: str, text: str) -> None:
        """Write a file as UTF-8, whole or not at all; missing parent folders are made.

        Raises:
            ToolRefused: The turn's permissions do not let it be written.
            ToolError: Writing failed.
        """
        ...

    async def run(self, command: CommandRequest | Sequence[str]) -> CommandResult:
        """Run a command through policy, approval and sandbox, and wait for its end.

        Raises:
            ToolRefused: Policy, reviewer, person or sandbox said no.
            ToolError: It could not be started.
        """
        ...

    async def start(self, command: CommandRequest) -> RunningCommand:
        """Start a command the same way, without waiting. Raises as :meth:`run`."""
        ...

    async def approve_patch(self, patch: PatchRequest) -> ReviewDecision:
        """Ask whether these changes may be made, as the approval policy says.

        Raises:
            ToolRefused: They may not, with the text for the model.
        """
        ...

    async def request_permissions(
        self, permissions: AdditionalPermissions, reason: str | None = None
    ) -> tuple[AdditionalPermissions, str]:
        """Ask a person whether the turn or the session may do more. What is granted holds for all later calls.

        Returns:
            What was granted (perhaps nothing), and for how long: ``turn`` or ``session``.

        Raises:
            ToolRefused: Nobody may be asked, or the permission profile denies some of it.
        """
        ...

    def emit(self, event: EventMsg) -> None:
        """Tell the thread's clients something."""
        ...

    def note_file_change(self, path: str, before: str | None, after: str | None) -> None:
        """Add a change that was made to the turn's diff.

        Args:
            path: Absolute.
            before: The file's text before, or None where it did not exist.
            after: Its text now, or None where it is gone.
        """
        ...

    def state(self, key: object, factory: Callable[[], T]) -> T:
        """The plugin's own object for this thread under ``key``, made by ``factory`` at first use.

        If it has an ``async def aclose(self)``, the kernel awaits that when the thread shuts down.
        """
        ...

    def limit_text(self, text: str, *, max_tokens: int | None = None) -> str:
        """Shorten text to what the model's truncation policy allows (first half, marker, last half)."""
        ...
