"""``codex-framework features``: which features there are, whether they are on, and switches for them in ``config.toml``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from codex_framework.toolkit.lazy_command import help_group

if TYPE_CHECKING:
    from codex_framework.config import Config

    _TextType = click.ParamType[str]
else:  # click 8.1 has no type parameter
    _TextType = click.ParamType

__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., object])


def _settings(function: F) -> F:
    for option in (
        click.option("--disable", multiple=True, metavar="FEATURE", help="Disable a feature for this command."),
        click.option("--enable", multiple=True, metavar="FEATURE", help="Enable a feature for this command."),
        click.option("-c", "--config", multiple=True, metavar="KEY=VALUE", help="Set a configuration key."),
    ):
        function = option(function)
    return function


class FeatureName(_TextType):
    """The name of a feature."""

    name = "feature"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """Return the name.

        Raises:
            CodexError: No feature has it.
        """
        from codex_framework.config.schema import features
        from codex_framework.contract.errors import CodexError
        from codex_framework.toolkit.suggestions import did_you_mean

        if value in features():
            return value
        raise CodexError(
            f"Unknown feature flag: {value}",
            slug="config-unknown",
            hint=did_you_mean(value, features()) or "To list all features, run: codex-framework features list",
        )

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the features that start with ``incomplete``."""
        from codex_framework.config.schema import features

        return [CompletionItem(name) for name in sorted(features()) if name.startswith(incomplete)]


@help_group("Configure")
@click.group("features")
@_settings
def main(**_: Any) -> None:
    """List the features, and switch them on and off."""


@main.command("list")
@_settings
@click.option("-p", "--profile", metavar="NAME", help="Merge the settings of this profile too.")
@click.option("--used", is_flag=True, help="List only the features that have an effect here.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_(context: click.Context, /, profile: str | None, *, used: bool, as_json: bool, **own: Sequence[str]) -> None:
    """List the features with their stage and state, as Codex does.

    The file config.toml is shared with Codex, so all of its features are known. Most of them have no effect here; `--used` and
    `--json` tell which have one.
    """
    from codex_client_features.stages import enabled_features, stages
    from codex_framework.config.schema import USED_FEATURES
    from codex_framework.toolkit.tables import table_lines

    assert context.parent is not None
    are_on = enabled_features(_config((context.parent.params, own), profile))
    rows: list[dict[str, Any]] = [
        {"name": name, "stage": stage.name, "enabled": are_on[name], "effect": name in USED_FEATURES}
        for name, stage in stages().items()
    ]
    if used:
        rows = [row for row in rows if row["effect"]]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    cells = [(row["name"], f"{row['stage']:<17}", str(row["enabled"]).lower()) for row in rows]
    click.echo("\n".join(table_lines((), cells)))
    if not used:
        with_effect = sum(row["effect"] for row in rows)
        click.echo(f"{with_effect} of these {len(rows)} features have an effect here; see --used.", err=True)


@main.command("enable")
@click.argument("feature", type=FeatureName())
@_settings
@click.option("-p", "--profile", metavar="NAME", help="Enable it in this profile.")
def enable(feature: str, profile: str | None, **_: Any) -> None:
    """Enable FEATURE in config.toml. Comments and the order of the file are kept."""
    _switch(feature, profile, is_on=True)


@main.command("disable")
@click.argument("feature", type=FeatureName())
@_settings
@click.option("-p", "--profile", metavar="NAME", help="Disable it in this profile.")
def disable(feature: str, profile: str | None, **_: Any) -> None:
    """Disable FEATURE in config.toml. Comments and the order of the file are kept."""
    _switch(feature, profile, is_on=False)


def _config(given: Sequence[Mapping[str, Sequence[str]]], profile: str | None) -> Config:
    """Return the configuration with the settings that were given to the group and to its command."""
    from codex_framework.config import load_config

    switches = {"enable": True, "disable": False}
    names = FeatureName()
    flags = {
        f"features.{names.convert(name, None, None)}": is_on
        for options in given
        for option, is_on in switches.items()
        for name in options[option]
    }
    overrides = [setting for options in given for setting in options["config"]]
    return load_config(cwd=Path.cwd(), environ=os.environ, profile=profile, overrides=overrides, flags=flags)


def _switch(feature: str, profile: str | None, *, is_on: bool) -> None:
    """Write a switch into the file, or remove it if that means the same, and say what else the user should know.

    Raises:
        ConfigError: The file is invalid, or cannot be written.
    """
    from codex_client_features.stages import Stage, stages
    from codex_framework.config.editing.files import clear_path, set_path
    from codex_framework.config.keys import lookup
    from codex_framework.config.schema import USED_FEATURES
    from codex_framework.config.target import profile_target, user_target
    from codex_framework.config.toml_file import read_toml

    target = user_target(os.environ) if profile is None else profile_target(os.environ, profile)
    content = read_toml(target.path)
    key: tuple[str, ...] = (*target.prefix, "features", feature)
    if content is not None and isinstance(lookup(content[0], key), Mapping):
        key = (*key, "enabled")
    stage = stages().get(feature, Stage("removed", is_on=True))

    def check(content: bytes) -> None:
        target.check(content, os.environ)

    if is_on or stage.is_on or profile is not None or key[-1] == "enabled":
        set_path(target.path, key, is_on, check)
    else:
        clear_path(target.path, key, check)
    click.echo(f"{'Enabled' if is_on else 'Disabled'} feature `{feature}` in {target.path.name}.")
    if feature not in USED_FEATURES:
        click.echo(f"warning: `{feature}` has no effect here; Codex reads the same file.", err=True)
    elif is_on and stage.name == "under development":
        click.echo(f"warning: `{feature}` is under development in Codex, and may change.", err=True)
