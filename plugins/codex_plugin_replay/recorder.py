"""The interceptor that records providers. The code that records is imported when a provider's table requires it."""

from __future__ import annotations

from collections.abc import Mapping

from codex_framework import Interceptor, ModelClient, ProviderInfo

__all__ = ["Recorder"]


class Recorder(Interceptor):
    """Wraps the client of a provider whose table has ``record = "path"``.

    Args:
        environ: The kernel's environment variables, whose secrets are removed from recordings.
    """

    name = "recorder"
    order = 1000

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def client(self, client: ModelClient, provider: ProviderInfo) -> ModelClient:
        """Return the client itself, or one that records it.

        Raises:
            ConfigError: ``record`` is not a path.
        """
        if "record" not in provider.options:
            return client
        from codex_plugin_replay.recording import recorded

        return recorded(client, provider, self._environ)
