"""Compression of request bodies with zstd, for servers that accept it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec

from codex_framework.contract.errors import ModelError
from codex_framework.contract.roles.models import ProviderInfo
from codex_framework.toolkit.installing import install_command

__all__ = ["Compressor", "compressor"]

_KEY = "request_compression"
_LEVEL = 3
"""The default of zstd, and the level that Codex uses."""
_LONG = 1 << 20
"""Length in bytes from which a body is compressed on another thread. It takes 5 ms, during which nothing else would run."""

_refused: set[str] = set()
"""The URLs whose server refused a compressed body, until the process ends."""


def compressor(info: ProviderInfo, url: str, *, by_default: bool = False) -> Compressor | None:
    """Return the compressor for the bodies of requests, or None if they must not be compressed.

    Args:
        url: The URL that the requests are posted to.
        by_default: Whether to compress if the provider's table does not say, and the package is installed.

    Raises:
        ModelError: The table asks for compression that is unknown, or whose package is not installed.
    """
    wanted = info.options.get(_KEY)
    if wanted == "none" or (wanted is None and not (by_default and _has_zstandard())):
        return None
    if wanted not in (None, "zstd"):
        raise _error(f"{_KEY} = {wanted!r} in [model_providers.{info.id}] is unknown", 'Write "zstd" or "none".')
    if not _has_zstandard():
        raise _error(
            f"{_KEY} in [model_providers.{info.id}] needs the package zstandard, which is not installed",
            f"Install it with `{install_command('codex-framework[zstd]')}`, or remove {_KEY}.",
        )
    return Compressor(url)


class Compressor:
    """Compresses bodies, until the server refuses one with the status 415."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def compress(self, headers: Mapping[str, str], body: bytes) -> tuple[Mapping[str, str], bytes] | None:
        """Return a request with its body compressed, or None if the request must be sent unchanged."""
        if self._url in _refused or "content-encoding" in headers:
            return None
        import zstandard  # type: ignore[import-not-found,unused-ignore]

        compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        packed = compress(body) if len(body) < _LONG else await asyncio.to_thread(compress, body)
        return {**headers, "content-encoding": "zstd"}, packed

    def note_refusal(self) -> None:
        """Note that the server refused a compressed body. Later requests to its URL are not compressed."""
        _refused.add(self._url)


def _has_zstandard() -> bool:
    return find_spec("zstandard") is not None


def _error(fact: str, hint: str) -> ModelError:
    return ModelError(fact, info="bad_request", slug="provider-option", hint=hint)
