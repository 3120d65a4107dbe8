"""Configuration: layers of files, ``-c`` and flags; the schema they are checked against; the settings made of them."""

from __future__ import annotations

from codex_framework.config.layers import Config, Layer, Origin, find_codex_home, load_config
from codex_framework.config.plugin_tables import plugin_config
from codex_framework.config.settings import Settings

__all__ = ["Config", "Layer", "Origin", "Settings", "find_codex_home", "load_config", "plugin_config"]
