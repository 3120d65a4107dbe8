"""The op ``run_user_shell_command`` and its handler."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError

__all__ = ["RunUserShellCommand", "UserShellHandler"]


class RunUserShellCommand(Op):
    """Run a command that the user typed, without approval and without a sandbox.

    Attributes:
        command: A script for the user's shell.
    """

    type: ClassVar[Literal["run_user_shell_command"]] = "run_user_shell_command"
    command: str


class UserShellHandler(OpHandler[RunUserShellCommand]):
    """Starts the command as a separate turn, or beside the running turn."""

    op = RunUserShellCommand

    async def handle(self, op: RunUserShellCommand, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Start the task.

        Raises:
            ThreadError: The command is invalid for every shell, the thread has no environment, or the running turn allows no tasks
                beside it.
        """
        from codex_plugin_user_shell.task import UserShell

        command: object = op.command
        if not isinstance(command, str) or not command.strip():
            raise ThreadError("the command is empty", slug="bad-request", hint="Write a command after the `!`.")
        if "\0" in command:
            raise ThreadError("the command contains a NUL character", slug="bad-request", hint="Remove it.")
        if (thread.turn or thread.settings).environments == ():
            hint = "Select an environment for the thread."
            raise ThreadError("shell is unavailable in this session", slug="environment", hint=hint)
        thread.start_task(UserShell(), command, id=id)
