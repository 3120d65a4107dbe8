"""What stands between the client and a server: TLS and proxies."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from codex_plugin_mcp.errors import ConnectionFailed
from codex_plugin_mcp.transports import http as http_module
from codex_plugin_mcp.transports.http_client import new_client
from tests.plugins.mcp.http_server import HttpServer, McpServer, Reply, Request
from tests.plugins.mcp.test_http import call, connected, failure


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setattr(http_module, "_RETRIES_S", ())


def use(url: str) -> None:
    async def run() -> None:
        async with connected(url) as peer:
            assert (await call(peer))["content"]

    asyncio.run(run())


def test_a_proxy_is_used_where_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    class Proxy(McpServer):
        def answer(self, request: Request) -> Reply:
            assert request.path == "/mcp"
            return super().answer(request)

    with Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base)
        use("http://mcp.invalid/mcp")
        assert {request.headers["host"] for request in proxy.requests} == {"mcp.invalid"}


def test_a_server_that_no_proxy_names_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    with McpServer() as server:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        use(server.url)


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://user:hush@host")
    with pytest.raises(ConnectionFailed, match="the proxy in the environment cannot be used") as caught:
        asyncio.run(new_client())
    assert "HTTPS_PROXY" in caught.value.hint
    assert "hush" not in str(caught.value)


def test_only_trusted_certificates_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs openssl")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, *names, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = McpServer()
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    with server:
        url = server.url.replace("http:", "https:")
        error = asyncio.run(failure(url))
        assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        assert not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        use(url)


def test_certificates_that_cannot_be_loaded_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with HttpServer() as server:
        error = asyncio.run(failure(server.url))
        assert not server.requests
    assert "the certificates for checking servers cannot be loaded" in str(error)
    assert "SSL_CERT_FILE" in error.hint
