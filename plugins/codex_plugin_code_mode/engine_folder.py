"""The folder where the JavaScript engine is installed."""

from __future__ import annotations

import os
import sys

from codex_framework import PluginContext, PluginError
from codex_framework.toolkit.installing import install_command
from codex_plugin_code_mode.mode import asked_for

__all__ = ["engine_folder"]

_MODULE = "quickjs"


def engine_folder(plugin: PluginContext) -> str | None:
    """Return the folder that the engine's package is in, without importing it, or None if it is not installed.

    Only absolute entries of the search path count: a relative one is the working folder, whose files the model may have written.

    Raises:
        PluginError: It is not, and the configuration asks for code mode.
    """
    for folder in sys.path:
        if os.path.isabs(folder) and os.path.isfile(f"{folder}/{_MODULE}/__init__.py"):  # noqa: PTH113, PTH117  # at every start: no pathlib
            return folder
    name = asked_for(plugin.config)
    if name is not None:
        fact = f"`features.{name}` is set, but the JavaScript engine is not installed, so models get the usual tools"
        raise PluginError(plugin.name, fact, hint=f"Install the extra: {install_command('codex-framework[code]')}")
    return None
