"""The versions of the package and of the plugin API."""

from __future__ import annotations

__all__ = ["OLDEST_PLUGIN_API", "PLUGIN_API", "__version__"]

__version__ = "0.1.0"

PLUGIN_API = 1
"""The version of the plugin API. It is raised with each release that adds names to the API or removes some."""

OLDEST_PLUGIN_API = 1
"""The oldest version of the plugin API whose plugins still work."""
