"""What is hidden where settings are shown."""

from __future__ import annotations

import pytest

from codex_framework.config.secrecy import HIDDEN, without_secrets


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        (("otel", "exporter", "otlp-http", "headers", "x-team"), "k3y", HIDDEN),
        (("model_providers", "a", "query_params", "code"), "k3y", HIDDEN),
        (
            ("model_providers", "a", "base_url"),
            "https://me:p/?@ss@host/v1?key=k3y",
            f"https://{HIDDEN}@host/v1?{HIDDEN}",
        ),
        (("mcp_servers", "a", "args"), ["--url", "http://host/mcp?key=k3y"], ["--url", f"http://host/mcp?{HIDDEN}"]),
        (("framework", "plugins", "notify", "webhooks", "chat", "url"), "https://hooks.example/T0/B0/k3y", HIDDEN),
        (("framework", "plugins", "notify", "webhooks", "chat", "secret_env_var"), "CHAT", "CHAT"),
        (("mcp_servers", "a", "url"), "https://host/mcp", "https://host/mcp"),
        (("model",), "what? me@home", "what? me@home"),
    ],
)
def test_a_setting_is_shown_without_its_secrets(key: tuple[str, ...], value: object, shown: object) -> None:
    assert without_secrets(value, key) == shown
