"""The hooks of the sandbox ``docker``. Slow imports are in the functions that need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import PluginContext, Sandbox, hookimpl

__all__ = ["codex_sandboxes", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.docker]``."""
    from codex_contrib_docker.settings import DockerSettings

    return DockerSettings


@hookimpl
def codex_sandboxes(plugin: PluginContext) -> Iterable[Sandbox]:
    """Offer the sandbox."""
    from codex_contrib_docker.sandbox import DockerSandbox
    from codex_contrib_docker.settings import DockerSettings

    return [DockerSandbox(plugin.settings(DockerSettings))]
