"""Asks OpenAI's server for its list of models in the background while a turn runs."""

from __future__ import annotations

import contextlib
import threading
from asyncio import CancelledError
from collections.abc import Mapping
from typing import Any

from codex_framework import Event, ModelError, Observer, PluginContext, ProviderInfo, Value
from codex_framework.contract.version import CODEX_VERSION
from codex_lib_model_client.addresses import post_address
from codex_lib_model_client.credentials import Access, access
from codex_lib_model_client.headers import authorization
from codex_plugin_models.entries import EntryError, entries_of, model_of
from codex_plugin_models.selected import selected_provider
from codex_plugin_models.server import Cache
from codex_plugin_models.settings import Settings

__all__ = ["Fetched", "Refresher", "fetch", "refresh"]

_FRESH_S = 300.0
"""Age of a list in seconds at which it is fetched again (Codex's)."""
_AFTER_S = 1.0
"""Seconds after the start of a turn. By then its first request is on the way, and the processor is free."""
_TIMEOUT_S = 10.0
_MOST_TOLD = 20
"""How many new tags of a server are believed. A list does not change more often while a program runs."""
_MAX_BYTES = 16 * 1024 * 1024


class Fetched(Value):
    """The reply of a server to the question for its models.

    Attributes:
        entries: The entries of a list in Codex's form. None if the list has not changed.
        names: The names alone, of a list in the form of OpenAI's API, which says nothing else about models.
        etag: The tag of the list.
    """

    entries: tuple[Any, ...] | None = ()
    names: tuple[str, ...] = ()
    etag: str = ""


class Refresher(Observer):
    """Fetches the list soon after a turn has started, if the stored one is old, and when the server says that it has another one.

    Failures change nothing.

    Args:
        plugin: The plugin's context.
    """

    name = "models"

    def __init__(self, plugin: PluginContext, after_s: float = _AFTER_S) -> None:
        self._plugin = plugin
        self._after_s = after_s
        self._begun = False
        self._waits = False
        self._told = 0
        self._etag = ""
        self._alone = threading.Lock()

    def observe(self, thread_id: str, event: Event) -> None:  # noqa: ARG002  # any thread
        """Begin with the first turn, and with each new tag. The end of the program does not wait for the server."""
        is_told = event.msg.type == "models_changed" and self._told < _MOST_TOLD
        if is_told:
            self._told += 1
            self._etag = str(getattr(event.msg, "etag", ""))
        if self._waits or not (is_told or (event.msg.type == "task_started" and not self._begun)):
            return
        self._begun = self._waits = True
        timer = threading.Timer(self._after_s, self._refresh)
        timer.daemon = True
        timer.start()

    def _refresh(self) -> None:
        # A list is never worth an error, and the end of the program cancels the request.
        with contextlib.suppress(Exception, CancelledError), self._alone:
            self._waits = False
            if self._plugin.settings(Settings).refresh:
                refresh(self._plugin, told=self._etag)


def refresh(plugin: PluginContext, *, force: bool = False, told: str = "") -> bool:
    """Fetch and store the list of the selected provider, if there is a login with ChatGPT. Return whether it was stored.

    Args:
        force: Whether to fetch it even if the stored list is fresh.
        told: The current tag of the server's list, if known. If it differs from the stored tag, the list is fetched.

    Raises:
        ModelError: The server cannot be asked, or its reply is invalid.
        OSError: The list cannot be stored.
    """
    provider = selected_provider(plugin)
    if provider is None:
        return False
    path = plugin.codex_home / "models_cache.json"
    found = access(provider, plugin.environ, plugin.config)
    if found.base_url is None:
        return False
    source = provider.id if provider.id == "openai" else f"{provider.id} {provider.base_url}"
    cache = Cache.read(path)
    own = cache is not None and cache.source == source
    if cache is not None and own and not force and cache.is_fresh(_FRESH_S) and told in ("", cache.etag):
        return False
    given = fetch(provider, found, etag=cache.etag if cache is not None and own else "")
    if given.entries is None and cache is not None and own:
        entries, etag = cache.entries, cache.etag
    else:
        entries, etag = list(given.entries or ()), given.etag
        _check(entries)
    Cache.write(path, entries, etag=etag, source=source, account="")
    return True


def fetch(provider: ProviderInfo, found: Access, *, etag: str = "") -> Fetched:
    """Ask a server for its models.

    Raises:
        ModelError: It cannot be asked, refuses, or its reply makes no sense.
    """
    if found.base_url is not None and provider.base_url == "https://api.openai.com/v1":
        provider = provider.evolve(base_url=found.base_url)
    url, host = post_address(provider, "/models")
    url += f"{'&' if '?' in url else '?'}client_version={CODEX_VERSION}"  # it lists what this version can use
    from codex_lib_model_client.small_replies import run_until_exit

    return run_until_exit(_fetch_list(url, host, found, provider, etag))


async def _fetch_list(url: str, host: str, found: Access, provider: ProviderInfo, etag: str) -> Fetched:
    from codex_lib_model_client.https import httpx_module
    from codex_lib_model_client.small_replies import fetch as fetch_reply

    headers = {name: str(value) for name, value in provider.http_headers.items()}
    if found.tokens is not None:
        token = await found.tokens.token()
        headers |= {"authorization": authorization(found.tokens, token), **found.tokens.headers}
    elif found.key:
        headers["authorization"] = f"Bearer {found.key}"
    if etag:
        headers["if-none-match"] = etag
    httpx = httpx_module()
    local = host in ("localhost", "127.0.0.1", "::1")
    try:
        reply = await fetch_reply("GET", url, timeout_s=_TIMEOUT_S, max_bytes=_MAX_BYTES, headers=headers, local=local)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError, ValueError) as error:
        raise _fetch_error(host, f"it cannot be reached ({type(error).__name__})") from None
    if reply.data is None:
        raise _fetch_error(host, "its list is too long")
    return _reply(host, reply.status, reply.headers, reply.data)


def _reply(host: str, status: int, headers: Mapping[str, str], data: bytes) -> Fetched:
    if status == 304:
        return Fetched(entries=None)
    if status != 200:
        raise _fetch_error(host, f"it answered with status {status}")
    etag = headers.get("etag", "")
    etag = etag if len(etag) < 1000 and etag.isascii() and etag.isprintable() else ""
    names = _names(data)
    if names:
        return Fetched(names=names)
    try:
        return Fetched(entries=tuple(entries_of(data)), etag=etag)
    except EntryError as error:
        raise _fetch_error(host, str(error)) from None


def _names(data: bytes) -> tuple[str, ...]:
    """Return the names in a list of OpenAI's API, ``{"data": [{"id": ...}]}``."""
    import json

    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return ()
    listed = content.get("data") if isinstance(content, dict) else None
    names = [each.get("id") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and len(name) < 200)


def _check(entries: list[Any]) -> None:
    """Check that at least one entry can be read. Raises ModelError."""
    for entry in entries:
        with contextlib.suppress(EntryError):
            model_of(entry, trusted=False)
            return
    raise _fetch_error("of the provider", "none of its models can be read")


def _fetch_error(host: str, why: str) -> ModelError:
    return ModelError(
        f"the list of models of the server {host} cannot be used: {why}",
        slug="model-catalogue",
        hint="Check the provider's base_url. The models that are known without it can still be used.",
    )
