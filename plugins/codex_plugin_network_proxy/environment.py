"""Proxy variables: those set for commands, and those from which this process takes its upstream proxy."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from codex_framework import NetworkRules, ProxyPorts, SandboxError
from codex_plugin_network_proxy.hosts import BadHostError, clean_host
from codex_plugin_network_proxy.routing import UpstreamProxy

__all__ = ["command_environment", "upstream_proxies"]

_BOTH_CASES_HTTP = ("HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY")
_BOTH_CASES_ANY = ("ALL_PROXY", "FTP_PROXY")
_HTTP = (
    "npm_config_proxy",
    "npm_config_https_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "PIP_PROXY",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
)
_EXCEPTIONS = ("NO_PROXY", "no_proxy", "npm_config_noproxy", "YARN_NO_PROXY", "BUNDLE_NO_PROXY")
_DIRECT_HOSTS = "localhost,127.0.0.1,::1"
"""Hosts reached without the proxy, so that a command can use the servers that it starts itself."""


def command_environment(ports: ProxyPorts, rules: NetworkRules) -> dict[str, str]:
    """Return the environment variables for a command that can reach the gate at these ports."""
    http = f"http://127.0.0.1:{ports.http}"
    everything = f"socks5h://127.0.0.1:{ports.socks}" if ports.socks else http
    variables = {name: http for word in _BOTH_CASES_HTTP for name in (word, word.lower())}
    variables |= {name: everything for word in _BOTH_CASES_ANY for name in (word, word.lower())}
    variables |= dict.fromkeys(_HTTP, http)
    variables |= dict.fromkeys(_EXCEPTIONS, _DIRECT_HOSTS)
    return variables | {
        "NODE_USE_ENV_PROXY": "1",
        "ELECTRON_GET_USE_PROXY": "true",
        "CODEX_NETWORK_PROXY_ACTIVE": "1",
        "CODEX_NETWORK_ALLOW_LOCAL_BINDING": "1" if rules.allow_local_binding else "0",
    }


def upstream_proxies(environ: Mapping[str, str]) -> tuple[dict[str, UpstreamProxy], dict[str, str]]:
    """Return the proxies that an environment sets for ``http`` and ``https``, and its ``NO_PROXY`` exceptions.

    Raises:
        SandboxError: The URL of a proxy is invalid or has an unsupported scheme.
    """
    proxies: dict[str, UpstreamProxy] = {}
    for protocol in ("http", "https"):
        for name in (f"{protocol}_proxy", f"{protocol.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if url := environ.get(name, "").strip():
                proxies[protocol] = _upstream(name, url)
                break
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return proxies, {"no": no_proxy} if no_proxy else {}


def _upstream(name: str, url: str) -> UpstreamProxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = clean_host(parts.hostname or ""), parts.port
    except (BadHostError, ValueError):
        raise _unusable(name, "names no host") from None
    if parts.scheme not in ("http", "https"):
        raise _unusable(name, f"is of the unsupported kind {parts.scheme}://")
    authorization = None
    if parts.username is not None:
        from base64 import b64encode

        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = b"Basic " + b64encode(pair.encode())
    tls = parts.scheme == "https"
    return UpstreamProxy(host, port or (443 if tls else 80), tls, authorization)


def _unusable(name: str, why: str) -> SandboxError:
    return SandboxError(
        f"the network proxy must use the proxy in {name}, which {why}",
        hint=f"Set {name} to http://HOST:PORT, or remove permissions.NAME.network.allow_upstream_proxy.",
    )
