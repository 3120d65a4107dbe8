"""The output of ``codex-framework plugins show`` for one plugin, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from codex_framework.config.plugin_keys import plugin_keys
from codex_framework.loader.report import PluginProblem, PluginReport

__all__ = ["COLOURS", "as_json", "details", "package_of", "problem_as_json"]

COLOURS = {"loaded": "green", "partial": "yellow", "failed": "red", "disabled": "bright_black"}


def details(report: PluginReport) -> Iterator[str]:
    """Return the lines about a plugin: origin, contributions, settings, and all problems with hints."""
    yield click.style(report.name, bold=True)
    yield f"  module       {report.module}"
    yield f"  from         {report.origin}{' (bundled)' if report.bundled else ''}"
    for word, text in package_of(report).items():
        yield f"  {word:<12} {text}"
    yield f"  status       {click.style(report.status.value, fg=COLOURS[report.status.value])}"
    yield f"  loading      {report.load_ms:.2f} ms"
    if report.requires:
        yield f"  requires     {', '.join(report.requires)}"
    for role, names in report.contributes.items():
        yield f"  {role.replace('_', ' '):<12} {', '.join(names)}"
    yield from _settings(report)
    for problem in report.problems:
        yield f"  problem      {problem.text}"
        if problem.hint:
            yield f"  hint         {problem.hint}"


def as_json(report: PluginReport) -> dict[str, Any]:
    """Return everything about a plugin as JSON data."""
    return {
        "name": report.name,
        "module": report.module,
        "distribution": report.distribution,
        "version": report.version,
        "file": report.file or None,
        "bundled": report.bundled,
        "status": report.status.value,
        "requires": list(report.requires),
        "contributes": {role: list(names) for role, names in report.contributes.items()},
        "settings": [key._asdict() for key in plugin_keys(report.settings)] if report.settings is not None else [],
        "problems": [problem_as_json(problem) for problem in report.problems],
        "load_ms": round(report.load_ms, 3),
    }


def problem_as_json(problem: PluginProblem) -> dict[str, Any]:
    """Return a problem as JSON data."""
    return {
        "fact": problem.fact,
        "hint": problem.hint,
        "slug": problem.slug,
        "path": problem.path or None,
        "line": problem.line,
    }


def package_of(report: PluginReport) -> Mapping[str, str]:
    """Return information from the metadata of a plugin's distribution: summary, home page and location."""
    if not report.distribution or report.bundled:
        return {}
    from importlib_metadata import PackageNotFoundError, distribution

    try:
        package = distribution(report.distribution)
    except PackageNotFoundError:
        return {}
    found = {
        "summary": package.metadata.get("Summary") or "",
        "home page": _home_page(package.metadata),
        "installed in": _editable(package) or str(package.locate_file("")),
    }
    return {word: text for word, text in found.items() if text}


def _home_page(metadata: Any) -> str:
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL") or () if ", " in line)
    by_name = {name.lower(): url for name, url in urls.items()}
    for name in ("homepage", "home", "repository", "source", "documentation"):
        if name in by_name:
            return str(by_name[name])
    return str(metadata.get("Home-page") or "")


def _editable(package: Any) -> str:
    """Return the source folder of an editable installation; empty if there is none."""
    try:
        origin = json.loads(package.read_text("direct_url.json") or "{}")
    except ValueError:
        return ""
    if not origin.get("dir_info", {}).get("editable"):
        return ""
    return f"{str(origin.get('url', '')).removeprefix('file://')} (editable)"


def _settings(report: PluginReport) -> Iterator[str]:
    if report.settings is None:
        return
    keys = plugin_keys(report.settings)
    word = "settings"
    for key in keys:
        default = f", {key.default}" if key.default == "required" else f", default {key.default}" if key.default else ""
        yield f"  {word:<12} {key.name}: {key.type}{default}{f'. {key.meaning}' if key.meaning else ''}"
        word = ""
