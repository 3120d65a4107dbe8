"""What of settings is shown: no secrets, wherever they hide."""

from __future__ import annotations

from typing import Any

import pytest

from codex_framework.config.secrecy import without_secrets


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("model_providers.a.base_url", "http://u:p@h/v1?key=k#f", "http://(hidden)@h/v1?(hidden)"),
        ("model_providers.a.base_url", "https://host/v1", "https://host/v1"),
        ("mcp_servers.a.url", "https://host/mcp?token=t", "https://host/mcp?(hidden)"),
        ("mcp_servers.a.args", ["--api-key", "k", "-v"], ["--api-key", "(hidden)", "-v"]),
        ("mcp_servers.a.args", ["--token=t", "--name=n"], ["--token=(hidden)", "--name=n"]),
        ("mcp_servers.a.args", ["--token", "--port", "1"], ["--token", "--port", "1"]),
        ("mcp_servers.a.args", ["--max-tokens", "5", "token", "t"], ["--max-tokens", "5", "token", "t"]),
        ("mcp_servers.a.args", [["--password", "p"], 5], [["--password", "(hidden)"], 5]),
        ("otel.exporter.otlp-http.headers", {"x-team": "t"}, {"x-team": "(hidden)"}),
        ("notify", ["sh", "https://u@h"], ["sh", "https://(hidden)@h"]),
    ],
)
def test_secrets_in_addresses_arguments_and_headers_are_not_shown(key: str, value: Any, shown: Any) -> None:
    assert without_secrets(value, key.split(".")) == shown
