"""Services: objects that components provide for other plugins, and that programs provide for their threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from codex_framework.contract.errors import ServiceError
from codex_framework.contract.roles.scopes import ServiceKey
from codex_framework.threads.faults import refuse

__all__ = ["Services"]

T = TypeVar("T")


class Services:
    """A table of services, with an optional surrounding table.

    Args:
        own: Services of this table.
        around: The surrounding table, searched next.
    """

    def __init__(self, own: Mapping[ServiceKey[Any], object] | None = None, around: Services | None = None) -> None:
        self._own = dict(own or {})
        self._around = around
        self._absent: dict[ServiceKey[Any], str] = {}

    def provide(self, key: ServiceKey[Any], service: object) -> None:
        """Add or replace a service."""
        self._own[key] = service

    def withdraw(self, key: ServiceKey[Any], reason: str) -> None:
        """Remove a service. ``reason`` appears in the error of later lookups."""
        self._own.pop(key, None)
        self._absent[key] = reason

    def get(self, key: ServiceKey[T]) -> T:
        """Return a service.

        Raises:
            ServiceError: No component provides it.
            WrongValue: The key is no ``ServiceKey``.
        """
        if not isinstance(key, ServiceKey):
            refuse("a ServiceKey", key, "service")
        if key in self._own:
            found: T = self._own[key]  # type: ignore[assignment]  # the key says of which type
            return found
        if self._around is not None and key not in self._absent:
            return self._around.get(key)
        reason = self._absent.get(key)
        raise ServiceError(
            f"no component provides the service {key.name!r}" + (f": {reason}" if reason else ""),
            hint="Install or enable a plugin that provides it; `codex-framework plugins` shows what is loaded.",
        )
