"""Certificates that cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from codex_framework import ModelError
from codex_framework.toolkit.model_server import httpx_transport


@pytest.fixture
def fresh() -> Iterator[None]:
    """No context made before, and none kept after."""
    httpx_transport._load_certificates.cache_clear()
    yield
    httpx_transport._load_certificates.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_file_that_is_missing_or_wrong_is_told(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wrong.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        httpx_transport.HttpxTransport(secure=True)
    assert "SSL_CERT_FILE" in caught.value.hint
