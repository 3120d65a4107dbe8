"""The list of models that OpenAI's server sent last, in ``models_cache.json``, which Codex reads and writes too."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.contract.version import CODEX_VERSION
from codex_framework.toolkit.regular_files import open_regular
from codex_plugin_models.entries import EntryError, model_of

__all__ = ["Cache", "ServerCatalogue", "serves"]

_MAX_BYTES = 16 * 1024 * 1024
_OWN = "codex_framework"
"""The key of what Codex's format has no place for. Codex ignores it."""


class Cache:
    """The content of the file.

    Attributes:
        models: The properties of the models that can be read, by name, in the server's order.
        etag: The server's tag of this list. May be empty.
        source: The URL of the list. Empty if Codex wrote the file.
        fetched_at: When the list was fetched, in seconds since the epoch. 0 if that is unknown.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        own = content.get(_OWN)
        own = own if isinstance(own, dict) else {}
        self.entries = _list(content.get("models"))
        self.models = dict(_readable(self.entries))
        self.etag = _text(content.get("etag"))
        self.source = _text(own.get("source"))
        self.account = _text(own.get("account"))
        self.fetched_at = _time(content.get("fetched_at"))

    @classmethod
    def read(cls, path: Path) -> Cache | None:
        """Return the content, or None if it is missing or unreadable. A broken cache is not an error: it is fetched again."""
        try:
            with open(path, "rb", opener=open_regular) as file:
                data = file.read(_MAX_BYTES + 1)
            content = json.loads(data) if len(data) <= _MAX_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None
        return cls(content) if isinstance(content, dict) else None

    @staticmethod
    def write(path: Path, entries: list[Any], *, etag: str, source: str, account: str) -> None:
        """Replace the file in one step. Raises OSError."""
        content = {
            "fetched_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "etag": etag or None,
            "client_version": CODEX_VERSION,
            "models": entries,
            _OWN: {"source": source, "account": account},
        }
        temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
        try:
            temporary.write_text(json.dumps(content), encoding="utf-8")
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def is_fresh(self, limit_s: float) -> bool:
        """Return whether the list is younger than this."""
        return 0 <= time.time() - self.fetched_at < limit_s


class ServerCatalogue(ModelCatalogue):
    """Knows the server's last list. It never asks the server itself.

    Args:
        path: The file.
    """

    name = "server"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[float, Cache | None] = (-1.0, None)

    @property
    def cache(self) -> Cache | None:
        """The content of the file, which is read again when it has changed."""
        try:
            changed = self.path.stat().st_mtime
        except OSError:
            return None
        if self._known[0] != changed:
            self._known = (changed, Cache.read(self.path))
        return self._known[1]

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo | None:
        """Return the properties of a model at the provider whose server sent the list."""
        cache = self.cache
        return cache.models.get(slug) if cache is not None and serves(provider, cache.source) else None

    def models(self, provider: ProviderInfo) -> Iterable[ModelInfo]:
        """Return all models of the list, if it is one of this provider."""
        cache = self.cache
        return cache.models.values() if cache is not None and serves(provider, cache.source) else ()


def serves(provider: ProviderInfo, source: str) -> bool:
    """Return whether a list is one of a provider. Codex does not store where a list came from; it is then one of OpenAI."""
    if not source:
        return provider.id == "openai"
    return source == (provider.id if provider.id == "openai" else f"{provider.id} {provider.base_url}")


def _readable(entries: list[Any]) -> Iterable[tuple[str, ModelInfo]]:
    for entry in entries:
        with contextlib.suppress(EntryError):
            model = model_of(entry, trusted=False)
            yield model.slug, model


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _time(value: Any) -> float:
    try:
        return datetime.fromisoformat(_text(value)).timestamp()
    except (ValueError, OverflowError, OSError):  # the last two on some systems, for years that these do not know
        return 0.0
