"""Credentials of providers, shared by all who send requests to them, so that tokens are refreshed once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from codex_framework import ProviderInfo

if TYPE_CHECKING:
    from codex_lib_model_client.credentials import Access

__all__ = ["SharedAccess"]


class SharedAccess:
    """The credentials of each provider of a kernel. Any thread may use it.

    Args:
        config: The merged configuration, which determines where logins are stored and which are permitted.
    """

    def __init__(self, config: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._config = config
        self._found: list[tuple[ProviderInfo, Access]] = []
        self._lock = threading.Lock()

    def of(self, info: ProviderInfo, env: Mapping[str, str]) -> Access:
        """Return the credentials of a provider, the same object in each call.

        Raises:
            ModelError: The credentials that it needs are missing or cannot be read.
        """
        from codex_lib_model_client.credentials import access

        with self._lock:
            for known, found in self._found:
                if known == info:
                    return found
            found = access(info, env, self._config)
            self._found.append((info, found))
            return found
