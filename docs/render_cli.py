"""Renders ``reference/cli.md`` from the commands themselves.

    python docs/render_cli.py

writes it; a test compares it with what this would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from codex_framework.cli.argv import Option
from codex_framework.cli.commands import BUILT_IN, root
from codex_framework.cli.exec_options import EXEC_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS, usage

PAGE = Path(__file__).parent / "reference" / "cli.md"

_INTRODUCTION = """\
# Command line

This page is rendered from the commands; change them, then run `python docs/render_cli.py`.

The command is `codex-framework`, or `cxf` for short. Plugins may add subcommands; `codex-framework --help` shows all that
are there.

| status | meaning |
|---|---|
| 0 | done |
| 1 | it failed: stderr says what is the case and what to do; or the turn was interrupted with ^C |
| 2 | the command line cannot be read |
| 130 | ^C before anything had begun, or twice |
| 128 + n | ended by signal n (143 for SIGTERM); the thread can be resumed |

An error that a person can do something about is printed as two lines, `Error: ...` and what to do. Anything else is a bug;
with `CODEX_FRAMEWORK_TRACEBACK=1` set it shows where.
"""

_EXEC = """\
Run one turn without a person at hand: do the work, print the final message, end. How to use it: [exec](../how-to/exec.md).
`e` is short for `exec`. Options may stand before or after `resume`, and those of the first table before `exec` too.
"""


def cli_reference() -> str:
    """The page."""
    parts = [_INTRODUCTION, "## exec", "", _EXEC, _usage(usage()), ""]
    parts += ["Settings of this run:", "", *_exec_table(SHARED_OPTIONS), ""]
    parts += ["What to read, keep and print:", "", *_exec_table(EXEC_OPTIONS), ""]
    parts += ["## exec resume", "", "Go on with an earlier thread. `codex-framework resume` is the same.", ""]
    parts += [_usage(usage(resume=True)), "", "Beside the options of `exec`:", "", *_exec_table(RESUME_OPTIONS), ""]
    for name in BUILT_IN:
        if name != "exec":
            command = root.get_command(click.Context(root), name)
            assert command is not None
            parts += _command(command, name)
    return "\n".join(parts).rstrip() + "\n"


def _usage(lines: Iterable[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def _exec_table(options: Iterable[Option]) -> list[str]:
    rows = ["| option | |", "|---|---|"]
    for option in options:
        if not option.hidden:
            value = f" {option.metavar}" if option.metavar else ""
            choices = f" One of: {', '.join(f'`{choice}`' for choice in option.choices)}." if option.choices else ""
            again = " May be given again." if option.many else ""
            names = ", ".join(f"`{name}{value}`" for name in option.names)
            rows.append(f"| {names} | {option.text}{choices}{again} |")
    return rows


def _command(command: click.Command, name: str) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield inspect.cleandoc(command.help or "")
    yield ""
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    words = [name, "[OPTIONS]", *(argument.human_readable_name.upper() for argument in arguments)]
    yield _usage([f"codex-framework {' '.join(words)}"])
    yield ""
    rows = [_row(parameter) for parameter in command.params if isinstance(parameter, click.Option)]
    if rows:
        yield from ("| option | |", "|---|---|", *rows, "")
    if isinstance(command, click.Group):
        for member in command.commands.values():
            yield from _command(member, f"{name} {member.name}")


def _row(option: click.Option) -> str:
    value = "" if option.is_flag else f" {(option.metavar or option.type.name).upper()}"
    return f"| {', '.join(f'`{name}{value}`' for name in option.opts)} | {option.help or ''} |"


if __name__ == "__main__":
    PAGE.write_text(cli_reference(), encoding="utf-8")
    print(f"wrote {PAGE}")
