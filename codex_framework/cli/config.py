"""``codex-framework config``: show and change the settings of ``config.toml``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codex_framework.cli.config_check import check_content, select_target
from codex_framework.cli.config_keys import ProfileType, SetKey, SettableKey, ValueArgument
from codex_framework.cli.plugin_files import settings_before
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.config.editing.files import Check
    from codex_framework.config.target import Target

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])


def _file_options(function: F) -> F:
    function = click.option("--project", is_flag=True, help="Use the project's own file, .codex/config.toml.")(function)
    return click.option(
        "-p", "--profile", metavar="NAME", type=ProfileType(), help="Use the settings of this profile."
    )(function)


@help_group("Configure")
@click.group("config")
def command() -> None:
    """Show and change settings. Comments, blank lines and the order of the file are kept.

    KEY is a dotted key such as `history.persistence`, or `projects."/a.b".trust_level`. The commands use
    `$CODEX_HOME/config.toml`, unless `--profile` or `--project` selects another file.
    """


@command.command("path")
@_file_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def path_(profile: str | None, *, project: bool, as_json: bool) -> None:
    """List the files of all layers, from lowest to highest precedence.

    With `--project`, print only the path of the project's file, which may not exist yet.
    """
    from codex_framework.config.places import file_places
    from codex_framework.toolkit.tables import table_lines

    if project:
        file = select_target(profile, project=True).path
        click.echo(json.dumps({"path": str(file), "exists": file.is_file()}) if as_json else file)
        return
    places = file_places(Path.cwd(), os.environ, profile)
    if as_json:
        rows = [{"layer": p.layer, "path": str(p.path), "exists": p.exists, "note": p.note or None} for p in places]
        click.echo(json.dumps(rows, indent=2))
        return
    states = [place.note or ("exists" if place.exists else "missing") for place in places]
    cells = [(place.layer, str(place.path), state) for place, state in zip(places, states, strict=True)]
    click.echo("\n".join(table_lines((), cells)))


@command.command("get")
@click.argument("key", required=False, type=SetKey())
@click.option("-p", "--profile", metavar="NAME", type=ProfileType(), help="Merge the settings of this profile too.")
@click.option("--origin", is_flag=True, help="Print each setting with the file and line that it comes from.")
@click.option("--all", "every", is_flag=True, help="Print what each layer sets, not only the result. Implies --origin.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--show-secrets", is_flag=True, help="Print tokens and headers instead of `(hidden)`.")
def get(key: str | None, profile: str | None, *, origin: bool, every: bool, as_json: bool, show_secrets: bool) -> None:
    """Print the value of a setting, or all settings.

    The value is merged from all layers. A string is printed without quotes, anything else as TOML. If the setting has no value,
    the exit status is 1.
    """
    from codex_framework.cli import config_show
    from codex_framework.config import load_config

    segments = _segments(key) if key is not None else ()
    overrides = settings_before(click.get_current_context())["overrides"]
    config = load_config(cwd=Path.cwd(), environ=os.environ, profile=profile, overrides=overrides)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    found = config_show.find_settings(config, segments)
    if not found and key is not None:
        raise _not_set(key, "any of the configuration files")
    click.echo(
        config_show.format_settings(found, segments, origin=origin, every=every, as_json=as_json, secrets=show_secrets)
    )


@command.command("set", context_settings={"ignore_unknown_options": True})  # a value may be a negative number
@click.argument("key", type=SettableKey())
@click.argument("value", type=ValueArgument())
@_file_options
def set_(key: str, value: str, profile: str | None, *, project: bool) -> None:
    """Set a setting.

    VALUE is parsed as TOML; if that fails, it is used as a string. `-` reads it from stdin, which keeps a secret out of the
    shell's history. The new file is checked before it is written; if it would be invalid, the file is unchanged.
    """
    from codex_framework.config.editing.files import set_path
    from codex_framework.config.toml_file import override_value

    segments = _segments(key)
    target = select_target(profile, project=project)
    text = _stdin() if value == "-" else value
    is_changed = set_path(target.path, (*target.prefix, *segments), override_value(text), _check(target, segments))
    _tell(target, segments, "set" if is_changed else "already set")


@command.command("unset")
@click.argument("key", type=SetKey())
@_file_options
def unset(key: str, profile: str | None, *, project: bool) -> None:
    """Remove a setting, or a table with all its settings. Comments stay in the file."""
    from codex_framework.config.editing.files import clear_path

    segments = _segments(key)
    target = select_target(profile, project=project)
    if not clear_path(target.path, (*target.prefix, *segments), _check(target, segments)):
        raise _not_set(key, str(target.path))
    _tell(target, segments, "removed")


@command.command("edit")
@_file_options
def edit(profile: str | None, *, project: bool) -> None:
    """Open the file in an editor: $VISUAL, $EDITOR, or vi.

    The editor gets a copy. If the new text is valid, it replaces the file. If not, you can edit it again.
    """
    from codex_framework.cli.config_edit import edit_file

    edit_file(select_target(profile, project=project))


def _check(target: Target, segments: tuple[str, ...]) -> Check:
    return lambda content: check_content(target, content, plugins=segments[0] == "framework")


def _segments(key: str) -> tuple[str, ...]:
    from codex_framework.config.keys import split_key

    try:
        return split_key(key)
    except ValueError as error:
        raise ConfigError(
            f"invalid key {key!r}: {error}",
            key=key,
            slug="config-key",
            hint="""Write a dotted key, with quotes around names that contain dots: 'projects."/a.b".trust_level'.""",
        ) from None


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError("the value on stdin is not UTF-8", path="-", slug="config-key", hint="Pass text.") from None


def _not_set(key: str, place: str) -> ConfigError:
    from codex_framework.cli.config_keys import setting_of
    from codex_framework.config.checking import unknown_key

    unknown = unknown_key(_segments(key))
    if unknown:
        hint = "To list all settings, run: codex-framework config get"
        return ConfigError(unknown, key=key, slug="config-unknown", hint=hint)
    setting = setting_of(key)
    default = f" Its default is {setting.default}." if setting is not None and setting.default else ""
    return ConfigError(
        f"`{key}` is not set in {place}.{default}",
        key=key,
        slug="config-key",
        hint="To see where settings come from, run: codex-framework config get --origin",
    )


def _tell(target: Target, segments: tuple[str, ...], done: str) -> None:
    """Print the result, and warn if another layer overrides it. Values are not shown: they may be secrets."""
    from codex_framework.config.keys import format_key
    from codex_framework.config.toml_file import read_toml
    from codex_framework.config.toml_positions import line_of

    content = read_toml(target.path)
    line = None if content is None or done == "removed" else line_of(content[1], (*target.prefix, *segments))
    place = str(target.path) if line is None else f"{target.path}:{line}"
    click.echo(f"{format_key((*target.prefix, *segments))}: {done} ({place})")
    for warning in _warnings(target, segments, place):
        click.echo(f"warning: {warning}", err=True)


def _warnings(target: Target, segments: tuple[str, ...], place: str) -> list[str]:
    from codex_framework.config import load_config
    from codex_framework.config.keys import format_key, lookup

    try:
        config: Config = load_config(cwd=Path.cwd(), environ=os.environ, profile=target.profile)
    except ConfigError as error:  # of another file
        return [f"the configuration of this folder is invalid: {error}"]
    warnings = [warning for warning in config.warnings if warning.startswith((f"{place}: ", f"{target.path}: "))]
    layers = [layer for layer in config.layers if lookup(layer.table, segments) is not None]
    is_overridden = bool(layers) and layers[-1].path != str(target.path)
    if is_overridden and target.profile is None and not warnings:
        warnings.append(
            f"here, `{format_key(segments)}` is set by {layers[-1].origin(segments)}, which overrides {target.path}"
        )
    return warnings
