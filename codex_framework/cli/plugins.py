"""``codex-framework plugins``: the installed plugins and their state, and a skeleton for a new plugin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codex_framework.cli import plugin_details as details
from codex_framework.cli.completion_values import PluginName
from codex_framework.cli.plugin_files import PluginFiles, plugin_files

if TYPE_CHECKING:
    from codex_framework.loader import PluginReport
    from codex_framework.loader.registry import Registry

__all__ = ["command"]

_FILES = click.option(
    "--plugin",
    "files",
    multiple=True,
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="Load a plugin from a file, in addition to the installed plugins.",
)


@click.group("plugins", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@_FILES
@click.pass_context
def command(context: click.Context, files: tuple[Path, ...], *, as_json: bool) -> None:
    """List the installed plugins with their origin, status and contributions."""
    context.obj = PluginFiles((*plugin_files(context), *files))
    if context.invoked_subcommand is not None:
        return
    registry = _registry(context)
    reports = registry.reports_with_commands
    for note in registry.notes:
        click.echo(f"warning: {note.text}. {note.hint}".rstrip(), err=True)
    if as_json:
        click.echo(json.dumps([details.as_json(report) for report in reports], indent=2))
        return
    if not reports:
        click.echo("No plugins are installed. `codex-framework plugins new NAME` creates one.")
        return
    for line in _table(reports):
        click.echo(line)


@command.command("show")
@click.argument("name", type=PluginName())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, name: str, *, as_json: bool) -> None:
    """Show one plugin: its package, its contributions and settings, and all problems with hints."""
    reports = _registry(context).reports_with_commands
    matches = [report for report in reports if report.name == name]
    if not matches:
        raise _no_such(name, reports)
    if as_json:
        shown = [{**details.as_json(report), "package": dict(details.package_of(report))} for report in matches]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2))
        return
    for report in matches:
        click.echo("\n".join(details.details(report)))


@command.command("time")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def time_(context: click.Context, *, as_json: bool) -> None:
    """Show how long each plugin took to load (its import and its hooks), slowest first.

    The time of a plugin includes every module that is imported for the first time because of it. A plugin should take about 1 ms.
    """
    reports = sorted(_registry(context).reports_with_commands, key=lambda report: -report.load_ms)
    if as_json:
        click.echo(json.dumps({report.name: round(report.load_ms, 3) for report in reports}, indent=2))
        return
    width = max([len(report.name) for report in reports], default=0)
    for report in reports:
        click.echo(f"{report.name.ljust(width)}  {report.load_ms:8.2f} ms")
    click.echo(f"{'all'.ljust(width)}  {sum(report.load_ms for report in reports):8.2f} ms")


@command.command("doctor")
@click.argument("package", type=PluginName())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, package: str, *, as_json: bool) -> None:
    """Run the conformance checks on a plugin, and show what is wrong and what to do.

    PACKAGE is the name of a plugin or of an installed package with plugins, or the path of a plugin file. Two kernels are
    started with the plugin, and run a turn with a scripted model each. The exit status is 1 if a check fails.
    """
    from codex_framework.cli.doctor import HEADER, check_as_json, check_lines, examine_plugin, summary
    from codex_framework.cli.lenient_config import with_any_config

    config = with_any_config(lambda config: config)
    if as_json:
        checks = examine_plugin(package, config, lambda _: None)
        click.echo(json.dumps([check_as_json(check) for check in checks], indent=2))
    else:
        click.echo(click.style(HEADER, bold=True))
        checks = examine_plugin(package, config, lambda check: click.echo("\n".join(check_lines(check))))
        click.echo(f"\n{summary(checks)}")
    context.exit(1 if any(check.result == "failed" for check in checks) else 0)


@command.command("new")
@click.argument("name")
@click.option(
    "--path",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The parent folder (default: the current folder).",
)
def new(name: str, parent: Path) -> None:
    """Create the skeleton of a plugin: a distribution with a tool, a model provider and tests."""
    from codex_framework.toolkit.skeleton import write_skeleton

    _check_free(name)
    folder = write_skeleton(name, parent)
    click.echo(
        f"Created {folder}. Next steps:\n\n  pip install -e '{folder}[test]'\n  pytest {folder}\n  codex-framework plugins show {name}"
    )


def _check_free(name: str) -> None:
    """Refuse the name of a bundled plugin: of two plugins with the same name, only one is loaded.

    Raises:
        CodexError: There is such a plugin.
    """
    from codex_framework.contract.errors import CodexError
    from codex_framework.contract.hookspecs import GROUP
    from codex_framework.loader.discovery import discover

    if any(source.bundled and source.name == name.replace("-", "_") for source in discover(GROUP)):
        raise CodexError(
            f"{name!r} is the name of a bundled plugin",
            slug="plugin-name",
            hint="Choose another name: of two plugins with the same name, only one is loaded.",
        )


def _registry(context: click.Context) -> Registry:
    from codex_framework.cli.lenient_config import with_any_config
    from codex_framework.loader.registry import load_registry

    return with_any_config(lambda config: load_registry(config, extra_plugins=plugin_files(context), tolerant=True))


def _no_such(name: str, reports: Sequence[PluginReport]) -> Exception:
    import difflib

    from codex_framework.contract.errors import PluginError

    names = sorted({report.name for report in reports})
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Installed are: {', '.join(names) or 'none'}."
    return PluginError(name, f"no plugin is called {name!r}", slug="no-plugin", hint=hint)


def _table(reports: Sequence[PluginReport]) -> list[str]:
    rows = [("NAME", "FROM", "STATUS", "CONTRIBUTES")]
    rows += [(report.name, report.origin, report.status.value, _contributions(report)) for report in reports]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        cells[2] = click.style(cells[2], fg=details.COLOURS.get(row[2]), bold=number == 0)
        lines.append("  ".join((*cells, row[3])).rstrip())
        for problem in reports[number - 1].problems if number else ():
            lines.append(f"    {problem.text}")
            lines += [f"    -> {problem.hint}"] if problem.hint else []
    return lines


def _contributions(report: PluginReport) -> str:
    return "; ".join(f"{role.replace('_', ' ')}: {', '.join(names)}" for role, names in report.contributes.items())
