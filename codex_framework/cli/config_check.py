"""Checks a configuration before it is written: everything that would prevent a thread from starting with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from codex_framework.contract.errors import ConfigError

if TYPE_CHECKING:
    from codex_framework.config import Config
    from codex_framework.config.target import Target

__all__ = ["check_content", "select_target"]


def select_target(profile: str | None, *, project: bool) -> Target:
    """Return the file that ``--profile`` and ``--project`` select.

    Raises:
        ConfigError: ``$CODEX_HOME`` does not exist, or there can be no such file.
    """
    from codex_framework.config.target import profile_target, project_target, user_target

    if project and profile is not None:
        raise ConfigError(
            "--profile and --project select different files",
            path="--project",
            slug="config-project",
            hint="Use one of them. A project has no profiles.",
        )
    if project:
        return project_target(os.environ, Path.cwd())
    return user_target(os.environ) if profile is None else profile_target(os.environ, profile)


def check_content(target: Target, content: bytes, *, plugins: bool) -> Config:
    """Return the configuration that results from a new content of a file.

    Args:
        target: The file.
        content: Its new content.
        plugins: Whether to refuse wrong settings of plugins too. Without their settings, plugins fail but threads start.

    Raises:
        ConfigError: The configuration is invalid, or no thread could be started with it.
    """
    from codex_framework.config import settings_from
    from codex_framework.loader.registry import load_registry

    config = target.check(content, os.environ)
    registry = load_registry(config, environ=os.environ)
    settings_from(config, registry.builtin_providers)
    problems = [problem for report in registry.reports for problem in report.problems] if plugins else []
    for problem in problems:
        if problem.slug.startswith("config") and str(target.path) in (problem.path, problem.fact.split(":", 1)[0]):
            place = f"{problem.path}:{problem.line}: " if problem.path else ""
            raise ConfigError(
                place + problem.fact, path=str(target.path), line=problem.line, slug=problem.slug, hint=problem.hint
            )
    return config
