"""Renders ``reference/cli.md`` from the commands.

    python docs/render_cli.py

writes the page. A test checks that the page is up to date.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from operator import itemgetter
from pathlib import Path

import click

from codex_framework.cli.argv import Option
from codex_framework.cli.commands import BUILT_IN, root
from codex_framework.cli.exec_options import (
    EXEC_OPTIONS,
    FORK_OPTIONS,
    RESUME_OPTIONS,
    SHARED_OPTIONS,
    command_usage,
    usage,
)
from codex_framework.cli.plugin_options import own_options
from codex_framework.contract.roles.exec_commands import ExecCommand
from codex_framework.loader.registry import Registry, load_registry
from codex_framework.loader.static_commands import static_commands
from codex_framework.toolkit.lazy_command import LazyCommand

PAGE = Path(__file__).parent / "reference" / "cli.md"

_INTRODUCTION = """\
# Command line

This page is rendered from the commands. To change it, change the commands and run `python docs/render_cli.py`.

The command is `codex-framework`, or `cxf` for short. Other packages [may add subcommands](../extend/add-a-command.md): those of
the bundled plugins are at the end of this page, and `codex-framework --help` lists all of them.

| exit status | meaning |
|---|---|
| 0 | success |
| 1 | failure, with the reason and a hint on stderr |
| 2 | the command line is invalid |
| 128 + n | ended by signal n: 130 for ^C, 143 for SIGTERM. An interrupted turn is saved, and its thread can be resumed |

An error that you can fix is printed as two lines: `Error: ...` and a hint. Any other error is a bug. Set
`CODEX_FRAMEWORK_TRACEBACK=1` to get its traceback.
"""

_EXEC = """\
Run one turn non-interactively: do the work, print the final message, and exit. See [exec](../run/exec.md) for how to use it.
`e` is short for `exec`. Options may be given before or after `resume` and `fork`, and those of the first table also before `exec`.
Those of the first table may stand before every other command too, as in `codex-framework -c model=o3 debug prompt`: settings apply to
it, `-C` is the folder in which it runs, and what only a turn needs has no effect on a command that runs none. Only `--worktree` is
refused there.
"""

_FORK = """\
Start a copy of an earlier thread. The original does not change, and may be running. Without a prompt, no turn
runs: the id of the new thread is printed. Outside of a terminal, `codex-framework fork` does the same.
"""


def cli_reference() -> str:
    """Return the page."""
    parts = [_INTRODUCTION, "## exec", "", _EXEC, _usage(usage()), ""]
    parts += ["Settings of the run:", "", *_exec_table(SHARED_OPTIONS), ""]
    parts += ["Input and output:", "", *_exec_table(EXEC_OPTIONS), ""]
    parts += ["Of the bundled plugins:", "", *_exec_table(_offered_options()), ""]
    parts += [
        "## exec resume",
        "",
        "Resume an earlier thread. Outside of a terminal, `codex-framework resume` does the same.",
        "",
    ]
    parts += [
        _usage(usage("resume")),
        "",
        "Options in addition to those of `exec`:",
        "",
        *_exec_table(RESUME_OPTIONS),
        "",
    ]
    parts += ["## exec fork", "", _FORK, _usage(usage("fork")), ""]
    parts += ["Options in addition to those of `exec resume`:", "", *_exec_table(FORK_OPTIONS), ""]
    for name, subcommand in sorted(_registry().exec_commands.items()):
        parts += _exec_command(name, subcommand.item)
    clients = [name for name, source in static_commands().items() if source.bundled]
    for name in (*BUILT_IN, *clients):
        if name != "exec":
            command = root.get_command(click.Context(root), name)
            assert command is not None
            parts += _command(command, name)
    for name, command in _offered():
        parts += _command(command, name)
    return "\n".join(parts).rstrip() + "\n"


def _exec_command(name: str, command: ExecCommand) -> Iterator[str]:
    yield from (f"## exec {name}", "", f"{command.text}{_alone(command)}", "", _usage([command_usage(command)]), "")
    if command.argument is not None:
        yield from (f"`PROMPT`: {command.argument}", "")
    yield from ("Options in addition to those of `exec`:", "", *_exec_table(own_options(command)), "")


def _alone(command: ExecCommand) -> str:
    return f" `codex-framework {command.name}` does the same." if command.alone else ""


def _offered() -> list[tuple[str, click.Command]]:
    """Return the commands of the bundled plugins."""
    commands = ((name, offer.item) for name, offer in _registry().commands.items())
    whole = ((name, each.command if isinstance(each, LazyCommand) else each) for name, each in commands)
    return sorted(whole, key=itemgetter(0))


def _offered_options() -> list[Option]:
    """Return the options of `exec` of the bundled plugins."""
    offered = sorted(_registry().exec_options.items())
    return [Option(f"--{name}", offer.item.text, metavar=offer.item.metavar) for name, offer in offered]


def _registry() -> Registry:
    points = [point for point in distribution("codex-framework").entry_points if point.group == "codex_framework"]
    return load_registry({}, entry_points=points, environ={})


def _usage(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _exec_table(options: Iterable[Option]) -> list[str]:
    rows = ["| option | |", "|---|---|"]
    for option in options:
        if not option.hidden:
            value = f" {option.metavar}" if option.metavar else ""
            choices = f" One of: {', '.join(f'`{choice}`' for choice in option.choices)}." if option.choices else ""
            again = " May be repeated." if option.many else ""
            names = ", ".join(f"`{name}{value}`" for name in option.names)
            rows.append(f"| {names} | {option.text}{choices}{again} |")
    return rows


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield "\n\n".join(_paragraph(text) for text in inspect.cleandoc(command.help or "").split("\n\n"))
    yield ""
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    words = [name, "[OPTIONS]", *(argument.make_metavar(click.Context(command)) for argument in arguments)]
    yield _usage([f"codex-framework {' '.join(words)}"])
    yield ""
    rows = [_row(parameter) for parameter in command.params if isinstance(parameter, click.Option)]
    if rows:
        yield from ("| option | |", "|---|---|", *rows, "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.commands or command.list_commands(context):
            member = command.get_command(context, word)
            assert member is not None
            yield from _command(member, f"{name} {word}")


def _paragraph(text: str) -> str:
    """Return a paragraph of a help text. One that click must not wrap starts with the character U+0008."""
    return _usage(textwrap.dedent(text[1:]).strip().splitlines()) if text.startswith("\b") else text


def _row(option: click.Option) -> str:
    value = "" if option.is_flag else f" {(option.metavar or option.type.name).upper()}"
    return f"| {', '.join(f'`{name}{value}`' for name in option.opts)} | {option.help or ''} |"


if __name__ == "__main__":
    PAGE.write_text(cli_reference(), encoding="utf-8")
    print(f"wrote {PAGE}")
