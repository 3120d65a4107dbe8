"""A subcommand that is imported when it is used, so that `--help` and the other commands start without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

import click

from codex_framework.contract.errors import CodexError, described

__all__ = ["HELP_GROUPS", "LazyCommand", "help_group", "help_group_of"]

HELP_GROUPS = ("Run", "Sessions", "Configure", "Inspect", "Serve", "Extend", "Help")
"""The headings of ``codex-framework --help``, in their order. Others follow them."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def help_group(heading: str) -> Callable[[_Command], _Command]:
    """Return a decorator that puts a command below a heading of ``codex-framework --help``. Write it above click's decorator.

    Args:
        heading: One of ``HELP_GROUPS``, or your own heading.
    """

    def mark(command: _Command) -> _Command:
        command.help_group = heading  # type: ignore[attr-defined]  # click's commands have no such attribute
        return command

    return mark


def help_group_of(command: object) -> str:
    """Return the heading below which a command is listed."""
    return str(getattr(command, "help_group", "More"))


class LazyCommand(click.Command):
    """A placeholder for a command, which is imported when it is run or its help is shown.

    Args:
        name: The name of the command.
        text: One sentence about it, for the list of commands.
        location: ``module:attribute`` of the click command.
        obj: The object that ``click.pass_obj`` passes to the command and its subcommands, such as the ``PluginContext``.
        group: The heading in ``codex-framework --help`` (see :func:`help_group`).
    """

    def __init__(self, name: str, text: str, location: str, *, obj: object = None, group: str = "More") -> None:
        super().__init__(name, short_help=text)
        self.help_group = group
        self._location = location
        self._obj = obj

    @cached_property
    def command(self) -> click.Command:
        """The command itself.

        Raises:
            CodexError: It cannot be imported, or is no command.
        """
        module, _, attribute = self._location.partition(":")
        try:
            found = getattr(import_module(module), attribute)
        except Exception as error:  # a module of a plugin may raise anything
            raise CodexError(
                f"the command {self.name!r} cannot be imported from {self._location}: {described(error)}",
                slug="command",
                hint="Fix or uninstall the plugin that offers it; `codex-framework plugins` lists the plugins.",
            ) from error
        if not isinstance(found, click.Command):
            raise CodexError(
                f"{self._location} of the command {self.name!r} is no click command but {type(found).__name__}",
                slug="command",
                hint="Name a function with the decorator `click.command` or `click.group`.",
            )
        return found

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command itself, which click runs then."""
        if self._obj is not None:
            extra.setdefault("obj", self._obj)
        return self.command.make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command itself."""
        return self.command.invoke(ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters of the command itself."""
        return self.command.get_params(ctx)
