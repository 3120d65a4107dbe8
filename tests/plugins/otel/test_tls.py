"""Collectors over TLS: certificates of a private authority, and clients that prove who they are, over HTTPS and gRPC."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from codex_framework.testing.replies import call, say
from tests.plugins.otel.conftest import Collector, Received

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes certificates, is not installed"
)

SHORT = "framework.plugins.otel.flush_timeout_s=4"
SERVICES = {"logs": "logs.v1.LogsService", "traces": "trace.v1.TraceService", "metrics": "metrics.v1.MetricsService"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificates of two authorities, a server and a client, each with its key."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(("openssl", *words), cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for authority in ("ca", "other"):
        openssl(
            *("req", "-x509", *key, "-subj", f"/CN={authority}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", f"{authority}.key", "-out", f"{authority}.pem"),
        )
    extensions = (
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "authorityKeyIdentifier=keyid",
        "subjectKeyIdentifier=hash",
    )
    (folder / "names").write_text("\n".join(extensions))
    for name in ("server", "client"):
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return folder


@pytest.fixture
def serve(certificates: Path) -> Iterator[Callable[..., tuple[Collector, str]]]:
    """Start a collector over a transport; return what it gets and its URL."""
    closing: list[Callable[[], Any]] = []

    def started(transport: str, *, asks_client: bool = False) -> tuple[Collector, str]:
        if transport == "otlp-http":
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificates / "server.pem", certificates / "server.key")
            if asks_client:
                tls.verify_mode = ssl.CERT_REQUIRED
                tls.load_verify_locations(certificates / "ca.pem")
            collector = Collector(tls)
            closing.append(collector.close)
            return collector, collector.url
        collector = Collector()
        server, port = grpc_server(collector, certificates, asks_client=asks_client)
        closing.extend((collector.close, lambda: server.stop(None).wait()))
        return collector, f"https://127.0.0.1:{port}"

    try:
        yield started
    finally:
        for close in closing:
            close()


def grpc_server(collector: Collector, certificates: Path, *, asks_client: bool) -> tuple[Any, int]:
    """Start an OTLP receiver over gRPC with TLS, which gives all it gets to ``collector``."""
    import grpc

    def handler(signal: str) -> Any:
        def export(body: bytes, context: Any) -> bytes:
            headers = {"content-type": "application/grpc", **dict(context.invocation_metadata())}
            collector.received.append(Received(f"/v1/{signal}", headers, body))
            return b""

        methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
        return grpc.method_handlers_generic_handler(f"opentelemetry.proto.collector.{SERVICES[signal]}", methods)

    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(tuple(map(handler, SERVICES)))
    pair = ((certificates / "server.key").read_bytes(), (certificates / "server.pem").read_bytes())
    known = (certificates / "ca.pem").read_bytes() if asks_client else None
    credentials = grpc.ssl_server_credentials([pair], root_certificates=known, require_client_auth=asks_client)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    return server, port


def setting(transport: str, url: str, signal: str, **files: Path) -> str:
    key = {"logs": "exporter", "traces": "trace_exporter", "metrics": "metrics_exporter"}[signal]
    path = f"/v1/{signal}" if transport == "otlp-http" else ""
    tls = ", ".join(f'{name.replace("_", "-")} = "{file}"' for name, file in files.items())
    table = f'endpoint = "{url}{path}", headers = {{ "X-Key" = "k" }}{f", tls = {{ {tls} }}" if tls else ""}'
    return f"otel.{key}={{ {transport} = {{ {table} }} }}"


def turn(scene: Any, *settings: str) -> list[str]:
    """Run a turn; return what is said about telemetry."""

    async def played() -> list[str]:
        kernel = await scene.kernel([call("exec_command", cmd="echo hi", login=False), say("done")], *settings, SHORT)
        async with kernel, asyncio.timeout(60):
            result = await (await kernel.start_thread()).run("go")
            assert result.final_message == "done"
            told = [event.message for event in result.events if event.type == "warning"]
        return [text for text in (*told, *kernel.registry.warnings) if "telemetry" in text]

    return asyncio.run(played())


@pytest.mark.parametrize("transport", ["otlp-http", "otlp-grpc"])
@pytest.mark.parametrize("asks_client", [False, True])
def test_a_turn_arrives_over_tls(scene, serve, certificates, transport, asks_client):
    collector, url = serve(transport, asks_client=asks_client)
    files = {"ca_certificate": certificates / "ca.pem"}
    if asks_client:
        files |= {"client_certificate": certificates / "client.pem", "client_private_key": certificates / "client.key"}
    settings = [setting(transport, url, signal, **files) for signal in ("logs", "traces", "metrics")]
    assert turn(scene, *settings) == []
    assert {received.path for received in collector.received} == {"/v1/logs", "/v1/traces", "/v1/metrics"}
    assert {received.headers["x-key"] for received in collector.received} == {"k"}
    assert "codex.tool_result" in [record["event.name"] for record in collector.logs]
    assert "session_task.turn" in [span["name"] for span in collector.spans]
    assert "codex.turn.e2e_duration_ms" in collector.metrics


@pytest.mark.parametrize("transport", ["otlp-http", pytest.param("otlp-grpc", marks=pytest.mark.slow)])
@pytest.mark.parametrize("authority", [None, "other"])
def test_a_collector_that_cannot_be_trusted_gets_nothing_and_is_reported_once(
    scene, serve, certificates, transport, authority
):
    collector, url = serve(transport)
    files = {} if authority is None else {"ca_certificate": certificates / f"{authority}.pem"}
    (line,) = turn(scene, setting(transport, url, "traces", **files))
    assert f"telemetry could not be sent to {url} (traces)" in line
    assert transport == "otlp-grpc" or "the TLS connection failed" in line
    assert collector.received == []


@pytest.mark.parametrize("transport", ["otlp-http", pytest.param("otlp-grpc", marks=pytest.mark.slow)])
def test_a_collector_that_asks_for_a_certificate_gets_nothing_without_it(scene, serve, certificates, transport):
    collector, url = serve(transport, asks_client=True)
    (line,) = turn(scene, setting(transport, url, "traces", ca_certificate=certificates / "ca.pem"))
    assert f"telemetry could not be sent to {url} (traces)" in line
    assert collector.received == []


@pytest.mark.parametrize("transport", ["otlp-http", "otlp-grpc"])
def test_files_that_are_no_certificates_are_reported_and_harm_no_turn(scene, serve, tmp_path, transport):
    collector, url = serve(transport)
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"\xff\x00 no certificate")
    (line,) = turn(scene, setting(transport, url, "traces", ca_certificate=garbage))
    print(line)
    assert "telemetry" in line
    assert "Turns are not affected" in line
    assert collector.received == []


def test_relative_files_are_in_codex_home(scene, serve, certificates, codex_home):
    collector, url = serve("otlp-http")
    (codex_home / "certificates").mkdir()
    shutil.copy(certificates / "ca.pem", codex_home / "certificates/ca.pem")
    assert turn(scene, setting("otlp-http", url, "traces", ca_certificate=Path("certificates/ca.pem"))) == []
    assert collector.spans
