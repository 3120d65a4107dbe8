"""The plugin as a whole: it is installed, found by its entry point, and has no problems."""

from __future__ import annotations

from codex_framework.loader import PluginStatus
from codex_framework.loader.registry import load_registry


def test_the_plugin_is_installed_and_loaded():
    (report,) = [report for report in load_registry({}).reports if report.name == "template"]
    assert (report.distribution, report.status, report.problems) == ("codex-contrib-template", PluginStatus.LOADED, ())
    assert report.contributes == {"tools": ("count_words",), "providers": ("template-echo",)}
