"""The hooks for the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.exec_commands import ExecCommand
from codex_framework.contract.roles.exec_options import ExecOption
from codex_framework.contract.roles.plugins import PluginContext

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands", "codex_exec_commands", "codex_exec_options"]


@hookspec
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:  # type: ignore[empty-body]
    """Offer subcommands of the ``codex-framework`` command.

    For commands that need the plugin's context. A command that should work without plugins, even if the configuration is invalid, is
    an entry point of the group ``codex_framework.commands`` instead: see ``docs/extend/add-a-command.md``.

    Called only for ``--help`` and for a command that is not built in, but then for all plugins. A :class:`LazyCommand` keeps the
    commands of other plugins fast: ``LazyCommand("costs", "Show costs.", "my_plugin.cli:costs", obj=plugin)`` imports
    ``my_plugin.cli`` only when ``costs`` runs. Import ``LazyCommand`` within the hook, because it imports click.

    Example:
        ```python
        import click

        from codex_framework import hookimpl


        @click.command("hello")
        @click.argument("name", default="world")
        def hello(name):
            \"\"\"Greet somebody.\"\"\"
            click.echo(f"Hello {name}")


        @hookimpl
        def codex_commands():
            return [hello]
        ```
    """


@hookspec
def codex_exec_options(plugin: PluginContext) -> Iterable[ExecOption]:  # type: ignore[empty-body]
    """Offer options of ``codex-framework exec``, each of which sets a setting of the plugin, and may say where the turn runs.

    Called only for an option that is not built in, for ``exec --help`` and for the completion of words. A run without such an option
    does not call it.

    Example:
        ```python
        from codex_framework import ExecOption, Value, hookimpl


        class Settings(Value, kw_only=True):
            \"\"\"The table [framework.plugins.greeter].\"\"\"

            greeting: str = "Hello"


        @hookimpl
        def codex_settings():
            return Settings


        @hookimpl
        def codex_exec_options():
            return [ExecOption(name="greeting", setting="greeting", text="How to greet.", metavar="WORD")]
        ```
    """


@hookspec
def codex_exec_commands(plugin: PluginContext) -> Iterable[ExecCommand]:  # type: ignore[empty-body]
    """Offer subcommands of ``codex-framework exec``, which submit an op instead of a prompt.

    Called only if the first argument of ``exec`` is a single word, for a command that is not built in, and for help.

    Example:
        ```python
        from codex_framework import CommandOption, ExecCommand, ExecRequest, hookimpl
        from codex_framework.contract.protocol.ops import TextInput, UserInputOp


        def request(options, argument):
            prompt = f"Greet the user with {options.get('word', 'Hello')}."
            return ExecRequest(op=UserInputOp((TextInput(prompt),)), shown=prompt)


        @hookimpl
        def codex_exec_commands():
            word = CommandOption(name="word", text="The greeting.", metavar="WORD")
            return [ExecCommand(name="greet", text="Greet the user.", request=request, options=[word])]
        ```
    """
