"""Completion of the values of options of ``exec``, and of the names of plugins, in shells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from codex_framework.cli.argv import Option
from codex_framework.cli.config_keys import profile_names, settable_keys, tables_of
from codex_framework.cli.plugin_files import plugin_files

__all__ = ["PluginName", "option_values"]

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:  # click 8.1 has no type parameter
    _TextType = click.ParamType

_FILES = {"FILE": "file", "FILE.py": "file", "DIR": "dir"}


def option_values(option: Option, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the values of an option of ``exec`` that start with ``incomplete``. Files and folders are left to the shell."""
    if option.metavar in _FILES:
        return [CompletionItem(incomplete, type=_FILES[option.metavar])]
    return [
        CompletionItem(value, help=text)
        for value, text in _values(option, ctx, incomplete)
        if value.startswith(incomplete)
    ]


def _values(option: Option, ctx: click.Context, incomplete: str) -> Iterable[tuple[str, str | None]]:
    if option.choices:
        return [(choice, None) for choice in option.choices]
    if option.key == "profile":
        return [(name, None) for name in profile_names(tables_of(ctx))]
    if option.key in ("enable", "disable"):
        from codex_framework.config.schema import features

        return [(name, None) for name in sorted(features())]
    if option.key == "config":
        return [(f"{key}=", text) for key, text in settable_keys(tables_of(ctx), incomplete)]
    if option.key == "agent":
        return [(name, None) for name in _agents(tables_of(ctx))]
    return ()


def _agents(tables: Mapping[str, Any]) -> list[str]:
    from codex_framework.contract.errors import CodexError
    from codex_framework.loader.registry import load_registry

    own = tables.get("agents")
    named = [name for name, table in own.items() if isinstance(table, Mapping)] if isinstance(own, Mapping) else []
    try:
        return [*named, *load_registry(tables, tolerant=True).agents]
    except CodexError:
        return named


class PluginName(_TextType):
    """The name of a plugin."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Return the plugins whose names start with ``incomplete``, with their contributions."""
        from codex_framework.config import load_config
        from codex_framework.contract.errors import CodexError
        from codex_framework.loader.registry import load_registry

        try:
            config = load_config(cwd=Path.cwd(), environ=os.environ)
            reports = load_registry(config, extra_plugins=plugin_files(ctx), tolerant=True).reports_with_commands
        except (CodexError, OSError):
            return []
        found = {report.name: ", ".join(report.contributes) for report in reports}
        return [CompletionItem(name, help=text) for name, text in found.items() if name.startswith(incomplete)]
