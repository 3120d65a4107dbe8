"""Finding, importing and checking plugins. ``codex_framework.loader.registry`` puts the result together."""

from __future__ import annotations

from codex_framework.loader.report import PluginProblem, PluginReport, PluginStatus

__all__ = ["PluginProblem", "PluginReport", "PluginStatus"]
