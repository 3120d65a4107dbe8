"""An issuer on loopback, and stored logins of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.login.issuer import Issuer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def env(codex_home: Path, issuer: Issuer) -> dict[str, str]:
    return {
        "CODEX_HOME": str(codex_home),
        "HOME": str(codex_home),
        "PATH": "/usr/bin:/bin",
        "CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{issuer.url}/oauth/token",
        "CODEX_REVOKE_TOKEN_URL_OVERRIDE": f"{issuer.url}/oauth/revoke",
        "CODEX_AUTHAPI_BASE_URL": issuer.url,
    }


@pytest.fixture
def store(codex_home: Path, issuer: Issuer) -> Callable[..., dict[str, Any]]:
    """Write an ``auth.json`` with tokens of the issuer, and fields that nobody knows."""

    def stored(**more: Any) -> dict[str, Any]:
        tokens = {**issuer.tokens(), "account_id": issuer.account, "later": [1]}
        content = {
            "auth_mode": "chatgpt",
            "OPENAI_API_KEY": None,
            "tokens": tokens,
            "last_refresh": "2026-11-23T07:52:01.725831Z",
            "future": {"x": 1},
            **more,
        }
        path = codex_home / "auth.json"
        path.write_text(json.dumps(content))
        path.chmod(0o600)
        return content

    return stored
