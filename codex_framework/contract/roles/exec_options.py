"""Options of ``exec`` that plugins add."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from codex_framework.contract.protocol.events.event import Event, EventMsg
from codex_framework.contract.protocol.events.turn import TokenUsage
from codex_framework.contract.protocol.ops import Op, UserInputItem
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.value import Value, field

__all__ = ["ExecOption", "ExecRun", "ExecThread", "OptionUse"]


class OptionUse(Value, kw_only=True):
    """An option on a command line.

    Attributes:
        value: Its value: a string, a list of strings, or True for a switch.
        config: The merged configuration, with all options.
        given: The settings of the command line alone, by top-level key.
    """

    value: Any
    config: Mapping[str, Any] = field(repr=False)
    given: Mapping[str, Any] = field(repr=False)


class ExecRun(OptionUse, kw_only=True):
    """A run of ``exec`` whose thread is opened by an option.

    Attributes:
        options: The options of the command line, by long name without dashes, without those of a subcommand. A plugin refuses
            unknown options, so that no option is silently ignored.
        thread: The thread to resume or to fork, as the user has named it. None for a new thread, and for ``--last``.
        resume: Whether to resume a thread, or a fork of it.
        fork: Whether to fork the thread first.
        at: The last turn that the fork keeps: its number or its id. None keeps all.
    """

    options: Mapping[str, Any] = field(repr=False)
    thread: str | None = None
    resume: bool = False
    fork: bool = False
    at: int | str | None = None


class ExecThread(Protocol):
    """The thread in which ``exec`` runs its turn, in this process or elsewhere. Threads of a kernel have these members."""

    @property
    def id(self) -> str:
        """The thread's id (a UUID)."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings of the turn, for display."""
        ...

    @property
    def usage(self) -> TokenUsage:
        """Tokens of the thread so far."""
        ...

    def stream(
        self,
        prompt: Sequence[UserInputItem],
        *,
        output_schema: Mapping[str, Any] | None = None,
        answers: bool = True,
    ) -> AsyncIterator[EventMsg]:
        """Start a turn and yield its events until ``task_complete`` or ``turn_aborted``. See ``Thread.stream``."""
        ...

    def follow(self, op: Op, *, answers: bool = True) -> AsyncIterator[EventMsg]:
        """Submit an op that starts a turn, and yield the events as :meth:`stream` does."""
        ...

    def save(self) -> None:
        """Make sure that the thread can be resumed, because its id is about to be printed."""
        ...

    def events(self) -> AsyncIterator[Event]:
        """Return the events from now on. They end when the thread is shut down."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the turn and wait for its end."""
        ...

    async def shutdown(self) -> None:
        """End the use of the thread. Safe to call twice."""
        ...


class ExecOption(Value, kw_only=True):
    """An option of ``exec`` and its subcommands, which sets a setting of the plugin: ``[framework.plugins.<plugin>]``.

    The value has precedence over the configuration, like all options. The plugin reads it with
    ``plugin.settings(Settings)``.

    Attributes:
        name: The long name without dashes: lower-case letters, digits and ``-``. Names of the built-in options are not available.
        setting: The name of the setting: a field of the class that the plugin's ``codex_settings`` returns. None if the option
            has another effect only: ``implies`` or ``open_thread``.
        text: The description for ``--help``.
        metavar: The name of its value in ``--help``. The setting gets the value as a string. None if the option is a switch,
            which sets the setting to true.
        many: Whether the option may be repeated. The setting is then a list of strings.
        choices: The allowed values. Empty means any.
        is_path: Whether the value is a path. A relative path begins in the current folder, and the setting gets an absolute one.
        implies: Returns further settings that follow from the option, by dotted key, or nothing. Called once, before the run.
            It may prepare something, print to stderr, and raise a ``CodexError``, which ends the program with its text. The
            result overrides configuration files, but not settings of the command line. None if the option implies nothing.
        open_thread: Opens the thread in which the turn runs. It is open within the context, and a ``CodexError`` ends the program
            with its text. The run then needs no kernel, and whether the project is trusted is not checked. None if the turn runs
            in this process.
    """

    name: str
    setting: str | None = None
    text: str
    metavar: str | None = None
    many: bool = False
    choices: tuple[str, ...] = ()
    is_path: bool = False
    implies: Callable[[OptionUse], Mapping[str, Any]] | None = None
    open_thread: Callable[[ExecRun], AbstractAsyncContextManager[ExecThread]] | None = None
