"""The one-file plugins that the command line names with ``--plugin``, for all subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

__all__ = ["PluginFiles", "plugin_files"]


class PluginFiles(tuple[Path, ...]):
    """The files, as the object of a click context."""

    __slots__ = ()


def plugin_files(context: click.Context) -> Sequence[Path]:
    """Return the files that were named before the subcommand, or by an option of it."""
    return context.find_object(PluginFiles) or ()
