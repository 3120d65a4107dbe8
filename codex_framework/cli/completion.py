"""``codex-framework completion``: what a shell needs to complete command lines."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

__all__ = ["command"]

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For bash, for example: eval "$(codex-framework completion bash)"
    """
    made = _SHELLS[shell](context.find_root().command, {}, "codex-framework", "_CODEX_FRAMEWORK_COMPLETE")
    click.echo(made.source())
