"""A site folder with tiny installed distributions, and a fresh interpreter that loads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.forked import run_source

_PROBE = """
import json, sys
from codex_framework.loader.registry import load_registry

registry = load_registry(json.loads(sys.argv[1]))
table = registry
print(json.dumps({
    "reports": [
        {
            "name": report.name,
            "module": report.module,
            "distribution": report.distribution,
            "version": report.version,
            "status": report.status,
            "contributes": {role: list(names) for role, names in report.contributes.items()},
            "problems": [[problem.fact, problem.hint] for problem in report.problems],
            "slugs": [problem.slug for problem in report.problems],
            "places": [[problem.path, problem.line] for problem in report.problems],
        }
        for report in table.reports_with_commands
        if report.distribution != "codex-framework"
    ],
    "tools": {name: tool.plugin for name, tool in registry.tools.items()},
    "calls": {name: tool.spec.name for name, tool in registry.tools_by_call.items()},
    "commands": {name: offer.plugin for name, offer in table.commands.items()},
    "warnings": [warning for warning in registry.warnings if "codex-framework" not in warning],
    "modules": [name for name in sys.modules if name.startswith("acme")],
}))
"""

GOOD = """
    from codex_framework import hookimpl, tool

    @tool
    async def acme_good(path: str) -> str:
        \"\"\"Do good.\"\"\"
        return path

    @hookimpl
    def codex_tools():
        return [acme_good]
"""


class Site:
    """A folder on ``sys.path`` where distributions are installed, as pip leaves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def install(
        self,
        module: str,
        source: str,
        *,
        name: str | None = None,
        value: str | None = None,
        version: str = "1.0",
        metadata: str = "",
    ) -> None:
        """Install a distribution ``acme-<module>`` with one module ``acme_<module>`` and one entry point."""
        code = self.folder / f"acme_{module}.py"
        code.write_text(dedent(source), encoding="utf-8")
        self.declare(f"acme_{module}", {name or module: value or f"acme_{module}"}, version=version, metadata=metadata)

    def declare(self, dist: str, entries: Mapping[str, str], *, version: str = "1.0", metadata: str = "") -> None:
        """Write a distribution's metadata alone."""
        info = self.folder / f"{dist}-{version}.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n{metadata}")
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        info.joinpath("entry_points.txt").write_text(f"[console_scripts]\nx = x:y\n\n[codex_framework]\n{lines}")

    def environ(self, *more: Site) -> dict[str, str]:
        """The environment in which this folder is on the path, before everything else."""
        folders = [str(site.folder) for site in (self, *more)]
        path = os.pathsep.join(filter(None, (*folders, os.environ.get("PYTHONPATH"))))
        return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def load(self, config: Mapping[str, Any] | None = None, *more: Site, fresh: bool = False) -> dict[str, Any]:
        """Load everything in a process of its own, if need be in a fresh one, and tell what came out without bundled plugins."""
        env, given = self.environ(*more), json.dumps(config or {})
        if fresh:
            command = [sys.executable, "-c", _PROBE, given]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
        else:
            path = [str(site.folder) for site in (self, *more)]
            done = run_source(_PROBE, given, cwd=Path.cwd(), env=env, path=path)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    def report(self, name: str, config: Mapping[str, Any] | None = None, *, fresh: bool = False) -> dict[str, Any]:
        """The report of one plugin, and proof that the others loaded all the same."""
        self.install("good", GOOD)
        loaded = self.load(config, fresh=fresh)
        reports = {report["name"]: report for report in loaded["reports"]}
        assert reports["good"]["status"] == "loaded"
        assert reports["good"]["contributes"] == {"tools": ["acme_good"]}
        return {**reports[name], "warnings": loaded["warnings"]}


@pytest.fixture(scope="session")
def new_site() -> type[Site]:
    """For fixtures that live longer than a test."""
    return Site


@pytest.fixture(scope="session")
def good() -> str:
    """The source of a plugin with the tool ``acme_good``."""
    return GOOD


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.fixture
def other_site(tmp_path: Path) -> Site:
    return Site(tmp_path / "other-site")
