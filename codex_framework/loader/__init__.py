"""Finding, importing and checking plugins. ``codex_framework.plugins.registry`` puts the result together."""

from __future__ import annotations

from codex_framework.plugins.report import PluginProblem, PluginReport, PluginStatus

__all__ = ["PluginProblem", "PluginReport", "PluginStatus"]
