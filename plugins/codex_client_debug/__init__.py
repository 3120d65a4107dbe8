"""``codex-framework debug``: the request that a turn would send, and properties of models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codex_framework.toolkit.lazy_command import help_group
from codex_framework.toolkit.tables import table_lines
from codex_framework.toolkit.terminal_text import printable

if TYPE_CHECKING:
    from codex_client_debug.prompt import Caught


__all__ = ["main"]

F = TypeVar("F", bound=Callable[..., object])

_WIDTH = 60


_SETTINGS = (
    click.option("--disable", multiple=True, metavar="FEATURE", help="Disable a feature."),
    click.option("--enable", multiple=True, metavar="FEATURE", help="Enable a feature."),
    click.option("-c", "--config", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a configuration key."),
)


def _with_settings(function: F) -> F:
    for option in _SETTINGS:
        function = option(function)
    return function


@help_group("Inspect")
@click.group("debug")
@_with_settings
def main(**_: Any) -> None:
    """Show what the agent sends and knows."""


def _options(function: F) -> F:
    for option in (
        click.argument("prompt", required=False),
        click.option("-i", "--image", "images", multiple=True, metavar="FILE", help="An image of the prompt."),
        click.option(
            "--session", metavar="SESSION", help="Continue this session: its id, name or file. It does not change."
        ),
        click.option("-C", "--cd", "folder", metavar="DIR", help="The working folder."),
        click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings."),
        click.option("-m", "--model", metavar="MODEL", help="The model to use."),
        *_SETTINGS,
    ):
        function = option(function)
    return function


@main.command("prompt")
@_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the whole texts.")
@click.pass_context
def prompt_(context: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Show what a turn with PROMPT would send.

    Each part is shown with its source and its estimated tokens. Nothing is sent to the model and nothing is saved. Everything
    that adds to a request is included: hooks run, and MCP servers are started.
    """
    found = _caught(context, **options)
    if as_json:
        parts = [{**_facts(part), "text": part.text} for part in found.parts]
        total = sum(part.tokens for part in found.parts)
        click.echo(
            json.dumps({"model": found.model, "provider": found.provider, "tokens": total, "parts": parts}, indent=2)
        )
    else:
        for line in _table(found):
            click.echo(line)
    _warn(found.warnings)


@main.command("prompt-input")
@_options
@click.pass_context
def prompt_input(context: click.Context, /, **options: Any) -> None:
    """Print the input that PROMPT would send, as a JSON list."""
    found = _caught(context, **options)
    click.echo(json.dumps(found.input, indent=2))
    _warn(found.warnings)


@main.command("models")
@click.option("--bundled", is_flag=True, help="Print only the list that comes with the program.")
@click.option("-p", "--profile", metavar="PROFILE", help="Use a named set of settings.")
@_with_settings
def models(
    *, bundled: bool, profile: str | None, overrides: Sequence[str], enable: Sequence[str], disable: Sequence[str]
) -> None:
    """Print the known models as a file for `model_catalog_json`.

    It contains the models of `model_catalog_json`, of the server's last list, of plugins, and the built-in ones. No server is
    asked: `models --refresh` does that.
    """
    import os

    from codex_client_debug.models import catalogue
    from codex_framework.config import load_config

    config = None
    if not bundled:
        given = _settings(overrides, enable, disable)
        config = load_config(cwd=Path.cwd(), environ=os.environ, profile=profile, overrides=given)
    plugins = click.get_current_context().find_root().obj or ()
    click.echo(json.dumps(asyncio.run(catalogue(config, plugins))))


def _settings(overrides: Sequence[str], enable: Sequence[str], disable: Sequence[str]) -> list[str]:
    """Return the settings from the options of the group and of its command, in the form of ``-c``."""
    parent = click.get_current_context().parent
    group: Mapping[str, Sequence[str]] = {} if parent is None else parent.params
    enabled, disabled = (*group.get("enable", ()), *enable), (*group.get("disable", ()), *disable)
    switches = [*(f"features.{name}=true" for name in enabled), *(f"features.{name}=false" for name in disabled)]
    return [*group.get("overrides", ()), *overrides, *switches]


def _caught(
    context: click.Context,
    *,
    prompt: str | None,
    images: Sequence[str],
    session: str | None,
    folder: str | None,
    profile: str | None,
    model: str | None,
    overrides: Sequence[str],
    enable: Sequence[str],
    disable: Sequence[str],
) -> Caught:
    from codex_client_debug.prompt import caught

    given = _settings(overrides, enable, disable)
    if model is not None:
        given.append(f"model={json.dumps(model)}")
    cwd = Path.cwd() if folder is None else Path(folder).absolute()
    if not cwd.is_dir():
        raise click.UsageError(f"the folder {cwd} does not exist")
    files = [str(Path(image).absolute()) for image in images]
    return asyncio.run(
        caught(
            prompt,
            overrides=given,
            profile=profile,
            cwd=cwd,
            images=files,
            session=session,
            plugins=context.find_root().obj or (),
        )
    )


def _facts(part: Any) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "name": part.name or None,
        "source": part.source,
        "plugin": part.plugin or None,
        "tokens": part.tokens,
    }


def _table(found: Caught) -> list[str]:
    rows = []
    for part in found.parts:
        text = " ".join(part.text.split())
        shown = "".join(char if char.isprintable() else " " for char in text)
        source = printable(f"{part.source} (plugin {part.plugin})" if part.plugin else part.source)
        rows.append(
            (f"{part.tokens:,}", part.kind, source, shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…")
        )
    total = sum(part.tokens for part in found.parts)
    return [
        *table_lines(("Tokens", "Kind", "Source", "Text"), rows, right=["Tokens"]),
        f"\nAbout {total:,} tokens, to {found.model} of {found.provider}. Nothing was sent.",
    ]


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        click.echo(f"warning: {printable(sentence)}", err=True)
