"""Exporters of the SDK for the three transports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from codex_plugin_otel.worker.problems import Problems

__all__ = ["exporter", "shown"]

_CLASSES = {"logs": "OTLPLogExporter", "traces": "OTLPSpanExporter", "metrics": "OTLPMetricExporter"}
_MODULES = {"logs": "_log_exporter", "traces": "trace_exporter", "metrics": "metric_exporter"}


def exporter(signal: str, to: Mapping[str, Any], problems: Problems, **options: Any) -> Any:
    """Return the exporter of one signal, which reports failed batches.

    Args:
        signal: ``logs``, ``traces`` or ``metrics``.
        to: The fields of the configuration's ``Exporter``.
        options: Further arguments of the exporter.
    """
    problems.endpoints[signal] = shown(to["endpoint"])
    made = (_grpc if to["transport"] == "grpc" else _http)(signal, to, options)
    return _reporting(made, signal, problems)


def shown(endpoint: str) -> str:
    """Return a URL without its possibly secret parts: user, path and query."""
    parts = urlsplit(endpoint)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}"


def _http(signal: str, to: Mapping[str, Any], options: dict[str, Any]) -> Any:
    import importlib

    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.http.{_MODULES[signal]}")
    if to["protocol"] == "json":
        from opentelemetry.exporter.otlp.proto.http import Compression

        from codex_plugin_otel.worker.json_protocol import session

        options.update(session=session(signal), compression=Compression.NoCompression)
    return getattr(module, _CLASSES[signal])(
        endpoint=to["endpoint"],
        headers=to["headers"] or None,
        certificate_file=to["ca_certificate"],
        client_certificate_file=to["client_certificate"],
        client_key_file=to["client_private_key"],
        **options,
    )


def _grpc(signal: str, to: Mapping[str, Any], options: dict[str, Any]) -> Any:
    import importlib

    import grpc

    module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.grpc.{_MODULES[signal]}")
    insecure = to["endpoint"].startswith("http:")
    if not insecure:
        options["credentials"] = grpc.ssl_channel_credentials(
            root_certificates=_content(to["ca_certificate"]),
            private_key=_content(to["client_private_key"]),
            certificate_chain=_content(to["client_certificate"]),
        )
    headers = {name.lower(): value for name, value in to["headers"].items()}  # gRPC refuses others
    return getattr(module, _CLASSES[signal])(
        endpoint=to["endpoint"], headers=headers or None, insecure=insecure, **options
    )


def _content(path: str | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()


def _reporting(made: Any, signal: str, problems: Problems) -> Any:
    """Make an exporter report every batch that it could not send."""
    export = made.export

    def reporting(*args: Any, **kwargs: Any) -> Any:
        result = export(*args, **kwargs)
        if getattr(result, "name", "") == "FAILURE":
            problems.failed(signal)
        return result

    made.export = reporting
    return made
