"""The op ``run_user_shell_command`` and its handler."""

from __future__ import annotations

from typing import ClassVar, Literal

from codex_framework import Op, OpHandler, ThreadContext, ThreadError

__all__ = ["RunUserShellCommand", "UserShellHandler"]


class RunUserShellCommand(Op):
    """Run a command for the person who typed it: nobody is asked, and nothing confines it.

    Attributes:
        command: A script for the person's shell.
    """

    type: ClassVar[Literal["run_user_shell_command"]] = "run_user_shell_command"
    command: str


class UserShellHandler(OpHandler[RunUserShellCommand]):
    """Starts the command: as a turn of its own, or beside the turn that is running."""

    op = RunUserShellCommand

    async def handle(self, op: RunUserShellCommand, thread: ThreadContext, id: str) -> None:  # noqa: A002  # the wire's name
        """Start the task.

        Raises:
            ThreadError: The command cannot be run by any shell, or a turn is running that allows nothing beside it.
        """
        from codex_plugin_user_shell.task import UserShell

        command: object = op.command
        if not isinstance(command, str) or not command.strip():
            raise ThreadError("the command is empty", slug="bad-request", hint="Write a command behind the `!`.")
        if "\0" in command:
            raise ThreadError("the command contains a NUL character", slug="bad-request", hint="Remove it.")
        thread.start_task(UserShell(), command, id=id)
