"""All subcommands except ``exec``: built in, of clients, and of plugins. Each is imported when it is first used."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.shell_completion import CompletionItem

from codex_framework import __version__
from codex_framework.cli.argv import Option
from codex_framework.cli.plugin_files import PluginFiles, plugin_files, settings_before
from codex_framework.contract.errors import CodexError
from codex_framework.loader.discovery import PluginSource
from codex_framework.loader.static_commands import (
    is_click_command,
    load_command,
    static_commands,
    unavailable_commands,
)
from codex_framework.toolkit.documentation import documentation_folder
from codex_framework.toolkit.lazy_command import HELP_GROUPS, LazyCommand, help_group, help_group_of
from codex_framework.toolkit.terminal_text import is_colour_wanted

if TYPE_CHECKING:
    from codex_framework.loader.registry import Registry

__all__ = ["ANSWERS", "BUILT_IN", "Commands", "root", "run_command"]

BUILT_IN = {
    "exec": ("codex_framework.cli.commands", "exec_command"),
    "resume": ("codex_framework.cli.commands", "resume_command"),
    "fork": ("codex_framework.cli.commands", "fork_command"),
    "init": ("codex_framework.cli.commands", "init_command"),
    "config": ("codex_framework.cli.config", "command"),
    "trust": ("codex_framework.cli.trust", "command"),
    "plugins": ("codex_framework.cli.plugins", "command"),
    "completion": ("codex_framework.cli.completion", "command"),
    "help": ("codex_framework.cli.commands", "help_command"),
    "version": ("codex_framework.cli.commands", "version_command"),
}
"""The module and attribute of each built-in command."""


class Commands(click.Group):
    """The group of all commands. Plugins are loaded only to find commands that they offer by a hook."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        try:
            offered = list(_hook_commands(ctx))
        except CodexError as error:
            click.echo(f"warning: the commands of plugins are not shown: {error}", err=True)
            offered = []
        for sentence in unavailable_commands():
            click.echo(f"warning: {sentence}", err=True)
        found = [*BUILT_IN, *static_commands()]
        return [*found, *sorted(set(offered) - set(found))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name."""
        if location := BUILT_IN.get(cmd_name):
            command: click.Command = getattr(importlib.import_module(location[0]), location[1])
            return command
        if source := static_commands().get(cmd_name):
            return _static_command(source)
        return _hook_commands(ctx).get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each below the heading that it states, with their whole sentences."""
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HELP_GROUPS}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                text = command.get_short_help_str(limit=_LONGEST_SENTENCE)
                groups.setdefault(help_group_of(command), []).append((name, text))
        widest = max(len(name) for rows in groups.values() for name, _ in rows)
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(widest), text) for name, text in rows])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, the options, and the options of a turn, which are allowed before every command."""
        from codex_framework.cli.exec_options import SHARED_OPTIONS

        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)
        shown = [option for option in SHARED_OPTIONS if not option.hidden]
        rows = [
            (", ".join(option.names) + (f" {option.metavar}" if option.metavar else ""), option.text)
            for option in shown
        ]
        with formatter.section("Settings, before any command"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Say where the documentation is."""
        if folder := documentation_folder():
            formatter.write(f"\nDocumentation: {folder}/index.md\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is named first. For an unknown name, suggest a similar command."""
        known = self.get_command(ctx, args[0])
        if known is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            before = getattr(ctx.find_root().obj, "before", ())
            words = [word for word in args if word not in ctx.help_option_names]
            raise click.UsageError(unknown_command(words, self.list_commands(ctx), _failures(ctx), before), ctx)
        if known is not None:
            args = [args[0], *_apply_options(ctx, known, args[1:])]
        return super().resolve_command(ctx, args)


def _apply_options(ctx: click.Context, command: click.Command, args: list[str]) -> list[str]:
    """Return the arguments of a command, with the options before it that it has itself, or that its subcommand has.

    Settings apply to every other command too. Among its arguments they are taken out, unless it is one of the static group.
    """
    chain = [(0, command.command if isinstance(command, LazyCommand) else command)]
    if isinstance(chain[0][1], click.Group):
        members = ((place, chain[0][1].get_command(ctx, word)) for place, word in enumerate(args, 1))
        chain += [(place, member) for place, member in members if member is not None][:1]
    if not _is_static(command) and not any(_is_open(each) or _has(each, "-c", "--config") for _, each in chain):
        settings, args = _take_settings(args)
        if settings:
            ctx.params["config"] = (*ctx.params["config"], *settings)
            ctx.meta.pop(__name__, None)  # the plugins are loaded again with this configuration
    for option in ctx.command.params:
        value = ctx.params.get(option.name or "") or ()
        texts = value if isinstance(value, tuple) else (value,)
        place = next((place for place, each in chain if _has(each, *option.opts)), None)
        if place is not None:
            args[place:place] = [word for text in texts for word in (option.opts[0], text)]
    return args


def _is_static(command: click.Command) -> bool:
    """Return whether a command is of the static group. Such a command defines its own options for settings, if any."""
    return command.name in static_commands()


def _is_open(command: click.Command) -> bool:
    """Return whether a command takes any option."""
    return bool(command.context_settings.get("ignore_unknown_options"))


def _has(command: click.Command, *names: str) -> bool:
    """Return whether a command has an option with all of these names."""
    return any({*names} <= {*own.opts} for own in command.params)


_LONGEST_SENTENCE = 1000
_SETTINGS = ("-c", "--config", "--enable", "--disable")
_MOST_WORDS = 2
"""How many arguments may precede a setting: a subcommand and a name. Later arguments may be the command line of a server."""


def _take_settings(args: list[str]) -> tuple[list[str], list[str]]:
    """Return the settings among the first arguments, and the other arguments."""
    settings: list[str] = []
    rest: list[str] = []
    position = 0
    while (
        position < len(args)
        and args[position] != "--"
        and sum(not word.startswith("-") for word in rest) <= _MOST_WORDS
    ):
        name, equals, value = args[position].partition("=")
        position += 1
        if name not in _SETTINGS:
            rest.append(args[position - 1])
            continue
        if not equals:
            if position == len(args):
                raise click.UsageError(f"Option {name!r} requires an argument.")
            value = args[position]
            position += 1
        switch = str(name == "--enable").lower()
        settings.append(value if name in ("-c", "--config") else f"features.{value}={switch}")
    return settings, [*rest, *args[position:]]


def unknown_command(
    words: Sequence[str], commands: Sequence[str], failures: Sequence[str] = (), before: Sequence[str] = ()
) -> str:
    """Return the error for arguments that start with no command. They may be a mistyped command or a prompt.

    Args:
        failures: Why plugins could not be loaded, which might have offered the command.
        before: The options before them.
    """
    import difflib
    import shlex

    if answer := ANSWERS.get(words[0]):
        return f"No such command {words[0]!r}. {answer}"
    near = [] if " " in words[0] else difflib.get_close_matches(words[0], commands, n=1)
    task = shlex.join([*before, " ".join(words)])
    lines = [f"No such command {words[0]!r}.", ""]
    if near:
        lines.append(f"  Did you mean: codex-framework {shlex.join([near[0], *words[1:]])}")
    if not near or len(words) > 1:
        lines.append(f"  To give the model this task, run: codex-framework exec {task}")
    if failures:
        lines += ["", "Plugins that could not be loaded might have this command:", *(f"  {text}" for text in failures)]
    return "\n".join(lines)


_CLOUD = "Codex's cloud is not used here, except by: codex-framework apply TASK_ID"
_SERVICE = "It is a service of Codex that is not offered here. See docs/explanation/differences-from-codex.md."
ANSWERS = {
    "plugin": "Plugins are Python packages. To add one, run: codex-framework plugins install NAME",
    "agents": "To find a session, run: codex-framework sessions list",
    "queue": "To send a message to a session, run: codex-framework exec resume SESSION MESSAGE",
    "cloud": _CLOUD,
    "cloud-tasks": _CLOUD,
    "remote-control": _SERVICE,
    "exec-server": _SERVICE,
    "migrate-rollouts": "Nothing needs to be migrated: sessions of every version of Codex can be resumed.",
    "migrate-nfs-db": "Nothing needs to be migrated: sessions are files, and there is no database.",
}
"""Advice for commands of Codex that do not exist here."""


_ABOUT = """\
Run a coding agent, or build your own from plugins.

Without a command, the interactive terminal starts. A first argument with spaces is a prompt for it.

To begin:

\b
  codex-framework demo                    watch an agent, without a key
  codex-framework login                   or set OPENAI_API_KEY
  codex-framework exec "fix the tests"    give the model a task
"""


@click.group(
    "codex-framework",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    help=_ABOUT,
)
@click.option("-c", "--config", multiple=True, hidden=True)
@click.option("-p", "--profile", hidden=True)
@click.option("-i", "--image", multiple=True, hidden=True)
@click.option("--add-dir", multiple=True, hidden=True)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.pass_context
def root(context: click.Context, /, **_: Any) -> None:
    """Run a coding agent, or build your own from plugins."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class ExecCommand(click.Command):
    """The ``exec`` command. It passes its arguments on unparsed, but completes its own options."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options that start with ``incomplete``, or the values of the option before it."""
        from codex_framework.cli.exec_options import EXEC_OPTIONS, FORK_OPTIONS, RESUME_OPTIONS, SHARED_OPTIONS

        every = (*SHARED_OPTIONS, *EXEC_OPTIONS, *RESUME_OPTIONS, *FORK_OPTIONS, *_plugin_options(ctx))
        known = [option for option in every if not option.hidden]
        before = ctx.args[-1] if ctx.args else ""
        asked = next((option for option in known if before in option.names and option.metavar), None)
        if asked is not None:
            from codex_framework.cli.completion_values import option_values

            return option_values(asked, ctx, incomplete)
        names = [(name, option.text) for option in known for name in option.names]
        items = [CompletionItem(name, help=text) for name, text in names if incomplete and name.startswith(incomplete)]
        return [*items, *super().shell_complete(ctx, incomplete)]


def _turn_command(name: str, text: str, words: Sequence[str], program: str) -> click.Command:
    """Return a command whose arguments ``exec`` reads, after these words."""

    def callback() -> None:
        from codex_framework.cli.exec import exec_main

        context = click.get_current_context()
        context.exit(exec_main([*words, *context.args], program))

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    command = ExecCommand(name, callback=callback, add_help_option=False, context_settings=settings, short_help=text)
    return help_group("Run")(command)


exec_command = _turn_command("exec", "Run one turn non-interactively (also: e).", (), "codex-framework exec")
resume_command = _turn_command("resume", "Continue an earlier session.", ("resume",), "codex-framework")
fork_command = _turn_command("fork", "Continue a copy of an earlier session.", ("fork",), "codex-framework")


@help_group("Run")
@click.command("init", context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF EXEC]...")
@click.pass_context
def init_command(context: click.Context, options: tuple[str, ...]) -> None:
    """Let the model write an AGENTS.md for this project.

    The file tells agents how the project is laid out, built and tested. One that exists is not changed.
    """
    from codex_framework.cli.exec import exec_main

    if os.path.lexists("AGENTS.md"):
        click.echo("AGENTS.md already exists here. It has not been changed.")
        return
    context.exit(exec_main(["-s", "workspace-write", *options, _INIT], "codex-framework exec"))


_INIT = "Write an AGENTS.md for this project: what it is, how it is laid out, how to build, test and lint it, and its conventions."


@help_group("Help")
@click.command("help")
@click.argument("command", nargs=-1)
@click.pass_context
def help_command(context: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of a command, or this page."""
    context.exit(run_command([*command, "--help"]))


@help_group("Help")
@click.command("version")
def version_command() -> None:
    """Show the version."""
    click.echo(f"codex-framework {__version__}")


def run_command(argv: Sequence[str], plugin_files: Sequence[str] = (), before: Sequence[str] = ()) -> int:
    """Run a command and return its exit status.

    Args:
        argv: The command line, in which only the group's own options precede the command.
        plugin_files: The one-file plugins to load in addition.
        before: The options before the command, unchanged.

    Raises:
        CodexError: Any error of the command.
    """
    gc.enable()
    files = PluginFiles(map(Path, plugin_files))
    files.before = before
    try:
        status = root.main(
            list(argv),
            prog_name="codex-framework",
            standalone_mode=False,
            obj=files,
            color=None if is_colour_wanted() else False,
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _plugin_options(context: click.Context) -> list[Option]:
    """Return the options of ``exec`` that plugins add, or an empty list if the configuration is invalid."""
    from codex_framework.cli.plugin_options import plugin_options
    from codex_framework.config import load_config

    try:
        config = load_config(cwd=Path.cwd(), environ=os.environ)
        return [each.option for each in plugin_options(config, [str(file) for file in plugin_files(context)])]
    except (CodexError, OSError):
        return []


def _hook_commands(context: click.Context) -> Mapping[str, click.Command]:
    """Return the commands of plugins. A subcommand of ``exec`` is a command too if it says so."""
    registry = _registry(context)
    alone = [offer.item for offer in registry.exec_commands.values() if offer.item.alone]
    return {
        **{each.name: _turn_command(each.name, each.text, (each.name,), "codex-framework") for each in alone},
        **{name: offer.item for name, offer in registry.commands.items()},
    }


def _static_command(source: PluginSource) -> click.Command:
    """Return a command of the static group. If it cannot be loaded, its help and its use report the reason."""
    try:
        command = load_command(source)
    except CodexError as error:
        return _pass_on(source.name, str(error), partial(_raise, error))
    if is_click_command(command):
        return cast("click.Command", command)
    passed_on = _pass_on(source.name, inspect.getdoc(command) or "", command)
    return help_group(help_group_of(command))(passed_on)


def _raise(error: CodexError, _: list[str]) -> int:
    raise error


def _pass_on(name: str, text: str, run: Callable[[list[str]], int | None]) -> click.Command:
    """Return a command that passes all of its arguments on to a function, after the plugin files named before it."""

    def callback() -> None:
        context = click.get_current_context()
        context.exit(run([*(f"--plugin={file}" for file in plugin_files(context)), *context.args]) or 0)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "allow_interspersed_args": False}
    short = text.partition("\n")[0]
    return click.Command(
        name, callback=callback, add_help_option=False, context_settings=settings, help=text, short_help=short
    )


def _failures(context: click.Context) -> list[str]:
    """Return why plugins could not be loaded, as sentences."""
    reports = _registry(context).reports_with_commands
    return [text for report in reports if report.status == "failed" for text in report.warnings.values()]


def _registry(context: click.Context) -> Registry:
    """Return the registry of this run of the program. It is loaded once: click looks up a command more often."""
    from codex_framework.config import load_config
    from codex_framework.loader.registry import load_registry

    found = context.meta.get(__name__)
    if found is None:
        config = load_config(cwd=Path.cwd(), environ=os.environ, **settings_before(context))
        found = context.meta[__name__] = load_registry(config, extra_plugins=plugin_files(context))
    return cast("Registry", found)
