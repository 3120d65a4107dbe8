"""Checks that a plugin fits the running version of codex-framework and of its plugin API."""

from __future__ import annotations

import re
import sys
from typing import Any

from codex_framework.contract.version import OLDEST_PLUGIN_API, PLUGIN_API, __version__
from codex_framework.loader.discovery import BUNDLED, PluginSource, normalise_name
from codex_framework.loader.imports import metadata_lines, name_in, static_attribute
from codex_framework.loader.report import PluginProblem

__all__ = ["api_problem", "framework_problem", "unmet_specifier", "version_problem"]


def framework_problem(source: PluginSource) -> PluginProblem | None:
    """Return why a distribution cannot be used with this version of codex-framework, according to its own requirements."""
    for line in metadata_lines(source):
        if line.startswith("Requires-Dist:") and normalise_name(name_in(line)) == BUNDLED:
            text = line.partition(":")[2].strip()
            wanted = unmet_specifier(text)
            if wanted:
                return version_problem(wanted)
    return None


def version_problem(wanted: str) -> PluginProblem:
    """Return the problem of a plugin that requires another version of codex-framework.

    Args:
        wanted: The versions that it requires, such as ``>=2``.
    """
    fact = f"it requires {BUNDLED} {wanted}, but version {__version__} is running"
    hint = f"Install a version of the plugin for {__version__}, or: pip install '{BUNDLED}{wanted}'"
    return PluginProblem(fact, hint, "plugin-version")


def unmet_specifier(requirement: str) -> str:
    """Return the version specifier of a requirement of codex-framework if the running version does not meet it. Otherwise empty."""
    plain = re.fullmatch(r"[A-Za-z0-9._-]+\s*\(?>=\s*(\d+(?:\.\d+)*)\)?", requirement)
    if plain is not None and re.fullmatch(r"\d+(\.\d+)*", __version__):  # without packaging, whose import takes 10 ms
        wanted, running = (tuple(map(int, version.split("."))) for version in (plain[1], __version__))
        length = max(len(wanted), len(running))
        padded = [version + (0,) * (length - len(version)) for version in (wanted, running)]
        return f">={plain[1]}" if padded[0] > padded[1] else ""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        return ""  # pip has accepted it, so it is not for us to refuse
    applies = parsed.marker is None or parsed.marker.evaluate({"extra": ""})
    return str(parsed.specifier) if applies and not parsed.specifier.contains(__version__, prereleases=True) else ""


def api_problem(plugin: object) -> PluginProblem | None:
    """Return why a plugin cannot be used with this version of the plugin API, if it declares the version that it is written for."""
    places = (plugin, sys.modules.get(getattr(plugin, "__module__", "")))
    declared = (static_attribute(place, "PLUGIN_API") for place in places)
    wanted: Any = next((version for version in declared if version is not None), None)
    if wanted is None or wanted in range(OLDEST_PLUGIN_API, PLUGIN_API + 1):
        return None
    if not isinstance(wanted, int):
        fact = f"its PLUGIN_API is {wanted!r}, not the number of a version of the plugin API"
        return PluginProblem(fact, f"Write `PLUGIN_API = {PLUGIN_API}`.", "plugin-version")
    fact = f"it is written for version {wanted} of the plugin API, but codex-framework {__version__} has version {PLUGIN_API}"
    newer = f"pip install -U {BUNDLED}" if wanted > PLUGIN_API else "Install a newer version of the plugin."
    return PluginProblem(fact, newer, "plugin-version")
