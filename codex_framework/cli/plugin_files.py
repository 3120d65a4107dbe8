"""One-file plugins and settings that the command line names before a subcommand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

__all__ = ["PluginFiles", "plugin_files", "settings_before"]


class PluginFiles(tuple[Path, ...]):
    """The files, as the object of a click context.

    Attributes:
        before: All words of the command line before the subcommand.
    """

    before: Sequence[str] = ()


def plugin_files(context: click.Context) -> Sequence[Path]:
    """Return the files that were named before the subcommand, or by an option of it."""
    return context.find_object(PluginFiles) or ()


def settings_before(context: click.Context) -> dict[str, Any]:
    """Return the settings that were named before the subcommand, as arguments of ``load_config``."""
    given = context.find_root().params
    return {"overrides": given.get("config", ()), "profile": given.get("profile")}
