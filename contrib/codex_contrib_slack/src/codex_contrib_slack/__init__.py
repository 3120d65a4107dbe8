"""The hooks of the Slack notifier. Without ``url_env_var`` it offers nothing and imports nothing more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codex_framework import Notifier, PluginContext, hookimpl

__all__ = ["codex_notifiers", "codex_settings"]


@hookimpl
def codex_settings() -> type[Any]:
    """Declare the table ``[framework.plugins.slack]``."""
    from codex_contrib_slack.settings import Settings

    return Settings


@hookimpl
def codex_notifiers(plugin: PluginContext) -> Iterable[Notifier]:
    """Offer the notifier if the settings name the variable with the webhook's URL."""
    from codex_contrib_slack.settings import Settings

    settings = plugin.settings(Settings)
    if not settings.url_env_var:
        return []
    from codex_contrib_slack.notifier import SlackNotifier

    return [SlackNotifier(settings, plugin.name, plugin.environ)]
