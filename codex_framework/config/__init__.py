"""Configuration: the layers of files, ``-c`` and flags, the schema that validates them, and the resulting settings."""

from __future__ import annotations

from codex_framework.config.config import Config, Layer, Origin
from codex_framework.config.layers import find_codex_home, load_config, overridden
from codex_framework.config.plugin_tables import plugin_settings
from codex_framework.config.settings import settings_from, with_overrides
from codex_framework.contract.roles.settings import Settings

__all__ = [
    "Config",
    "Layer",
    "Origin",
    "Settings",
    "find_codex_home",
    "load_config",
    "overridden",
    "plugin_settings",
    "settings_from",
    "with_overrides",
]
