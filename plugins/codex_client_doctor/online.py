"""The checks of ``doctor --online``: a request to the model's server, its clock, and a start of every MCP server."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime

from codex_client_doctor.checks import Check
from codex_client_doctor.findings import Finding
from codex_client_doctor.setup import Setup
from codex_framework.contract.errors import CodexError
from codex_framework.contract.roles.models import ProviderInfo

__all__ = ["ONLINE", "check_model_server"]

_PROGRAM = "codex-framework"
_TIMEOUT_S = 10.0
_PROXY_S = 3.0
_MAX_BYTES = 1 << 20
_SERVER_S = 60
_SKEW_S = 300
"""Seconds by which the clock may be wrong: tokens and certificates are valid for a limited time."""
_PATHS = {"responses": "/responses", "chat": "/chat/completions", "messages": "/messages"}
_LOCAL = ("localhost", "127.0.0.1", "::1")
_REFUSED, _NOT_FOUND = (401, 403), (404, 405)


def check_model_server(setup: Setup) -> Iterator[Finding]:
    """Send an empty request, which costs nothing: a server that takes the address and the key answers that it is incomplete."""
    from codex_lib_model_client.addresses import post_address
    from codex_lib_model_client.credentials import access

    try:
        provider = setup.provider
        found = access(provider, setup.environ, setup.config.tables)
        if found.base_url is not None and provider.id == "openai":
            provider = provider.evolve(base_url=found.base_url)
        url, host = post_address(provider, _PATHS.get(provider.wire_api, ""))
    except CodexError:  # another check has reported it
        return
    proxy = _dead_proxy(setup, url)
    if proxy is not None:
        yield proxy
        return
    key = found.key or (asyncio.run(found.tokens.token()) if found.tokens is not None else None)
    reply = asyncio.run(_post(setup, provider, url, key))
    if isinstance(reply, str):
        yield Finding("server", "Network", "failed", f"{host} cannot be reached: {reply}", *_start(provider, host))
        return
    status, headers = reply
    yield from _judge(setup, provider, url, key, status)
    yield from _check_clock(headers)


def _judge(setup: Setup, provider: ProviderInfo, url: str, key: str | None, status: int) -> Iterator[Finding]:
    """Interpret the status of a reply, and yield findings about the key and the address."""
    area = "Network"
    if status in _REFUSED:
        name = provider.env_key or "OPENAI_API_KEY"
        login = (f"{_PROGRAM} login",) if provider.id == "openai" else ()
        text = f"The server {url} refuses the key (status {status})."
        yield Finding("key-refused", area, "failed", text, (*login, f"export {name}=YOUR_KEY"))
    elif status in _NOT_FOUND:
        base = _other_base(setup, provider, key) or "URL"
        text = f"The server knows no {url} (status {status}): the path of base_url is probably wrong."
        fix = (f"{_PROGRAM} config set model_providers.{provider.id}.base_url {shlex.quote(base)}",)
        yield Finding("server-path", area, "failed", text, fix)
    elif status == 429:
        text = "The server accepts the address and the key, but a limit is exhausted (status 429)."
        yield Finding("server", area, "warning", text, (), "Wait, or raise the limit of your account.")
    elif status >= 500:
        yield Finding(
            "server", area, "failed", f"The server {url} has an error (status {status}).", (), "Try again later."
        )
    else:
        yield Finding("server", area, "ok", f"{url} accepts the address and the key (status {status})")


def _other_base(setup: Setup, provider: ProviderInfo, key: str | None) -> str:
    """Return the base URL with or without ``/v1`` if the server knows that one."""
    base = (provider.base_url or "").rstrip("/")
    other = (
        base.removesuffix("/v1") if base.endswith("/v1") else f"{re.sub('/(responses|chat/completions)$', '', base)}/v1"
    )
    reply = asyncio.run(_post(setup, provider, other + _PATHS.get(provider.wire_api, ""), key))
    return "" if isinstance(reply, str) or reply[0] in _NOT_FOUND else other


def _start(provider: ProviderInfo, host: str) -> tuple[tuple[str, ...], str]:
    """Return advice for a server that cannot be reached."""
    fix = (f"{_PROGRAM} config set model_providers.{provider.id}.base_url URL",)
    if provider.id == "ollama":
        return ("ollama serve", *fix), ""
    where = "Start it" if host in _LOCAL else "Check the network, the name and the proxy"
    return fix, f"{where}, or correct its address:"


async def _post(setup: Setup, provider: ProviderInfo, url: str, key: str | None) -> tuple[int, Mapping[str, str]] | str:
    """Return the status and the headers of the reply, or the reason why there is no reply."""
    from codex_lib_model_client.headers import common_headers
    from codex_lib_model_client.https import httpx_module
    from codex_lib_model_client.small_replies import fetch

    httpx = httpx_module()
    headers = common_headers(provider, setup.environ, key)
    local = any(f"//{host}" in url for host in _LOCAL)
    try:
        reply = await fetch(
            "POST", url, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES, headers=headers, body={}, local=local
        )
    except TimeoutError:
        return f"no answer within {_TIMEOUT_S:.0f} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return str(error) or type(error).__name__
    return reply.status, reply.headers


def _dead_proxy(setup: Setup, url: str) -> Finding | None:
    """Return a finding if requests to a URL go through a proxy that cannot be reached."""
    from codex_lib_model_client.proxies import proxy_for

    try:
        proxy = proxy_for(url, setup.environ)
    except CodexError:  # another check has reported it
        return None
    if proxy is None:
        return None
    try:
        socket.create_connection((proxy.host, proxy.port), timeout=_PROXY_S).close()
    except OSError as error:
        names = [name for name in setup.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
        text = f"The proxy {proxy.host}:{proxy.port} cannot be reached: {error.strerror or error}."
        return Finding("proxy-dead", "Network", "failed", text, (f"unset {' '.join(names)}",))
    return None


def _check_clock(headers: Mapping[str, str]) -> Iterator[Finding]:
    try:
        served = parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError):
        return
    skew = time.time() - served
    if abs(skew) > _SKEW_S:
        text = f"The clock of this machine is {abs(skew) / 60:.0f} minutes {'ahead' if skew > 0 else 'behind'} of the server's."
        yield Finding(
            "clock",
            "Network",
            "failed",
            f"{text} Logins and certificates fail then.",
            ("sudo timedatectl set-ntp true",),
        )


def check_server_starts(setup: Setup) -> Iterator[Finding]:
    """Start every MCP server and list its tools, as ``codex-framework mcp tools`` does."""
    if setup.is_broken:  # another check has reported it
        return
    for name, table in setup.config.get("mcp_servers", {}).items():
        if not isinstance(table, Mapping) or table.get("enabled") is False:
            continue
        argv = [sys.executable, "-m", "codex_framework", *setup.options, "mcp", "tools", name]
        try:
            done = subprocess.run(
                argv,
                env=setup.environ,
                capture_output=True,
                text=True,
                timeout=_SERVER_S,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            said = done.stderr.strip() or done.stdout.strip()
        except subprocess.TimeoutExpired:
            said = f"it did not start within {_SERVER_S} s"
        else:
            if done.returncode == 0:
                continue
        fix = (f"{_PROGRAM} mcp tools {shlex.quote(name)}", f"{_PROGRAM} mcp remove {shlex.quote(name)}")
        yield Finding(
            "mcp-start", "MCP servers", "failed", f"{name} does not start: {said.removeprefix('Error: ')}", fix
        )


ONLINE: Sequence[Check] = (check_model_server, check_server_starts)
"""The checks, in the order of the page."""
