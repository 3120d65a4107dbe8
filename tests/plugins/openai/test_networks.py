"""What stands between us and a server: TLS and proxies. In processes of their own, because both are set by the environment."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from codex_framework.testing.replies import say
from codex_framework.testing.server import ResponsesServer

PROGRAM = """
import asyncio, os, sys
from codex_framework import ModelError, ProviderInfo
from codex_framework.testing.requests import ask, model_request
from codex_plugin_openai.provider import ResponsesProvider
info = ProviderInfo(id="x", base_url=sys.argv[1], request_max_retries=0)
try:
    answers = asyncio.run(ask(ResponsesProvider(), info, model_request(), model_request(), env=dict(os.environ)))
    print([type(answer[-1]).__name__ for answer in answers])
except ModelError as error:
    print(error.slug, error.fact)
"""


def run(url: str, **env: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, url],
        env={**kept, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stderr == ""
    return result.stdout.strip()


class TlsFront:
    """Speaks TLS to whoever comes and passes on what is said to a plain server."""

    def __init__(self, certificate: Path, key: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._behind = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> TlsFront:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._pass_on, args=(plain,)))
            self._threads[-1].start()

    def _pass_on(self, plain: socket.socket) -> None:
        try:
            with self._context.wrap_socket(plain, server_side=True) as front:
                while request := front.recv(1 << 20):
                    while not request.endswith(b"}"):
                        request += front.recv(1 << 20)
                    with socket.create_connection(("127.0.0.1", self._behind)) as behind:
                        behind.sendall(request)
                        answer = b""
                        while not answer.endswith(b"0\r\n\r\n"):
                            answer += behind.recv(1 << 20)
                    front.sendall(answer)
        except OSError:
            plain.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs openssl")
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*command, "-days", "2", "-out", files[0], "-keyout", files[1], *names], check=True, capture_output=True
    )
    return files


def test_a_server_with_a_trusted_certificate_is_spoken_to(certificate: tuple[Path, Path]) -> None:
    with ResponsesServer([say("a"), say("b")]) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with TlsFront(*certificate, port) as front:
            url = f"https://127.0.0.1:{front.port}/v1"
            assert run(url, SSL_CERT_FILE=str(certificate[0])) == "['Completed', 'Completed']"


def test_a_server_with_an_unknown_certificate_is_not_spoken_to(certificate: tuple[Path, Path]) -> None:
    with ResponsesServer([]) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with TlsFront(*certificate, port) as front:
            told = run(f"https://127.0.0.1:{front.port}/v1")
            assert told.startswith("unreachable Connection failed: ")
            assert "CERTIFICATE_VERIFY_FAILED" in told


def test_a_proxy_is_used_where_one_is_set() -> None:
    with ResponsesServer([say("a"), say("b")]) as proxy:
        told = run("http://models.invalid/v1", HTTP_PROXY=proxy.url.removesuffix("/v1"))
    assert told == "['Completed', 'Completed']"
    assert [request.path for request in proxy.requests] == ["http://models.invalid/v1/responses"] * 2


def test_a_server_on_this_machine_is_reached_past_the_proxy() -> None:
    with ResponsesServer([say("a"), say("b")]) as server:
        assert run(server.url, HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="127.0.0.1") == "['Completed', 'Completed']"
