"""``codex-framework plugins``: the installed plugins and their state, and a skeleton for a new plugin."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codex_framework.cli.completion_values import PluginName
from codex_framework.cli.plugin_files import PluginFiles, plugin_files, settings_before
from codex_framework.config import Config, find_codex_home, load_config
from codex_framework.config.plugin_keys import plugin_keys
from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.toolkit.documentation import printed_error
from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_framework.cli.plugin_installation import Command, Installer
    from codex_framework.loader.discovery import PluginSource
    from codex_framework.loader.registry import Registry
    from codex_framework.loader.report import PluginProblem, PluginReport
    from codex_framework.testing.conformance.plugins import PluginCheck

__all__ = ["command"]

T = TypeVar("T")

_FILES = click.option(
    "--plugin",
    "files",
    multiple=True,
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="Load a plugin from a file, in addition to the installed plugins.",
)


@help_group("Extend")
@click.group("plugins", invoke_without_command=True, short_help="List the installed plugins, and check or create one.")
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
        click.echo(json.dumps([_report_as_json(report) for report in reports], indent=2))
        return
    if not reports:
        click.echo("No plugins are installed. `codex-framework plugins new NAME` creates one.")
        return
    click.echo("\n".join(_table(reports)))


@command.command("show")
@click.argument("name", type=PluginName())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def show(context: click.Context, name: str, *, as_json: bool) -> None:
    """Show one plugin, with its settings and problems.

    The page has its package, its contributions, its settings, and all problems with hints.
    """
    reports = _registry(context).reports_with_commands
    matches = [report for report in reports if report.name == name]
    if not matches:
        raise _no_such(name, {report.name for report in reports})
    if as_json:
        shown = [{**_report_as_json(report), "package": dict(_package_of(report))} for report in matches]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else shown, indent=2))
        return
    for report in matches:
        click.echo("\n".join(_details(report)))


@command.command("time")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def time_(context: click.Context, *, as_json: bool) -> None:
    """Show how long each plugin took to load, slowest first.

    The time covers the plugin's import and its hooks. It includes every module that is imported for the first time because
    of it. A plugin should take about 1 ms.
    """
    from codex_framework.toolkit.tables import table_lines

    reports = sorted(_registry(context).reports_with_commands, key=lambda report: -report.load_ms)
    if as_json:
        click.echo(json.dumps({report.name: round(report.load_ms, 3) for report in reports}, indent=2))
        return
    rows = [*((report.name, report.load_ms) for report in reports), ("all", sum(report.load_ms for report in reports))]
    click.echo("\n".join(table_lines((), [(name, f"{spent:8.2f} ms") for name, spent in rows])))


@command.command("doctor")
@click.argument("package", type=PluginName())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, package: str, *, as_json: bool) -> None:
    """Check a plugin, and show its problems and how to fix them.

    PACKAGE is the name of a plugin or of an installed package with plugins, or the path of a plugin file. Two kernels are
    started with the plugin. Each runs a turn with a scripted model. The exit status is 1 if a check fails.
    """
    config = _with_any_config(lambda config: config)
    if as_json:
        checks = _examine_plugin(package, config, lambda _: None)
        click.echo(json.dumps([_check_as_json(check) for check in checks], indent=2))
    else:
        click.echo(click.style(_HEADER, bold=True))
        checks = _examine_plugin(package, config, lambda check: click.echo("\n".join(_check_lines(check))))
        click.echo(f"\n{_summary(checks)}")
    context.exit(1 if any(check.result == "failed" for check in checks) else 0)


@command.command("new", short_help="Create the skeleton of a plugin.")
@click.argument("name")
@click.option(
    "--path",
    "parent",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The parent folder (default: the current folder).",
)
@click.option(
    "--kind",
    type=click.Choice(("tool", "provider", "store", "agent", "policy", "widget")),
    default="tool",
    help="The kind of plugin (default: tool).",
)
def new(name: str, parent: Path, kind: str) -> None:
    """Create the skeleton of a plugin: a distribution with an example of its kind and tests."""
    from codex_framework.toolkit.skeleton import write_skeleton

    _check_free(name)
    folder = write_skeleton(name, parent, kind)
    steps = (f"pip install -e '{folder}[test]'", f"pytest {folder}", f"codex-framework plugins doctor {name}")
    click.echo(f"Created {folder}. Next steps:\n\n  " + "\n  ".join(steps))


_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the installer's commands without running them.")


@command.command("install", short_help="Install plugins into the environment of this program.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_DRY_RUN
def install(names: tuple[str, ...], *, dry_run: bool) -> None:
    """Install plugins into the environment of this program, and show what they offer.

    NAME is a package, with or without a version and extras, an address (git+https://...), a local folder or a wheel. The environment's
    own installer is used: pip, uv or pipx.
    """
    from codex_framework.cli import plugin_installation as installation

    requirements = [installation.read_requirement(name, Path.cwd()) for name in names]
    if taken := {each.name for each in requirements} & {source.name for source in _sources() if source.bundled}:
        raise CodexError(
            f"{taken.pop()!r} is a bundled plugin, which is installed with codex-framework",
            slug="plugin-install",
            hint="`codex-framework plugins` shows its state.",
        )
    installer = installation.find_installer(os.environ)
    before = installation.installed_distributions()
    if _run_installer(installer.install(requirements), dry_run=dry_run):
        after = installation.installed_distributions()
        new = {name for name, state in after.items() if before.get(name) != state}
        _report_installed({each.name for each in requirements} & after.keys(), new, installer)


@command.command("uninstall", short_help="Remove plugins from the environment of this program.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_DRY_RUN
def uninstall(names: tuple[str, ...], *, dry_run: bool) -> None:
    """Remove plugins from the environment of this program.

    NAME is a plugin or its package. All plugins of the package are removed.
    """
    from codex_framework.cli.plugin_installation import find_installer

    packages = [_package_named(name) for name in names]
    if _run_installer(find_installer(os.environ).uninstall(packages), dry_run=dry_run):
        click.echo(f"Removed {', '.join(packages)}.")


@command.command("upgrade", short_help="Upgrade plugins in the environment of this program.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_DRY_RUN
def upgrade(names: tuple[str, ...], *, dry_run: bool) -> None:
    """Upgrade plugins in the environment of this program, and show what they offer.

    NAME is a plugin or its package. A package from a package index gets its newest version. Others are installed again from where
    they came: an address, a folder or a wheel.
    """
    from codex_framework.cli.plugin_installation import find_installer, origin_of

    packages = [_package_named(name) for name in names]
    installer = find_installer(os.environ)
    if _run_installer(installer.upgrade([origin_of(package) for package in packages]), dry_run=dry_run):
        _report_installed(set(packages), set(), installer)


def _sources() -> list[PluginSource]:
    """Return everything that installed distributions offer: plugins, and commands without a plugin."""
    from codex_framework.contract.hookspecs import GROUP
    from codex_framework.loader.discovery import discover

    return [*discover(GROUP), *discover(f"{GROUP}.commands")]


def _package_named(name: str) -> str:
    """Return the package of a plugin, by the name of either.

    Raises:
        CodexError: It is not installed, or it is bundled.
    """
    from codex_framework.loader.discovery import normalise_name

    sources = _sources()
    found = {source.distribution: source for source in sources if name == source.name}
    found |= {source.distribution: source for source in sources if normalise_name(name) == source.distribution}
    if not found:
        raise _no_such(name, {source.name for source in sources if not source.bundled})
    for package, source in found.items():
        if not source.bundled:
            return package
    raise CodexError(
        f"{name!r} is bundled with codex-framework",
        slug="plugin-install",
        hint=f"To do without it, run: codex-framework config set framework.plugins.disabled '[\"{name}\"]'",
    )


def _run_installer(commands: Sequence[Command], *, dry_run: bool) -> bool:
    """Print and run commands. Return whether they have run."""
    from codex_framework.cli.plugin_installation import run

    for each in commands:
        click.echo(f"{'Would run' if dry_run else 'Running'}: {each}")
        if not dry_run:
            run(each, os.environ)
    return not dry_run


def _report_installed(named: set[str], new: set[str], installer: Installer) -> None:
    """Show the plugins of distributions, as a new process loads them. Exit with 1 if one cannot be loaded.

    Args:
        named: The distributions that the user named, as far as their names are known.
        new: Those that have been installed or changed.
    """
    import subprocess
    import sys

    argv = [sys.executable, "-I", "-m", "codex_framework", "plugins", "--json"]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=True)
    reports = [report for report in json.loads(done.stdout) if report["distribution"] in named | new]
    for report in reports:
        offers = "; ".join(
            f"{role.replace('_', ' ')}: {', '.join(each)}" for role, each in report["contributes"].items()
        )
        click.echo(f"{report['name']} {report['version']}: {report['status']}{f'. {offers}' if offers else ''}")
        for problem in report["problems"]:
            click.echo(f"  {problem['fact']}" + (f"\n  -> {problem['hint']}" if problem["hint"] else ""))
    offering = {source.distribution for source in _sources()}
    for package in sorted(named - offering) or ([] if named or new & offering else sorted(new)):
        (removal,) = installer.uninstall([package])
        click.echo(f"warning: {package} offers no plugin. To remove it, run: {removal}", err=True)
    if failed := [report["name"] for report in reports if report["status"] == "failed"]:
        click.echo(
            f"To remove what cannot be loaded, run: codex-framework plugins uninstall {' '.join(failed)}", err=True
        )
        click.get_current_context().exit(1)


def _check_free(name: str) -> None:
    """Refuse the name of a bundled plugin: of two plugins with the same name, only one is loaded.

    Raises:
        CodexError: There is such a plugin.
    """
    if any(source.bundled and source.name == name.replace("-", "_") for source in _sources()):
        raise CodexError(
            f"{name!r} is the name of a bundled plugin",
            slug="plugin-name",
            hint="Choose another name: of two plugins with the same name, only one is loaded.",
        )


def _registry(context: click.Context) -> Registry:
    from codex_framework.loader.registry import load_registry

    return _with_any_config(lambda config: load_registry(config, extra_plugins=plugin_files(context), tolerant=True))


def _no_such(name: str, installed: Set[str]) -> Exception:
    import difflib

    from codex_framework.contract.errors import PluginError

    names = sorted(installed)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Installed are: {', '.join(names) or 'none'}."
    return PluginError(name, f"no plugin is called {name!r}", slug="no-plugin", hint=hint)


def _table(reports: Sequence[PluginReport]) -> Iterator[str]:
    from codex_framework.toolkit.tables import Row, table_lines

    rows: list[Row] = []
    for report in reports:
        rows.append((report.name, report.origin, _status(report), _contributions(report)))
        for problem in report.problems:
            rows += [problem.text, *([f"-> {problem.hint}"] if problem.hint else [])]
    yield from table_lines(("NAME", "FROM", "STATUS", "CONTRIBUTES"), rows)


def _contributions(report: PluginReport) -> str:
    return "; ".join(f"{role.replace('_', ' ')}: {', '.join(names)}" for role, names in report.contributes.items())


def _status(report: PluginReport) -> str:
    return click.style(report.status.value, fg=_STATUS_COLOURS[report.status.value])


_STATUS_COLOURS = {"loaded": "green", "partial": "yellow", "failed": "red", "disabled": "bright_black"}


def _details(report: PluginReport) -> Iterator[str]:
    """Return the lines about a plugin: origin, contributions, settings, and all problems with hints."""
    yield click.style(report.name, bold=True)
    yield f"  module       {report.module}"
    yield f"  from         {report.origin}{' (bundled)' if report.bundled else ''}"
    for word, text in _package_of(report).items():
        yield f"  {word:<12} {text}"
    yield f"  status       {_status(report)}"
    yield f"  loading      {report.load_ms:.2f} ms"
    if report.requires:
        yield f"  requires     {', '.join(report.requires)}"
    for role, names in report.contributes.items():
        yield f"  {role.replace('_', ' '):<12} {', '.join(names)}"
    yield from _settings(report)
    for problem in report.problems:
        yield f"  problem      {problem.text}"
        if problem.hint:
            yield f"  hint         {problem.hint}"


def _report_as_json(report: PluginReport) -> dict[str, Any]:
    """Return everything about a plugin as JSON data."""
    return {
        "name": report.name,
        "module": report.module,
        "distribution": report.distribution,
        "version": report.version,
        "file": report.file or None,
        "bundled": report.bundled,
        "status": report.status.value,
        "requires": list(report.requires),
        "contributes": {role: list(names) for role, names in report.contributes.items()},
        "settings": [key._asdict() for key in plugin_keys(report.settings)] if report.settings is not None else [],
        "problems": [_problem_as_json(problem) for problem in report.problems],
        "load_ms": round(report.load_ms, 3),
    }


def _problem_as_json(problem: PluginProblem) -> dict[str, Any]:
    """Return a problem as JSON data."""
    return {
        "fact": problem.fact,
        "hint": problem.hint,
        "slug": problem.slug,
        "path": problem.path or None,
        "line": problem.line,
    }


def _package_of(report: PluginReport) -> Mapping[str, str]:
    """Return information from the metadata of a plugin's distribution: summary, home page and location."""
    if not report.distribution or report.bundled:
        return {}
    from importlib_metadata import PackageNotFoundError, distribution

    try:
        package = distribution(report.distribution)
    except PackageNotFoundError:
        return {}
    found = {
        "summary": package.metadata.get("Summary") or "",
        "home page": _home_page(package.metadata),
        "installed in": _editable(package) or str(package.locate_file("")),
    }
    return {word: text for word, text in found.items() if text}


def _home_page(metadata: Any) -> str:
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL") or () if ", " in line)
    by_name = {name.lower(): url for name, url in urls.items()}
    for name in ("homepage", "home", "repository", "source", "documentation"):
        if name in by_name:
            return str(by_name[name])
    return str(metadata.get("Home-page") or "")


def _editable(package: Any) -> str:
    """Return the source folder of an editable installation, or an empty text for other installations."""
    try:
        origin = json.loads(package.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    if not origin.get("dir_info", {}).get("editable"):
        return ""
    return f"{str(origin.get('url', '')).removeprefix('file://')} (editable)"


def _settings(report: PluginReport) -> Iterator[str]:
    if report.settings is None:
        return
    keys = plugin_keys(report.settings)
    word = "settings"
    for key in keys:
        default = f", {key.default}" if key.default == "required" else f", default {key.default}" if key.default else ""
        yield f"  {word:<12} {key.name}: {key.type}{default}{f'. {key.meaning}' if key.meaning else ''}"
        word = ""


_HEADER = "RESULT     PLUGIN: CHECK"

_RESULT_COLOURS = {"passed": "green", "failed": "red", "not tried": "yellow"}


def _examine_plugin(package: str, config: Config, report: Callable[[PluginCheck], None]) -> Sequence[PluginCheck]:
    """Check a plugin, and return the checks.

    Args:
        package: The name of a plugin or of a distribution, or the path of a one-file plugin.
        config: The configuration with the plugin's settings.
        report: Gets each check as soon as it has ended.

    Raises:
        PluginError: No such plugin is installed.
    """
    from codex_framework.testing import ContractViolation, check_plugin

    found: list[PluginCheck] = []
    plugin = Path(package) if package.endswith(".py") or "/" in package else package

    def on_end(check: PluginCheck) -> None:
        found.append(check)
        report(check)

    with contextlib.suppress(ContractViolation):  # each violation is in a check that has failed
        check_plugin(plugin, config=config, report=on_end)
    return found


def _check_lines(check: PluginCheck) -> Iterator[str]:
    """Return a check as a row of the table, with problems and hints on separate lines."""
    result = click.style(check.result.ljust(9), fg=_RESULT_COLOURS[check.result])
    name = f"{check.check} {check.subject}".strip()
    first, *rest = check.facts or ("",)
    if check.result == "passed":
        yield f"{result}  {check.plugin}: {name}{f' ({first})' if first else ''}"
    else:
        yield f"{result}  {check.plugin}: {name}"
        rest = [first, *rest]
    for fact in rest:
        yield f"           {fact}"
    if check.hint:
        yield f"           -> {check.hint}"


def _check_as_json(check: PluginCheck) -> dict[str, Any]:
    """Return a check as JSON data."""
    return {
        "plugin": check.plugin,
        "check": check.check,
        "subject": check.subject or None,
        "result": check.result,
        "facts": list(check.facts),
        "hint": check.hint,
    }


def _summary(checks: Sequence[PluginCheck]) -> str:
    """Return the number of checks for each result."""
    count = {result: sum(check.result == result for check in checks) for result in _RESULT_COLOURS}
    return f"{count['passed']} passed, {count['failed']} failed, {count['not tried']} not tried"


def _with_any_config(use: Callable[[Config], T]) -> T:
    """Return the result of a function for the configuration. If it is invalid, report that, and use the defaults."""
    try:
        settings = settings_before(click.get_current_context())
        return use(load_config(cwd=Path.cwd(), environ=os.environ, **settings))
    except ConfigError as error:
        click.echo(printed_error(error), err=True)
        click.echo("The configuration is not used: these are the results with the default settings.\n", err=True)
        return use(Config(tables={}, codex_home=_home(), cwd=Path.cwd()))


def _home() -> Path:
    try:
        return find_codex_home(os.environ)
    except ConfigError:
        return Path.home() / ".codex"
