"""The table ``[otel]`` of ``config.toml``, in Codex's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codex_framework import PluginContext, Value
from codex_framework.contract.errors import ConfigError

__all__ = ["Configuration", "Exporter", "configuration"]

_KINDS = ("otlp-http", "otlp-grpc")
_SILENT = ("none", "statsig")
"""Exporters that send nothing. ``statsig`` is a service of Codex's makers."""

_KEYS = {"otlp-http": {"endpoint", "headers", "protocol", "tls"}, "otlp-grpc": {"endpoint", "headers", "tls"}}
_FILES = ("ca-certificate", "client-certificate", "client-private-key")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HINT = 'Write, for example, exporter = { otlp-http = { endpoint = "http://localhost:4318/v1/logs", protocol = "binary" } }.'


class Exporter(Value, kw_only=True):
    """The target of one signal.

    Attributes:
        transport: ``http`` or ``grpc``.
        protocol: ``binary`` or ``json``. Only for ``http``.
        headers: The headers with variables expanded, so they contain secrets.
        ca_certificate, client_certificate, client_private_key: Absolute paths of PEM files.
    """

    transport: str
    endpoint: str
    protocol: str = "binary"
    headers: Mapping[str, str] = {}
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_private_key: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(self).items()}


class Configuration(Value, kw_only=True):
    """The settings of ``[otel]``.

    Attributes:
        logs, traces, metrics: The exporters of the three signals. None if the signal is not exported.
        tool_result_bytes: The maximum number of bytes of a tool's output in a log record. None leaves it to the worker.
        span_attributes: Attributes of every span.
        tracestate: Fields for members of the W3C trace state of every span, by member.
    """

    environment: str = "dev"
    log_user_prompt: bool = False
    tool_result_bytes: int | None = None
    logs: Exporter | None = None
    traces: Exporter | None = None
    metrics: Exporter | None = None
    span_attributes: Mapping[str, str] = {}
    tracestate: Mapping[str, Mapping[str, str]] = {}

    @property
    def exporters(self) -> Mapping[str, Exporter | None]:
        """The exporters by signal."""
        return {"logs": self.logs, "traces": self.traces, "metrics": self.metrics}

    @property
    def exports(self) -> bool:
        """Whether any signal is exported."""
        return any(self.exporters.values())


def configuration(plugin: PluginContext) -> Configuration:
    """Read the table ``[otel]``.

    Raises:
        ConfigError: An exporter is not described completely, or a header names a variable that is not set.
    """
    table: Mapping[str, Any] = plugin.config.get("otel") or {}
    return Configuration(
        environment=table.get("environment", "dev"),
        log_user_prompt=table.get("log_user_prompt") is True,
        tool_result_bytes=(table.get("tool_result") or {}).get("max_bytes"),
        logs=_exporter(table, "exporter", plugin),
        traces=_exporter(table, "trace_exporter", plugin),
        metrics=_exporter(table, "metrics_exporter", plugin),
        span_attributes=table.get("span_attributes") or {},
        tracestate=_tracestate(table.get("tracestate") or {}),
    )


def _exporter(table: Mapping[str, Any], name: str, plugin: PluginContext) -> Exporter | None:
    key, value = f"otel.{name}", table.get(name, "none")
    if value in _SILENT:
        return None
    if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in _KINDS:
        wanted = "none, otlp-http or otlp-grpc with a table of settings"
        raise _wrong(key, f"`{key}` must be {wanted}")
    kind, settings = next(iter(value.items()))
    key = f"{key}.{kind}"
    if not isinstance(settings, Mapping):
        raise _wrong(key, f"`{key}` must be a table")
    for unknown in settings.keys() - _KEYS[kind]:
        raise _wrong(f"{key}.{unknown}", f"unknown key `{key}.{unknown}`")
    return Exporter(
        transport=kind.removeprefix("otlp-"),
        endpoint=_endpoint(key, settings.get("endpoint")),
        protocol=_protocol(key, settings.get("protocol", "binary")),
        headers=_headers(key, settings.get("headers") or {}, plugin.environ),
        **_files(key, settings.get("tls") or {}, plugin),
    )


def _endpoint(key: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"https?://[^/\s]\S*", value) or not _has_host(value):
        raise _wrong(f"{key}.endpoint", f"`{key}.endpoint` must be a URL that begins with http:// or https://")
    return value


def _has_host(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _protocol(key: str, value: Any) -> str:
    if value not in ("binary", "json"):
        raise _wrong(f"{key}.protocol", f"`{key}.protocol` must be binary or json")
    return str(value)


def _headers(key: str, table: Any, environ: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(table, Mapping) or not all(isinstance(value, str) for value in table.values()):
        raise _wrong(f"{key}.headers", f"`{key}.headers` must be a table of strings")
    return {name: _expand_variables(f"{key}.headers.{name}", value, environ) for name, value in table.items()}


def _expand_variables(key: str, value: str, environ: Mapping[str, str]) -> str:
    """Return a header with the values of its variables, written ``${NAME}``."""

    def content(match: re.Match[str]) -> str:
        if match[1] not in environ:
            hint = f"Set {match[1]}, or remove the header."
            raise ConfigError(f"`{key}` names the variable {match[1]}, which is not set", key=key, hint=hint)
        return environ[match[1]]

    filled = _VARIABLE.sub(content, value)
    if not filled.isprintable():
        raise ConfigError(f"`{key}` contains a control character", key=key, hint="Remove it; a header is one line.")
    return filled


def _files(key: str, table: Any, plugin: PluginContext) -> dict[str, str]:
    """Return the paths of certificates and keys. Relative paths begin in ``$CODEX_HOME``.

    Raises:
        ConfigError: A file does not exist, or the certificate and key of the client are not both given.
    """
    if not isinstance(table, Mapping) or table.keys() - set(_FILES):
        raise _wrong(f"{key}.tls", f"`{key}.tls` may contain {', '.join(_FILES)} and nothing else")
    found: dict[str, str] = {}
    for name, value in table.items():
        path = plugin.codex_home / str(value)
        if not path.is_file():
            raise ConfigError(f"`{key}.tls.{name}` names {path}, which is not a file", key=f"{key}.tls.{name}")
        found[name.replace("-", "_")] = str(path)
    if ("client_certificate" in found) != ("client_private_key" in found):
        raise _wrong(f"{key}.tls", f"`{key}.tls` needs both client-certificate and client-private-key, or neither")
    return found


def _tracestate(table: Any) -> dict[str, dict[str, str]]:
    if not isinstance(table, Mapping) or not all(isinstance(fields, Mapping) for fields in table.values()):
        raise _wrong("otel.tracestate", "`otel.tracestate` must be a table of tables")
    return {member: {str(name): str(value) for name, value in fields.items()} for member, fields in table.items()}


def _wrong(key: str, fact: str) -> ConfigError:
    return ConfigError(fact, key=key, hint=_HINT)
