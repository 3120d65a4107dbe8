"""``codex-framework completion``: completion scripts for shells."""

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

    For example, in bash: eval "$(codex-framework completion bash)"
    """
    completion = _SHELLS[shell](context.find_root().command, {}, "codex-framework", "_CODEX_FRAMEWORK_COMPLETE")
    click.echo(completion.source())
