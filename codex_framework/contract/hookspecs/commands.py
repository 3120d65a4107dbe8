"""The command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from codex_framework.contract.hookspecs.markers import hookspec
from codex_framework.contract.roles.plugins import PluginContext

if TYPE_CHECKING:
    import click

__all__ = ["codex_commands"]


@hookspec
def codex_commands(plugin: PluginContext) -> Iterable[click.Command]:  # type: ignore[empty-body]
    """Offer subcommands of the ``codex-framework`` command.

    Called only for ``--help`` and for a command that is not built in.

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
