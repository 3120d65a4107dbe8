"""Certificates that cannot be loaded."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.requests import ask, model_request
from codex_plugin_openai.provider import ResponsesProvider


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_certificate_file_that_is_missing_or_wrong_is_told(
    content: str | None, variable: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.pem"
    if content is not None:
        file.write_text(content)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/v1"
        info = ProviderInfo(id="x", base_url=url, request_max_retries=0)
        asking = ask(ResponsesProvider(), info, model_request(), env={variable: str(file)})
        with pytest.raises(ModelError, match="cannot be loaded") as caught:
            asyncio.run(asking)
    assert caught.value.slug == "certificates"
    assert variable in caught.value.hint
    reason = "No such file or directory" if content is None else "it contains no certificate"
    assert caught.value.fact.endswith(f": {variable} is {file}: {reason}")
