"""The versions of the package and of the plugin API."""

from __future__ import annotations

__all__ = ["CODEX_VERSION", "OLDEST_PLUGIN_API", "PLUGIN_API", "__version__"]

__version__ = "0.1.0"

CODEX_VERSION = "0.171.0"
"""The version of Codex whose behaviour this is: model servers, clients, and programs that read ``$CODEX_VERSION`` decide by it."""

PLUGIN_API = 1
"""The version of the plugin API. It is raised with each release that adds names to the API or removes some."""

OLDEST_PLUGIN_API = 1
"""The oldest version of the plugin API whose plugins still work."""
