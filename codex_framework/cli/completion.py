"""``codex-framework completion``: prints the completion script of a shell, or installs it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from codex_framework.contract.errors import CodexError
from codex_framework.toolkit.lazy_command import help_group
from codex_framework.toolkit.os_errors import os_error_text
from codex_framework.toolkit.regular_files import open_regular

__all__ = ["command"]

_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "fish": FishComplete, "zsh": ZshComplete}
_PROGRAMS = ("codex-framework", "cxf")
_START = {"zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }\n"}
"""The code that must precede a script: zsh has completion only after initialising it."""


@help_group("Configure")
@click.command("completion", short_help="Install completion for your shell, or print its script.")
@click.argument("shell", type=click.Choice(list(_SHELLS)), required=False)
@click.option("--install", is_flag=True, help="Install the script, so that every new shell has it.")
@click.pass_context
def command(context: click.Context, shell: str | None, *, install: bool) -> None:
    """Print the completion script of a shell, for `codex-framework` and `cxf`. Default: the shell of $SHELL.

    With `--install`, the script is written to a file that new shells load. For bash and zsh, a line is added to the shell's own
    file if it is not there yet. Install it again after an update.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise click.UsageError(f"Name your shell: {', '.join(_SHELLS)}.")
    root = context.find_root().command
    scripts = {
        name: _SHELLS[shell](root, {}, name, "_CODEX_FRAMEWORK_COMPLETE").source().strip() + "\n" for name in _PROGRAMS
    }
    whole = _START.get(shell, "") + "\n".join(scripts.values())
    if not install:
        click.echo(whole)
        return
    try:
        places = _install_fish(scripts) if shell == "fish" else _install(shell, whole)
    except OSError as error:
        raise CodexError(
            f"cannot install completion: {error.filename}: {os_error_text(error)}",
            slug="completion",
            hint=f'Make the file writable, or add this line to a file of your shell: eval "$(codex-framework completion {shell})"',
        ) from error
    click.echo(f"Completion for {shell} is installed: {' and '.join(map(str, places))}. Open a new shell to use it.")


def _install_fish(scripts: dict[str, str]) -> list[Path]:
    """Write a script for each program into the folder in which fish looks for them."""
    folder = _folder("XDG_CONFIG_HOME", ".config") / "fish" / "completions"
    return [_write(folder / f"{name}.fish", script) for name, script in scripts.items()]


def _install(shell: str, script: str) -> list[Path]:
    """Write the script, and a line that loads it into the file that the shell reads at its start."""
    file = _write(_folder("XDG_DATA_HOME", ".local/share") / "codex-framework" / f"completion.{shell}", script)
    home = Path(os.environ.get("ZDOTDIR") or Path.home()) if shell == "zsh" else Path.home()
    start = home / f".{shell}rc"
    line = f"[ -r {shlex.quote(str(file))} ] && . {shlex.quote(str(file))}"
    with open(start, "a+", encoding="utf-8", errors="surrogateescape", opener=open_regular) as opened:
        opened.seek(0)
        text = opened.read()
        if line not in text.splitlines():
            opened.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
    return [file, start]


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def _folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default)
