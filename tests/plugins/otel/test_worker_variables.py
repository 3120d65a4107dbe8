"""The variables that the worker gets: proxies in capitals or not, what OpenTelemetry reads, and nothing else."""

from __future__ import annotations

from typing import Any

from codex_plugin_otel.process import Worker


def test_the_worker_gets_proxies_by_either_name_and_no_keys() -> None:
    nothing: Any = None
    proxies = {
        name: "http://p"
        for kind in ("http", "https", "all", "no")
        for name in (f"{kind}_proxy", f"{kind}_PROXY".upper())
    }
    others = {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    keys = {"OPENAI_API_KEY": "secret", "MY_HTTP_PROXY": "x", "https_proxy_password": "y"}
    assert Worker(nothing, nothing, {**proxies, **others, **keys})._env() == {**proxies, **others}
